"""The index of recall, kept in the partition of its log; and reading several logs at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.checkpoints import blanked_at
from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import EventQuery, may_have_moved_on
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._core.rows import Anyone, EventRow, SessionKey
from langchain_sessions._core.stretch import next_stretch
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Change, Partitions, Rows, is_there, partition_of
from langchain_sessions.stores._partitioned.heads import IndexHead, SessionHead, load_head
from langchain_sessions.stores._partitioned.log import read_matching, read_matching_now
from langchain_sessions.stores._partitioned.runs import knowing
from langchain_sessions.stores._partitioned.sessions import all_heads
from langchain_sessions.stores._partitioned.shelves import (
    asked_of,
    drop_shelves_of,
    load_shelves,
    read_shelves,
    read_whole,
    shelves_partition,
)
from langchain_sessions.stores._values import (
    EventSlice,
    IndexChange,
    IndexedLog,
    IndexProgress,
    IndexRead,
    LogScan,
    LogSlice,
    SearchedLogs,
    StoredChunk,
    UnshelvedLog,
    shelf_key,
)
from langchain_sessions.stores.engine import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores._values import IndexQuery
    from langchain_sessions.stores.engine import Partition


def heads_in(at: Partitions, searched: SearchedLogs, only: Sequence[int] | None = None) -> Flow[list[SessionHead]]:
    """The heads of the searched sessions, in the order of their keys; of some of them by their own keys.

    Raises:
        SessionNotFoundError: The search names one session and there is none.
    """
    if searched.session_id is not None:
        return [(yield from at.require(searched.key, searched.now))]
    if only is not None:
        known = [(skey, at.places[skey]) for skey in sorted(only) if skey in at.places]
        raw = yield from ask(at.engine.read_heads, [partition for _, partition in known])
        some = [(skey, load_head(each)) for (skey, _), each in zip(known, raw, strict=True) if each is not None]
        return [head for skey, head in some if head.skey == skey and is_there(head, _key(head), searched.now)]
    heads = yield from all_heads(at, searched.app, searched.owner)
    return [head for head in heads if not is_expired(head.session, searched.now)]


def load_index(at: Partitions, query: IndexQuery) -> Flow[IndexRead]:
    """The contract's `load_index`."""
    searched = query.searched
    if query.only is not None and query.whole_shelves is None:
        return (yield from _read_copies(at, query))
    if query.only is not None and query.whole_shelves:
        partition = owners_shelves(searched)
        return IndexRead([], [], [], (yield from load_shelves(at, partition, query.whole_shelves)))
    if query.only is None and query.most_apart is not None and can_shelve(searched):
        return (yield from _read_shelved(at, query, query.most_apart))
    heads = yield from heads_in(at, searched, query.only)
    behind = _late(heads, query)
    if behind:
        return IndexRead([], behind)
    return IndexRead((yield from _read_logs(at, heads, query)), [])


def can_shelve(searched: SearchedLogs) -> bool:
    """Whether these are logs that shelves are kept for: all sessions of one owner."""
    return searched.session_id is None and not isinstance(searched.owner, Anyone)


def owners_shelves(searched: SearchedLogs) -> Partition:
    """Where the shelves of the searched sessions' owner are."""
    return shelves_partition(searched.app, _owner(searched))


def _owner(searched: SearchedLogs) -> str | None:
    return None if isinstance(searched.owner, Anyone) else searched.owner


def _late(heads: Sequence[SessionHead], query: IndexQuery) -> list[SessionKey]:
    """Whose index has to catch up first."""
    behind = [_key(head) for head in _behind(heads, query)]
    # The tail begins where the index ends, whoever built it: one of another kind has to be replaced first.
    others = (head for head in heads if head.index.indexed_to and head.index.fingerprint != query.fingerprint)
    return [*behind, *map(_key, others)]


