"""The stored form: what crosses the border between the service and a store.

Rows are plain tuples of strings, integers and None. Bodies are opaque to a store: the codec made them and
reads them. Times are microseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langchain_sessions._core.codec.values import dump_json, read_json
from langchain_sessions._core.expiry import renewed
from langchain_sessions._core.message_types import FIRST_RECORD, HUMAN
from langchain_sessions._core.packed_texts import said_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from langchain_sessions.stores._values import SessionDraft

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
BLANKED = 512
"""What it said was overwritten; only who said it, when and where is left."""
MARK_SHIFT = 12
"""Three bits from here on: the invocation status that the entry reports, 0 for none."""

MARKS = {"open": 1, "done": 2, "failed": 3, "interrupted": 4}
MARK_NAMES = {code: name for name, code in MARKS.items()}
TURN_OF = "turn:"
"""Begins the id of a run whose question stood in the log before it: a checkpoint or the application put it there."""
ALL_AWAKE: Final = 0
"""What a run says counts until something happens to it: that it has been idle for too long is found by who reads."""
YEARS: Final = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
"""The times that Python has a date for: the years 1 to 9999."""


WORDED: Final = ("flags", "tokens", "delta", "text", "folded", "body", "extra")
"""What of an entry says something, or how much: what `blank` overwrites. Other columns say who, when and where."""


class EventRow(NamedTuple):
    """One entry of a log: the one list of the columns that an event has, which all but the schema go by.

    Rows are stored by position too, so another column comes last, and has a default.

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
    def is_sound(self) -> bool:
        """Whether its fields are of the kinds that are written, its time a date; asked where something went wrong."""
        numbers = (self.seq, self.rev, self.kind, self.flags, self.at, self.tokens)
        names = (self.branch, self.author, self.invocation_id)
        return (
            all(type(each) is int for each in numbers)
            and all(each is None or isinstance(each, str) for each in names)
            and self.at in YEARS
        )

    @property
    def scope(self) -> str | None:
        """The branch that turns and compactions count it in; what reached the root list is root's."""
        return None if self.flags & ROOTED else self.branch


STORED: Final = (*EventRow._fields, "packed")
"""What databases keep of an entry, in one row: a long text lies in the last column, deflated."""
SAID: Final = ("seq", "ident", "kind", "flags", "invocation_id", "text", "body")
"""What of most messages tells what was said, and where it stands."""
PLAIN: Final = (*SAID, "at", "tokens")
"""What most messages have, and no more."""
SELDOM: Final = tuple(name for name in EventRow._fields if name not in {*PLAIN, "rev", "folded"})
"""Of most messages there is none of these; `rev` is 0, and `folded` is for searches alone."""
LIGHT: Final = EventRow._fields[: EventRow._fields.index("delta")]
"""The leading columns, which hold no bodies."""
_NO_BODIES: Final = (None,) * (len(EventRow._fields) - len(LIGHT))
_tuple = tuple.__new__


def plain_rows(found: Iterable[tuple[Any, ...]]) -> list[EventRow]:
    """Rows of messages that have nothing `SELDOM`, from the values of the `PLAIN` columns."""
    # Spelled out: it is done for each message of a context, and taking columns by their places takes thrice as long.
    return [
        _tuple(
            EventRow,
            (seq, ident, 0, None, None, kind, flags, at, tokens, None, None, run, None, text, None, body, None),
        )
        for seq, ident, kind, flags, run, text, body, at, tokens in found
    ]


def stored_row(found: tuple[Any, ...]) -> EventRow:
    """A row from the values of its columns and, behind them, of the one that holds a packed text."""
    row: EventRow = _tuple(EventRow, found[:-1])
    if found[-1] is None or row.text is not None:  # a release that knows of no packed texts wrote another one
        return row
    text, folded = said_in(found[-1])
    return row._replace(text=text, folded=folded)


def light_row(values: tuple[Any, ...]) -> EventRow:
    """A row without bodies, from the values of the `LIGHT` columns."""
    return EventRow(*values, *_NO_BODIES)


_APART: Final = ("event_id", "position", "branch", "author", "invocation_id", "delta", "extra")
_apart: Callable[[EventRow], tuple[object, ...]] = itemgetter(*map(EventRow._fields.index, _APART))
_said: Callable[[EventRow], tuple[object, ...]] = itemgetter(*map(EventRow._fields.index, ("text", "folded", "body")))
_NOTHING: Final = (None,) * len(_APART)


def held_by(row: EventRow) -> tuple[object, ...]:
    """Which columns of a row hold nothing, of those that may."""
    text, folded, body = _said(row)
    # Of nearly every row nothing stands apart: that is found by functions of C.
    apart = _apart(row)
    seldom = () if apart == _NOTHING else tuple([value is None for value in apart])
    return seldom, text is None, folded is None, body is None


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

    @property
    def log(self) -> SessionLog:
        """What a reader of its log needs of it."""
        return SessionLog(self.skey, self.last_seq, self.ledger, self.head_runs)


class SessionLog(NamedTuple):
    """What a reader of a log needs of its session: every column takes a driver some time."""

    skey: int
    last_seq: int
    ledger: str | None
    head_runs: bytes | None


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
    activity: int


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

    def __reduce__(self) -> str:
        """The one there is, also pickled or copied."""
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


