"""The recall index in SQL: reading what a query needs of it, and moving it forward behind the log.

Reads span several statements without a transaction. An index only changes as a whole, and each change counts its
generation up, so a read that began and ended in the same generation saw one state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, insert, literal_column, or_, select, update

from langchain_sessions import rows as r
from langchain_sessions.errors import SessionNotFoundError, StoreUnavailableError
from langchain_sessions.ledger import Ledger, LogView
from langchain_sessions.rows import EventRow, InvocationRow, SessionKey, SessionRow
from langchain_sessions.runs import decode_runs
from langchain_sessions.stores import placing
from langchain_sessions.stores.base import EventQuery, EventSlice
from langchain_sessions.stores.indexing import (
    IndexChange,
    IndexedLog,
    IndexPlace,
    IndexQuery,
    IndexRead,
    LogScope,
    LogSlice,
    StoredChunk,
)
from langchain_sessions.stores.matching import cut_window, matches
from langchain_sessions.stores.sql.criteria import criteria_of
from langchain_sessions.stores.sql.lookup import (
    event_columns,
    key_values,
    load_view,
    locate,
    owner_criterion,
    owner_shape,
    require_session,
    session_columns,
    session_row,
)
from langchain_sessions.stores.sql.transaction import Transaction, param

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions.runs import SeqSet

_TRIES = 8
_BEGINNING_END = "\U0010ffff"
_SINGLES = 64


def scope_criteria(tx: Transaction, scope: LogScope) -> list[ColumnElement[bool]]:
    """The criteria that every statement over the sessions of a scope carries."""
    s = tx.tables.sessions.c
    found = [s.app == param("k_app"), or_(s.expires_at.is_(None), s.expires_at > param("k_now"))]
    if scope.session_id is not None:
        found.append(s.id == param("k_id"))
    return [*found, *owner_criterion(tx.tables, owner_shape(scope.owner))]


def _shape(scope: LogScope) -> tuple[str, bool]:
    return owner_shape(scope.owner), scope.session_id is not None


def _values(scope: LogScope) -> dict[str, Any]:
    return key_values(scope.key, scope.now)


# -- reading -----------------------------------------------------------------------------------------------


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
    places = _logs(tx, scope)
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
    views = _views(tx, scope, [session for session, *_ in places])
    chunks = _chunks(tx, scope) if any(known.values()) else {}
    buckets = _buckets(tx, query) if chunks and (query.buckets or query.beginnings) else {}
    lags = any(session.last_seq > known[session.skey] for session, *_ in places)
    tails = _tails(tx, scope) if lags else {}
    if chunks and _generations(tx, scope) != sorted((s.skey, generation) for s, *_, generation in places if generation):
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


_Place = tuple[SessionRow, int, "str | None", int]


def _logs(tx: Transaction, scope: LogScope) -> list[_Place]:
    """The sessions of a scope, with how far the index of each goes and what built it."""
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        state = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return (
            select(*session_columns(tx.tables), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*scope_criteria(tx, scope))
            .order_by(s.c.skey)
        )

    rows = tx.rows(tx.prepare(("recall logs", *_shape(scope)), build), _values(scope))
    return [(session_row(row[:-3]), row[-3] or 0, row[-2], row[-1] or 0) for row in rows]


def _generations(tx: Transaction, scope: LogScope) -> list[tuple[int, int]]:
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        joined = s.join(logs, logs.c.skey == s.c.skey)
        columns = [logs.c.skey, logs.c.generation]
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope))

    rows = tx.rows(tx.prepare(("recall generations", *_shape(scope)), build), _values(scope))
    return sorted((skey, generation) for skey, generation in rows)


def _views(tx: Transaction, scope: LogScope, sessions: Sequence[SessionRow]) -> dict[int, LogView]:
    """Where the events of each session stand."""
    s, table = tx.tables.sessions, tx.tables.invocations

    def build() -> Select[Any]:
        columns = [table.c.skey, table.c.id, table.c.first_seq, table.c.status, table.c.updated_at]
        joined = s.join(table, table.c.skey == s.c.skey)
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope), table.c.status.in_([1, 3, 4]))

    rows = tx.rows(tx.prepare(("recall unfinished", *_shape(scope)), build), _values(scope))
    unfinished: dict[int, list[InvocationRow]] = defaultdict(list)
    for skey, *row in rows:
        unfinished[skey].append(InvocationRow(*row))
    return {
        session.skey: LogView(
            Ledger.decode(session.ledger),
            None if session.head_runs is None else tuple(decode_runs(session.head_runs)),
            placing.open_invocations(unfinished.get(session.skey, ()), scope.idle_before),
            session.last_seq,
        )
        for session in sessions
    }


def _chunks(tx: Transaction, scope: LogScope) -> dict[int, list[StoredChunk]]:
    s, chunks = tx.tables.sessions, tx.tables.recall.chunks

    def build() -> Select[Any]:
        columns = [chunks.c[name] for name in ("skey", "chunk", "last_seq", "events", "terms", "facts")]
        joined = s.join(chunks, chunks.c.skey == s.c.skey)
        return select(*columns).select_from(joined).where(*scope_criteria(tx, scope))

    found: dict[int, list[StoredChunk]] = defaultdict(list)
    for skey, *row in sorted(tx.rows(tx.prepare(("recall chunks", *_shape(scope)), build), _values(scope))):
        found[skey].append(StoredChunk(*row))
    return found


def _buckets(tx: Transaction, query: IndexQuery) -> dict[int, dict[int, list[bytes]]]:
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
        columns = [terms.c.skey, terms.c.chunk, terms.c.data]
        return select(*columns).select_from(joined).where(*scope_criteria(tx, query.scope), or_(*wanted))

    values = _values(query.scope)
    values.update((f"q_bucket{at}", bucket) for at, bucket in enumerate(padded))
    values.update((f"q_from{at}", start) for at, start in enumerate(query.beginnings))
    values.update((f"q_to{at}", start + _BEGINNING_END) for at, start in enumerate(query.beginnings))
    shape = ("recall buckets", *_shape(query.scope), len(padded), len(query.beginnings))
    found: dict[int, dict[int, list[bytes]]] = {}
    for skey, chunk, data in tx.rows(tx.prepare(shape, build), values):
        found.setdefault(skey, {}).setdefault(chunk, []).append(data)
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
    for skey, *row in tx.rows(tx.prepare(("recall tails", *_shape(scope)), build), _values(scope)):
        found[skey].append(EventRow(*row))
    return found


def load_events(tx: Transaction, scope: LogScope, places: Mapping[str, SeqSet]) -> list[LogSlice]:
    """The contract's `load_events`."""
    e = tx.tables.events.c
    found: list[LogSlice] = []
    for session_id, seqs in places.items():
        key = SessionKey(scope.app, session_id, scope.owner)
        session = locate(tx, key, scope.now)
        if session is None:
            continue
        rows: list[EventRow] = []
        view = load_view(tx, session, scope.idle_before)
        for start in range(0, len(seqs.runs), _SINGLES):
            some = seqs.runs[start : start + _SINGLES]
            size = 1
            while size < len(some):
                size *= 2
            some = (*some, *[(0, -1)] * (size - len(some)))
            values: dict[str, Any] = {"skey": session.skey}
            values.update((f"q_{at}_{side}", run[side]) for at, run in enumerate(some) for side in (0, 1))

            def build(size: int = size) -> Select[Any]:
                wanted = [e.seq.between(param(f"q_{at}_0"), param(f"q_{at}_1")) for at in range(size)]
                # Both bounds of each range beside the session, so that every one of them is looked up in the key.
                either = or_(*(and_(e.skey == param("skey"), each) for each in wanted))
                return select(*event_columns(tx.tables)).where(either)

            rows += [EventRow(*row) for row in tx.rows(tx.prepare(("recall events", size), build), values)]
        found.append(LogSlice(session, EventSlice(sorted(rows), view)))
    return found


