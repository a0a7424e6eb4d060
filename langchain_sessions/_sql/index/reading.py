"""Reading what a query needs of the recall index, in SQL.

Reads span several statements without a transaction. An index only changes as a whole, and each change counts its
generation up, so a read that began and ended in the same generation saw one state.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, and_, func, literal_column, or_, select

from langchain_sessions._core import rows as r
from langchain_sessions._core.rows import EventRow, SessionKey, SessionRow
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.index.scopes import (
    find_logs,
    load_views,
    scope_criteria,
    scope_shape,
    scope_values,
)
from langchain_sessions._sql.log.lookup import event_columns
from langchain_sessions._sql.tables.recall import FACTS
from langchain_sessions.errors import SessionNotFoundError, StoreUnavailableError
from langchain_sessions.stores._values import IndexedLog, IndexQuery, IndexRead, LogScope, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRIES = 8
_PLACES = 16
_BEGINNING_END = "\U0010ffff"


def load_index(tx: Transaction, query: IndexQuery) -> IndexRead:
    """The contract's `load_index`."""
    for _ in range(_TRIES):
        found = _read_once(tx, query)
        if found is not None:
            return found
    problem = "The index kept changing while it was read; try again."
    raise StoreUnavailableError(problem)


def _read_once(tx: Transaction, query: IndexQuery) -> IndexRead | None:
    """The index as of one generation; None where it changed on the way."""
    scope = query.scope
    places = find_logs(tx, scope)
    if scope.session_id is not None and not places:
        raise SessionNotFoundError(scope.session_id)
    known = {session.skey: to if fingerprint == query.fingerprint else 0 for session, to, fingerprint, _ in places}
    behind = _behind([session for session, *_ in places], known, query.most_scanned)
    # The tail begins where the index ends, whoever built it: one of another kind has to be replaced first.
    behind += [
        SessionKey(session.app, session.id, session.user_id)
        for session, to, fingerprint, _ in places
        if to and fingerprint != query.fingerprint
    ]
    if behind:
        return IndexRead([], behind)
    views = load_views(tx, scope, [session for session, *_ in places])
    chunks = _chunks(tx, query) if any(known.values()) else {}
    buckets = _buckets(tx, query) if chunks and (query.buckets or query.beginnings) else {}
    lags = any(session.last_seq > known[session.skey] for session, *_ in places)
    tails = _tails(tx, scope) if lags else {}
    # Also where there was no index yet: one that came in between has taken events out of the tail.
    seen = sorted((session.skey, generation) for session, *_, generation in places if generation)
    if (chunks or lags) and _generations(tx, scope) != seen:
        return None
    logs = [
        IndexedLog(
            session,
            views[session.skey],
            tuple(chunks.get(session.skey, ())) if known[session.skey] else (),
            buckets.get(session.skey, {}),
            [row for row in tails.get(session.skey, ()) if known[session.skey] < row.seq <= session.last_seq],
        )
        for session, *_ in places
    ]
    return IndexRead(logs, [])


def _behind(sessions: Sequence[SessionRow], known: Mapping[int, int], most_scanned: int) -> list[SessionKey]:
    """Whose index has to catch up before a search, the furthest behind first."""
    lags = sorted(((s.last_seq - known[s.skey], s) for s in sessions), key=lambda pair: -pair[0])
    left = sum(lag for lag, _ in lags)
    found: list[SessionKey] = []
    for lag, session in lags:
        if left <= most_scanned:
            break
        found.append(SessionKey(session.app, session.id, session.user_id))
        left -= lag
    return found


def _generations(tx: Transaction, scope: LogScope) -> list[tuple[int, int]]:
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        joined = s.join(logs, logs.c.skey == s.c.skey)
        columns = [logs.c.skey, logs.c.generation]
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope))

    rows = tx.rows(tx.prepare(("recall generations", *scope_shape(scope)), build), scope_values(scope))
    return sorted((skey, generation) for skey, generation in rows)


def _chunks(tx: Transaction, query: IndexQuery) -> dict[int, list[StoredChunk]]:
    """The chunks of every session, with the facts that the caller does not have."""
    s, chunks = tx.tables.sessions, tx.tables.recall.chunks
    scope = query.scope

    def build() -> Select[Any]:
        columns = [chunks.c[name] for name in ("skey", "chunk", "last_seq", "events", "terms", "written")]
        joined = s.join(chunks, chunks.c.skey == s.c.skey)
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope))

    rows = sorted(tx.rows(tx.prepare(("recall chunks", *scope_shape(scope)), build), scope_values(scope)))
    missing = [(skey, number) for skey, number, *_, written in rows if (skey, number, written) not in query.held]
    facts = _facts(tx, missing)
    found: dict[int, list[StoredChunk]] = defaultdict(list)
    for skey, number, last_seq, events, terms, written in rows:
        known = facts.get((skey, number), b"")
        found[skey].append(StoredChunk(number, last_seq, events, terms, written, known))
    return found


