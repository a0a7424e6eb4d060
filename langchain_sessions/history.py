"""A session as a LangChain chat message history, for `RunnableWithMessageHistory` and code written for it.

Upstream deprecates this interface and removes it in langchain-core 2.0. Nothing else here depends on it; new code
is better served by `SessionMemoryAdvisor.wrap`, which also keeps failed, streamed and concurrent turns apart.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, cast

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.runnables import ConfigurableFieldSpec
from typing_extensions import override

from langchain_sessions._chat.address import Address, Addressing, OwnerPolicy, user_named
from langchain_sessions._chat.outbound import made_valid, mended
from langchain_sessions._chat.store_run import append_all
from langchain_sessions._core.edge import check_branch, check_id, check_optional_id, helpful, require, told_methods
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.view import call_ids
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.events import NewEvent
from langchain_sessions.selectors import Selector, not_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions.service import SessionService


@helpful
@told_methods
class SessionChatMessageHistory(BaseChatMessageHistory):
    """The context of one session: compacted where it was compacted, tool calls whole.

    What was read stays the view until `add_messages`, `clear` or `refresh`: `RunnableWithMessageHistory` tells what is
    new by the length of the history at the end of a call, so a history that is compacted or appended to meanwhile must
    not change under it.

    Args:
        session_id: The session; it is opened on first use.
        sessions: The service.
        user_id: Whose session it is, where the service is not bound; None for nobody's.
        owner: Whose sessions are reached, see `OwnerPolicy`; a function gets a config with both ids.
        branch: The branch to read and write; None is root.
        last_n: Read at most so many messages, beginning with a question.
        select: Chooses which messages are read.
        store: Chooses which messages are stored; by default all but empty assistant frames.
        author: Who answers, as the log names it.
        human: Who asks, as the log names it.
        clear_mode: `rewind` hides what was said, `delete` erases the session.
    """

    def __init__(
        self,
        session_id: str,
        sessions: SessionService,
        *,
        user_id: str | None = None,
        owner: OwnerPolicy = "config",
        branch: str | None = None,
        last_n: int | None = None,
        select: Selector | None = None,
        store: Selector = not_empty,
        author: str | None = None,
        human: str | None = None,
        clear_mode: Literal["rewind", "delete"] = "rewind",
    ) -> None:
        """See the class. Nothing is read yet."""
        require(clear_mode in ("rewind", "delete"), "clear_mode", "give 'rewind' or 'delete'")
        require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
        named = {"session_id": check_id(session_id, "session_id"), "user_id": check_optional_id(user_id, "user_id")}
        self.session_id: str
        self._sessions, self.session_id = Addressing(sessions, owner).require({"configurable": named})
        self._branch = check_branch(branch)
        self._last_n = last_n
        self._select = select
        self._store = store
        self._author = author
        self._human = human
        self._clear_mode = clear_mode
        self._pinned: tuple[BaseMessage, ...] | None = None

    def __repr__(self) -> str:
        """Short: of which session. `str` is the conversation."""
        return f"<{type(self).__name__} of {self.session_id!r}>"

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # upstream declares a plain attribute
        """What a model is to see, oldest first."""
        return drive(self._read())

    @override
    async def aget_messages(self) -> list[BaseMessage]:
        """Async `messages`."""
        return await adrive(self._read())

    def get_messages(self) -> list[BaseMessage]:
        """The same as `messages`."""
        return self.messages

    def refresh(self) -> None:
        """Look at the log anew with the next read."""
        self._pinned = None

    def _read(self) -> Flow[list[BaseMessage]]:
        if self._pinned is None:
            self._pinned = tuple((yield from self._load()))
        return list(self._pinned)

    def _load(self) -> Flow[Sequence[BaseMessage]]:
        try:
            found = yield from ask(self._sessions.messages, self.session_id, branch=self._branch, last_n=self._last_n)
        except SessionNotFoundError:
            # Missing reads as empty; somebody else's raises here, before a model is paid.
            yield from ask(self._sessions.open, self.session_id)
            return []
        system = [message for message in found if isinstance(message, SystemMessage)][-1:]
        spoken: Sequence[BaseMessage] = [message for message in found if not isinstance(message, SystemMessage)]
        if self._last_n is not None and len(found) >= self._last_n:
            first = next((at for at, message in enumerate(spoken) if isinstance(message, HumanMessage)), 0)
            spoken = spoken[first:]
        return [*map(mended, system), *_sendable(spoken if self._select is None else self._select(spoken))]

    # -- writing -------------------------------------------------------------------------------------------

    @override
    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages: all of them or none."""
        drive(self._add(messages))

    @override
    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Async `add_messages`."""
        await adrive(self._add(messages))

    def _add(self, messages: Sequence[BaseMessage]) -> Flow[None]:
        whole = [message_chunk_to_message(m) if isinstance(m, BaseMessageChunk) else m for m in messages]
        kept = self._store(whole)
        self._pinned = None
        if not kept:
            return
        yield from ask(self._sessions.open, self.session_id)
        events = [
            NewEvent(
                message=message,
                author=self._human if isinstance(message, HumanMessage) else self._author,
                branch=self._branch,
            )
            for message in kept
        ]
        yield from append_all(Address(self._sessions, self.session_id), events)

    @override
    def clear(self) -> None:
        """Begin anew. What was said is hidden and can be brought back, or erased where `clear_mode` says so."""
        drive(self._clear())

    @override
    async def aclear(self) -> None:
        """Async `clear`."""
        await adrive(self._clear())

    def _clear(self) -> Flow[None]:
        self._pinned = None
        if self._clear_mode == "delete":
            yield from ask(self._sessions.delete, self.session_id)
            return
        try:
            yield from ask(self._sessions.rewind, self.session_id, to_seq=0)
        except SessionNotFoundError:
            return

    # -- RunnableWithMessageHistory ------------------------------------------------------------------------

    @classmethod
    def factory(
        cls, sessions: SessionService, *, session_key: str = "session_id", user_key: str | None = None, **options: Any
    ) -> Callable[..., SessionChatMessageHistory]:
        """What `RunnableWithMessageHistory` takes as `get_session_history`.

        Args:
            sessions: The service.
            session_key: The config key of the session.
            user_key: The config key of the user, if there is one; pass `config_fields` along then.
            options: For each history, as for the class. Ids come from a config: an empty user is nobody.

        Raises:
            InvalidInputError: `sessions` is something else, such as a URL.
        """
        log_of(sessions)

        def open_history(*given: Any, **named: Any) -> SessionChatMessageHistory:
            values = {**dict(zip(names, given, strict=False)), **named}
            user = None if user_key is None else user_named(values[user_key])
            return cls(str(values[session_key]), sessions, user_id=user, **options)

        names = [session_key] if user_key is None else [user_key, session_key]
        # The runnable asks for the names of the parameters and wants them to be the keys.
        parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=str) for name in names]
        cast("Any", open_history).__signature__ = Signature(parameters)
        return open_history

    @staticmethod
    def config_fields(session_key: str = "session_id", user_key: str = "user_id") -> list[ConfigurableFieldSpec]:
        """The `history_factory_config` of a factory with a user key."""
        return [
            ConfigurableFieldSpec(id=user_key, annotation=str, name="User", is_shared=True),
            ConfigurableFieldSpec(id=session_key, annotation=str, name="Session", is_shared=True),
        ]


def _sendable(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages of which those of turns that are over are as providers take them, and unchanged where they are so.

    Two answers in a row stay two, though some providers refuse that: whoever reads a history wants both of them.

    What is still going on keeps its ids: whoever executes its calls adds results under what was read here.
    """
    last = messages[-1] if messages else None
    cut = len(messages)
    if last is not None and (isinstance(last, ToolMessage) or call_ids(last)):
        cut = next((at for at in range(cut - 1, -1, -1) if isinstance(messages[at], HumanMessage)), 0)
    asked = [call for message in messages[cut:] for call in call_ids(message)]
    return [*made_valid(messages[:cut], cut, taken=asked, joins=False), *map(mended, messages[cut:])]


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
