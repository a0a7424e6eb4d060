"""What a filter means: its stored form, and that form as a predicate of a row.

The predicate is the reference that every SQL translation must equal. A new criterion is a field of `EventFilter` and
one here, and what `query_of` and `matches` say of it; or, where only a message can tell, one of `message_tests`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.text import searchable_text
from langchain_sessions._core.edge import ascii_lower, bounded, fold, is_storable, to_micros
from langchain_sessions._core.ledger import LogView, visible_scopes
from langchain_sessions._core.message_types import ENTRY_CODES, ROLE_CODES, only_tool_of, speaker_of, tools_of
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions.events import Standing
from langchain_sessions.filters import ANY_BRANCH, AnyBranch, EventFilter
from langchain_sessions.stores._values import EventSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.ranges import SeqRange
    from langchain_sessions._core.rows import EventRow

    MessageTest = Callable[[EventRow, BaseMessage], bool]

_NO_KIND: Final = -1
_WINDOW: Final = frozenset({"newest", "limit", "offset", "with_total", "idle_before", "predicate", "match_all"})
INDEXED: Final = frozenset({"kinds", "authors", "branch", "synthetic", "tools", "without_tools"})
"""The criteria that the index of recall decides as a row does. Of all others it asks the row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventQuery:
    """The criteria of an `EventFilter` in stored form, and a window.

    An event that names no author may be anybody's: it meets `authors`, and `predicate` asks its message. `idents` are
    of messages that are known; without a window only these rows are read.

    Rows come back oldest first. `newest` counts the window from the end. `predicate` is asked for each row that
    meets everything else, before the window; it is for what no database compares alike.
    """

    kinds: frozenset[int] = frozenset()
    standings: frozenset[Standing] = frozenset()
    synthetic: bool | None = None
    since: int | None = None
    until: int | None = None
    keyword: str | None = None
    keywords: tuple[str, ...] = ()
    match_all: bool = True
    branch: str | AnyBranch | None = ANY_BRANCH
    authors: frozenset[str] = frozenset()
    invocation_id: str | None = None
    idents: frozenset[str] = frozenset()
    after_seq: int | None = None
    before_seq: int | None = None
    newest: bool = False
    limit: int | None = None
    offset: int = 0
    with_total: bool = False
    predicate: Callable[[EventRow], bool] | None = None
    idle_before: int = 0


def query_of(
    wanted: EventFilter,
    codec: MessageCodec,
    *,
    session_id: str = "",
    idle_before: int = 0,
    with_total: bool = False,
) -> EventQuery:
    """A filter in stored form; the session, where it is of one, is what errors name."""
    codes = {ROLE_CODES[name] for name in wanted.roles}
    kinds = {code for kind in wanted.kinds for code in ENTRY_CODES[kind]} or codes
    if codes:
        # No kind at all would mean every kind.
        kinds = kinds & codes or {_NO_KIND}
    standings = wanted.standings
    if wanted.archived is not None:
        chosen = {Standing.ARCHIVED} if wanted.archived else frozenset(Standing) - {Standing.ARCHIVED}
        standings = frozenset((standings or frozenset(Standing)) & chosen)
        kinds = kinds if standings else {_NO_KIND}
    run = wanted.invocation_id
    if run is not None and not is_storable(run):
        run, kinds = None, {_NO_KIND}  # no event has such a name, and no database takes it
    is_sealed = codec.encrypts
    tests = message_tests(wanted, codec)
    return EventQuery(
        kinds=frozenset(kinds),
        standings=frozenset(standings),
        synthetic=wanted.synthetic,
        since=None if wanted.since is None else to_micros(wanted.since),
        until=None if wanted.until is None else to_micros(wanted.until),
        keyword=None if is_sealed or wanted.keyword is None else fold(wanted.keyword),
        keywords=() if is_sealed else tuple(map(fold, wanted.keywords)),
        match_all=wanted.match == "all",
        branch=wanted.branch,
        # Of those that no event has the test of the message, which is asked as well, is as sure.
        authors=frozenset(filter(is_storable, wanted.authors)),
        invocation_id=run,
        after_seq=None if wanted.after_seq is None else bounded(wanted.after_seq),
        before_seq=None if wanted.before_seq is None else bounded(wanted.before_seq),
        newest=wanted.is_newest_first,
        limit=None if wanted.limit is None else bounded(wanted.limit),
        offset=wanted.offset,
        with_total=with_total,
        predicate=_predicate(tests, codec, session_id) if tests else None,
        idle_before=idle_before,
    )


def _predicate(tests: Mapping[str, MessageTest], codec: MessageCodec, session_id: str) -> Callable[[EventRow], bool]:
    def holds(row: EventRow) -> bool:
        return row.kind < k.FIRST_RECORD and passes(tests, row, codec.decode(session_id, row))

    return holds


