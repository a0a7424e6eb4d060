"""What an event is: one entry of a conversation's log, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from langchain_sessions._core.edge import helpful, pointing
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.showing import brief, html_of, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from langchain_core.messages import BaseMessage

_REPR_TEXT = 60


class EventKind(Enum):
    """What an entry of the log is."""

    MESSAGE = "message"
    STATE = "state"
    REWIND = "rewind"
    COMPACTION = "compaction"
    INVOCATION = "invocation"
    LIFECYCLE = "lifecycle"
    BLANK = "blank"
    """What earlier events said was overwritten; `covers` names them."""
    UNKNOWN = "unknown"
    """A record that a later release wrote; it is kept and returned."""


class Standing(Enum):
    """Where an event stands after all that came later. Nothing but `delete` removes one."""

    LIVE = "live"
    ARCHIVED = "archived"
    """A compaction covers it; recall still finds it."""
    SUPERSEDED = "superseded"
    """An edit took its place."""
    REWOUND = "rewound"
    """A rewind went back before it."""
    DETACHED = "detached"
    """The newest checkpoint of the thread no longer holds it."""
    OPEN = "open"
    """Its invocation is still running."""
    FAILED = "failed"
    """Its invocation failed, or stayed open past the limit."""
    INTERRUPTED = "interrupted"
    """Its invocation was broken off; what there is stays in the context."""


class InvocationStatus(Enum):
    """How far one run of the model over the session got."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@helpful
@dataclass(frozen=True, kw_only=True, slots=True)
class NewEvent:
    """An event to append, when a bare message does not say enough.

    Attributes:
        message: The message; None for an entry that only changes state or carries metadata.
        id: Names this append: a second append with the same id and message stores nothing. By default the
            message's id; else derived from the invocation and the position in it; else random.
        author: Who speaks, for example an agent's name.
        branch: Dotted path of the agent; None is the root that all agents see.
        invocation_id: The run that the event belongs to.
        state_delta: Changes of state; None deletes a key; `user:` and `app:` prefixes reach further.
        metadata: The caller's own data.
        timestamp: When it happened, aware; by default now.
        long_running_tool_ids: Calls of this message whose results may come much later.
        error_code: What went wrong, for an event that reports a failure.
        error_message: The same in words.
        grounding: Sources of the answer, as the provider reported them.
        interrupted: The message is only the part that was received.
        partial: A streaming chunk. It is never stored.
        synthetic: Made by the library or an application, not said by anybody.
    """

    message: BaseMessage | None = None
    id: str | None = None
    author: str | None = None
    branch: str | None = None
    invocation_id: str | None = None
    state_delta: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    timestamp: datetime | None = None
    long_running_tool_ids: tuple[str, ...] = ()
    error_code: str | None = None
    error_message: str | None = None
    grounding: Mapping[str, Any] | None = None
    interrupted: bool = False
    partial: bool = False
    synthetic: bool = False

    def __repr__(self) -> str:
        """Short: what was given."""
        return brief(self)


class _Message:
    """The message of an event: what was given, or what its stored form is decoded to when somebody first asks for it.

    An append does not decode what it has just encoded: few callers look at what it returns.
    """

    def __get__(self, event: SessionEvent | None, owner: type[SessionEvent]) -> BaseMessage | None:
        # Called where the instance has no message of its own; on the class it is the field's default.
        if event is None:
            return None
        known = event.__dict__
        _read_now(known)
        decode = known.get("_decode")
        if decode is None:
            return known.get("message")
        message: BaseMessage = known.setdefault("message", decode())
        known.pop("_decode", None)
        return message


def _read_now(known: dict[str, Any]) -> None:
    """What an append left for later; two threads may come at once, and read the same."""
    read = known.get("_read")
    if read is not None:
        told, *args = read
        known.update(told(*args))
        known.pop("_read", None)


@pointing
@dataclass(frozen=True, kw_only=True)
class SessionEvent:
    """One entry of the log, as it was stored.

    Attributes:
        id: Names the append; unique among the standing events of the session.
        session_id: The session.
        seq: Its place in the log: 1, 2, 3 … without a gap. The only log order.
        position: Its place in the context: `seq`, but a summary stands where the first event that it covers
            stood, and an edit where the event stood that it replaces.
        timestamp: When it happened, aware UTC; data, never an order.
        kind: A message, or a record of something that happened to the log.
        message: The message; None for records.
        standing: Where it stands now.
        author: Who spoke.
        branch: The scope that it was said in; None is root.
        invocation_id: The run that it belongs to.
        state_delta: The changes of state that it carries.
        metadata: The caller's own data.
        long_running_tool_ids: Calls whose results may come much later.
        error_code: What went wrong.
        error_message: The same in words.
        grounding: Sources of the answer.
        is_synthetic: Made by a compaction, not said by anybody.
        is_interrupted: Only the part that was received.
        covers: Runs of the seqs that a synthetic event or a compaction record stands for, that a rewind went back over,
            or that `blank` overwrote.
        tokens: What the message counts for.
        revision: 0, or how often this message id was written before.
        archived_by: Seq of the compaction that archived it.
        superseded_by: Seq of the edit that took its place.
        is_in_thread: A root checkpoint of the LangGraph thread holds or held it.
        is_blanked: What it said was overwritten by `blank`; its message says so instead.
    """

    id: str
    session_id: str
    seq: int
    position: int
    timestamp: datetime
    kind: EventKind = EventKind.MESSAGE
    message: BaseMessage | None = cast("Any", _Message())  # noqa: RUF009 - a descriptor, which answers None
    standing: Standing = Standing.LIVE
    author: str | None = None
    branch: str | None = None
    invocation_id: str | None = None
    state_delta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    long_running_tool_ids: tuple[str, ...] = ()
    error_code: str | None = None
    error_message: str | None = None
    grounding: Mapping[str, Any] | None = None
    is_synthetic: bool = False
    is_interrupted: bool = False
    covers: tuple[tuple[int, int], ...] = ()
    tokens: int = 0
    revision: int = 0
    archived_by: int | None = None
    superseded_by: int | None = None
    is_in_thread: bool = False
    is_blanked: bool = False

    @property
    def scope(self) -> str | None:
        """The branch that its turn and its compaction belong to: what reached a thread's root list is root's."""
        return None if self.is_in_thread else self.branch

    if not TYPE_CHECKING:  # which finds every field declared

        def __getattr__(self, name: str) -> object:
            """A field of an event that was appended now, which nobody has looked at yet."""
            known = self.__dict__
            _read_now(known)
            if name in known:
                return known[name]
            raise AttributeError(name, name=name, obj=self)

    def __getstate__(self) -> dict[str, Any]:
        """All fields, the message among them: a copy does not need the store's codec."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        """Short: position, standing, speaker and the beginning of the text."""
        stand = "" if self.standing is Standing.LIVE else f" {self.standing.value}"
        if self.message is None:
            return f"<SessionEvent {self.seq}{stand} {self.kind.value}>"
        return f"<SessionEvent {self.seq}{stand} {self.message.type} {shortened(str(self.message.text), _REPR_TEXT)!r}>"

    def _repr_html_(self) -> str:
        return html_of(f"Event of session {self.session_id!r}", [self])

    def _shown(self) -> Mapping[str, object]:
        said = self.message
        return {
            "seq": self.seq,
            "standing": self.standing.value,
            "what": self.kind.value if said is None else said.type,
            "author": self.author,
            "branch": self.branch,
            "text": None if said is None else said.text,
        }


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
