"""Reading what a query needs of the recall index, in SQL.

Reads span several statements without a transaction. An index only changes as a whole, and each change counts its
generation up, so a read that began and ended in the same generation saw one state.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, and_, exists, func, literal_column, not_, or_, select

from langchain_sessions._core import message_types as k
from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.rows import SessionKey, SessionRow
from langchain_sessions._sql.driver.transaction import Later, Row, Transaction, param
from langchain_sessions._sql.index.deflated import opened
from langchain_sessions._sql.index.searched_logs import (
    ALL,
    MOST_NAMED,
    LogProgress,
    Some,
    ask_progress,
    event_and_run_columns,
    events_in,
    prepared_for,
    progress_in,
    searched_criteria,
    searched_shape,
    searched_values,
    sessions_now,
    view_with,
)
from langchain_sessions._sql.index.shelves import (
    bucket_criterion,
    bucket_shape,
    bucket_values,
    buckets_by,
    can_shelve,
    copies_of,
    find_left,
    find_moved,
    find_shelf_buckets,
    find_shelves,
    load_shelves,
    padded,
    read_copies,
    shelves_of,
)
from langchain_sessions._sql.index.vectors import ask_vectors, vectors_in
from langchain_sessions._sql.tables.recall import TRAITS
from langchain_sessions.errors import SessionNotFoundError, StoreUnavailableError
from langchain_sessions.stores._values import (
    IndexedLog,
    IndexQuery,
    IndexRead,
    SearchedLogs,
    StoredChunk,
    UnshelvedLog,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Each means that another process moved the index on between two statements of one read.
_TRIES = 8
# Chunks that one statement names, filled up with names of none: a single compiled statement for any number.
_PLACES = 16


def load_index(tx: Transaction, query: IndexQuery) -> IndexRead:
    """The contract's `load_index`."""
    vectors = ask_vectors(tx, query.searched) if query.vectors and tx.pipelines else None
    for _ in range(_TRIES):
        found = _read_once(tx, query)
        if found is not None:
            return found if vectors is None else found._replace(vectors=vectors_in(vectors.rows))
    problem = "The index kept changing while it was read; try again."
    raise StoreUnavailableError(problem)


def _read_once(tx: Transaction, query: IndexQuery) -> IndexRead | None:
    """The index as of one generation; None where it changed on the way."""
    if query.most_apart is not None and query.only is None and can_shelve(query.searched):
        return _read_shelved(tx, query, query.most_apart)
    if query.only is not None and query.whole_shelves is None:
        return read_copies(tx, query.only)
    if query.only is not None and query.whole_shelves:
        return IndexRead([], [], [], load_shelves(tx, query.whole_shelves))
    some = Some(query.only) if query.only is not None else ALL
    places = ask_progress(tx, query.searched, some)
    # Where each statement is a round trip, it is worth looking before the rest is asked for.
    if not tx.pipelines and (behind := _behind(progress_in(places.rows), query)):
        return IndexRead([], behind)
    asked = _Asked(tx, query, some, places)
    tx.flush()
    found = progress_in(places.rows)
    if query.searched.session_id is not None and not found:
        raise SessionNotFoundError(query.searched.session_id)
    if behind := _behind(found, query):
        return IndexRead([], behind)
    logs = asked.logs(found)
    return None if logs is None else IndexRead(logs, [])