def passes(tests: Mapping[str, MessageTest], row: EventRow, message: BaseMessage) -> bool:
    """Whether a message passes all of some tests."""
    return all(test(row, message) for test in tests.values())


def message_tests(wanted: EventFilter, codec: MessageCodec) -> dict[str, MessageTest]:
    """What of a filter only the message itself can tell, no database, by the name of the criterion."""
    tests: dict[str, MessageTest] = {}
    if authors := wanted.authors:
        tests["authors"] = lambda row, message: (row.author or speaker_of(message)) in authors
    if tools := wanted.tools:
        tests["tools"] = lambda _, message: not tools.isdisjoint(tools_of(message))
    if without := wanted.without_tools:
        tests["without_tools"] = lambda _, message: only_tool_of(message) not in without
    if (pattern := wanted.pattern) is not None:
        tests["pattern"] = lambda _, message: pattern.search(searchable_text(message)) is not None
    if codec.encrypts and (wanted.keyword is not None or wanted.keywords):
        # Of what is sealed no database holds the words.
        tests["keywords"] = _keyword_test(wanted)
    return tests


def _keyword_test(wanted: EventFilter) -> MessageTest:
    word = None if wanted.keyword is None else fold(wanted.keyword)
    words = tuple(map(fold, wanted.keywords))
    enough = all if wanted.match == "all" else any

    def holds(_: EventRow, message: BaseMessage) -> bool:
        folded = fold(searchable_text(message))
        return (word is None or word in folded) and (not words or enough(each in folded for each in words))

    return holds


def needs_row(query: EventQuery, standings: frozenset[Standing]) -> bool:
    """Whether an index that leaves out all but some standings cannot decide everything that a query asks of a row."""
    asked = {each.name for each in fields(EventQuery) if getattr(query, each.name) != each.default}
    return bool(asked - _WINDOW - INDEXED - {"standings"}) or query.standings != standings


def matches(row: EventRow, query: EventQuery, view: LogView) -> bool:
    """Whether a row meets every criterion of the query but its window."""
    return (
        (not query.kinds or row.kind in query.kinds)
        and (query.since is None or row.at >= query.since)
        and (query.until is None or row.at <= query.until)
        and (query.synthetic is None or bool(row.flags & r.SYNTHETIC) is query.synthetic)
        and (not query.authors or row.author is None or row.author in query.authors)
        and (query.invocation_id is None or row.invocation_id == query.invocation_id)
        and (not query.idents or row.ident in query.idents)
        and (query.after_seq is None or row.seq > query.after_seq)
        and (query.before_seq is None or row.seq < query.before_seq)
        and (isinstance(query.branch, AnyBranch) or sees(query.branch, row))
        and (not query.standings or view.standing(row) in query.standings)
        and (not asks_for_words(query) or holds_keywords(row, query))
        and (query.predicate is None or query.predicate(row))
    )


def sees(viewer: str | None, row: EventRow) -> bool:
    """Whether a viewer on a branch sees the row; what reached the root list everybody sees."""
    return bool(row.flags & r.ROOTED) or row.branch in visible_scopes(viewer)


def compared_text(row: EventRow) -> str | None:
    """What keyword search compares; None where there is no text."""
    if row.folded is not None:
        return row.folded
    return None if row.text is None else ascii_lower(row.text)


def asks_for_words(query: EventQuery) -> bool:
    """Whether a query has keywords."""
    return query.keyword is not None or bool(query.keywords)


def holds_keywords(row: EventRow, query: EventQuery) -> bool:
    """Whether a row has the keywords of a query, which has some."""
    text = compared_text(row)
    if text is None or (query.keyword is not None and query.keyword not in text):
        return False
    if not query.keywords:
        return True
    found = (word in text for word in query.keywords)
    return all(found) if query.match_all else any(found)


def cut_window(rows: Iterable[EventRow], query: EventQuery, view: LogView) -> EventSlice:
    """The window of the query over rows that meet it, given in log order."""
    found = list(rows)
    total = len(found) if query.with_total else None
    if query.newest:
        found.reverse()
    if query.limit is not None:
        found = found[query.offset : query.offset + query.limit]
    elif query.offset:
        found = found[query.offset :]
    if query.newest:
        found.reverse()
    return EventSlice(found, view, total)


def may_have_moved_on(
    rows: Iterable[EventRow], head: Iterable[SeqRange] | None, standings: Collection[Standing] = ()
) -> bool:
    """Whether a checkpoint may have come between the read of a session and that of its events.

    It marks what it takes into its thread, and the list that was read before has not got that. Of what is left out
    since it does not stand as it was asked for, nobody can tell.
    """
    if standings and Standing.DETACHED not in standings:
        return True
    marked = SeqSet.of(row.seq for row in rows if row.flags & r.ROOTED)
    return bool(marked and marked - SeqSet.of_runs(head or ()))
