"""What happens to the checkpoints of a session when it is rewound, forked or pruned."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.checkpoints import (
    ROOT,
    CheckpointRow,
    digests_in,
    is_in_sight,
    mentioned_in,
    pack_writes,
    seq_set,
    unpack_writes,
)
from langchain_sessions._core.piece_removal import staying_values, tellers, told_anew
from langchain_sessions._core.thread_effects import mended_parents
from langchain_sessions.errors import InvalidInputError, SessionNotFoundError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Change, Partitions, Rows
from langchain_sessions.stores._partitioned.live import counted_between
from langchain_sessions.stores._partitioned.threads import (
    checkpoint_rows,
    dump_writes,
    load_checkpoint,
    load_staged,
    load_writes,
    place_of_writes,
    read_values,
    stored_writes,
    value_key,
    writes_key,
)
from langchain_sessions.stores._threads import ThreadRows
from langchain_sessions.stores.engine import Range, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from langchain_sessions._core.checkpoints import PackedWrites
    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.ledger import Ledger
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._threads import Keep

_PAGE = 50


def newest_in_sight(
    at: Partitions, head: SessionHead, is_seen: Callable[[CheckpointRow], bool]
) -> Flow[CheckpointRow | None]:
    """The newest root checkpoint that is seen."""
    wide = keys.under(keys.at(head.skey, keys.CHECKPOINT, ROOT))
    # Two: mostly the newest is in sight, and where it is not, often the one before.
    high, size = wide.high, 2
    while True:
        rows = (yield from at.rows(head, [Range(wide.low, high, size, newest=True)]))[0]
        for key, value in rows:
            high = key
            row = load_checkpoint(value)
            if is_seen(row):
                return row
        if len(rows) < size:
            return None
        size = _PAGE


def rewind_thread(
    at: Partitions, head: SessionHead, ledger: Ledger, record: int, *, is_undo: bool, reset: bool
) -> Flow[tuple[dict[str, Any], Rows]]:
    """Move the thread's head to the newest checkpoint in sight; the columns that change, and the rows.

    Writes that were anchored at the new head, and those of subgraphs since, go out of sight with the rewind: else
    running the thread on would bring the old reply back.

    Raises:
        InvalidInputError: No checkpoint remains, and `reset` does not say that this is meant.
    """
    if not head.has_thread or (yield from newest_in_sight(at, head, lambda _: True)) is None:
        return {}, {}
    after = head.session._replace(ledger=ledger.encode())
    newest = yield from newest_in_sight(at, head, partial(is_in_sight, after))
    if newest is None:
        if not reset and head.session.head_id is not None:
            raise InvalidInputError(
                "reset_thread", "no checkpoint of the graph is that old; pass True to start it anew"
            )
        return {"head_id": None, "head_runs": b""}, {}
    rows: Rows = {}
    if newest.cid != head.session.head_id and not is_undo:
        rows = yield from _cut_writes(at, head, newest, ledger.hidden, record)
    return {"head_id": newest.cid, "head_runs": newest.runs or b""}, rows


def _stored_staged(at: Partitions, head: SessionHead) -> Flow[Rows]:
    """Store all that waits for good, as it is."""
    staged = yield from load_staged(at, head)
    rows: Rows = {keys.at(head.skey, keys.STAGED, item.n): None for item in staged}
    return rows | (yield from stored_writes(at, head, [(item.ns, item.cid, item.writes) for item in staged]))


def _writes_with(at: Partitions, head: SessionHead, wanted: Range, rows: Rows) -> Flow[list[PackedWrites]]:
    """The writes of a range as they are once some rows are written."""
    found = {row.key: row for row in (yield from at.all_rows(head, wanted))}
    for key, value in rows.items():
        if value is not None and wanted.low <= key < wanted.high:
            found[key] = Row(key, value)
    return [load_writes(row) for row in found.values() if rows.get(row.key, row.value) is not None]


def _cut_writes(at: Partitions, head: SessionHead, newest: CheckpointRow, hidden: SeqSet, record: int) -> Flow[Rows]:
    """Put writes out of sight with a rewind; also those that came back because an earlier one was undone."""
    rows = yield from _stored_staged(at, head)
    since = Range(f"{keys.at(head.skey, keys.WRITES, newest.cid)}", keys.under(keys.at(head.skey, keys.WRITES)).high)
    stored = yield from _writes_with(at, head, since, rows)
    seen = [
        row
        for row in stored
        if ((row.ns, row.cid) == (ROOT, newest.cid) or (row.ns != ROOT and row.cid > newest.cid))
        and (not row.cut or row.cut in hidden)
    ]
    for number, row in enumerate(sorted(seen, key=lambda row: (row.cut == 0, row.cut, row.part))):
        rows[writes_key(head.skey, row.ns, row.cid, row.cut, row.part)] = None
        rows |= dump_writes(head.skey, row._replace(cut=record, part=number))
    return rows


def copy_thread(at: Partitions, source: SessionHead, target: SessionHead, upto: int) -> Flow[tuple[SessionHead, Rows]]:
    """The rows of a copy of the checkpoints that mention nothing beyond a position, and the head that goes with it."""
    if not source.has_thread:
        return target, {}
    rows: Rows = {}
    for part in (keys.NAMESPACE, keys.SHAPE):
        for row in (yield from at.all_rows(source, keys.under(keys.at(source.skey, part)))):
            rows[_moved_key(row.key, source, target)] = row.value
    stored = yield from at.all_rows(source, keys.under(keys.at(source.skey, keys.CHECKPOINT)))
    checkpoints = [load_checkpoint(row.value) for row in stored]
    left_out = {(row.ns, row.cid) for row in checkpoints if _is_beyond(row.mentioned, upto)}
    kept = [row for row in checkpoints if (row.ns, row.cid) not in left_out]
    for each in kept:
        rows |= checkpoint_rows(target.skey, each)
    roots = sorted((row for row in kept if row.ns == ROOT), key=lambda row: row.cid, reverse=True)
    newest = next((row for row in roots if is_in_sight(target.session, row)), None)
    staged = yield from _stored_staged(at, source)
    found = yield from _writes_with(at, source, keys.under(keys.at(source.skey, keys.WRITES)), staged)
    writes = [made for made in (_kept_writes(some, left_out, newest, upto) for some in found) if made is not None]
    writes = yield from _told_anew(at, source, kept, writes)
    for some in writes:
        rows |= dump_writes(target.skey, some)
    wanted = _digests(kept, writes)
    stays = staying_values((yield from read_values(at, source, wanted)), wanted)
    rows |= {value_key(target.skey, digest): value for digest, value in stays.items()}
    target = replace(target, has_thread=True)
    if newest is not None:
        return target.with_session(head_id=newest.cid, head_runs=newest.runs or b""), rows
    return target.with_session(head_runs=b"" if source.session.head_runs is not None else None), rows


def _told_anew(
    at: Partitions, head: SessionHead, kept: Iterable[CheckpointRow], writes: Iterable[PackedWrites]
) -> Flow[list[PackedWrites]]:
    """Writes as they are where some checkpoints stay: what another's value told of them, they tell themselves."""
    names = {digest for row in kept for digest in row.digests}
    found: list[PackedWrites] = []
    for some in writes:
        gone = tellers(some) - names
        found.append(told_anew(some, gone, (yield from read_values(at, head, gone)).get) if gone else some)
    return found


