"""The vectors of recall, and their signs, kept in the partition of their log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.rows import SessionKey
from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Change, Partitions, Rows, is_there, name_of
from langchain_sessions.stores._partitioned.heads import VectorHead, load_head
from langchain_sessions.stores._partitioned.index import heads_in, rows_of
from langchain_sessions.stores._vectors import VectorProgress
from langchain_sessions.stores.engine import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._values import SearchedLogs
    from langchain_sessions.stores._vectors import VectorChange


def _progress(head: SessionHead) -> VectorProgress:
    blanked_at = Ledger.decode(head.session.ledger).blanked_at
    return VectorProgress(head.skey, head.session.id, head.session.last_seq, *head.vectors, blanked_at)


def list_vectors(at: Partitions, searched: SearchedLogs) -> Flow[list[VectorProgress]]:
    """The contract's `list_vectors`."""
    try:
        return [_progress(head) for head in (yield from heads_in(at, searched))]
    except SessionNotFoundError:
        return []


def find_vectors(at: Partitions, key: SessionKey, now: int) -> Flow[VectorProgress]:
    """The contract's `find_vectors`."""
    return _progress((yield from at.require(key, now)))


def load_vectors(
    at: Partitions, searched: SearchedLogs, places: Mapping[VectorProgress, SeqSet]
) -> Flow[dict[tuple[int, int], bytes]]:
    """The contract's `load_vectors`."""
    found: dict[tuple[int, int], bytes] = {}
    names = [SessionKey(searched.app, progress.session_id, searched.owner) for progress in places]
    heads = yield from ask(at.engine.read_heads, [name_of(name) for name in names])
    for (progress, seqs), name, raw in zip(places.items(), names, heads, strict=True):
        head = None if raw is None else load_head(raw)
        if head is None or not is_there(head, name, searched.now):
            continue
        if head.skey != progress.skey or head.vectors.generation != abs(progress.generation):
            continue
        ends = (
            (vector_key(head, progress.generation, low), vector_key(head, progress.generation, high))
            for low, high in seqs.ranges
        )
        rows = yield from rows_of(at, head, (Range(low, f"{high}!") for low, high in ends))
        found.update(((head.skey, keys.number_in(key)), value) for key, value in rows.items())
    return found


def vector_key(head: SessionHead, generation: int, seq: int) -> str:
    """Where a vector lies, or a part of the signs."""
    return keys.at(head.skey, keys.VECTOR, generation, seq)


def vector_rows(at: Partitions, head: SessionHead, generation: int) -> Flow[list[str]]:
    """Where all of a set lies, or all of its signs: an older release's head does not name the parts of these."""
    stored = yield from at.all_rows(head, keys.under(keys.at(head.skey, keys.VECTOR, generation)))
    return [row.key for row in stored]


def write_vectors(at: Partitions, key: SessionKey, change: VectorChange, now: int) -> Flow[bool]:
    """The contract's `write_vectors`."""

    def decide(head: SessionHead) -> Flow[Change]:
        known, blanked = head.vectors, Ledger.decode(head.session.ledger).blanked
        if not change.is_due(_progress(head), blanked):
            return Change(answer=False)
        vectors = VectorHead(change.embedded_to, change.generation, change.fingerprint, change.left)
        rows: Rows = {vector_key(head, -known.generation, upto): None for upto in change.gone}
        if change.anew and known.generation:
            for generation in (known.generation, -known.generation):
                rows.update(dict.fromkeys((yield from vector_rows(at, head, generation))))
        rows.update((vector_key(head, change.generation, seq), data) for seq, data in change.kept(blanked))
        if change.signs is not None:
            rows[vector_key(head, -change.generation, change.signs.upto)] = change.signs.data
        return Change(answer=True, head=replace(head, vectors=vectors), rows=rows)

    try:
        written: bool = yield from at.change(key, now, decide)
    except SessionNotFoundError:
        return False
    return written
