"""Reading a context: the live part of a log, of a plain one as fast as its driver allows.

As `reading`, it needs no transaction.
"""

from __future__ import annotations

from functools import partial
from heapq import nlargest
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, case, literal_column, null, or_, select

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import LogView, visible_scopes
from langchain_sessions._core.packed_texts import text_in
from langchain_sessions._core.ranges import NO_SEQS, SeqSet
from langchain_sessions._core.rows import PLAIN, SAID, SELDOM, EventRow, SessionKey, SessionLog, owner_shape
from langchain_sessions._core.view import (
    MOST_READS,
    PlainRows,
    are_together,
    context_rows,
    elsewhere,
    is_reordered,
    listed_back,
    replaced,
    runs_together,
)
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.driver.workers import beside
from langchain_sessions._sql.log.criteria import (
    MOST_RANGES,
    Criterion,
    flagged,
    in_ranges,
    of_a_run,
    scope_values,
    visible,
)
from langchain_sessions._sql.log.lookup import (
    ask_view,
    has_unfinished,
    key_criteria,
    key_values,
    require_view,
    view_told,
    with_runs,
)
from langchain_sessions._sql.log.reading import select_events
from langchain_sessions.stores._values import ContextSlice


def load_context(
    tx: Transaction,
    key: SessionKey,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int | None,
    now: int,
    idle_before: int,
    said_only: bool = False,  # noqa: FBT001, FBT002 - as in the contract
) -> ContextSlice:
    """The contract's `load_context`: the live tail by position, and beside it what stands in archived places."""
    columns = SAID if said_only else PLAIN
    if tx.pipelines:
        session, view, plain = _in_one_packet(tx, key, viewer, last_n, now, idle_before, columns)
    else:
        session, view = require_view(tx, key, now, idle_before)
        plain = _plain(tx, session, viewer, last_n, columns) if view.is_plain and tx.flavour == "sqlite" else None
    if plain is not None:
        return ContextSlice(session, plain if are_together(plain.runs) else runs_together([*plain]), view)
    reads = 0
    while True:
        found, rows = _standing(tx, session, view, viewer, invocation_id, last_n, idle_before)
        reads += 1
        if reads == MOST_READS or (view.head is None and not any(row.flags & r.ROOTED for row in rows)):
            return found
        # A checkpoint that came meanwhile has taken messages into its thread, of which the head that was read has none.
        newer, newer_view = require_view(tx, key, now, idle_before)
        if newer.head_runs == session.head_runs:
            return found
        session, view = newer, newer_view


def _standing(
    tx: Transaction,
    session: SessionLog,
    view: LogView,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int | None,
    idle_before: int,
) -> tuple[ContextSlice, list[EventRow]]:
    """What stands in a context, and the rows that were read for it."""
    criteria = [_messages(tx), *_floors(tx, session, viewer, view)]
    by_list = last_n is not None and is_reordered(view)
    left_out, past = _left_out(tx, view, invocation_id, by_list=by_list)
    rows = _newest(tx, session, [*criteria, *left_out], last_n, past)
    rooted = [row for row in rows if row.flags & r.ROOTED] if last_n is not None and view.head is None else []
    if rooted:  # of a thread that was deleted
        rows = _newest(tx, session, [*criteria, *left_out, _beside_threads(tx)], last_n, past) + rooted
    # What stands at another place than its own may belong into the window, wherever it was logged.
    known = SeqSet.of(row.seq for row in rows)
    if last_n is not None and len(rows) == last_n and rows and not view.head:
        near = elsewhere(view, rows[0].seq)
        rows += _at(tx, session, viewer, near - known)
        view = with_runs(tx, session, view, rows, idle_before)
        shown = context_rows(rows, view, viewer, invocation_id, last_n)
        if len(shown) == last_n:
            return ContextSlice(session, shown, view), rows
        known = known | near
    if last_n is not None and by_list:
        rows += (listed := _listed(tx, session, view, viewer, invocation_id, last_n, idle_before))
        known = known | SeqSet.of(row.seq for row in listed)
    rows += _at(tx, session, viewer, elsewhere(view) - known)
    view = with_runs(tx, session, view, rows, idle_before)
    return ContextSlice(session, context_rows(rows, view, viewer, invocation_id, last_n), view), rows


