"""What fills the prompt template of a wrapped chain, by the rules of a whole prompt, and what the template adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableBinding, RunnableSequence

from langchain_sessions._chat.news import as_messages, message_of
from langchain_sessions._chat.outbound import bounded, made_valid, mended_input, mended_message
from langchain_sessions._core.view import call_ids
from langchain_sessions._core.whole import whole_text

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable

    from langchain_sessions._chat.session_memory import Wrapped
    from langchain_sessions.modes import PromptDraft


class Filled(NamedTuple):
    """An input with the history filled in, and what of it the model is shown as messages."""

    value: dict[str, Any]
    shown: list[BaseMessage]


def fill(wrapped: Wrapped, value: Mapping[str, Any], draft: PromptDraft, max_characters: int | None) -> Filled:
    """A chain's input as it can be sent.

    Args:
        wrapped: The chain, and where it expects what.
        value: The input as the caller gave it.
        draft: What is remembered and what is being said.
        max_characters: How long one text of the conversation may be.
    """
    asked, remembered, system = _keys(wrapped)
    history = [message_of(event) for event in draft.history]
    if max_characters is not None:
        history = [bounded(message, max_characters) for message in history]
    said = [call for message in draft.tail for call in call_ids(message)]
    if draft.tail and isinstance(draft.tail[0], HumanMessage):
        # What may stand last depends on the question that follows; a question is neither left out nor joined.
        asking = [*history, draft.tail[0]]
        history = made_valid(asking, over=len(history), taken=said, reader=wrapped.model, tools=wrapped.call_tools)[:-1]
    else:
        history = made_valid(history, taken=said, reader=wrapped.model, tools=wrapped.call_tools)
    # Whatever else fills the template goes out too.
    given = {key: whole_text(part) if isinstance(part, str) else part for key, part in value.items()}
    filled = {**given, asked: mended_input(value[asked], max_characters), remembered: history}
    if system is not None:
        filled[system] = whole_text(draft.instructions)
    return Filled(filled, [*history, *(mended_message(message, max_characters) for message in draft.tail)])


def fill_alone(wrapped: Wrapped, value: object) -> object:
    """An input for a call that remembers nothing, as it can be sent: keys that a template expects are there, and empty.

    Args:
        wrapped: A model or a chain.
        value: The input as the caller gave it.
    """
    if not isinstance(value, Mapping):
        if isinstance(value, str) or wrapped.input_key is not None:
            return mended_input(value)
        said = as_messages(value)
        made = made_valid(said, over=0, reader=wrapped.model, tools=wrapped.call_tools)
        return value if len(made) == len(said) and all(a is b for a, b in zip(made, said, strict=True)) else made
    asked, remembered, system = _keys(wrapped)
    given = {
        key: mended_input(part) if isinstance(part, str) or key in (asked, remembered) else part
        for key, part in cast("Mapping[str, object]", value).items()
    }
    empty: dict[str, object] = {} if wrapped.history_key is None else {remembered: []}
    return {**empty, **({} if system is None else {system: ""}), **given}


def added_by_template(wrapped: Wrapped, value: Mapping[str, Any]) -> list[BaseMessage]:
    """What the template of a chain adds to the conversation, for those who count tokens; nothing where none is found.

    The template's own words, its slots as they are named, and the texts of the input that fill the other slots. What
    the chain itself makes on the way, such as documents that it retrieves, is not known here.
    """
    template = _template_of(wrapped.inner)
    if template is None:
        return []
    texts = [_own_text(part) for part in template.messages]
    others = set(template.input_variables).difference(_keys(wrapped))
    filling = [part for key, part in value.items() if key in others and isinstance(part, str)]
    added: list[BaseMessage] = [SystemMessage(text) for text in texts if text]
    return [*added, *(HumanMessage(text) for text in filling if text)]


def _keys(wrapped: Wrapped) -> tuple[str, str, str | None]:
    """Where the input holds what is asked and what is remembered, and what memory writes for the system prompt."""
    return wrapped.input_key or "", wrapped.history_key or "", wrapped.system_key


def _template_of(runnable: Runnable[Any, Any]) -> ChatPromptTemplate | None:
    if isinstance(runnable, ChatPromptTemplate):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return _template_of(runnable.bound)
    if isinstance(runnable, RunnableSequence):
        found = (_template_of(step) for step in runnable.steps)
        return next((template for template in found if template is not None), None)
    return None


def _own_text(part: object) -> str:
    if isinstance(part, BaseMessage):
        return str(part.text)
    if isinstance(part, ChatPromptTemplate):
        return "\n".join(map(_own_text, part.messages))
    prompts = getattr(part, "prompt", None)
    texts = [getattr(prompt, "template", None) for prompt in (prompts if isinstance(prompts, list) else [prompts])]
    return "\n".join(text for text in texts if isinstance(text, str))
