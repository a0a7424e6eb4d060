"""Moving the recall index forward behind the log, in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, delete, insert, select

from langchain_sessions._core.checkpoints import blanked_at
from langchain_sessions._core.rows import owner_shape
from langchain_sessions._sql.driver.transaction import Prepared, Transaction, param
from langchain_sessions._sql.index.deflated import opened, rows_of
from langchain_sessions._sql.log.lookup import (
    delete_rows,
    key_values,
    locating,
    require_session,
    session_row,
    update_rows,
)
from langchain_sessions._sql.tables.recall import TRAITS
from langchain_sessions.stores._values import IndexChange, IndexProgress, StoredChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._core.rows import SessionKey, SessionRow


def find_index(tx: Transaction, key: SessionKey, fingerprint: str, now: int) -> IndexProgress:
    """The contract's `find_index`."""
    session = require_session(tx, key, now)
    return _progress(tx, session, fingerprint)


def _progress(tx: Transaction, session: SessionRow, fingerprint: str) -> IndexProgress:
    logs, chunks = tx.tables.recall.logs, tx.tables.recall.chunks

    def state() -> Select[Any]:
        columns = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        return select(*columns).where(logs.c.skey == param("skey"))

    def sizes() -> Select[Any]:
        columns = [chunks.c.chunk, chunks.c.events, chunks.c.terms]
        return select(*columns).where(chunks.c.skey == param("skey")).order_by(chunks.c.chunk)

    values = {"skey": session.skey}
    row = tx.row(tx.prepare("recall state", state), values)
    generation = 0 if row is None else int(row[2])
    # An index of other settings counts as none, but its generation goes on: readers must see that it was replaced.
    if row is None or row[1] != fingerprint:
        return IndexProgress(session.skey, session.last_seq, 0, generation, ())
    stored = tx.rows(tx.prepare("recall sizes", sizes), values)
    return IndexProgress(
        session.skey,
        session.last_seq,
        int(row[0]),
        generation,
        tuple((n, events, terms) for n, events, terms in stored),
    )


def load_chunks(
    tx: Transaction, key: SessionKey, progress: IndexProgress, numbers: Sequence[int], now: int
) -> list[tuple[StoredChunk, dict[str, bytes]]] | None:
    """The contract's `load_chunks`."""
    del key, now  # the session's own key is never used again
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms

    def traits() -> Select[Any]:
        columns = [chunks.c[name] for name in ("last_seq", "events", "terms", "written")]
        return select(*columns).where(chunks.c.skey == param("skey"), chunks.c.chunk == param("chunk"))

    def words() -> Select[Any]:
        columns = [terms.c[name] for name in ("bucket", "data")]
        mine = (terms.c.skey == param("skey"), terms.c.chunk == param("chunk"))
        return select(*columns).where(*mine).order_by(terms.c.bucket)

    found: list[tuple[StoredChunk, dict[str, bytes]]] = []
    for number in numbers:
        values = {"skey": progress.skey, "chunk": number}
        row = tx.row(tx.prepare("recall chunk", traits), values)
        if row is not None:
            buckets = {name: opened(data) for name, data in tx.rows(tx.prepare("recall words", words), values)}
            last_seq, events, size, written = row
            chunk = StoredChunk(number, last_seq, events, size, written, buckets.pop(TRAITS, b""))
            found.append((chunk, buckets))
    return found if _generation(tx, progress.skey) == progress.generation else None


def _generation(tx: Transaction, skey: int) -> int:
    return _told(tx.row(_asking(tx), {"skey": skey}))


def _asking(tx: Transaction) -> Prepared:
    logs = tx.tables.recall.logs
    return tx.prepare("recall generation", lambda: select(logs.c.generation).where(logs.c.skey == param("skey")))


def _told(row: tuple[Any, ...] | None) -> int:
    return 0 if row is None else int(row[0])


def write_index(tx: Transaction, key: SessionKey, change: IndexChange, now: int) -> bool:
    """The contract's `write_index`. The session row is locked first, so a deletion waits or has been.

    So do appends: what takes long is done before, and after it all is sent at once.
    """
    progress, chunk = change.progress, change.chunk
    rows = [] if chunk is None else [*rows_of(tx.flavour, chunk, change.buckets)]
    shape = owner_shape(key.owner)
    statement = tx.prepare(("locate", shape, True), lambda: locating(tx, shape, lock=True))
    located = tx.later(statement, key_values(key, now))
    generation = tx.later(_asking(tx), {"skey": progress.skey})
    tx.flush()
    if located.row is None or located.row[0] != progress.skey:
        return False
    if _told(generation.row) != progress.generation:
        return False
    # An index that was never written has no generation that an erasure could count up.
    if blanked_at(session_row(located.row)) > progress.last_seq:
        return False
    _write_state(tx, change)
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms
    if not progress.indexed_to:
        tx.change(delete(chunks).where(chunks.c.skey == progress.skey))
        # Below zero lie the signs of vectors.
        tx.change(delete(terms).where(terms.c.skey == progress.skey, terms.c.chunk >= 0))
    for number in change.replaced:
        delete_rows(tx, chunks, skey=progress.skey, chunk=number)
        delete_rows(tx, terms, skey=progress.skey, chunk=number)
    if chunk is not None:
        _insert_chunk(tx, progress.skey, chunk, rows)
    return True


def _write_state(tx: Transaction, change: IndexChange) -> None:
    logs, progress = tx.tables.recall.logs, change.progress
    same = {"skey": progress.skey}
    to, generation = change.indexed_to, progress.generation + 1
    if progress.generation:
        update_rows(tx, logs, same, indexed_to=to, fingerprint=change.fingerprint, generation=generation)
    else:
        tx.change(insert(logs).values(**same, indexed_to=to, fingerprint=change.fingerprint, generation=generation))


def _insert_chunk(tx: Transaction, skey: int, chunk: StoredChunk, rows: Iterable[tuple[str, bytes]]) -> None:
    chunks, terms = tx.tables.recall.chunks, tx.tables.recall.terms
    row = {**chunk._asdict(), "skey": skey, "chunk": chunk.number}
    whole = tx.prepare("recall new chunk", lambda: insert(chunks).values({c.name: param(c.name) for c in chunks.c}))
    tx.later(whole, row)
    statement = tx.prepare("recall new terms", lambda: insert(terms).values({c.name: param(c.name) for c in terms.c}))
    tx.insert_tuples(statement, [(skey, chunk.number, bucket, data) for bucket, data in rows])