def scan_logs(tx: Transaction, scope: LogScope, query: EventQuery) -> list[LogSlice]:
    """The contract's `scan_logs`: one indexed statement over the events of all sessions of the scope."""
    s, e = tx.tables.sessions, tx.tables.events
    sessions = [place[0] for place in _logs(tx, scope)]
    if scope.session_id is not None and not sessions:
        raise SessionNotFoundError(scope.session_id)
    views = _views(tx, scope, sessions)
    # Only where events stand differs from log to log; the rest is the same clause for all of them.
    newest = LogView(last_seq=max((session.last_seq for session in sessions), default=0))
    plain = replace(query, standings=frozenset(), limit=None, offset=0, newest=False, with_total=False)
    criteria = criteria_of(plain, newest, tx.tables, tx.flavour)

    def build() -> Select[Any]:
        joined = s.join(e, e.c.skey == s.c.skey)
        return (
            select(e.c.skey, *event_columns(tx.tables))
            .select_from(joined)
            .where(*scope_criteria(tx, scope), *(criterion.build() for criterion in criteria))
            .order_by(e.c.skey, e.c.seq)
        )

    values = _values(scope)
    for criterion in criteria:
        values.update(criterion.values)
    shape = ("recall scan", *_shape(scope), *(criterion.shape for criterion in criteria))
    found: dict[int, list[EventRow]] = defaultdict(list)
    for skey, *row in tx.rows(tx.prepare(shape, build), values):
        event = EventRow(*row)
        if skey in views and event.seq <= views[skey].last_seq and matches(event, query, views[skey]):
            found[skey].append(event)
    return [
        LogSlice(session, cut_window(found.get(session.skey, []), query, views[session.skey]))
        for session in sessions
        if session.skey in found or scope.session_id is not None
    ]


