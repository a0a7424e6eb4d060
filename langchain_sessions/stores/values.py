"""The values of the contract: what a store is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.rows import Counters, EventRow, Owner, SessionHeading, SessionRow
from langchain_sessions.filters import ANY_BRANCH, AnyBranch

if TYPE_CHECKING:
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.events import Standing

SameMessage = Callable[[EventRow, EventRow], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionDraft:
    """A session to create or open."""

    app: str
    id: str
    user_id: str | None
    now: int
    title: str | None = None
    metadata: str = "{}"
    state: str = "{}"
    scoped_delta: str | None = None
    expires_at: int | None = None
    renewal: int | None = None
    renewal_grain: int | None = None
    anew: bool = True


class AppendBatch(NamedTuple):
    """Events to append in one transaction.

    Attributes:
        rows: The events, `seq` still 0, `rev` still 0.
        now: The time of the append.
        same: Whether a stored row and a new one hold the same message.
        expected_version: Append only if this is the newest position.
        replaces_only: Every row must replace a standing message (an edit).
        idle_before: An invocation that is open and was not touched since counts as failed.
    """

    rows: tuple[EventRow, ...]
    now: int
    same: SameMessage
    expected_version: int | None = None
    replaces_only: bool = False
    idle_before: int = 0


class Appended(NamedTuple):
    """What an append stored: one row for each of the batch, new or found, and the version after it.

    `view` says where they stand; None where all of them are new and live.
    """

    rows: tuple[EventRow, ...]
    version: int
    view: LogView | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EventQuery:
    """The criteria of an `EventFilter` in stored form, and a window.

    Rows come back oldest first. `newest` counts the window from the end. `predicate` is asked for each row that
    meets everything else, before the window; it is for what no database compares alike.
    """

    kinds: frozenset[int] = frozenset()
    standings: frozenset[Standing] = frozenset()
    exclude_synthetic: bool = False
    since: int | None = None
    until: int | None = None
    keyword: str | None = None
    keywords: tuple[str, ...] = ()
    match_all: bool = True
    branch: str | AnyBranch | None = ANY_BRANCH
    authors: frozenset[str] = frozenset()
    invocation_id: str | None = None
    after_seq: int | None = None
    before_seq: int | None = None
    newest: bool = False
    limit: int | None = None
    offset: int = 0
    with_total: bool = False
    predicate: Callable[[EventRow], bool] | None = None
    idle_before: int = 0


class EventSlice(NamedTuple):
    """Rows of a log, oldest first, with what decides where they stand."""

    rows: list[EventRow]
    view: LogView
    total: int | None = None


class ContextSlice(NamedTuple):
    """The rows of one viewer's context, in context order."""

    session: SessionRow
    rows: list[EventRow]
    view: LogView


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindPlan:
    """Where to go back to: a position, or the event before an invocation; and the record to append."""

    record: EventRow
    now: int
    to_seq: int | None = None
    before_invocation: str | None = None
    undo: bool = False
    reset_thread: bool = False


class Rewound(NamedTuple):
    """What a rewind did: its record, the position gone back to, and `user:`/`app:` keys that it left alone."""

    record: EventRow
    to_seq: int
    kept_keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivePlan:
    """A compaction to commit, valid as long as its range was not touched.

    Attributes:
        scope: The branch that it compacts.
        covered: Positions of the log that it archives, beyond those archived already.
        base_version: The version that it was planned at. Appends since then do not matter.
        base_record: Record of the compaction in force then; 0 for none.
        record: The record to append.
        summaries: The events that stand for what is covered; they take its first position. Empty keeps the
            summaries in force.

    """

    scope: str | None
    covered: SeqSet
    base_version: int
    base_record: int
    record: EventRow
    now: int
    summaries: tuple[EventRow, ...] = ()
    idle_before: int = 0


class StateRows(NamedTuple):
    """State as stored: the session's document, then the user's and the app's values by bare key."""

    session: str
    user: dict[str, str]
    app: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionQuery:
    """Which sessions to list: newest activity first, after a place that an earlier answer named."""

    app: str
    owner: Owner
    now: int
    limit: int
    after: tuple[int, ...] | None = None


class SessionSlice(NamedTuple):
    """A page of sessions and the place of the next; None at the end."""

    rows: list[SessionHeading]
    after: tuple[int, ...] | None


class ScopeMeasure(NamedTuple):
    """What decides whether a scope is to be compacted: its session and its counters."""

    session: SessionRow
    counters: Counters
