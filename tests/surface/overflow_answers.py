"""What servers really answer to a prompt that is too long, and to other things that speak of tokens.

Taken from public reports; the sources of the wordings stand in the table of the package.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.openai_stub.replies import Refuse
from tests.surface.clients import client_names

if TYPE_CHECKING:
    from collections.abc import Iterable

INVALID = "invalid_request_error"


class Answer(NamedTuple):
    """One answer: who gives it, what it is about, and what it looks like on the wire."""

    provider: str
    about: str
    answer: Refuse
    is_overflow: bool = True


def refuse(status: int, message: str, **more: Any) -> Refuse:
    """An answer in OpenAI's form."""
    return Refuse(status, {"error": {"message": message, "type": INVALID, "param": None, "code": None, **more}})


def _openai_overflow(window: int, asked: int) -> str:
    return (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {asked} tokens. "
        "Please reduce the length of the messages."
    )


def _with_answer(window: int, said: int, answer: int) -> str:
    return (
        f"This model's maximum context length is {window} tokens. However, you requested {said + answer} tokens "
        f"({said} in the messages, {answer} in the completion). Please reduce the length of the messages or completion."
    )


def _newer_vllm(said: int, answer: int, window: int) -> str:
    return (
        f"You passed {said} input tokens and requested {answer} output tokens. However, the model's context length is "
        f"only {window} tokens, resulting in a maximum input length of {window - answer} tokens. Please reduce the "
        f"length of the input prompt. (parameter=input_tokens, value={said})"
    )


def _too_long(param: str, maximum: int, given: int) -> Refuse:
    message = (
        f"Invalid '{param}': string too long. Expected a string with maximum length {maximum}, but got a string with "
        f"length {given} instead."
    )
    return refuse(400, message, param=param, code="string_above_max_length")


def _tpm(status: int, limit: int, asked: int) -> Refuse:
    message = (
        f"Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on "
        f"tokens per minute (TPM): Limit {limit}, Requested {asked}, please reduce your message size and try again."
    )
    return refuse(status, message, type="tokens", code="rate_limit_exceeded")


def _plain(status: int, message: str) -> Refuse:
    return Refuse(status, {"object": "error", "message": message, "type": "BadRequestError", "code": status})


def _google(status: int, message: str, name: str = "INVALID_ARGUMENT") -> Refuse:
    return Refuse(status, {"error": {"code": status, "message": message, "status": name}})