class _Past(NamedTuple):
    """What is read past, where SQL cannot leave it out.

    Attributes:
        gone: What stands no longer where it was logged.
        listed: Of messages that reached a thread's list, all but these; None where that is no matter.
    """

    gone: SeqSet = NO_SEQS
    listed: SeqSet | None = None

    def holds(self, row: EventRow) -> bool:
        """Whether a row is read past."""
        listed = self.listed
        return row.seq in self.gone or (listed is not None and bool(row.flags & r.ROOTED) and row.seq not in listed)


_NOTHING_PAST: Final = _Past()


def _newest(
    tx: Transaction, session: SessionLog, criteria: list[Criterion], last_n: int | None, past: _Past
) -> list[EventRow]:
    """The newest rows that meet criteria, but for what is read past."""
    if past == _NOTHING_PAST:
        return select_events(tx, session, criteria, newest=True, limit=last_n)
    limit = None if last_n is None else 2 * last_n
    while True:
        found = select_events(tx, session, criteria, newest=True, limit=limit)
        rows = [row for row in found if not past.holds(row)]
        if limit is None or last_n is None or len(found) < limit or len(rows) >= last_n:
            return rows if last_n is None else rows[max(0, len(rows) - last_n) :]
        limit *= 4


def _listed(
    tx: Transaction,
    session: SessionLog,
    view: LogView,
    viewer: str | None,
    invocation_id: str | None,
    last_n: int,
    idle_before: int,
) -> list[EventRow]:
    """The last of a thread's list: as many as stand in a window, or more."""
    rows: list[EventRow] = []
    standing = 0
    for seqs in listed_back(view, last_n):
        some = _at(tx, session, viewer, seqs)
        told = with_runs(tx, session, view, some, idle_before)
        standing += sum(told.in_context(row, invocation_id) for row in some)
        rows += some
        if standing >= last_n:
            break
    return rows


def _plain(
    tx: Transaction, session: SessionLog, viewer: str | None, limit: int | None, columns: tuple[str, ...]
) -> PlainRows | None:
    """SQLite: the newest messages of a log whose events all stand where they were logged, if they are plain messages.

    Every column of every row takes its driver as long as a small function, so half of them are only looked at: where
    something is in them, none of this is of use.
    """

    def build() -> Select[Any]:
        e = tx.tables.events.c
        found = _plain_rows(tx, viewer, columns, e.skey == param("skey"), e.seq <= param("q_last"))
        # Where no offset is named, SQLAlchemy has one sent with every call.
        return found.limit(param("q_limit")).offset(literal_column("0"))

    scopes = {} if viewer is None else scope_values(viewer)
    values: dict[str, Any] = {"skey": session.skey, "q_last": session.last_seq, **scopes}
    values["q_limit"] = -1 if limit is None else limit  # all of them, to SQLite
    return _if_plain(tx, tx.rows(tx.prepare(("plain events", len(scopes), len(columns)), build), values), columns)