def _facts(tx: Transaction, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """The facts of chunks by session and number."""
    t = tx.tables.recall.terms.c
    found: dict[tuple[int, int], bytes] = {}
    for start in range(0, len(places), _PLACES):
        some = places[start : start + _PLACES]
        padded = [*some, *[(0, 0)] * (_PLACES - len(some))]

        def build() -> Select[Any]:
            named = t.bucket == literal_column(f"'{FACTS}'")
            each = (and_(t.skey == param(f"s{at}"), t.chunk == param(f"c{at}"), named) for at in range(_PLACES))
            columns = [t.skey, t.chunk, t.data]
            return select(*columns).where(or_(*each))

        values = {f"{name}{at}": place[side] for at, place in enumerate(padded) for side, name in ((0, "s"), (1, "c"))}
        for skey, number, data in tx.rows(tx.prepare("recall facts", build), values):
            found[skey, number] = bytes(data)
    return found


def _buckets(tx: Transaction, query: IndexQuery) -> dict[int, dict[int, dict[str, bytes]]]:
    """The asked buckets of every chunk, by session and chunk."""
    s, chunks, terms = tx.tables.sessions, tx.tables.recall.chunks, tx.tables.recall.terms
    size = 1
    while size < len(query.buckets):
        size *= 2
    padded = [*query.buckets, *query.buckets[-1:] * (size - len(query.buckets))] if query.buckets else []

    def build() -> Select[Any]:
        # The sum keeps SQLite from going past the chunks to all terms of a session.
        mine = and_(terms.c.skey == chunks.c.skey + literal_column("0"), terms.c.chunk == chunks.c.chunk)
        wanted: list[ColumnElement[bool]] = [
            and_(terms.c.bucket >= param(f"q_from{at}"), terms.c.bucket <= param(f"q_to{at}"))
            for at in range(len(query.beginnings))
        ]
        if padded:
            wanted.append(terms.c.bucket.in_([param(f"q_bucket{at}") for at in range(len(padded))]))
        joined = s.join(chunks, chunks.c.skey == s.c.skey).join(terms, mine)
        columns = [terms.c.skey, terms.c.chunk, terms.c.bucket, terms.c.data]
        return select(*columns).select_from(joined).where(*scope_criteria(tx, query.scope), or_(*wanted))

    values = scope_values(query.scope)
    values.update((f"q_bucket{at}", bucket) for at, bucket in enumerate(padded))
    values.update((f"q_from{at}", start) for at, start in enumerate(query.beginnings))
    values.update((f"q_to{at}", start + _BEGINNING_END) for at, start in enumerate(query.beginnings))
    shape = ("recall buckets", *scope_shape(query.scope), len(padded), len(query.beginnings))
    found: dict[int, dict[int, dict[str, bytes]]] = {}
    for skey, chunk, bucket, data in tx.rows(tx.prepare(shape, build), values):
        found.setdefault(skey, {}).setdefault(chunk, {})[bucket] = data
    return found


def _tails(tx: Transaction, scope: LogScope) -> dict[int, list[EventRow]]:
    """What was appended after the index of each log, and what an index of another kind holds."""
    s, logs, e = tx.tables.sessions, tx.tables.recall.logs, tx.tables.events

    def build() -> Select[Any]:
        after = func.coalesce(logs.c.indexed_to, 0)
        joined = s.outerjoin(logs, logs.c.skey == s.c.skey).join(e, and_(e.c.skey == s.c.skey, e.c.seq > after))
        return (
            select(e.c.skey, *event_columns(tx.tables))
            .select_from(joined)
            .where(*scope_criteria(tx, scope), e.c.kind < r.FIRST_RECORD)
            .order_by(e.c.skey, e.c.seq)
        )

    found: dict[int, list[EventRow]] = defaultdict(list)
    for skey, *row in tx.rows(tx.prepare(("recall tails", *scope_shape(scope)), build), scope_values(scope)):
        found[skey].append(EventRow(*row))
    return found