def _read_shelved(tx: Transaction, query: IndexQuery, most_apart: int) -> IndexRead | None:
    """The shelves of an owner, and the logs that are on none of them; None where these changed on the way."""
    searched = query.searched
    shelves = find_shelves(tx, searched)
    # A server compares them itself, in the round trip that all takes together.
    copied = copies_of(query, shelves.rows) if tx.flavour == "sqlite" else None
    moved = None if copied is None else find_moved(tx, searched, copied)
    left = find_left(tx, searched, moved)
    buckets = find_shelf_buckets(tx, query)
    some = Some(unshelved=True)
    asked = _Asked(tx, query, some, left) if tx.pipelines else None
    again = find_shelves(tx, searched) if tx.pipelines else None
    tx.flush()
    places = progress_in(left.rows)
    apart = frozenset(session.skey for session, *_ in places)
    if copied is not None and moved is None and len(apart) <= MOST_NAMED:
        copied.keep_left(apart)
    places = [place for place in places if not is_expired(place[0], searched.now)]
    small = [place for place in places if query.may_shelve(place[0])]
    large = [place for place in places if not query.may_shelve(place[0])]
    if len(small) <= most_apart:
        # Few logs are read one by one; but one that is too short for an index of its own is not given one.
        short = [place for place in small if place[0].last_seq <= query.most_scanned]
        small = short if sum(lag for lag, _ in _lags(short, query)) > query.most_scanned else []
    behind = _behind(large if small else places, query)
    if small or behind:
        unshelved = [_unshelved(place, query) for place in small]
        known = shelves_of(tx, shelves.rows, query)
        return None if known is None else IndexRead([], behind, known, unshelved=unshelved)
    if asked is None and places:
        keys = tuple(session.skey for session, *_ in places)
        asked = _Asked(tx, query, Some(keys) if len(keys) <= MOST_NAMED else some, left)
        tx.flush()
    logs = asked.logs(places) if asked is not None and places else []
    found = shelves_of(tx, shelves.rows, query)
    if again is None:
        again = find_shelves(tx, searched)
        tx.flush()
    if logs is None or found is None or again.rows != shelves.rows:
        return None
    return IndexRead(logs, [], found, buckets_by(buckets.rows), apart)


def _unshelved(place: LogProgress, query: IndexQuery) -> UnshelvedLog:
    session, *_ = place
    key = SessionKey(session.app, session.id, session.user_id)
    return UnshelvedLog(key, session.skey, session.last_seq, _indexed_to(place, query))


def _indexed_to(place: LogProgress, query: IndexQuery) -> int:
    return place[1] if place[2] == query.fingerprint else 0


class _Asked:
    """What a query needs to know of some logs, asked for at once where statements are sent together."""

    def __init__(self, tx: Transaction, query: IndexQuery, some: Some, places: Later) -> None:
        self._tx = tx
        self._query = query
        self._some = some
        known = [] if tx.pipelines else progress_in(places.rows)
        # Where each statement is a round trip or work in this process, only those that may find something.
        indexed = tx.pipelines or any(_indexed_to(place, query) for place in known)
        lags = tx.pipelines or any(place[0].last_seq > _indexed_to(place, query) for place in known)
        nothing = Later()
        listed = [(place[0].skey, place[-1]) for place in known]
        is_known = bool(listed) and all(each in query.chunks for each in listed)
        self._chunks = _chunks(tx, query, some) if indexed and not is_known else nothing
        wanted = indexed and (query.buckets or query.beginnings)
        self._buckets = _buckets(tx, query, some) if wanted else nothing
        self._tails = _tails(tx, query, some) if lags else nothing
        self._is_checked = indexed or lags
        self._generations = self._ask() if self._is_checked else nothing

    def _ask(self) -> Later:
        return _generations(self._tx, self._query.searched, self._some)

    def _moved(self, places: Sequence[LogProgress]) -> bool:
        """Whether an index is of another generation than when its log was read.

        Also where there was no index yet: one that came in between has taken events out of the tail.
        """
        seen = {(session.skey, generation) for session, *_, generation in places if generation}
        keys = {session.skey for session, *_ in places}
        return {(skey, generation) for skey, generation in self._generations.rows if skey in keys} != seen

    def logs(self, places: Sequence[LogProgress]) -> list[IndexedLog] | None:
        """The logs, once all was sent; None where an index moved on the way."""
        if self._is_checked and self._moved(places):
            return None
        known = {place[0].skey: _indexed_to(place, self._query) for place in places}
        chunks = self._listed(places, known)
        held = self._query.held
        missing = [
            (skey, chunk.number)
            for skey, some in chunks.items()
            for chunk in some
            if (skey, chunk.number, chunk.written) not in held
        ]
        if missing:
            chunks = _with_traits(chunks, _traits(self._tx, missing))
            # They were read after all else; the index may have moved since then.
            self._generations = self._ask()
            self._tx.flush()
            if self._moved(places):
                return None
        buckets = _by_chunk(self._buckets.rows)
        tails: dict[int, list[Row]] = defaultdict(list)
        for skey, *row in self._tails.rows:
            tails[skey].append(tuple(row))
        # Where an event of a chunk stands is asked when it is read: here only what is read is looked up.
        read = {session.skey: events_in(tails.get(session.skey, ())) for session, *_ in places}
        newer = sessions_now(self._tx, self._query.searched, ((place[0], read[place[0].skey][0]) for place in places))
        found: list[IndexedLog] = []
        for session, _, _, generation in places:
            skey = session.skey
            rows, runs = read[skey]
            tail = [row for row in rows if known[skey] < row.seq <= session.last_seq]
            view = view_with(session, runs, newer.get(skey))
            found.append(IndexedLog(session, view, chunks.get(skey, ()), buckets.get(skey, {}), tail, generation))
        return found

    def _listed(
        self, places: Sequence[LogProgress], indexed_to: Mapping[int, int]
    ) -> dict[int, tuple[StoredChunk, ...]]:
        """The chunks of each session in order, those that the caller knows and those that were read; without traits."""
        listed: dict[int, list[StoredChunk]] = defaultdict(list)
        for skey, number, last_seq, events, terms, written in sorted(self._chunks.rows):
            listed[skey].append(StoredChunk(number, last_seq, events, terms, written, b""))
        known = self._query.chunks
        return {
            session.skey: known.get((session.skey, generation)) or tuple(listed.get(session.skey, ()))
            for session, _, _, generation in places
            if indexed_to[session.skey]
        }