OVERFLOWS = (
    Answer("OpenAI", "messages", refuse(400, _openai_overflow(128000, 204308), code="context_length_exceeded")),
    Answer("OpenAI", "messages and answer", refuse(400, _with_answer(4097, 3120, 1000))),
    Answer("OpenAI", "code alone", refuse(400, "Bad request.", code="context_length_exceeded")),
    Answer(
        "OpenAI",
        "responses",
        refuse(400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    ),
    Answer(
        "OpenAI",
        "one long message",
        refuse(
            400,
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a "
            "string with length 1350000 instead.",
            param="messages[1].content",
            code="string_above_max_length",
        ),
    ),
    Answer("OpenAI", "one long result of a tool", _too_long("input[3].output", 10485760, 12000000)),
    Answer("OpenAI", "one long part", _too_long("messages[2].content[0].text", 1048576, 1350000)),
    Answer(
        "Azure",
        "messages",
        refuse(400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178."),
    ),
    Answer(
        "Azure",
        "in a gateway's frame",
        Refuse(400, {"statusCode": 400, "message": _openai_overflow(8192, 10383)}),
    ),
    Answer(
        "Anthropic",
        "prompt",
        Refuse(
            400,
            {
                "type": "error",
                "error": {"type": INVALID, "message": "prompt is too long: 207791 tokens > 200000 maximum"},
            },
        ),
    ),
    Answer(
        "Anthropic",
        "prompt and answer",
        Refuse(
            400,
            {
                "type": "error",
                "error": {
                    "type": INVALID,
                    "message": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease "
                    "input length or `max_tokens` and try again",
                },
            },
        ),
    ),
    Answer(
        "Anthropic",
        "bytes",
        Refuse(
            413,
            {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}},
        ),
    ),
    Answer(
        "Gemini",
        "prompt",
        Refuse(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (3475108) exceeds the maximum number of tokens allowed "
                    "(1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
    ),
    Answer(
        "Gemini",
        "through its OpenAI endpoint",
        Refuse(
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count exceeds the maximum number of tokens allowed (1048576).",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
    ),
    Answer("Bedrock", "prompt", Refuse(400, {"message": "Input is too long for requested model."})),
    Answer(
        "Bedrock",
        "of the model behind",
        Refuse(
            400,
            {"message": "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum"},
        ),
    ),
    Answer(
        "Mistral",
        "prompt",
        _plain(
            400,
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        ),
    ),
    Answer(
        "Cohere",
        "prompt",
        Refuse(
            400,
            {
                "message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. "
                "Try using a shorter prompt, or enabling prompt truncating."
            },
        ),
    ),
    Answer(
        "Groq",
        "messages",
        refuse(
            400,
            "Please reduce the length of the messages or completion.",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
    Answer(
        "Together",
        "input",
        refuse(400, "The input (516368 tokens) is longer than the model's context length (262144 tokens)."),
    ),
    Answer(
        "Together",
        "input and answer",
        refuse(
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 7962 `inputs` tokens "
            "and 512 `max_new_tokens`",
        ),
    ),
    Answer("DeepSeek", "messages and answer", refuse(400, _with_answer(131072, 122942, 8192), code=INVALID)),
    Answer(
        "xAI",
        "prompt",
        Refuse(
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
            },
        ),
    ),
    Answer(
        "OpenRouter",
        "prompt",
        Refuse(
            400,
            {
                "error": {
                    "message": "This endpoint's maximum context length is 131072 tokens. However, you requested about "
                    "141607 tokens (137511 of text input, 4096 in the output). Please reduce the length of either one, "
                    'or use the "middle-out" transform to compress your prompt automatically.',
                    "code": 400,
                    "metadata": {"provider_name": "Chutes"},
                }
            },
        ),
    ),
    Answer(
        "OpenRouter",
        "in the words of the provider behind",
        Refuse(
            400,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {"raw": '{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}'},
                }
            },
        ),
    ),
    Answer(
        "vLLM",
        "messages",
        _plain(
            400, "This model's maximum context length is 16384 tokens. However, your request has 17001 input tokens."
        ),
    ),
    Answer(
        "vLLM",
        "messages and answer",
        _plain(
            400,
            "This model's maximum context length is 16384 tokens. However, you requested 1024 output tokens and your "
            "prompt contains at least 15361 input tokens, for a total of at least 16385 tokens.",
        ),
    ),
    Answer("vLLM", "newer", _plain(400, _newer_vllm(4097, 0, 4096))),
    Answer("vLLM", "newer, messages and answer", _plain(400, _newer_vllm(67073, 64000, 131072))),
    Answer("vLLM", "nothing left", _plain(400, "max_tokens must be at least 1, got -186.")),
    Answer(
        "vLLM",
        "while it generates",
        _plain(400, "The decoder prompt (length 17772) is longer than the maximum model length of 16384."),
    ),
    Answer(
        "SGLang",
        "input",
        _plain(400, "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."),
    ),
    Answer(
        "TGI",
        "input",
        Refuse(
            422,
            {
                "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1872",
                "error_type": "validation",
            },
        ),
    ),
    Answer(
        "llama.cpp",
        "by its code",
        Refuse(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "request (4390 tokens) exceeds the available context size (4096 tokens), try "
                    "increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 4390,
                    "n_ctx": 4096,
                }
            },
        ),
    ),
    Answer(
        "llama.cpp",
        "while it generates",
        Refuse(500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}),
    ),
    Answer(
        "llama-cpp-python",
        "prompt",
        refuse(400, "This model's maximum context length is 2048 tokens, however you requested 2285 tokens"),
    ),
    Answer(
        "llama-cpp-python",
        "as its own exception",
        Refuse(500, {"error": {"message": "Requested tokens (2285) exceed context window of 2048", "type": "x"}}),
    ),
    Answer("Ollama", "prompt", refuse(400, "the input length exceeds the context length")),
    Answer("Ollama", "in the cloud", refuse(400, "prompt too long; exceeded max context length by 100918 tokens")),
    Answer(
        "LM Studio",
        "prompt",
        Refuse(
            400,
            {
                "error": "The number of tokens to keep from the initial prompt is greater than the context length "
                "(n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a "
                "shorter input."
            },
        ),
    ),
    Answer(
        "LM Studio",
        "older",
        Refuse(
            400,
            {
                "error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is "
                "loaded with context length of only 7866 tokens, which is not enough."
            },
        ),
    ),
    Answer("LM Studio", "newer", Refuse(400, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"})),
    Answer(
        "litellm",
        "its own class in words",
        refuse(
            400,
            "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - "
            + _openai_overflow(4096, 5000),
            type=None,
        ),
    ),
    Answer("litellm", "its proxy's code", refuse(400, "Bad request", code="ContextWindowExceededError")),
    Answer("GitHub Copilot", "prompt", refuse(400, "prompt token count of 93854 exceeds the limit of 90000", code="")),
    Answer("GitHub Copilot", "code alone", refuse(400, "Bad Request", code="model_max_prompt_tokens_exceeded")),
    Answer("Qianfan", "prompt", refuse(400, "prompt tokens too long", code="prompt_tokens_too_long")),
    Answer(
        "DashScope",
        "input",
        refuse(400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]"),
    ),
    Answer("MiniMax", "prompt", refuse(400, "invalid params, context window exceeds limit")),
    Answer("Snowflake", "prompt", refuse(400, "max tokens of 200000 exceeded")),
    Answer(
        "transformers",
        "prompt",
        refuse(
            500,
            "Input length of input_ids is 2084, but `max_length` is set to 2048. This can lead to unexpected behavior. "
            "You should consider increasing `max_length` or, better yet, setting `max_new_tokens`.",
        ),
    ),
    Answer("Moonshot", "request", refuse(400, "Your request exceeded model token limit: 262144 (requested: 300000)")),
    Answer("Cerebras", "prompt", refuse(400, "Please reduce it. Current length is 9000 while limit is 8192")),
    Answer(
        "a proxy",
        "bytes, in HTML",
        Refuse(413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
    ),
    Answer("a proxy", "bytes, no text", Refuse(413, "")),
    Answer(
        "Gemini",
        "through Vertex",
        _google(
            400,
            "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. "
            "Reduce the input token count and try again.",
        ),
    ),
    Answer(
        "Gemini",
        "bytes",
        Refuse(
            413,
            {
                "error": {
                    "message": "Maximum request body size 1048576 exceeded, actual body size 1056562",
                    "code": 413,
                    "status": "Request Entity Too Large",
                }
            },
        ),
    ),
    Answer("Gemini", "bytes, by payload", _google(400, "Request payload size exceeds the limit: 20971520 bytes.")),
    Answer(
        "Bedrock",
        "by the schema of the model behind",
        Refuse(
            400,
            {
                "message": "Malformed input request: expected maxLength: 2048, actual: 19882, please reformat your "
                "input and try again."
            },
        ),
    ),
    Answer(
        "Bedrock",
        "too many",
        Refuse(400, {"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9513"}),
    ),
    Answer(
        "Bedrock",
        "bytes",
        Refuse(
            400,
            {
                "message": "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must "
                "have length less than or equal to 25000000"
            },
        ),
    ),
    Answer(
        "Cohere",
        "prompt and answer",
        Refuse(
            400,
            {
                "message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - "
                "received 6354. Try using a shorter prompt or a smaller max_tokens value."
            },
        ),
    ),
    Answer("Cohere", "by how much", Refuse(400, {"message": "too many tokens: size limit exceeded by 3421 tokens."})),
    Answer("Zhipu", "prompt", Refuse(400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}})),
    Answer("Doubao", "input", refuse(400, "Input length 1048826 exceeds the maximum length 1048566.")),
    Answer(
        "Cloudflare",
        "messages and answer",
        refuse(
            400,
            "Requested token count exceeds the model's maximum context length of 256000 tokens. You requested a total "
            "of 256878 tokens: 31216 tokens from the input messages and 225662 tokens for the completion.",
        ),
    ),
    Answer(
        "GitHub Models",
        "bytes in tokens",
        refuse(413, "Request body too large for gpt-4o model. Max size: 8000 tokens.", code="tokens_limit_reached"),
    ),
    Answer(
        "TensorRT-LLM",
        "prompt",
        refuse(400, "The sum of prompt length (9351.0), query length (0) should not exceed max_num_tokens (8192)"),
    ),
    Answer(
        "TensorRT-LLM",
        "prompt and answer",
        refuse(
            500,
            "The sum of prompt length (9000), query length (0) and max_tokens (100) should not exceed max_num_tokens "
            "(8192)",
        ),
    ),
    Answer(
        "llama.cpp",
        "more than it computes at once",
        refuse(500, "input (5000 tokens) is too large to process. increase the physical batch size (512)"),
    ),
    Answer(
        "llama.cpp",
        "beside its settings",
        refuse(400, "Prompt has 9,000 tokens, but the configured context size is 8,192 tokens"),
    ),
    Answer("llama.cpp", "more than its cache", refuse(500, "input prompt is too big compared to KV size")),
    Answer(
        "SiliconFlow",
        "input",
        Refuse(
            400, {"code": 20015, "message": "number of input tokens (204703) has exceeded max_prompt_tokens (202752)"}
        ),
    ),
    Answer("ds4", "prompt", refuse(400, "Prompt tokens (9000) exceeds context size (8192)", type="context_exceeded")),
    Answer("GigaChat", "prompt", Refuse(422, {"status": 422, "message": "Tokens limit exceeded"})),
    *(
        Answer("unknown", f"a sum, {number}", refuse(400, text))
        for number, text in enumerate(
            (
                "the input length (9000) + max_tokens (100) exceeds the model maximum context 8192",
                "The input length (9000) plus max_tokens (100) exceeds the maximum of 8192",
                "prompt tokens (9000) + max_tokens (100) > context window (8192): too long",
                "The number of tokens in the prompt and max_completion_tokens together exceed the context window",
                "max_tokens (1000) and prompt tokens (7500) exceed the window by 308 tokens",
                "Eingabe und max_tokens zusammen überschreiten das Kontextfenster von 8192 Token",
                "输入 tokens (9000) 与 max_tokens (1000) 之和超过模型上下文长度 8192",
            ),
            start=1,
        )
    ),
    Answer("unknown", "text beside images", refuse(400, "Prompt with 9000 text and image tokens exceeds the limit")),
    Answer("unknown", "in one sentence", refuse(400, "Input is too long.")),
    Answer("unknown", "lengths alone", refuse(400, "Prompt length 9012 is greater than max_seq_len 8192")),
    Answer("unknown", "English", refuse(400, "Your conversation has 9,120 tokens, over the limit of this model.")),
    Answer("unknown", "plain text", Refuse(400, "request rejected: context window overflow")),
    Answer("unknown", "Chinese", refuse(400, "输入内容过长 超过模型最大上下文长度限制 32768")),
    Answer("unknown", "Chinese, tokens", refuse(400, "请求的 token 数量超出模型支持的上限")),
    Answer("unknown", "Chinese, length of the input", refuse(400, "输入长度超过模型最大长度限制")),
    Answer("unknown", "Chinese, context alone", refuse(400, "上下文长度超限")),
    Answer("unknown", "Japanese, context alone", refuse(400, "コンテキスト長を超えました")),
    Answer("unknown", "Japanese", refuse(400, "入力トークン数がコンテキスト長の上限を超えています。")),
    Answer("unknown", "Korean", refuse(400, "입력 토큰 수가 모델의 최대 컨텍스트 길이를 초과했습니다.")),
    Answer(
        "unknown", "German", refuse(400, "Die Eingabe überschreitet mit 9000 Token das Kontextfenster des Modells.")
    ),
    Answer("unknown", "French", refuse(400, "La requête dépasse la longueur de contexte du modèle (8192 jetons).")),
    Answer("unknown", "Spanish", refuse(400, "La entrada excede la longitud máxima de contexto de 8192 tokens.")),
    Answer("unknown", "Portuguese", refuse(400, "A entrada ultrapassa o contexto de 8192 tokens do modelo.")),
    Answer("unknown", "Russian", refuse(400, "Запрос слишком длинный: 9000 токенов, контекст модели 8192.")),
    Answer("unknown", "Italian", refuse(400, "Il prompt supera il limite di contesto di 8192 token.")),
    Answer("unknown", "Dutch", refuse(400, "De invoer is te lang: 9000 tokens, het maximum is 8192.")),
    Answer("unknown", "Polish", refuse(400, "Zapytanie jest za długie: 9000 tokenów, maksymalnie 8192.")),
    Answer("unknown", "Czech", refuse(400, "Vstup je příliš dlouhý: 9000 tokenů, limit je 8192.")),
    Answer("unknown", "Ukrainian", refuse(400, "Промпт перевищує ліміт контексту: 9000 токенів.")),
    Answer("unknown", "Turkish", refuse(400, "Girdi çok uzun: 9000 token, en fazla 8192 olabilir.")),
    Answer("unknown", "Arabic", refuse(400, "البرومبت طويل جدا: 9000 رمز والحد الأقصى 8192")),
    Answer("unknown", "Hindi", refuse(400, "प्रॉम्प्ट बहुत लंबा है: 9000 टोकन, अधिकतम 8192")),
    Answer("unknown", "Vietnamese", refuse(400, "Đầu vào quá dài: 9000 token, vượt quá giới hạn 8192.")),
    Answer("unknown", "Indonesian", refuse(400, "Input terlalu panjang: 9000 token melebihi batas konteks 8192.")),
    Answer("unknown", "Finnish", refuse(400, "Syöte on liian pitkä: 9000 tokenia ylittää mallin enimmäismäärän 8192.")),
    Answer("unknown", "Greek", refuse(400, "Αυτή η προτροπή υπερβαίνει το μέγιστο μήκος περιβάλλοντος του μοντέλου.")),
    Answer("unknown", "Hungarian", refuse(400, "A bemenet túl hosszú: 9000 token meghaladja a modell korlátját.")),
    Answer("unknown", "Romanian", refuse(400, "Promptul depășește lungimea maximă a contextului (8192 de tokeni).")),
    Answer("unknown", "Persian", refuse(400, "درخواست از حداکثر تعداد توکن مجاز بیشتر است.")),
    Answer("unknown", "Urdu", refuse(400, "ان پٹ بہت لمبا ہے: ماڈل کی ٹوکن کی حد سے تجاوز کر گیا ہے")),
    Answer("unknown", "Bengali", refuse(400, "ইনপুট খুব দীর্ঘ: মডেলের সর্বোচ্চ টোকেন সীমা (৮১৯২) ছাড়িয়ে গেছে।")),
    Answer(
        "unknown", "Swedish", refuse(400, "Inmatningen är för lång: 9000 token överskrider modellens kontextfönster.")
    ),
    Answer(
        "unknown",
        "Danish",
        refuse(400, "Beskeden er for lang: modellens kontekstvindue på 8192 tokens er overskredet."),
    ),
    Answer("unknown", "Croatian", refuse(400, "Poruka je preduga: premašuje maksimalni broj tokena modela (8192).")),
    Answer("unknown", "Slovak", refuse(400, "Vstup je príliš dlhý: prekračuje kontextové okno modelu (8192 tokenov).")),
    Answer("unknown", "Bulgarian", refuse(400, "Заявката надвишава контекстния прозорец на модела.")),
    Answer("unknown", "Lithuanian", refuse(400, "Įvestis per ilga: viršija modelio konteksto langą (8192 žetonų).")),
    Answer("unknown", "Estonian", refuse(400, "Sisend on liiga pikk: ületab mudeli kontekstiakna (8192 tokenit).")),
    Answer("unknown", "Catalan", refuse(400, "L'entrada és massa llarga: supera la finestra de context del model.")),
    Answer(
        "unknown", "window and what was given", refuse(400, "The context window is 8192 tokens but 9000 were given.")
    ),
    Answer("unknown", "characters of n_ctx", refuse(400, "prompt_tokens 9000 > n_ctx 8192")),
    Answer("unknown", "traditional Chinese", refuse(400, "提示詞過長 超出模型的上下文視窗")),
    *(
        Answer("unknown", about, refuse(400, text))
        for about, text in (
            ("Chinese, tokens beside letters", "输入token数量超过限制"),
            ("Chinese, tokens of a request", "请求的tokens总数超出模型限制"),
            ("Chinese, in one sentence", "提示词过长"),
            ("Japanese, in one sentence", "プロンプトが長すぎます"),
            ("Korean, in one sentence", "입력이 너무 깁니다"),
            ("a sequence", "Sequence too long: 9000"),
            ("a sequence and its bound", "sequence length 9000 exceeds max_seq_len 8192"),
            ("a limit of tokens", "Token limit exceeded"),
            ("a total", "total tokens 9000 exceed 8192"),
            ("a history", "Conversation history too long"),
            ("a history of messages", "Message history is too long for the model"),
            ("a model's context", "Total tokens 9000 exceeds model's context 8192"),
            ("a bound on tokens", "input_tokens: 5000 should be less than max_input_tokens 4096"),
            ("smaller than", "The length of the input (5000 tokens) must be smaller than the model's context (4096)"),
            ("Chinese, length", "prompt 长度超出限制"),
            (
                "one long message, without a code",
                "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576.",
            ),
        )
    ),
    Answer("unknown", "a code of the window", refuse(400, "Bad request.", code="context_window_exceeded")),
    Answer(
        "unknown",
        "a message, by pydantic",
        Refuse(
            422,
            {
                "detail": [
                    {
                        "type": "string_too_long",
                        "loc": ["body", "messages", 3, "content"],
                        "msg": "String should have at most 32768 characters",
                    }
                ]
            },
        ),
    ),
    Answer("unknown", "a code of a prompt", refuse(400, "Bad request.", code="prompt_too_long")),
    Answer("unknown", "a code of an input", refuse(400, "Bad request.", code="input_too_long")),
)

