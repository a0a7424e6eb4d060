"""What a prompt counts for, by what is nearest to the model's own vocabulary, and what is learned from reports."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._tokens.content import holds_media
from langchain_sessions._tokens.estimate import EstimatedTokenCounter, RememberingCounter
from langchain_sessions._tokens.exact_for_model import ExactForModel
from langchain_sessions._tokens.families import name_of, vocabulary_of
from langchain_sessions._tokens.usage import UsageBook, kind_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from langchain_sessions._chat.replies import Heard, ReplyRecorder
    from langchain_sessions._compaction.plan import ModelCall
    from langchain_sessions._tokens.base import TokenCounter, Tool
    from langchain_sessions._tokens.exact_for_model import MessageCounter
    from langchain_sessions._tokens.weights import Vocabulary
    from langchain_sessions.events import SessionEvent

    CountMessage = Callable[[BaseMessage], int]

COUNTED = "prompt_counted"
"""In the metadata of a stored reply: what its prompt counted for, where that went out as it was."""

_REPLY = 3  # as `TokenCounter.count_messages` counts the opening of a reply
# Schemas, and models, that are remembered with what is known of them; new ones with every call are looked at anew.
_TOOLS, _MODELS = 256, 64
_SENT_AS = ("model_name", "model", "model_id")
_SEEDS = 3
"""So many stored replies tell what prompts cost, where no call of this memory did."""

_log = logging.getLogger(__name__)


class _Counter(NamedTuple):
    """What a model's prompts are counted with.

    Attributes:
        texts: Counts texts, and messages where nothing better does.
        messages: The model's own way to count messages.
        name: Tells the model, as far as it can be told, and its counts from those of others.
    """

    texts: TokenCounter
    messages: MessageCounter | None
    name: str


class PromptBudget:
    """Counts the prompts of one memory, and learns from what was reported of them. Safe to share between threads.

    Between us and the provider others may change a prompt: middleware behind ours, the template of a chain, an agent
    with instructions of its own. What a model is really asked is heard by a callback, and only that is set against a
    report: where all that we showed went out, what was added is counted too, and expected of the next prompt; where
    anything of it was changed or left out, nothing is learned.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Count with `counter`; the default one gives way to what is nearer to a model's own vocabulary."""
        self._counter = counter
        self._is_default = type(counter) is EstimatedTokenCounter and counter.vocabulary == "o200k_base"
        self._book = UsageBook()
        self._exact = ExactForModel()
        self._estimates: dict[Vocabulary, TokenCounter] = {"o200k_base": counter}
        self._counters: dict[int, tuple[object, str | None, _Counter]] = {}
        self._tools: dict[tuple[int, str], tuple[Tool, int]] = {}

    # -- by what -------------------------------------------------------------------------------------------

    def _counter_of(self, model: object, prompt: Sequence[BaseMessage] = ()) -> _Counter:
        """What a model's prompts are counted with. Whoever chose a counter keeps it."""
        replied, found = _replied_as(prompt), self._counters.get(id(model))
        if found is not None and found[0] is model and replied in (found[1], None):
            return found[2]
        counter = self._find_counter(model, replied)
        if counter.messages is not None or self._exact.is_final(model):
            if len(self._counters) >= _MODELS:
                self._counters.clear()
            self._counters[id(model)] = (model, replied, counter)
        return counter

    def _find_counter(self, model: object, replied: str | None) -> _Counter:
        name = f"{type(model).__name__}:{name_of(model)}:"
        if not self._is_default:
            return _Counter(self._counter, None, f"{name}given")
        exact, vocabulary = self._exact.counter(model), vocabulary_of(model, replied)
        texts = self._estimates.get(vocabulary)
        if texts is None:
            texts = self._estimates[vocabulary] = RememberingCounter(EstimatedTokenCounter(vocabulary))
        if exact is not None:
            return _Counter(exact.texts or texts, exact, f"{name}exact")
        return _Counter(texts, None, name + vocabulary)

    # -- before the model ----------------------------------------------------------------------------------

    def measured(
        self,
        call: ModelCall,
        conversation: Hashable,
        prompt: Sequence[BaseMessage],
        known: Mapping[int, int],
        history: Sequence[SessionEvent] = (),
    ) -> ModelCall:
        """A call with what its prompt counts for, and what is known of its model.

        Args:
            call: The call, with the tools that are offered.
            conversation: Names the conversation.
            prompt: The messages as they go out.
            known: What messages count for that were counted before by the counter of the service, by the identity of
                the object.
            history: What of the prompt was stored; its newest replies tell what their prompts cost.
        """
        counter = self._counter_of(call.model, prompt)
        messages = self._count_exactly(counter, call.model, prompt)
        is_exact = messages is not None
        if messages is None:
            count, reuse = counter.texts.count_message, known if counter.texts is self._counter else {}
            messages = sum(reuse.get(id(message)) or count(message) for message in prompt)
        tokens = messages + self.count_tools(call.tools, call.model) + _REPLY
        name, kind = counter.name, _kind_of(prompt)
        if history and not self._book.knows(name, conversation):
            self._recall(name, kind, conversation, history)
        usage = replace(self._book.usage(name, kind, conversation), is_exact=is_exact)
        count_message = self._count_message_of(counter, call.model, is_exact=is_exact)
        return replace(call, prompt_tokens=tokens, usage=usage, count_message=count_message)

    def _count_message_of(self, counter: _Counter, model: object, *, is_exact: bool) -> CountMessage | None:
        """What counts one message as a prompt was counted; None where the counter of the service did that."""
        estimate = counter.texts.count_message
        if not is_exact:
            return None if counter.texts is self._counter else estimate

        def count(message: BaseMessage) -> int:
            exact = self._count_exactly(counter, model, [message])
            return estimate(message) if exact is None else exact

        return count

    def _recall(self, name: str, kind: str, conversation: Hashable, history: Sequence[SessionEvent]) -> None:
        """Take in what the newest stored replies say of their prompts: another memory asked for them, or process."""
        said = [event for event in history[::-1] if COUNTED in event.metadata]
        for event in said[:_SEEDS][::-1]:
            noted: Any = event.metadata[COUNTED]
            if not isinstance(noted, dict) or noted.get("by") != name:  # another model, or another way to count
                continue
            report: dict[str, Any] = {key: noted.get(key) for key in ("counted", "reported", "added")}
            if all(type(value) is int for value in report.values()):
                self._book.report(name, kind, conversation, **report)

    def _count_exactly(self, counter: _Counter, model: object, prompt: Sequence[BaseMessage]) -> int | None:
        """What messages count for by a model's own vocabulary; None where that is not at hand."""
        try:
            return None if counter.messages is None else counter.messages.count(prompt)
        except Exception as error:  # noqa: BLE001 - a model's own count must not cost the answer
            _log.warning("%s could not count a prompt: %s", type(model).__name__, type(error).__name__)
            return None

    def count_messages(self, messages: Sequence[BaseMessage], model: object = None) -> int:
        """What messages count for, as the prompts of a model do."""
        return sum(map(self._counter_of(model).texts.count_message, messages))

    def count_tools(self, tools: Sequence[Tool], model: object = None) -> int:
        """What the schemas of tools count for, as the prompts of a model do."""
        if not tools:
            return 0
        counter = self._counter_of(model)
        return sum(self._count_tool(tool, counter) for tool in tools)

    def _count_tool(self, tool: Tool, counter: _Counter) -> int:
        # Making a schema costs far more than counting it, and the same tools come with every call.
        key = (id(tool), counter.name)
        found = self._tools.get(key)
        if found is not None and found[0] is tool:
            return found[1]
        tokens = counter.texts.count_messages((), tools=[tool]).tools
        if len(self._tools) >= _TOOLS:
            self._tools.clear()
        self._tools[key] = (tool, tokens)
        return tokens

    # -- after the model -----------------------------------------------------------------------------------

    def learn(
        self, call: ModelCall, conversation: Hashable, shown: Sequence[BaseMessage], recorder: ReplyRecorder
    ) -> dict[str, Any] | None:
        """Take in what was reported of a prompt, unless it was changed on its way to the model.

        Returns:
            What is to be noted beside the reply, so that others know it too; None where nothing was learned.
        """
        if call.prompt_tokens is None:
            return None
        name = self._counter_of(call.model, shown).name
        for heard in recorder.reported:
            usage, counted = heard.reply.usage_metadata, self._count_sent(call, call.prompt_tokens, shown, heard)
            if usage is not None and counted is not None:
                added = counted - call.prompt_tokens
                report = {"counted": counted, "reported": usage["input_tokens"], "added": added}
                self._book.report(name, _kind_of(heard.sent), conversation, **report)
                return {COUNTED: {**report, "by": name}}
        if recorder.reported:
            _log.debug("A prompt was changed on its way to the model: nothing is learned from its reply.")
        return None

    def _count_sent(self, call: ModelCall, expected: int, shown: Sequence[BaseMessage], heard: Heard) -> int | None:
        """What was really sent counts for, where it holds all that was shown and went to the model that we know."""
        if not (_is_of(call, heard.params) and carries(heard.sent, shown)):
            return None
        counter = self._counter_of(call.model, shown)
        tools = self._count_sent_tools(call.tools, heard.params, call.model)
        if tools is None:
            return None
        if len(heard.sent) == len(shown) and all(map(_is_alike, heard.sent, shown)):
            return expected - self.count_tools(call.tools, call.model) + tools
        exact = self._count_exactly(counter, call.model, heard.sent) if call.usage.is_exact else None
        return (exact or sum(map(counter.texts.count_message, heard.sent))) + tools + _REPLY

    def _count_sent_tools(self, known: Sequence[Tool], params: Mapping[str, Any], model: object) -> int | None:
        """What the tools of a request count for; None where they are not those that we know, and cannot be counted.

        A client that names them in a way of its own is believed to send what it was given.
        """
        sent = params.get("tools")
        if not isinstance(sent, (list, tuple)):
            return self.count_tools(known, model)
        offered = cast("Sequence[Any]", sent)
        if len(offered) == len(known) and {*map(_tool_name, offered)} <= {None, *map(_tool_name, known)}:
            return self.count_tools(known, model)
        try:
            return self._counter_of(model).texts.count_messages((), tools=offered).tools
        except Exception:  # noqa: BLE001 - objects of a provider's own
            return None