def _lags(places: Sequence[LogProgress], query: IndexQuery) -> list[tuple[int, LogProgress]]:
    """How far the index of each log is behind it, the furthest first."""
    lags = [(place[0].last_seq - _indexed_to(place, query), place) for place in places]
    return sorted(lags, key=lambda pair: -pair[0])


def _behind(places: Sequence[LogProgress], query: IndexQuery) -> list[SessionKey]:
    """Whose index has to catch up before a search, the furthest behind first."""
    lags = _lags(places, query)
    left = sum(lag for lag, _ in lags)
    found: list[SessionRow] = []
    for lag, place in lags:
        if left <= query.most_scanned:
            break
        found.append(place[0])
        left -= lag
    # The tail begins where the index ends, whoever built it: one of another kind has to be replaced first.
    found += [session for session, to, fingerprint, _ in places if to and fingerprint != query.fingerprint]
    return [SessionKey(session.app, session.id, session.user_id) for session in found]


def _generations(tx: Transaction, searched: SearchedLogs, some: Some) -> Later:
    s, logs = tx.tables.sessions, tx.tables.recall.logs

    def build() -> Select[Any]:
        joined = s.join(logs, logs.c.skey == s.c.skey)
        columns = [logs.c.skey, logs.c.generation]
        return select(*columns).select_from(joined).where(*searched_criteria(tx, searched, some))

    statement = prepared_for(tx, some, ("recall generations", *searched_shape(searched, some)), build)
    return tx.later(statement, searched_values(searched, some))


def _chunks(tx: Transaction, query: IndexQuery, some: Some) -> Later:
    """The chunks of every session, without their traits; not those that the caller knows."""
    s, logs, chunks = tx.tables.sessions, tx.tables.recall.logs, tx.tables.recall.chunks
    searched = query.searched
    known = next(iter(query.chunks), None)

    def build() -> Select[Any]:
        # `written` tells a chunk from another that took its number: with it traits can be kept by the process.
        columns = [chunks.c[name] for name in ("skey", "chunk", "last_seq", "events", "terms", "written")]
        joined = s.join(chunks, chunks.c.skey == s.c.skey)
        criteria = searched_criteria(tx, searched, some)
        if known is not None:
            same = exists().where(logs.c.skey == param("q_skey"), logs.c.generation == param("q_generation"))
            criteria.append(not_(and_(s.c.skey == param("q_skey"), same)))
        return select(*columns).select_from(joined).where(*criteria)

    values = searched_values(searched, some)
    if known is not None:
        values.update(q_skey=known[0], q_generation=known[1])
    shape = "recall chunks", known is not None, *searched_shape(searched, some)
    return tx.later(prepared_for(tx, some, shape, build), values)