def _digests(checkpoints: Iterable[CheckpointRow], writes: Iterable[PackedWrites]) -> set[bytes]:
    """The values that some checkpoints and writes name."""
    found = {digest for row in checkpoints for digest in row.digests}
    return found.union(*(digests_in(unpack_writes(some.body)) for some in writes))


def _moved_key(key: str, source: SessionHead, target: SessionHead) -> str:
    return keys.prefix(target.skey) + key[len(keys.prefix(source.skey)) :]


def _kept_writes(
    row: PackedWrites, left_out: set[tuple[int, str]], newest: CheckpointRow | None, upto: int
) -> PackedWrites | None:
    """What a copy keeps of writes: nothing that mentions what was not copied, nor whose outcome was not copied."""
    if not left_out:
        return row
    if (row.ns, row.cid) in left_out or (newest is not None and (row.ns, row.cid) == (ROOT, newest.cid)):
        return None
    if not _is_beyond(seq_set(row.refs), upto):
        return row
    kept = [write for write in unpack_writes(row.body) if not _is_beyond(seq_set(write.refs), upto)]
    return row._replace(refs=mentioned_in(kept), body=pack_writes(kept)) if kept else None


def _is_beyond(seqs: SeqSet, upto: int) -> bool:
    """Whether something behind a position is mentioned."""
    return bool(seqs.ranges) and seqs.ranges[-1][1] > upto