def _in_one_packet(
    tx: Transaction,
    key: SessionKey,
    viewer: str | None,
    limit: int | None,
    now: int,
    idle_before: int,
    columns: tuple[str, ...],
) -> tuple[SessionLog, LogView, PlainRows | None]:
    """A server: the log, and with the same round trip what `_plain` reads, which is nothing of a log that is not.

    Raises:
        SessionNotFoundError: There is no session for this key.
    """
    scopes, shape = {} if viewer is None else scope_values(viewer), owner_shape(key.owner)

    def build() -> Select[Any]:
        s = tx.tables.sessions.c
        stands = (s.ledger.is_(None), s.head_runs.is_(None), ~has_unfinished(tx))
        skey = select(s.skey).where(*key_criteria(tx.tables, shape), *stands).scalar_subquery()
        found = _plain_rows(tx, viewer, columns, tx.tables.events.c.skey == skey)
        return found if limit is None else found.limit(param("q_limit"))

    located = ask_view(tx, key, now)
    statement = tx.prepare(("plain events of a key", shape, len(scopes), limit is None, len(columns)), build)
    found = tx.later(statement, {**key_values(key, now), **scopes, "q_limit": limit})
    tx.flush()
    session, view = view_told(key, located.row, idle_before)
    if session.ledger is not None or session.head_runs is not None or view.has_unfinished:
        return session, view, None
    rows = _if_plain(tx, found.rows, columns)
    # What was appended between the two is of a later version than the one that is read, and takes others' places.
    return session, view, None if rows and rows[-1].seq > session.last_seq else rows


def _plain_rows(
    tx: Transaction, viewer: str | None, named: tuple[str, ...], *of_log: ColumnElement[bool]
) -> Select[Any]:
    """The newest messages first; without a position where something is in columns that are never read here.

    Where the text is packed the position is below zero. SQLite then tells it in the text's place, which may hold bytes
    there: a column that is nearly always empty would be asked of every row. Others have it in a column behind.
    """
    e = tx.tables.events.c
    others = or_(
        e.rev != literal_column("0"),
        flagged(tx.tables, r.ROOTED),
        *(e[name].is_not(None) for name in SELDOM),
    )
    is_packed = e.packed.is_not(None) & e.text.is_(None)
    columns: list[ColumnElement[Any]] = [e[name] for name in named[1:]]
    if tx.flavour == "sqlite":
        columns[_TEXT - 1] = case((is_packed, e.packed), else_=e.text)
    else:
        columns.append(e.packed)
    found = select(case((others, null()), (is_packed, -e.seq), else_=e.seq), *columns)
    found = found.where(
        *of_log, e.kind < k.FIRST_RECORD, visible(viewer, tx.tables).build() & ~flagged(tx.tables, r.SUMMARY)
    )
    return found.order_by(e.skey.desc(), e.seq.desc())


_position = itemgetter(0)
_MOST_NAMED: Final = 16
"""Stretches of a log that each row of a tail is asked for."""
_TEXT = SAID.index("text")


def _if_plain(tx: Transaction, found: list[tuple[Any, ...]], columns: tuple[str, ...]) -> PlainRows | None:
    """The rows of `_plain_rows`, the oldest first; None where one of them says more."""
    positions = [*map(_position, found)]
    if None in positions:
        return None
    size = len(columns)
    if positions and (min(positions) < 0 or len(found[0]) > size):
        packed = (len(_packed_in(row, size)) for row in found if row[0] < 0)
        return beside(tx, packed, partial(_with_texts, found, size))
    return PlainRows(found[::-1])


def _with_texts(found: list[tuple[Any, ...]], size: int) -> PlainRows:
    return PlainRows([_with_text(row, size) if row[0] < 0 else row[:size] for row in reversed(found)])


