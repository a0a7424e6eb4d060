"""Whether a provider says that the prompt exceeds its context window.

Every provider says it in words of its own, some in several. `WORDINGS` is the one table of them, each with a place
where it can be read; behind it stands the general shape of such texts, for servers that nobody has heard of. What
speaks against is asked first: a rate limit counts tokens too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from langchain_sessions._chat.overflow_languages import words_for
from langchain_sessions._chat.provider_errors import Told, read_chain


class Wording(NamedTuple):
    """How a provider says that a prompt is too long: a pattern over the lower-case text, and where it was seen."""

    provider: str
    shape: str
    source: str


_HUB = "https://github.com/"
_CORE = _HUB + "langchain-ai/langchain"  # what langchain-openai looks for
_PI = _HUB + "earendil-works/pi/blob/main/packages/ai/src/utils/overflow.ts"

WORDINGS = (
    Wording("OpenAI, Azure, DeepSeek, vLLM", r"maximum context length is \d+", _HUB + "chathub-dev/chathub/issues/126"),
    Wording("OpenAI", r"exceeds the context window", _CORE),
    Wording("OpenAI, Azure", r"input tokens exceed the configured limit", _CORE),
    Wording("Anthropic, Bedrock", r"prompt is too long", _HUB + "anthropics/claude-code/issues/12186"),
    Wording("Anthropic", r"exceed context limit", _HUB + "docker/docker-agent/issues/569"),
    Wording("Gemini", r"input token count.{0,40}exceeds the maximum", _HUB + "google-gemini/gemini-cli/issues/4231"),
    Wording(
        "Vertex", r"input token count is \d+ but model only supports", _HUB + "google-gemini/gemini-cli/issues/19727"
    ),
    Wording("Gemini", r"request (?:payload|body) size.{0,20}exceed", _HUB + "google-gemini/gemini-cli/issues/13776"),
    Wording("Bedrock", r"expected maxlength: \d+, actual: \d+", _HUB + "ScrapeGraphAI/Scrapegraph-ai/issues/400"),
    # The body of `InvokeModel`, in bytes.
    Wording(
        "Bedrock",
        r"value at 'body' failed to satisfy constraint: member must have length less than",
        _HUB + "langchain-ai/langchain-aws/issues/419",
    ),
    Wording("Bedrock", r"input is too long for requested model", _HUB + "aws-samples/bedrock-chat/issues/95"),
    Wording("Mistral", r"too large for model with \d+ maximum context length", _PI),
    Wording(
        "Cohere", r"too many tokens: (?:total number of|size limit)", _HUB + "cohere-ai/sandbox-topically/issues/4"
    ),
    Wording("Groq", r"reduce the length of the messages", _HUB + "OpenHands/OpenHands/issues/1902"),
    Wording("Together", r"longer than the model's context length", _HUB + "BerriAI/litellm"),
    Wording("xAI", r"maximum prompt length is \d+", _HUB + "cline/cline/issues/3120"),
    Wording("OpenRouter", r"endpoint's maximum context length is \d+", _HUB + "Aider-AI/aider/issues/3721"),
    Wording("vLLM", r"longer than the maximum model length", _HUB + "xorbitsai/inference/issues/3785"),
    # The server takes the prompt off the window, and finds less than nothing left for an answer.
    Wording("vLLM", r"max_tokens must be at least 1, got -\d+", _HUB + "vllm-project/vllm/issues/4667"),
    Wording(
        "vLLM",
        r"context length is only \d+ tokens, resulting in",
        _HUB + "vllm-project/vllm/blob/main/vllm/renderers/params.py",
    ),
    Wording("TensorRT-LLM", r"sum of prompt length .{1,80}should not exceed", _HUB + "NVIDIA/TensorRT-LLM/issues/9277"),
    Wording("SGLang", r"input length.{0,40}exceeds the maximum allowed", _HUB + "sgl-project/sglang/issues/4048"),
    Wording(
        "TGI", r"`inputs` must have less than \d+ tokens", _HUB + "huggingface/text-generation-inference/issues/695"
    ),
    Wording(
        "TGI, Together",
        r"`inputs` tokens \+ `max_new_tokens` must be",
        _HUB + "huggingface/text-generation-inference/issues/628",
    ),
    Wording(
        "GigaChat",
        r"(?<!\w )\btokens limit exceeded",
        "https://developers.sber.ru/docs/ru/gigachat/api/errors-description",
    ),
    Wording("llama.cpp", r"exceeds the available context size", _HUB + "ggml-org/llama.cpp/pull/15780"),
    # The prompt is more than the server computes at once; a shorter one is answered.
    Wording(
        "llama.cpp",
        r"input .{0,20}is too large to process.{0,4}(?:please )?increase the physical batch size",
        _HUB + "ggml-org/llama.cpp/issues/11105",
    ),
    Wording("llama.cpp", r"prompt is too big compared to kv size", _HUB + "gpustack/gpustack/issues/1357"),
    Wording("llama.cpp", r"prompt has \d+ tokens, but the configured context size is", _PI),
    Wording("llama.cpp", r"context size has been exceeded", _HUB + "ggml-org/llama.cpp/issues/19774"),
    Wording(
        "llama-cpp-python",
        r"requested tokens.{0,20}exceed context window of",
        _HUB + "abetlen/llama-cpp-python/issues/416",
    ),
    Wording("Ollama", r"input length exceeds the context length", _HUB + "nano-step/nano-brain/issues/208"),
    Wording("Ollama", r"prompt too long; exceeded (?:max )?context length", _PI),
    Wording(
        "LM Studio",
        r"tokens to keep from the initial prompt is greater than the context length",
        _HUB + "anomalyco/opencode/issues/2259",
    ),
    Wording(
        "LM Studio",
        r"context length of only \d+ tokens",
        _HUB + "lmstudio-ai/lmstudio-bug-tracker/issues/546",
    ),
    Wording("LM Studio", r"cannot truncate prompt with n_keep", _HUB + "anomalyco/opencode/issues/11141"),
    Wording("Copilot", r"prompt token count of \d+ exceeds the limit", _HUB + "jjleng/copilot-more/issues/35"),
    Wording("DashScope", r"range of input length should be", _HUB + "QwenLM/qwen-code/issues/98"),
    Wording("Zhipu", r"prompt exceeds max length", _HUB + "zeroclaw-labs/zeroclaw/issues/4124"),
    Wording("Doubao", r"input length \d+ exceeds the maximum", _HUB + "esengine/DeepSeek-Reasonix/issues/9696"),
    Wording(
        "Cloudflare",
        r"token count exceeds the model's maximum context length",
        _HUB + "anomalyco/models.dev/pull/4422",
    ),
    Wording("GitHub Models", r"request body too large for .{1,80}max size: \d+ tokens", _HUB + "BerriAI/litellm"),
    Wording("litellm", r"contextwindowexceedederror", _HUB + "entropy-research/Devon/issues/88"),
    Wording(
        "transformers",
        r"input length of input_ids is \d+, but `max_length` is set to",
        _HUB + "zai-org/ChatGLM-6B/issues/17",
    ),
    Wording("MiniMax", r"context window exceeds limit", _PI),
    Wording("Snowflake", r"max tokens of \d+ exceeded", _HUB + "posit-dev/positron/issues/11737"),
    Wording("Moonshot", r"exceeded model token limit", _PI),
    Wording("Cerebras", r"current length is \d+ while limit is \d+", _HUB + "BerriAI/litellm"),
)
"""The one table; `docs/overflow.md` shows what of real answers it recognises."""

_SAID = re.compile("|".join(f"(?:{wording.shape})" for wording in WORDINGS))

_NAMES = frozenset({"ContextOverflowError", "ContextWindowExceededError"})  # langchain-core; litellm
TOO_LONG_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, Groq
        "exceed_context_size_error",  # llama.cpp
        "context_exceeded",  # ds4
        "context_window_exceeded",  # gateways
        "request_too_large",  # Anthropic, by bytes
        "model_context_window_exceeded",  # Anthropic, z.ai
        "contextwindowexceedederror",  # litellm's proxy
        "model_max_prompt_tokens_exceeded",  # Copilot
        "prompt_too_long",  # gateways
        "prompt_tokens_too_long",
        "input_too_long",
    }
)
_STRING_TOO_LONG = frozenset(
    {
        "string_above_max_length",  # OpenAI, of any parameter that is a string
        "string_too_long",  # what checks its input with pydantic, of any field; the older versions' name below
        "value_error.any_str.max_length",
    }
)
_PARTS = re.compile(r"[a-z_]+")
_PROMPTS = frozenset({"messages", "input", "prompt", "instructions"})
_WORDS_OF_PROMPTS = _PROMPTS | {"content", "text", "output", "arguments", "url", "data", "file_data"}

_OTHER_STATUSES = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 429, 503, 529})
_OTHER_CODES = frozenset(
    {
        "rate_limit_exceeded",
        "rate_limit_error",
        "insufficient_quota",
        "content_filter",
        "content_policy_violation",
        "invalid_api_key",
        "authentication_error",
        "permission_error",
        "model_not_found",
        "not_found_error",
        "overloaded_error",
        "throttlingexception",
        "servicequotaexceededexception",
        "accessdeniedexception",
        "resource_exhausted",
    }
)
_SOMETHING_ELSE = re.compile(
    r"rate.?limit|\btp[md]\b|too many requests|throttl|please wait|quota|allowance|billing|credits|enqueued|\bbatch"
    r"|(?:tokens?|requests?) (?:per|/) ?(?:sec|min|hour|day|month)|\b(?:hourly|daily|weekly|monthly)\b"
    r"|(?:for|in|within) this (?:sec|min|hour|day|week|month)|\bper[- ](?:model|user|project|key|organi[sz]ation) limit"
    r"|free.?tier|usage limit|insufficient (?:balance|funds|credit)|upgrade your (?:plan|account|subscription|tier)"
    r"|(?:last|past|previous) (?:\d+ ?)?(?:s|sec\w*|m|min\w*|h|hrs?|hours?|d|days?|weeks?|months?)\b"
    r"|content.?(?:filter|policy|management)|safety|api.?key|unauthori[sz]ed|does not exist|model.{0,40}not.?found"
    r"|(?:invalid|unknown|unsupported) model|(?:auth\w*|access|bearer|csrf|refresh|session|id|api) token"
    rf"|time[d ]?.?out\b|deadline|logprobs|{words_for('rate')}"
)
# What is not the prompt, though such texts speak of tokens, requests and limits as well: money, tokens that stand for
# somebody, other parameters, and bounds on how many there may be of something.
_NO_LENGTH = re.compile(
    r"\bspen[dt]|\bcosts?\b|tokenbudget|(?<!context )(?<!window )\bbudget|\bwallet|allotment|subscription"
    r"|insufficient tokens|not enough tokens|tokens? usage"
    r"|\b(?:account|organi[sz]ation|team|workspace|tenant|user) tokens?\b"
    r"|concurren|life.?time|\bexpir|\bjwt\b|\bttl\b|\bage\b|signature|\berrno\b|context cancel"
    r"|\bbusy\b|overloaded|try again later"
    r"|(?:than|below) the minimum|too (?:short|few)\b|\bstop sequences?\b|\bseed\b|max(?:imum)? requests|\battempts\b"
    r"|\b(?:output|response|answer|completion)(?: tokens?| length)? (?:exceed|(?:is|was) too (?:long|large))"
    # What clients raise where an answer was cut.
    r"|\blength limit (?:is |was |has been )?reached"
    # A name, or a field that is named, is too long: no text that a conversation consists of.
    r"|(?<!and )(?<!or )\b(?:names?|ids?|titles?|labels?|keys?|headers?|schemas?|grammar|descriptions?|declarations?"
    r"|tools?|functions?)"
    r"(?: in (?:the |your |this )?request)? (?:is |are |was )?(?:too (?:long|large|many|big)|exceed)"
    r"|_ids? (?:is )?too long"
    r"|(?:\b(?:field|parameter|property|attribute|argument|column|feld|champ|campo|parámetro|paramètre|параметр\w*|пол[ея])"
    r"\W{0,3}(?:(?<=['`\"«“])\w+|(?!\w*(?:prompt|input|message|token|content))\w+_\w+)"
    r"|(?:参数|參數|字段|欄位|パラメータ|フィールド|매개변수|필드)[\W_]{0,3}[a-z]\w+)(?<!prompt)(?<!input)(?<!messages)(?<!content)"
    r"|(?:request|http) header|unexpected token|vocab|\bdepth\b|recursion|logit.?bias|temperature"
    r"|\btop_[kp]\b|cache_control|flagged|violate|model ['`\"][^'`\"]+['`\"] is not supported"
    r"|\bdimensions?\b"
    r"|exceeded (?:for|by) (?:this |your |the )?(?:account|organi[sz]ation|project|team|workspace|tenant|user|key)\b"
    r"|(?<!\d )(?<!and )(?<!or )\b(?:image|audio|video|file|pdf|media|attachment)s? (?:inputs?|tokens?|size)\b"
    r"|(?:at most|max(?:imum)?(?: of)?|limit(?: of| is)?|up to|no more than|exactly):? \d+ (?:image|video|audio|file"
    r"|page|document|attachment|pixel|stop\b|tool|function|call|request|block|item|element|propert|choice|candidate|second"
    r"|minute|hour|day|field|row|user|session|time)"
    rf"|{words_for('other')}"
)
_OUTPUT = (
    r"(?:(?:output|completion|generated) tokens|max(?:imum)? (?:allowed )?(?:number of )?output"
    r"|max_(?:completion_|output_|new_|gen_)?(?:tokens(?!_per_)|len\b)|max_?(?:output_?)?tokens(?!_per_)"
    r"|(?:num|n)_predict"
    r"|maximum tokens you requested)"
)
_OUTPUT_NAMED = re.compile(_OUTPUT)
_PREDICTED = r"(?:prediction|completion|generation|response|answer|output)\b"
_INPUT = (
    r"(?:\b(?:prompt|inputs?|quer(?:y|ies)|messages|conversation|eingabe|entrada|entrée|invoer)\b"
    r"|输入|輸入|提示|消息|入力|プロンプト|입력|프롬프트|ввод|запрос)"
)
_AND = r"(?:\+|&|与|與|和|及|と|및|와|과|\b(?:and|plus|und|et|y|e|en|и)\b)"
# Input and answer are added up: then the prompt may be what is too long, or what can be made shorter.
_SUM = re.compile(
    rf"{_INPUT}[^.;:]{{0,40}}{_AND}[^.;:]{{0,20}}(?:{_OUTPUT}|{_PREDICTED})"
    rf"|{_OUTPUT}[^.;:]{{0,12}}{_AND}[^.;:]{{0,12}}{_INPUT}(?: (?:tokens?|length|size|contains|has|have)\b| ?长度)"
)

# What is asked for as an answer, and the window, as the wordings name them: the answer may be what is too long.
_ASKED = re.compile(
    r"(\d+) (?:in|for) the (?:completion|output)"
    r"|context limit: \d+ \+ (\d+)"
    r"|plus (\d+) '?max_tokens"
    r"|requested (\d+) output tokens"
    r"|is too large: (\d+)"
    r"|and (\d+) `max_new_tokens`"
)
_WINDOW = re.compile(
    r"maximum context length is (\d+)|context limit: \d+ \+ \d+ > (\d+)|`max_new_tokens` must be <= (\d+)"
    r"|context length is only (\d+)"
)
# The same of sums in general: the number behind the answer's name, and the first one behind the bound.
_ASKED_IN_SUM = re.compile(r"max_(?:completion_|output_|new_)?tokens['`\"]? ?(?:=|:|of|\() ?(\d+)")
_WINDOW_OF_SUM = re.compile(r"(?:exceed\w*|überschr\w*|超过|超過|超出|>)(?:(?! by )\D){0,60}?(\d+)")

# The general shape: a measure, a bound, and what the caller sent. Whole words, so that `budget_tokens` is none.
_MEASURE = re.compile(
    # In letters of ASCII: those of Chinese stand beside it without a blank.
    r"(?a:\btoken\w{0,3}\b)|\b(?:input|prompt|total)_tokens\b|max_num_tokens|max_(?:seq|model|input)_len"
    r"|\bmax[_-](?:input|prompt)[_-]tokens|\bn_ctx|\bkv size\b"
    r"|\bcontext[_ -](?:length|window|size)|\bcontext\b"
    rf"|\b(?:prompt|input|sequence|text|messages?|content|question) (?:length|size|bytes|characters)\b"
    rf"|\b(?:length|size) of (?:(?:the|your|all|current) )*(?:prompt|input|messages?|question)\b|{words_for('measure')}"
)
_BOUND = re.compile(
    r"exceed|overflow|too (?:long|large|many|much|big)|(?:longer|larger|greater|more|smaller|shorter) than"
    r"|over the limit|beyond|maximum|\blimit"
    r"|only supports|less than|at most|does not fit|<="
    r"|(?<!-)[>≥]=? ?(?:n_ctx\b|\d|(?:the )?(?:max|context|model|limit|window))"
    r"|\bbut (?:got |received |only )?\d{3}"
    r"|\bmax\b[^.;\d]{0,12}\d|\b(?:length|size) of [^.;]{0,24}? is \d"
    r"|\dk?(?: tokens)?[,;.:]? (?:but |and |however,? )?(?:you|your \w+) (?:requested|asked|sent|used|provided|ha[sv])"
    rf"|{words_for('bound')}"
)
_SENT = re.compile(
    r"\d{3,} ?[>≥]=? ?\d{3,}|\bquestion\b"
    r"|\bn_keep\b|\bprompt|\binputs?(?:\b|_tokens\b)|\bmessages?\b|\brequest|\bconversation|\btotal text\b"
    rf"|{words_for('sent')}"
)
_CONTEXTS = (
    r"(?:\bcontext[eo]?\b|\bcontesto\b|\bkonte(?:xt|ks)|контекст|上下文|コンテキスト|컨텍스트|bağlam|ngữ cảnh|سياق"
    r"|संदर्भ)"
)
# A context is the prompt's, whether or not the prompt is named.
_OF_PROMPTS = re.compile(
    rf"context[_ -](?:length|window|size)|{_CONTEXTS}[^.;]{{0,30}}(?:{_BOUND.pattern})"
    rf"|(?:{_BOUND.pattern})[^.;]{{0,40}}{_CONTEXTS}"
)
_NO_TEXTS = r"(?:images?|audio|videos?|files?|documents?|pdfs?|tools?|tensors?|names?)\b"
_NOT_WITHIN = r"(?<!\bin )(?<!\bin the )(?<!\bin your )(?<!\bin this )"
# Texts that say it all without a measure, or without what was sent.
_TOO_LONG = re.compile(
    # What is in a message may be too long where no message is.
    rf"{_NOT_WITHIN}\b(?:prompt|inputs?|conversation|chat|messages?|history|context|question)"
    r"(?: text| tokens?| content| history| you (?:sent|submitted|entered))?['\"]?[ _]"
    r"(?:(?:is|are|was|were|has become|have become)[ _])?too[ _](?:long|large)\b"
    rf"|{_NOT_WITHIN}\b(?:prompt|inputs?|messages?|conversation|question)\b(?! (?:\d+\b|{_NO_TEXTS}))[^.;'\"`]{{0,40}}?"
    r"\b(?:exceed(?:s|ed|ing)?|(?:has )?reached|is (?:longer|larger|greater) than|is over)\b[^.;'\"`]{0,24}?"
    r"(?:\bmax|\blimit|\blength\b|\bsize\b)"
    r"|\b(?:\w+_)?(?:tokens?|length|len)\b[^.;]{0,30}[>≥]=? ?(?:the )?(?:max\w*|n_ctx|context|model|limit|window)\b"
    # What is advised where it is too long.
    r"|\b(?:reduc\w+|shorten\w*|shorter|decreas\w+|truncat\w+|trim\w*|smaller) "
    r"(?:(?:the|your|a|an|its|length|size|number|tokens|total|overall|of|in) )*"
    rf"(?:prompt|input|messages?|conversation|chat history|context)\b(?! {_NO_TEXTS})"
    # Names of errors and codes, in words of one or of several.
    r"|(?:\b|_)(?:prompt|input|context|messages?|sequence)[_.]?(?:(?:text|length|window|size|tokens?)_?)?(?:is_)?"
    r"(?:too_?(?:long|large)|exceed(?:s|ed)?|overflow)(?:_?(?:error|exception))?\b"
    r"|\bexceed(?:s|ed)?_(?:max_)?(?:context|prompt|input)_\w+"
    r"|\b(?:max_(?:prompt|input|context|seq|sequence|model)_\w+|model_max_length)\b exceeded"
    r"|\b(?:model|context)(?:'s)? (?:max\w* )?(?:context )?length (?:is |was |has been )?exceeded"
    rf"|(?:{words_for('sent')}|\bprompt|\bmessage|\binput)\w*\W{{1,3}}(?:\w+\W{{1,3}}){{0,2}}?(?:{words_for('long')})"
    rf"|(?:{words_for('long')})\w*\W{{1,3}}(?:{words_for('sent')}|\bprompt|\bmessage|\binput)"
    r"|\bsequence too long: \d|\bcontext (?:window|length|limit)? ?(?:is |was )?full\b"
    r"|\bsequence length (?:(?:of |is )?\(?\d+\)? )?(?:exceeds?|is (?:greater|longer|larger) than)\b"
    r"|\btotal (?:number of )?tokens:? \(?\d+\)? exceeds? (?:the )?(?:[\w']+ ){0,3}\d"
    # A limit that has a name before it, such as that of a day, is a quota.
    r"|(?<![\w-] )\btoken limit exceeded\b"
    r"|超[过過出]了?(?:最大|模型(?:的|最大)?)? ?tokens? ?(?:数|数量)?(?:限制|上限)"
    r"|(?:プロンプト|入力|メッセージ|会話)(?:文|履歴)?が長すぎ"
    r"|(?:입력|프롬프트|메시지|대화)(?:이|가|은|는)? 너무 (?:깁|길)"
    r"|(?:提示词?|提示詞?|输入|輸入|对话|對話|消息|历史|歷史|上下文)(?:记录|消息|内容|文本|內容)?(?:过长|過長|太长|太長|超长|超長)"
)
# OpenAI's words of any parameter that is a string, where a gateway leaves its code out.
_STRING_NAMED = re.compile(r"invalid '([^']+)': string too long")
_REFUSED = frozenset({None, 400, 413, 422, 500})
_TOO_LARGE = 413


def is_context_overflow(error: BaseException) -> bool:
    """Whether a provider says that the prompt exceeds its context window.

    Looked at are the error, its causes and the members of its groups, each as far as its head says something. A rate
    limit, a quota, a content filter, a bad key, an unknown model and an answer that is asked for too long are not
    what this means, whatever they say of tokens; nor is an error without a word, unless its status says it.
    """
    for told in read_chain(error):
        verdict = _verdict(told)
        if verdict is not None:
            return verdict
    return False


def _verdict(told: Told) -> bool | None:
    """What one exception says of the prompt; None where it says nothing of it."""
    said, other = _SAID.search(told.text), _SOMETHING_ELSE.search(told.text)
    if told.status in _OTHER_STATUSES or told.codes & _OTHER_CODES:
        return False
    # What comes first is the server's own word: behind it the prompt may be quoted.
    if other is not None and (said is None or other.start() < said.start()):
        return False
    if said is not None or told.names & _NAMES or told.codes & TOO_LONG_CODES:
        return _leaves_room(told.text)
    named = _STRING_NAMED.search(told.text)
    if told.codes & _STRING_TOO_LONG or named is not None:
        return _holds_words(told.param or (named.group(1) if named is not None else ""))
    if _OUTPUT_NAMED.search(told.text):
        return bool(_SUM.search(told.text)) and _has_general_shape(told) and _leaves_room(told.text)
    return True if told.status == _TOO_LARGE or _has_general_shape(told) else None


def _holds_words(param: str) -> bool:
    """Whether a parameter that is too long is of the prompt's words: names and ids get no shorter by a compaction."""
    parts = _PARTS.findall(param)
    return bool(parts) and parts[0] in _PROMPTS and parts[-1] in _WORDS_OF_PROMPTS


def _has_general_shape(told: Told) -> bool:
    """Whether something that was sent exceeds a bound on its tokens, in one of several languages."""
    text = told.text
    if told.status not in _REFUSED or _NO_LENGTH.search(text):
        return False
    if _TOO_LONG.search(text):
        return True
    is_of_prompts = _SENT.search(text) or _OF_PROMPTS.search(text)
    return bool(is_of_prompts and _MEASURE.search(text) and _BOUND.search(text))


def _leaves_room(text: str) -> bool:
    """Whether some prompt would fit: where the answer alone is asked for as long as the window, none does."""
    asked = _ASKED.search(text) or _ASKED_IN_SUM.search(text)
    window = _WINDOW.search(text) or _WINDOW_OF_SUM.search(text)
    if asked is None or window is None:
        return True
    return int(next(filter(None, asked.groups()))) < int(next(filter(None, window.groups())))