def tally(rows: Iterable[EventRow]) -> dict[str | None, Counters]:
    """What rows add to the counters of each scope."""
    counted: dict[str | None, Counters] = {}
    for row in rows:
        if row.kind >= FIRST_RECORD:
            continue
        scope = row.scope
        turn = 1 if row.flags & TURN else 0
        was = counted.get(scope)
        if was is None:
            counted[scope] = Counters(1, turn, row.tokens)
        else:
            counted[scope] = Counters(was.events + 1, was.turns + turn, was.tokens + row.tokens)
    return counted


def counted(rows: Iterable[EventRow]) -> tuple[int, int, int]:
    """What the messages of a batch of one branch add to its counters."""
    events = turns = tokens = 0
    for row in rows:
        if row.kind < FIRST_RECORD:
            events += 1
            tokens += row.tokens
            if row.flags & TURN:
                turns += 1
    return events, turns, tokens


ACTIVITY_GRAIN: Final = 60_000_000
"""Activity is indexed to the minute: an indexed time that moves with every append defeats PostgreSQL's HOT."""


def new_session_row(skey: int, draft: SessionDraft) -> SessionRow:
    """The row of a session that was just created."""
    return SessionRow(
        skey=skey,
        app=draft.app,
        id=draft.id,
        user_id=draft.user_id,
        title=draft.title,
        metadata=draft.metadata,
        initial_state=draft.state,
        state=draft.state,
        created_at=draft.now,
        updated_at=draft.now,
        activity=draft.now,
        expires_at=draft.expires_at,
        renewal=draft.renewal,
        renewal_grain=draft.renewal_grain,
        ended_at=None,
        last_seq=0,
        live_events=0,
        live_turns=0,
        live_tokens=0,
        aliased=0,
        ledger=None,
        head_id=None,
        head_runs=None,
    )


def merged_changes(session: SessionRow, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that an update sets; the keys of `metadata` are merged into the stored ones, None deletes."""
    values = dict(changes)
    if "metadata" in values:
        merged = {**json.loads(session.metadata), **json.loads(values["metadata"])}
        kept = {key: value for key, value in merged.items() if value is not None}
        values["metadata"] = json.dumps(kept, separators=(",", ":"))
    return values


def moved(session: SessionRow, count: int, now: int) -> dict[str, Any]:
    """The columns of a session row that every change of its log moves.

    A clock that is behind another writer's moves no time back: lists look for a session no later than its activity.
    """
    times = due_times(now, session.activity, session.expires_at, session.renewal, session.renewal_grain)
    return {"last_seq": session.last_seq + count, "updated_at": max(session.updated_at, now), **times}


def due_times(
    now: int, activity: int, expires_at: int | None, renewal: int | None, renewal_grain: int | None
) -> dict[str, int]:
    """The times of a session that a change of its log moves on: those that are kept by the minute or the hour."""
    changes: dict[str, int] = {}
    if activity <= now - ACTIVITY_GRAIN:
        changes["activity"] = now
    if renewal is not None and renewal_grain is not None and expires_at is not None:
        due = renewed(expires_at, renewal, renewal_grain, now)
        if due is not None:
            changes["expires_at"] = due
    return changes


OWNER_SHAPES: Final[Mapping[type, str]] = {Anyone: "any", type(None): "none"}
"""Which owner criterion a statement carries, by the type of the owner; `is` for a user's id."""


def owner_shape(owner: Owner) -> str:
    """Which of the three owner criteria a statement carries."""
    return OWNER_SHAPES.get(type(owner), "is")


def with_extra(extra: str | None, key: str, value: object) -> str:
    """The `extra` document with one more entry."""
    document = read_json(extra) if extra else {}
    document[key] = value
    return dump_json(document)


def numbered(
    row: EventRow, seq: int, revisions: Iterable[EventRow], current: EventRow | None, *, is_rooted: bool = False
) -> EventRow:
    """A new event in its place: behind all others, or in that of the revision before it.

    Args:
        row: The event.
        seq: Its position.
        revisions: Every stored event of the same message.
        current: The one that it replaces, if any.
        is_rooted: Whether a thread's root list replaces it.
    """
    # Of all that were ever stored, rewound ones too: (session, ident, rev) is unique.
    rev = max((old.rev for old in revisions), default=-1) + 1
    if current is None:
        # An id that a rewind freed keeps its name: only an edit is named by its revision.
        return row._replace(seq=seq, rev=rev)
    mark = [current.seq, current.place, 1] if is_rooted else [current.seq, current.place]
    return row._replace(
        seq=seq,
        rev=rev,
        flags=row.flags | EDIT,
        position=current.place,
        # It stands in the place of the other, so that it is seen by whoever saw that one.
        branch=current.branch,
        extra=with_extra(row.extra, "mark", mark),
    )


def bytes_of(rows: Iterable[EventRow]) -> int:
    """About how much there is to read in some events."""
    size = 0
    for row in rows:
        if row.text is not None:
            size += len(row.text)
        if row.body is not None:
            size += len(row.body)
    return size