def _tool_name(tool: Any) -> object:  # noqa: ANN401 - a schema, a tool, a function, a model, an object of a client's own
    """What a tool is called, in whatever form it is offered; None where it does not say."""
    if not isinstance(tool, dict):
        return getattr(getattr(tool, "function", tool), "name", None) or getattr(tool, "__name__", None)
    schema = cast("dict[str, Any]", tool)
    inner = schema.get("function")
    named: Any = cast("dict[str, Any]", inner) if isinstance(inner, dict) else schema
    return named.get("name") or named.get("title") or named.get("type")


def _replied_as(prompt: Sequence[BaseMessage]) -> str | None:
    """What the newest answer in a prompt says that it was made by: a deployment may be called anything."""
    for message in reversed(prompt):
        if message.type == "ai":
            said = message.response_metadata
            name = said.get("model_name") or said.get("model")
            return name if isinstance(name, str) else None
    return None


def _model_name(model: object) -> object:
    return next(filter(None, (getattr(model, name, None) for name in _SENT_AS)), None)


def _is_of(call: ModelCall, params: Mapping[str, Any]) -> bool:
    """Whether a request went to the model that the call knows, as far as both say: a fallback has other tokens."""
    if call.model is None:
        return True
    kind, ours = params.get("_type"), getattr(call.model, "_llm_type", None)
    named, known = next(filter(None, map(params.get, _SENT_AS)), None), _model_name(call.model)
    return (kind is None or kind == ours) and (named is None or known is None or named == known)