# -- moving forward ----------------------------------------------------------------------------------------


def find_index(tx: Transaction, key: SessionKey, fingerprint: str, now: int) -> IndexPlace:
    """The contract's `find_index`."""
    session = require_session(tx, key, now)
    return _place(tx, session, fingerprint)


def _place(tx: Transaction, session: SessionRow, fingerprint: str) -> IndexPlace:
    logs, chunks = tx.tables.recall.logs, tx.tables.recall.chunks

    def state() -> Select[Any]:
        columns = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return select(*columns).where(logs.c.skey == param("skey"))

    def sizes() -> Select[Any]:
        columns = [chunks.c.chunk, chunks.c.events]
        return select(*columns).where(chunks.c.skey == param("skey")).order_by(chunks.c.chunk)

    values = {"skey": session.skey}
    row = tx.row(tx.prepare("recall state", state), values)
    generation = 0 if row is None else int(row[2])
    if row is None or row[1] != fingerprint:
        return IndexPlace(session.skey, session.last_seq, 0, generation, ())
    stored = tx.rows(tx.prepare("recall sizes", sizes), values)
    return IndexPlace(session.skey, session.last_seq, int(row[0]), generation, tuple((n, size) for n, size in stored))


def load_chunks(
    tx: Transaction, key: SessionKey, numbers: Sequence[int], now: int
) -> list[tuple[StoredChunk, list[bytes]]]:
    """The contract's `load_chunks`."""
    session = require_session(tx, key, now)
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms

    def facts() -> Select[Any]:
        columns = [chunks.c[name] for name in StoredChunk._fields if name != "number"]
        return select(*columns).where(chunks.c.skey == param("skey"), chunks.c.chunk == param("chunk"))

    def words() -> Select[Any]:
        mine = select(terms.c.data).where(terms.c.skey == param("skey"), terms.c.chunk == param("chunk"))
        return mine.order_by(terms.c.bucket)

    found: list[tuple[StoredChunk, list[bytes]]] = []
    for number in numbers:
        values = {"skey": session.skey, "chunk": number}
        row = tx.row(tx.prepare("recall chunk", facts), values)
        if row is not None:
            rows = tx.rows(tx.prepare("recall words", words), values)
            found.append((StoredChunk(number, *row), [bytes(data) for (data,) in rows]))
    return found


def write_index(tx: Transaction, key: SessionKey, change: IndexChange, now: int) -> bool:
    """The contract's `write_index`. The session row is locked first, so a deletion waits or has been."""
    session = locate(tx, key, now, lock=True)
    place = change.place
    if session is None or session.skey != place.skey:
        return False
    if _place(tx, session, change.fingerprint).generation != place.generation:
        return False
    _write_state(tx, change)
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms
    if not place.indexed_to:
        tx.change(delete(chunks).where(chunks.c.skey == place.skey))
        tx.change(delete(terms).where(terms.c.skey == place.skey))
    for number in change.replaced:
        values = {"skey": place.skey, "chunk": number}
        for name, table in (("chunks", chunks), ("terms", terms)):

            def gone(table: Any = table) -> Any:
                return delete(table).where(table.c.skey == param("skey"), table.c.chunk == param("chunk"))

            tx.run(tx.prepare(("recall gone", name), gone), values)
    if change.chunk is not None:
        _insert_chunk(tx, place.skey, change.chunk, change.buckets)
    return True


def _write_state(tx: Transaction, change: IndexChange) -> None:
    logs = tx.tables.recall.logs
    place = change.place
    values = {
        "indexed_to": change.indexed_to,
        "fingerprint": change.fingerprint,
        "generation": place.generation + 1,
    }
    if place.generation:
        tx.change(update(logs).where(logs.c.skey == place.skey).values(**values))
    else:
        tx.change(insert(logs).values(skey=place.skey, **values))


def _insert_chunk(tx: Transaction, skey: int, chunk: StoredChunk, buckets: Mapping[str, bytes]) -> None:
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms
    row = {"skey": skey, "chunk": chunk.number, **chunk._asdict()}
    del row["number"]
    tx.run(
        tx.prepare("recall new chunk", lambda: insert(chunks).values({c.name: param(c.name) for c in chunks.c})), row
    )
    statement = tx.prepare("recall new terms", lambda: insert(terms).values({c.name: param(c.name) for c in terms.c}))
    tx.insert_tuples(statement, [(skey, chunk.number, bucket, data) for bucket, data in buckets.items()])
