"""The stored form: what crosses the border between the service and a store.

Rows are plain tuples of strings, integers and None. Bodies are opaque to a store: the codec made them and
reads them. Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import NamedTuple

# Kinds of entries. Message kinds are small and positive, records of other happenings are 32 and above.
HUMAN, AI, SYSTEM, TOOL, CHAT, FUNCTION, OTHER = 1, 2, 3, 4, 5, 6, 7
STATE, REWIND, COMPACTION, INVOCATION, LIFECYCLE = 32, 33, 34, 35, 36
FIRST_RECORD = 32

# Flags of an entry.
SYNTHETIC = 1
ROOTED = 2
"""A root checkpoint holds or held it: the newest root checkpoint decides whether it is live."""
NO_MESSAGE_ID = 4
INTERRUPTED = 8
TURN = 16
"""A human message that was really said."""
DIGEST_ID = 32
"""`ident` is a digest; the real message id is in the body."""
SEALED = 64
"""The body went through an encrypting codec; nothing of it is readable."""
SUMMARY = 128
"""Made by the compaction whose record follows it; stands as long as that is in force."""
EDIT = 256
"""Takes the place of an earlier revision of the same message."""
MARK_SHIFT = 12
"""Three bits from here on: the invocation status that the entry reports, 0 for none."""

MARKS = {"open": 1, "done": 2, "failed": 3, "interrupted": 4}
MARK_NAMES = {code: name for name, code in MARKS.items()}
TURN_OF = "turn:"
"""Begins the id of a run whose question stood in the log before it: a checkpoint or the application put it there."""


class EventRow(NamedTuple):
    """One entry of a log.

    `ident` identifies the message: its id where it has one, else the event's. (session, ident, rev) is unique.
    `event_id` is set where the append was named otherwise. `position` is None where it equals `seq`.
    `text` is the message's text where it is one plain string; `folded` what keyword search compares, None where
    the ASCII lower case of `text` serves; `body` the remaining fields; `extra` metadata and other rare fields.
    """

    seq: int
    ident: str
    rev: int
    event_id: str | None
    position: int | None
    kind: int
    flags: int
    at: int
    tokens: int
    branch: str | None
    author: str | None
    invocation_id: str | None
    delta: str | None
    text: str | None
    folded: str | None
    body: str | None
    extra: str | None

    @property
    def place(self) -> int:
        """The context position."""
        return self.seq if self.position is None else self.position

    @property
    def id(self) -> str:
        """The id of the append."""
        if self.event_id is not None:
            return self.event_id
        return f"{self.ident}~{self.rev}" if self.flags & EDIT else self.ident

    @property
    def run(self) -> str | None:
        """The run that it belongs to: its invocation, or the one that a question from before any run gave its name."""
        if self.invocation_id is None and self.kind == HUMAN:
            return TURN_OF + self.ident
        return self.invocation_id

    @property
    def scope(self) -> str | None:
        """The branch that turns and compactions count it in; what reached the root list is root's."""
        return None if self.flags & ROOTED else self.branch


class SessionRow(NamedTuple):
    """One session. `skey` is the store's own key: an integer that is never used again."""

    skey: int
    app: str
    id: str
    user_id: str | None
    title: str | None
    metadata: str
    initial_state: str
    state: str
    created_at: int
    updated_at: int
    activity: int
    expires_at: int | None
    renewal: int | None
    renewal_grain: int | None
    ended_at: int | None
    last_seq: int
    live_events: int
    live_turns: int
    live_tokens: int
    aliased: int
    ledger: str | None
    head_id: str | None
    head_runs: bytes | None

    @property
    def heading(self) -> SessionHeading:
        """What a list shows of it."""
        return SessionHeading(*(getattr(self, name) for name in SessionHeading._fields))


class SessionHeading(NamedTuple):
    """What a list shows of a session. State and ledger, which grow with the log, stay where they are."""

    skey: int
    app: str
    id: str
    user_id: str | None
    title: str | None
    metadata: str
    created_at: int
    updated_at: int
    expires_at: int | None
    ended_at: int | None
    last_seq: int
    live_events: int
    live_turns: int
    live_tokens: int


class InvocationRow(NamedTuple):
    """One run of a model over a session: where it begins in the log and how far it got."""

    id: str
    first_seq: int
    status: int
    updated_at: int


class Mark(NamedTuple):
    """An index entry of the log: an event that changes where others stand."""

    seq: int
    kind: str
    data: str


class Counters(NamedTuple):
    """How much is live in one scope."""

    events: int = 0
    turns: int = 0
    tokens: int = 0


class Anyone:
    """The owner that matches every session: the operator's view."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Readable in tracebacks."""
        return "ANYONE"


ANYONE = Anyone()
Owner = str | Anyone | None
"""Whose sessions an operation may touch: one user's, those that nobody owns (None), or anyone's."""


class SessionKey(NamedTuple):
    """Names a session for one caller. A session of another owner is not there."""

    app: str
    id: str
    owner: Owner

    def admits(self, user_id: str | None) -> bool:
        """Whether a session of this user may be touched."""
        return isinstance(self.owner, Anyone) or self.owner == user_id