def _kind_of(prompt: Sequence[BaseMessage]) -> str:
    """Which kind of text a prompt is mostly of; what media cost says nothing of texts."""
    if any(not isinstance(message.content, str) and holds_media(message.content) for message in prompt):
        return "media"
    spoken = [message for message in prompt if not isinstance(message, SystemMessage)]
    return kind_of_text("\n".join(str(message.text)[:500] for message in spoken[-4:]))


def carries(sent: Sequence[BaseMessage], shown: Sequence[BaseMessage]) -> bool:
    """Whether all that we showed went out as it was, in order; others may have added to it, or to the system prompt."""
    left = iter(sent)
    return all(any(_is_alike(one, ours) for one in left) for ours in shown if not isinstance(ours, SystemMessage))


def _is_alike(one: BaseMessage, ours: BaseMessage) -> bool:
    """Whether a message costs what ours does, since everything of it that a client sends is the same."""
    if one is ours:
        return True
    return (
        one.type == ours.type
        and all(equal(mine, theirs) for mine, theirs in zip(_sent_beside(ours), _sent_beside(one), strict=True))
        and (equal(one.content, ours.content) or _plain_text(one) == _plain_text(ours) is not None)
    )


def _sent_beside(message: BaseMessage) -> Iterator[object]:
    """What of a message goes out beside its content."""
    yield message.name
    yield message.additional_kwargs
    if isinstance(message, AIMessage):
        yield message.tool_calls
        yield message.invalid_tool_calls
    if isinstance(message, ToolMessage):
        yield message.tool_call_id


def _plain_text(message: BaseMessage) -> str | None:
    """What a message says, in one text or in blocks of text; None where it shows anything else."""
    content = message.content
    if isinstance(content, str):
        return content
    is_plain = all(isinstance(block, str) or block.get("type") == "text" for block in content)
    return str(message.text) if is_plain else None