def _with_traits(
    chunks: Mapping[int, tuple[StoredChunk, ...]], traits: Mapping[tuple[int, int], bytes]
) -> dict[int, tuple[StoredChunk, ...]]:
    """Chunks by session, with the traits that the caller does not have."""
    return {
        skey: tuple(chunk._replace(traits=traits.get((skey, chunk.number), b"")) for chunk in some)
        for skey, some in chunks.items()
    }


def _traits(tx: Transaction, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """The traits of chunks by session and number."""
    t = tx.tables.recall.terms.c
    found: dict[tuple[int, int], bytes] = {}
    for start in range(0, len(places), _PLACES):
        some = places[start : start + _PLACES]
        padded = [*some, *[(0, 0)] * (_PLACES - len(some))]

        def build() -> Select[Any]:
            named = t.bucket == literal_column(f"'{TRAITS}'")
            each = (and_(t.skey == param(f"s{at}"), t.chunk == param(f"c{at}"), named) for at in range(_PLACES))
            columns = [t.skey, t.chunk, t.data]
            return select(*columns).where(or_(*each))

        values = {f"{name}{at}": place[side] for at, place in enumerate(padded) for side, name in ((0, "s"), (1, "c"))}
        for skey, number, data in tx.rows(tx.prepare("recall traits", build), values):
            found[skey, number] = opened(data)
    return found


def _buckets(tx: Transaction, query: IndexQuery, some: Some) -> Later:
    """The asked buckets of every chunk, or of those that are named."""
    s, chunks, terms = tx.tables.sessions, tx.tables.recall.chunks, tx.tables.recall.terms
    numbers = None if query.of_chunks is None else padded(query.of_chunks)
    if numbers == []:
        return Later()

    def build() -> Select[Any]:
        columns = [terms.c.skey, terms.c.chunk, terms.c.bucket, terms.c.data]
        criteria = [*searched_criteria(tx, query.searched, some), bucket_criterion(terms, query)]
        if numbers is not None:
            named = terms.c.chunk.in_([param(f"q_chunk{at}") for at in range(len(numbers))])
            joined = s.join(terms, terms.c.skey == s.c.skey)
            return select(*columns).select_from(joined).where(*criteria, named)
        # The sum keeps SQLite from going past the chunks to all terms of a session.
        mine = and_(terms.c.skey == chunks.c.skey + literal_column("0"), terms.c.chunk == chunks.c.chunk)
        joined = s.join(chunks, chunks.c.skey == s.c.skey).join(terms, mine)
        return select(*columns).select_from(joined).where(*criteria)

    shape = ("recall buckets", len(numbers or ()), *searched_shape(query.searched, some), *bucket_shape(query))
    values = {**searched_values(query.searched, some), **bucket_values(query)}
    values.update((f"q_chunk{at}", number) for at, number in enumerate(numbers or ()))
    return tx.later(prepared_for(tx, some, shape, build), values)


def _by_chunk(rows: Sequence[Row]) -> dict[int, dict[int, dict[str, bytes]]]:
    """Buckets by session and chunk."""
    found: dict[int, dict[int, dict[str, bytes]]] = {}
    for skey, chunk, bucket, data in rows:
        found.setdefault(skey, {}).setdefault(chunk, {})[bucket] = opened(data)
    return found


def _tails(tx: Transaction, query: IndexQuery, some: Some) -> Later:
    """What was appended after the index of each log, and what an index of another kind holds.

    No more than may be scanned and one: where there is more, nobody reads it.
    """
    s, logs, e = tx.tables.sessions, tx.tables.recall.logs, tx.tables.events
    searched = query.searched

    def build() -> Select[Any]:
        after = func.coalesce(logs.c.indexed_to, 0)
        joined = s.outerjoin(logs, logs.c.skey == s.c.skey).join(e, and_(e.c.skey == s.c.skey, e.c.seq > after))
        return (
            select(e.c.skey, *event_and_run_columns(tx.tables))
            .select_from(joined)
            .where(*searched_criteria(tx, searched, some), e.c.kind < k.FIRST_RECORD)
            .order_by(e.c.skey, e.c.seq)
            .limit(param("k_most"))
        )

    # One more than may be scanned, so that too many are told from just enough.
    values = {**searched_values(searched, some), "k_most": query.most_scanned + 1}
    statement = prepared_for(tx, some, ("recall tails", *searched_shape(searched, some)), build)
    return tx.later(statement, values)