def _with_text(row: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    """The first so many columns of a row whose text is packed."""
    return (-row[0], *row[1:_TEXT], text_in(_packed_in(row, size)), *row[_TEXT + 1 : size])


def _packed_in(row: tuple[Any, ...], size: int) -> bytes:
    packed: bytes = row[_TEXT] if len(row) == size else row[-1]
    return packed


def _messages(tx: Transaction) -> Criterion:
    return Criterion("messages", lambda: tx.tables.events.c.kind < k.FIRST_RECORD, {})


def _floors(tx: Transaction, session: SessionLog, viewer: str | None, view: LogView) -> list[Criterion]:
    """The tail of each scope that the viewer sees: what its compaction has not archived."""
    e = tx.tables.events.c
    covers = view.ledger.covers
    scopes = visible_scopes(viewer)
    floors = [covers[scope].upto if scope in covers else 0 for scope in scopes]
    values: dict[str, Any] = {"q_lowest": min(floors), "q_last": session.last_seq}
    values.update((f"q_floor{at}", floor) for at, floor in enumerate(floors))
    values.update((f"q_scope{at}", scope) for at, scope in enumerate(scopes) if scope is not None)

    def build() -> ColumnElement[bool]:
        rooted = flagged(tx.tables, r.ROOTED)
        tails = [or_(e.branch.is_(None), rooted) & (e.seq > param("q_floor0"))]
        tails += [(e.branch == param(f"q_scope{at}")) & (e.seq > param(f"q_floor{at}")) for at in range(1, len(scopes))]
        # Summaries stand elsewhere, or nowhere any more: here they would only use up the window.
        real = ~flagged(tx.tables, r.SUMMARY)
        return or_(*tails) & real & (e.seq > param("q_lowest")) & (e.seq <= param("q_last"))

    return [Criterion(("floors", len(scopes)), build, values)]


def _left_out(
    tx: Transaction, view: LogView, invocation_id: str | None, *, by_list: bool
) -> tuple[list[Criterion], _Past]:
    """What SQL leaves out of the tail, so that a window of n loads n rows, and what is read past.

    Of a plain log there is none. Of many scattered stretches the widest are named to SQL: to compile a statement that
    names hundreds, or to ask each row for them, takes longer than to read the others past.
    """
    e = tx.tables.events.c
    ledger = view.ledger
    gone = ledger.hidden | SeqSet.of([edit.seq for edit in ledger.edits]) | replaced(view)
    named, listed = _widest(gone), None
    found: list[Criterion] = []
    if named:
        found.append(in_ranges("gone", e.seq, named, inside=False))
    if view.has_unfinished:
        run = tx.tables.invocations.c
        # Open or failed: an open one that was left alone for too long has failed, and is left out all the same.
        others: list[ColumnElement[bool]] = [run.status.in_([literal_column("1"), literal_column("3")])]
        if invocation_id is not None:
            others.append(run.id != param("q_run"))
        away = Criterion(("away", len(others)), lambda: ~of_a_run(tx.tables, *others), {"q_run": invocation_id})
        found.append(away)
    if by_list:
        found.append(_beside_threads(tx))
    elif view.head is not None:
        listed = SeqSet.of_runs(view.head)
        if len(listed.ranges) <= _MOST_NAMED:
            found.append(_rooted_at(tx, listed))
            listed = None
    return found, _Past(gone - named, listed)


def _widest(seqs: SeqSet) -> SeqSet:
    """A set, or the widest of its stretches."""
    if len(seqs.ranges) <= _MOST_NAMED:
        return seqs
    return SeqSet(tuple(sorted(nlargest(_MOST_NAMED, seqs.ranges, key=lambda run: run[1] - run[0]))))


def _rooted_at(tx: Transaction, listed: SeqSet) -> Criterion:
    """Of messages that reached a thread's list, these."""
    found = in_ranges("head", tx.tables.events.c.seq, listed)
    return found._replace(build=lambda: ~flagged(tx.tables, r.ROOTED) | found.build())


def _beside_threads(tx: Transaction) -> Criterion:
    return Criterion("beside threads", lambda: ~flagged(tx.tables, r.ROOTED), {})


def _at(tx: Transaction, session: SessionLog, viewer: str | None, seqs: SeqSet) -> list[EventRow]:
    """The messages at some positions that a viewer sees."""
    if not seqs:
        return []
    criteria = [_messages(tx), visible(viewer, tx.tables)]
    runs = seqs.ranges
    found: list[EventRow] = []
    for at in range(0, len(runs), MOST_RANGES):
        clause = in_ranges("beside", tx.tables.events.c.seq, SeqSet(runs[at : at + MOST_RANGES]))
        found += select_events(tx, session, [*criteria, clause], newest=False, limit=None)
    return found