def _read_shelved(at: Partitions, query: IndexQuery, most_apart: int) -> Flow[IndexRead]:
    """The shelves of an owner, and the logs that are on none of them."""
    searched, partition = query.searched, owners_shelves(query.searched)
    heads = yield from all_heads(at, searched.app, searched.owner)

    def asked(number: int) -> list[Range]:
        traits = [] if shelf_key(number) in query.held else [keys.exactly(keys.at(number, keys.TRAITS))]
        return traits + asked_of(query, number)

    while True:
        kept = yield from read_shelves(at, partition, asked)
        there = {head.skey: head for head in heads}
        # A process died between a deletion and this, or it is under way: no search may find what was there.
        lost = {skey for claims in kept.claims.values() for skey in claims} - there.keys()
        copies = kept.copies()
        left = [head for head in heads if (head.skey, head.session.last_seq) not in copies]
        gone = {head.skey for head in heads if is_expired(head.session, searched.now)}
        apart = frozenset({head.skey for head in left} | gone | lost)
        left = [head for head in left if head.skey not in gone]
        shelves = kept.stored(lambda number: shelf_key(number) in query.held)
        small = [head for head in left if query.may_shelve(head.session)]
        large = [head for head in left if not query.may_shelve(head.session)]
        if len(small) <= most_apart:
            # Few logs are read one by one; but one that is too short for an index of its own is not given one.
            short = [head for head in small if head.session.last_seq <= query.most_scanned]
            lag = sum(head.session.last_seq - _indexed_to(head, query.fingerprint) for head in short)
            small = short if lag > query.most_scanned else []
        behind = _late(large if small else left, query)
        if small or behind:
            unshelved = [
                UnshelvedLog(_key(head), head.skey, head.session.last_seq, _indexed_to(head, query.fingerprint))
                for head in small
            ]
            return IndexRead([], behind, shelves, unshelved=unshelved)
        logs = yield from _read_logs(at, left, query)
        again = (yield from ask(at.engine.read_heads, [partition]))[0]
        if (0 if again is None else again.version) == kept.version:
            if lost:
                yield from drop_shelves_of(at, searched.app, _owner(searched), lost)
            return IndexRead(logs, [], shelves, kept.buckets(), apart)
        # A shelf that went meanwhile went with a session, which is to be gone from here, too.
        heads = yield from all_heads(at, searched.app, searched.owner)


def _read_copies(at: Partitions, query: IndexQuery) -> Flow[IndexRead]:
    """The shelves that are to hold a session, with all that is on them."""
    head = yield from at.require(query.searched.key, query.searched.now)
    partition = shelves_partition(head.session.app, head.session.user_id)
    kept = yield from read_whole(at, partition, head.skey)
    apart = frozenset[int]() if (head.skey, head.session.last_seq) in kept.copies() else frozenset({head.skey})
    return IndexRead([], [], kept.stored(lambda _: False), kept.buckets(), apart)


def _read_logs(at: Partitions, heads: list[SessionHead], query: IndexQuery) -> Flow[list[IndexedLog]]:
    """Logs one by one, each as of one moment."""
    asked = bool(heads)
    logs: dict[int, IndexedLog] = {}
    while heads:
        for head in heads:
            try:
                logs[head.skey] = yield from _read_log(at, head, query)
            except SessionNotFoundError:  # deleted in between
                logs.pop(head.skey, None)
        heads = [head for head in heads if head.skey in logs]
        heads = yield from _moved(at, heads, query.searched, logs)
    if query.searched.session_id is not None and asked and not logs:
        raise SessionNotFoundError(query.searched.session_id)
    return [logs[skey] for skey in sorted(logs)]


def _moved(
    at: Partitions, heads: Sequence[SessionHead], searched: SearchedLogs, logs: dict[int, IndexedLog]
) -> Flow[list[SessionHead]]:
    """The heads of those logs whose index moved while they were read. Logs that are gone are taken out."""
    found: list[SessionHead] = []
    again = yield from ask(at.engine.read_heads, [partition_of(head) for head in heads])
    for head, raw in zip(heads, again, strict=True):
        now = None if raw is None else load_head(raw)
        if now is None or now.skey != head.skey or not is_there(now, _key(head), searched.now):
            del logs[head.skey]
        elif now.index != head.index:
            found.append(now)
    return found