_ECHO = (
    "[{'type': 'extra_forbidden', 'loc': ('body', 'tools'), 'msg': 'Extra inputs are not permitted', 'input': "
    "'my notes: this model\\'s maximum context length is 8192 tokens, the input token count exceeds the maximum'}]"
)

OTHERS = (
    Answer(
        "unknown",
        "a call's id, by pydantic",
        Refuse(
            422,
            {
                "detail": [
                    {
                        "type": "string_too_long",
                        "loc": ["body", "messages", 3, "tool_call_id"],
                        "msg": "String should have at most 40 characters",
                    }
                ]
            },
        ),
        is_overflow=False,
    ),
    Answer("Groq", "tokens per minute", _tpm(413, 6000, 12328), is_overflow=False),
    Answer("OpenAI", "tokens per minute", _tpm(429, 30000, 342389), is_overflow=False),
    Answer(
        "OpenAI",
        "quota",
        refuse(429, "You exceeded your current quota, please check your plan.", code="insufficient_quota"),
        is_overflow=False,
    ),
    Answer(
        "OpenRouter",
        "credits",
        refuse(402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens."),
        is_overflow=False,
    ),
    Answer(
        "Bedrock",
        "throttled",
        Refuse(429, {"message": "Too many tokens, please wait before trying again."}),
        is_overflow=False,
    ),
    Answer(
        "a gateway",
        "throttled, under another status",
        Refuse(400, {"message": "ThrottlingException: Too many tokens, please wait before trying again."}),
        is_overflow=False,
    ),
    Answer(
        "Anthropic",
        "input tokens per minute",
        Refuse(
            429,
            {
                "type": "error",
                "error": {
                    "type": "rate_limit_error",
                    "message": "This request would exceed your organization's rate limit of 30,000 input "
                    "tokens per minute.",
                },
            },
        ),
        is_overflow=False,
    ),
    Answer(
        "Gemini",
        "quota",
        Refuse(
            429,
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota: generate_content_free_tier_input_token_count, "
                    "limit 250000",
                    "status": "RESOURCE_EXHAUSTED",
                }
            },
        ),
        is_overflow=False,
    ),
    Answer(
        "Azure",
        "content filter",
        refuse(
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            code="content_filter",
        ),
        is_overflow=False,
    ),
    Answer(
        "OpenAI",
        "answer too long",
        refuse(
            400,
            "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you "
            "provided 200000.",
            param="max_tokens",
            code="invalid_value",
        ),
        is_overflow=False,
    ),
    Answer(
        "Anthropic",
        "answer too long",
        Refuse(
            400,
            {
                "type": "error",
                "error": {
                    "type": INVALID,
                    "message": "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for "
                    "claude-3-5-sonnet-20241022",
                },
            },
        ),
        is_overflow=False,
    ),
    Answer(
        "Bedrock",
        "answer too long",
        Refuse(400, {"message": "The maximum tokens you requested exceeds the model limit of 4096."}),
        is_overflow=False,
    ),
    Answer(
        "Groq",
        "answer too long",
        refuse(
            400,
            "max_tokens must be less than or equal to 16384, the maximum value for max_tokens is less than the "
            "context_window for this model",
        ),
        is_overflow=False,
    ),
    Answer(
        "OpenRouter",
        "answer as long as the window",
        refuse(
            400,
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 tokens (7884 "
            "of text input, 131072 in the output). Please reduce the length of either one.",
        ),
        is_overflow=False,
    ),
    Answer(
        "Azure",
        "answer longer than the window",
        refuse(400, _with_answer(128000, 124171, 1000000), code="context_length_exceeded"),
        is_overflow=False,
    ),
    Answer(
        "vLLM",
        "answer longer than the window",
        _plain(
            400,
            "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 8192 "
            "tokens and your request has 30 input tokens (100000 > 8192 - 30).",
        ),
        is_overflow=False,
    ),
    Answer("vLLM", "newer, answer longer than the window", _plain(400, _newer_vllm(30, 9000, 8192)), is_overflow=False),
    Answer(
        "vLLM",
        "newer, answer too long",
        _plain(
            400,
            "max_tokens=100000cannot be greater than max_model_len=max_total_tokens=8192. Please request fewer output "
            "tokens.",
        ),
        is_overflow=False,
    ),
    Answer(
        "unknown",
        "a sum, answer longer than the window",
        refuse(400, "the input length (30) + max_tokens (100000) exceeds the model maximum context 8192"),
        is_overflow=False,
    ),
    Answer(
        "unknown",
        "answer too long, beside the request",
        refuse(400, "max_tokens (9000) exceeds the model limit of 8192 tokens in your request"),
        is_overflow=False,
    ),
    Answer(
        "TGI",
        "answer too long",
        Refuse(422, {"error": "Input validation error: `max_new_tokens` must be <= 192. Given: 250"}),
        is_overflow=False,
    ),
    Answer(
        "Anthropic",
        "thinking budget",
        Refuse(
            400,
            {
                "error": {
                    "type": INVALID,
                    "message": "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                }
            },
        ),
        is_overflow=False,
    ),
    Answer(
        "OpenAI",
        "another parameter too long",
        refuse(
            400,
            "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with "
            "length 80.",
            param="user",
            code="string_above_max_length",
        ),
        is_overflow=False,
    ),
    *(
        Answer("OpenAI", f"`{param}` too long", _too_long(param, 64, 80), is_overflow=False)
        for param in (
            "messages[1].tool_calls[0].function.name",
            "messages[0].name",
            "messages[2].tool_call_id",
            "input[3].call_id",
            "input[0].id",
        )
    ),
    Answer(
        "OpenAI",
        "sequences",
        refuse(400, "Invalid 'stop': maximum 4 stop sequences in request, token"),
        is_overflow=False,
    ),
    Answer(
        "OpenAI",
        "unknown model",
        refuse(404, "The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found"),
        is_overflow=False,
    ),
    Answer("Ollama", "unknown model", refuse(404, 'model "llama9" not found, try pulling it first'), is_overflow=False),
    Answer("OpenAI", "key", refuse(401, "Incorrect API key provided.", code="invalid_api_key"), is_overflow=False),
    Answer(
        "a gateway",
        "an access token that is too long",
        refuse(401, "The token in the request is too long."),
        is_overflow=False,
    ),
    Answer(
        "OpenAI",
        "a broken pair of calls",
        refuse(400, "An assistant message with 'tool_calls' must be followed by tool messages.", param="messages"),
        is_overflow=False,
    ),
    Answer("Anthropic", "too many images", refuse(400, "messages: too many images: at most 100"), is_overflow=False),
    Answer("Anthropic", "overloaded", refuse(529, "Overloaded", type="overloaded_error"), is_overflow=False),
    Answer("vLLM", "the prompt quoted", _plain(400, _ECHO), is_overflow=False),
    Answer(
        "Mistral",
        "rate of tokens",
        _plain(429, "Rate limit exceeded: too many tokens per minute in the prompt"),
        is_overflow=False,
    ),
    Answer("Mistral", "unknown model", _plain(400, "Invalid model: mistral-context-xl"), is_overflow=False),
    Answer("Cohere", "key", Refuse(401, {"message": "invalid api token"}), is_overflow=False),
    Answer(
        "DeepSeek",
        "answer too long",
        refuse(400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        is_overflow=False,
    ),
    Answer("DeepSeek", "credits", refuse(402, "Insufficient Balance"), is_overflow=False),
    Answer("Gemini", "unknown model", _google(404, "models/gemini-9 is not found", "NOT_FOUND"), is_overflow=False),
    Answer(
        "Gemini",
        "answer too long",
        _google(
            400,
            "Unable to submit request because it has a maxOutputTokens value of 99999 but the supported range "
            "is from 1 to 65537.",
        ),
        is_overflow=False,
    ),
    Answer("OpenAI", "enqueued", refuse(400, "Enqueued token limit reached for this request."), is_overflow=False),
    Answer("a gateway", "daily tokens", refuse(400, "daily token limit exceeded for this request"), is_overflow=False),
    Answer("a gateway", "a deadline", refuse(400, "The request failed: context deadline exceeded"), is_overflow=False),
    Answer("a gateway", "per minute, Chinese", refuse(400, "每分钟 token 数超出限制 请求过多"), is_overflow=False),
    Answer(
        "a gateway",
        "per minute, French",
        refuse(400, "Limite de débit dépassée : trop de jetons par minute dans la requête"),
        is_overflow=False,
    ),
    Answer(
        "a gateway",
        "per minute, Russian",
        refuse(400, "Слишком много токенов в минуту, запрос отклонён"),
        is_overflow=False,
    ),
    Answer(
        "a gateway", "a token of theirs", refuse(400, "The csrf token in your request is too long"), is_overflow=False
    ),
    *(
        Answer("a gateway", about, refuse(400, text), is_overflow=False)
        for about, text in (
            *(
                (f"rates and quotas, {language}", text)
                for language, text in (
                    ("German", "Das Tageslimit von 10000 Tokens für Anfragen ist überschritten"),
                    ("Finnish", "Liian monta pyyntöä: 10000 tokenin raja minuutissa ylittyi syötteen takia"),
                    ("Greek", "Έχετε υπερβεί το ημερήσιο όριο των tokens στα αιτήματα."),
                    ("Hungarian", "A napi token kvóta elfogyott, a kérés meghaladja a keretet."),
                    ("Romanian", "Ați depășit limita de tokeni pe minut pentru cereri."),
                    ("Persian", "سهمیه روزانه توکن شما تمام شده و درخواست از حد مجاز بیشتر است."),
                    ("Swedish", "För många förfrågningar: tokens per minut överskrider gränsen för begäran"),
                    ("Croatian", "Zahtjev premašuje dopušteni broj tokena u minuti"),
                    ("Bulgarian", "Надвишен лимит на токени на минута за тази заявка"),
                )
            ),
            ("a language", "The complete language list in your request: tokens are not supported for language xx"),
            ("images", "Total image tokens exceed limit: at most 10 images per prompt"),
            ("a batch of texts", "The request has a batch size of 300 inputs, the maximum is 256"),
            ("size of a file", "The file size in your request exceeds the maximum of 512 MB, token"),
            ("today's tokens, Chinese", "请求 token 数超过当日限额"),
            ("today's tokens, Japanese", "リクエストのトークン数が本日の上限を超えました"),
            (
                "litellm's budget",
                "ExceededTokenBudget: Current spend for token: 12.3; Max Budget for Token: 10 request",
            ),
            ("a budget", "Budget has been exceeded! Current cost: 12, Max budget: 10, request tokens"),
            ("an old token", "The request token exceeds its maximum lifetime"),
            ("an expired token", "Request rejected: token expired, maximum age exceeded"),
            ("a header", "JWT token in the request header is too large"),
            ("JSON", "Invalid JSON in request: unexpected token at position 10, maximum depth exceeded"),
            ("temperature", "temperature: the maximum in your request context is 2"),
            ("blocks", "A maximum of 4 blocks with cache_control may be provided. Found 5. context request"),
            ("answer too long", "num_predict in the request is larger than maximum tokens"),
            ("at once", "Too many concurrent requests: maximum 4 per token"),
            ("a plan", "Your input tokens exceed the free tier limit, upgrade your plan"),
            ("usage", "Usage limit reached: too many input tokens"),
            ("a balance", "Insufficient balance: request requires 9000 tokens, more than available"),
            (
                "tokens of a day",
                "Your account has exceeded the maximum number of prompt tokens in the last 24h",
            ),
            ("tokens of somebody", "Token limit exceeded for organization org_x"),
            (
                "the description of a tool",
                "Invalid 'tools[0].function.description': string too long. Expected maximum 1024, request: 2000 tokens",
            ),
        )
    ),
    Answer("a proxy", "an error without a word", Refuse(400, ""), is_overflow=False),
    Answer("a proxy", "a broken server", Refuse(502, "<html>Bad Gateway</html>"), is_overflow=False),
)

ANSWERS = (*OVERFLOWS, *OTHERS)


class Text(NamedTuple):
    """What a server says, in words or as JSON, under a status."""

    status: int
    said: str
    is_overflow: bool


def _texts(file: str, *, is_overflow: bool) -> list[Text]:
    lines = (Path(__file__).parent / file).read_text(encoding="utf-8").splitlines()
    return [Text(int(status), said, is_overflow) for status, said in (line.split(" ", 1) for line in lines)]


TEXTS = (*_texts("overflow_said.txt", is_overflow=True), *_texts("overflow_not_said.txt", is_overflow=False))
"""More texts: of providers' older and newer versions, of gateways, and made up of what such texts consist of."""


def _about_texts(told: Iterable[tuple[Text, bool]]) -> str:
    right = Counter(text.is_overflow for text, verdict in told if verdict is text.is_overflow)
    all_ = Counter(text.is_overflow for text in TEXTS)
    return (
        f"Of {all_[True]} more texts of that kind (`tests/surface/overflow_said.txt`) {right[True]} are recognised,\n"
        f"and of {all_[False]} that are none (`overflow_not_said.txt`) {right[False]} are not taken for it.\n"
        "All of them were looked at, so these counts guard against going back. Of texts of public reports that were\n"
        "unseen when asked, 60 of 66 and, of a second set, 34 of 40 were recognised, and 68 of 70 and 37 of 39 that\n"
        "are none were left alone; of texts made up to be difficult, before that, 38 of 48 and 20 of 25, and 50 of 56\n"
        "and 15 of 25."
    )


def page(verdicts: Iterable[tuple[Answer, bool]], told: Iterable[tuple[Text, bool]]) -> str:
    """The page of the docs about what was found."""
    found = list(verdicts)
    return PAGE.format(
        texts=_about_texts(told),
        overflows=_rows(answer for answer, verdict in found if verdict),
        others=_rows(answer for answer, verdict in found if not verdict),
    )


def _rows(answers: Iterable[Answer]) -> str:
    by_provider: dict[str, list[str]] = {}
    for answer in answers:
        by_provider.setdefault(answer.provider, []).append(f"{answer.about} ({answer.answer.status})")
    return "\n".join(
        f"| {provider} | {', '.join(f'`{name}`' for name in client_names(provider))} | {', '.join(about)} |"
        for provider, about in by_provider.items()
    )


PAGE = """\
# A prompt that is too long

Where a provider refuses a prompt because it exceeds the model's context window, the advisor and the middleware compact
once and ask once more. Every provider says it differently; this is what is recognised, and what is not taken for it.
The tables are made by `tests/surface/test_overflow.py`, which has LangChain's own client of each provider read the
answer from a local server, and besides the client of OpenAI, as through a gateway, and a plain HTTP client.

## Recognised

| provider | read by | answers (HTTP status) |
|---|---|---|
{overflows}

Besides these: the core's `ContextOverflowError`, litellm's `ContextWindowExceededError`, and whatever an error names as
its cause. Of a server that nobody has heard of, a text counts that names a measure, a bound and what was sent, says
that what was sent is too long, advises to shorten it, or is a name of such an error, in one of some twenty languages,
and that says nothing of rates, quotas, tokens that stand for somebody and the like.

{texts}

## Not taken for it

| provider | read by | answers (HTTP status) |
|---|---|---|
{others}

A request that exceeds a rate limit all by itself is a rate limit: whether a shorter prompt is what you want then is for
you to say. An answer that is asked for as long as the whole window is not the prompt's fault.

## A predicate of your own

`is_overflow=` of the advisor and the middleware replaces the judgement; it is given the error that the model raised.

```python
from langchain_sessions import InMemoryStore, SessionMemoryAdvisor, SessionService, is_context_overflow


def too_long(error: Exception) -> bool:
    return is_context_overflow(error) or "tokens per minute" in str(error)


memory = SessionMemoryAdvisor(SessionService(InMemoryStore()), is_overflow=too_long)
```

## An answer that was cut

Some servers shorten the prompt or the answer instead of refusing. A reply that ends with `length` counts as an overflow
only where its reported input and output together reach the window, and the window is known (`context_window=`, or the
model's profile). An answer that was not streamed is then asked for once more after a compaction; one that was streamed
is delivered as it is.
"""