def prune_checkpoints(at: Partitions, key: SessionKey, now: int, keep: Keep) -> Flow[int]:
    """The contract's `prune_checkpoints`."""
    try:
        gone: int = yield from at.change(key, now, partial(_prune, at, keep))
    except SessionNotFoundError:
        return 0
    return gone


def _prune(at: Partitions, keep: Keep, head: SessionHead) -> Flow[Change]:
    skey = head.skey
    stored = yield from at.all_rows(head, keys.under(keys.at(skey, keys.CHECKPOINT)))
    checkpoints = [load_checkpoint(row.value) for row in stored]
    in_sight = [row for row in checkpoints if is_in_sight(head.session, row)]
    shapes = yield from at.all_rows(head, keys.under(keys.at(skey, keys.SHAPE)))
    names = yield from at.all_rows(head, keys.under(keys.at(skey, keys.NAMESPACE)))
    rows = yield from _stored_staged(at, head)
    every = keys.under(keys.at(skey, keys.WRITES))
    found = [row.key for row in (yield from at.all_rows(head, every))]
    found += [key for key, value in rows.items() if value is not None]
    places = {key: place_of_writes(key) for key in found}
    missing = {*places.values()} - {(row.ns, row.cid) for row in checkpoints}
    kept = keep(
        ThreadRows(
            head.session.id,
            checkpoints,
            in_sight,
            {keys.number_in(row.key): row.value for row in shapes},
            {keys.number_in(row.key): row.value.decode(errors="surrogatepass") for row in names},
            missing,
        )
    )
    gone = [row for row in checkpoints if (row.ns, row.cid) not in kept]
    if not gone and missing <= {*kept}:
        return Change(0)
    left = [row for row in checkpoints if (row.ns, row.cid) in kept]
    for row in gone:
        rows |= dict.fromkeys(checkpoint_rows(skey, row))
    rows |= {key: None for key, place in places.items() if place not in kept}
    for row in left:
        rows |= checkpoint_rows(skey, row)
    for row, parent in mended_parents(checkpoints, kept).items():
        rows |= checkpoint_rows(skey, row._replace(parent=parent))
    before = yield from _writes_with(at, head, every, rows)
    writes = yield from _told_anew(at, head, left, before)
    for some in (after for was, after in zip(before, writes, strict=True) if after is not was):
        rows |= dump_writes(skey, some)
    needed = yield from read_values(at, head, (digests := _digests(left, writes)))
    stays = {value_key(skey, digest): value for digest, value in staying_values(needed, digests).items()}
    held = {value_key(skey, digest): value for digest, value in needed.items()}
    rows |= {key: value for key, value in stays.items() if held.get(key) != value}
    there = yield from at.all_rows(head, keys.under(keys.at(skey, keys.OUTSIDE)))
    rows |= {row.key: None for row in there if row.key not in stays}
    return Change(len(gone), (yield from _reheaded(at, head, left)) if gone else head, rows)


def _reheaded(at: Partitions, head: SessionHead, left: list[CheckpointRow]) -> Flow[SessionHead]:
    """The head is the newest that is left. Where none is, the conversation stays as it was."""
    roots = [row for row in left if row.ns == ROOT and is_in_sight(head.session, row)]
    newest = max(roots, key=lambda row: row.cid, default=None)
    if newest is not None and newest.cid == head.session.head_id:
        return head
    changes: dict[str, Any] = {"head_id": None}
    if newest is not None:
        changes = {"head_id": newest.cid, "head_runs": newest.runs or b""}
    after = head.with_session(**changes)
    return after.adding((yield from counted_between(at, head, after)))