def _key(head: SessionHead) -> SessionKey:
    return SessionKey(head.session.app, head.session.id, head.session.user_id)


def _indexed_to(head: SessionHead, fingerprint: str) -> int:
    return head.index.indexed_to if head.index.fingerprint == fingerprint else 0


def _behind(heads: Sequence[SessionHead], query: IndexQuery) -> list[SessionHead]:
    """Whose index has to catch up before a search, the furthest behind first."""
    lags = [(head.session.last_seq - _indexed_to(head, query.fingerprint), head) for head in heads]
    left = sum(lag for lag, _ in lags)
    found: list[SessionHead] = []
    for lag, head in sorted(lags, key=lambda pair: -pair[0]):
        if left <= query.most_scanned:
            break
        found.append(head)
        left -= lag
    return found


def _read_log(at: Partitions, head: SessionHead, query: IndexQuery) -> Flow[IndexedLog]:
    indexed_to = _indexed_to(head, query.fingerprint)
    known = query.chunks.get((head.skey, head.index.generation), ())
    chunks = known or [StoredChunk(*chunk, b"") for chunk in head.index.chunks] if indexed_to else []
    skey = head.skey
    missing = [chunk.number for chunk in chunks if (skey, chunk.number, chunk.written) not in query.held]
    traits = yield from rows_of(at, head, (keys.exactly(traits_key(head, number)) for number in missing))
    packed = {keys.number_in(key): value for key, value in traits.items()}
    asked: list[Range] = []
    for chunk in chunks:
        if query.of_chunks is not None and chunk.number not in query.of_chunks:
            continue
        asked += [keys.exactly(keys.at(skey, keys.BUCKET, chunk.number, bucket)) for bucket in query.buckets]
        # The digits of a text that goes on are those of its beginning and then others.
        starts = (keys.at(skey, keys.BUCKET, chunk.number, beginning) for beginning in query.beginnings)
        # Behind every hexadecimal digit.
        asked += [Range(start, f"{start}g") for start in starts]
    buckets: dict[int, dict[str, bytes]] = {}
    for key, value in (yield from rows_of(at, head, asked)).items():
        buckets.setdefault(keys.number_in(key, 2), {})[keys.text_in(key)] = value
    messages = EventQuery(kinds=MESSAGE_CODES, after_seq=indexed_to, idle_before=query.searched.idle_before)
    tail = yield from read_matching(at, head, messages)
    view = yield from _view_now(at, head, tail.rows, query.searched.idle_before)
    if packed:
        chunks = [chunk._replace(traits=packed.get(chunk.number, b"")) for chunk in chunks]
    # Where an event of a chunk stands is asked when it is read: here only the runs of the tail were looked up.
    return IndexedLog(head.session, view, tuple(chunks), buckets, tail.rows, head.index.generation)


def _view_now(at: Partitions, head: SessionHead, rows: list[EventRow], idle_before: int) -> Flow[LogView]:
    """Where some events stand that were read, also where a checkpoint came between the head and them."""
    if may_have_moved_on(rows, head.view(idle_before).head):
        newer = yield from at.find(partition_of(head))
        head = newer if newer is not None and newer.skey == head.skey else head
    return (yield from knowing(at, head, head.view(idle_before), rows, idle_before))


def rows_of(at: Partitions, head: SessionHead, ranges: Iterable[Range]) -> Flow[dict[str, bytes]]:
    found = yield from at.rows(head, list(ranges))
    return {row.key: row.value for rows in found for row in rows}


def traits_key(head: SessionHead, number: int) -> str:
    return keys.at(head.skey, keys.TRAITS, number)


def find_index(at: Partitions, key: SessionKey, fingerprint: str, now: int) -> Flow[IndexProgress]:
    """The contract's `find_index`."""
    head = yield from at.require(key, now)
    known = head.index
    if known.fingerprint != fingerprint:
        return IndexProgress(head.skey, head.session.last_seq, 0, known.generation, ())
    sizes = tuple((chunk[0], chunk[2], chunk[3]) for chunk in known.chunks)
    return IndexProgress(head.skey, head.session.last_seq, known.indexed_to, known.generation, sizes)


def load_chunks(
    at: Partitions, key: SessionKey, progress: IndexProgress, numbers: Sequence[int], now: int
) -> Flow[list[tuple[StoredChunk, dict[str, bytes]]] | None]:
    """The contract's `load_chunks`."""
    head = yield from at.find_session(key, now)
    if head is None or head.skey != progress.skey or head.index.generation != progress.generation:
        return None
    found: list[tuple[StoredChunk, dict[str, bytes]]] = []
    for chunk in head.index.chunks:
        if chunk[0] not in numbers:
            continue
        traits = yield from rows_of(at, head, [keys.exactly(traits_key(head, chunk[0]))])
        rows = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.BUCKET, chunk[0])))
        buckets = {keys.text_in(row.key): row.value for row in rows}
        found.append((StoredChunk(*chunk, next(iter(traits.values()), b"")), buckets))
    again = yield from at.find_session(key, now)
    return found if again is not None and again.index == head.index else None


def write_index(at: Partitions, key: SessionKey, change: IndexChange, now: int) -> Flow[bool]:
    """The contract's `write_index`."""
    progress = change.progress

    def decide(head: SessionHead) -> Flow[Change]:
        if head.skey != progress.skey or head.index.generation != progress.generation:
            return Change(answer=False)
        if blanked_at(head.session) > progress.last_seq:
            return Change(answer=False)
        kept = [chunk for chunk in head.index.chunks if progress.indexed_to and chunk[0] not in change.replaced]
        rows: Rows = {}
        for chunk in head.index.chunks:
            if chunk not in kept:
                rows[traits_key(head, chunk[0])] = None
                stored = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.BUCKET, chunk[0])))
                rows.update((row.key, None) for row in stored)
        if change.chunk is not None:
            kept.append(change.chunk[:5])
            rows[traits_key(head, change.chunk.number)] = change.chunk.traits
            for bucket, data in change.buckets.items():
                rows[keys.at(head.skey, keys.BUCKET, change.chunk.number, bucket)] = bytes(data)
        index = IndexHead(change.indexed_to, progress.generation + 1, change.fingerprint, tuple(sorted(kept)))
        return Change(answer=True, head=replace(head, index=index), rows=rows)

    try:
        written: bool = yield from at.change(key, now, decide)
    except SessionNotFoundError:
        return False
    return written


# -- several logs ------------------------------------------------------------------------------------------


def scan_logs(
    at: Partitions, searched: SearchedLogs, query: EventQuery, after: tuple[int, int] = (0, 0)
) -> Flow[LogScan]:
    """The contract's `scan_logs`."""
    heads = {head.session: head for head in (yield from heads_in(at, searched))}
    stretch = next_stretch(heads, after)
    if stretch is None:
        return LogScan([], None)
    # The stretch within what the query asks for.
    low, high = max(stretch.low, query.after_seq or 0), stretch.high + 1
    wanted = replace(query, after_seq=low, before_seq=high if query.before_seq is None else min(high, query.before_seq))
    slices: list[LogSlice] = []
    for session in stretch.sessions:
        try:
            rows = yield from read_matching_now(at, heads[session], wanted, searched.now)
        except SessionNotFoundError:  # deleted in between
            continue
        if rows.rows or searched.session_id is not None:
            slices.append(LogSlice(session, rows))
    return LogScan(slices, stretch.after)


def load_events(at: Partitions, searched: SearchedLogs, places: Mapping[str, SeqSet]) -> Flow[list[LogSlice]]:
    """The contract's `load_events`."""
    found: list[LogSlice] = []
    for session_id, seqs in places.items():
        head = yield from at.find_session(SessionKey(searched.app, session_id, searched.owner), searched.now)
        if head is not None:
            rows: list[EventRow] = yield from at.events(head, seqs.ranges)
            view = yield from _view_now(at, head, rows, searched.idle_before)
            found.append(LogSlice(head.session, EventSlice(rows, view)))
    return found
