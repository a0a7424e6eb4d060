"""Vectors of events in SQL. They are found by session, set and position; no database compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, and_, delete, insert, or_, select, update

from langchain_sessions._core.ledger import Ledger
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.index.searched_logs import searched_criteria, searched_shape, searched_values
from langchain_sessions._sql.log.lookup import locate, require_session
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions.stores._values import VectorChange, VectorProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import SessionKey, SessionRow
    from langchain_sessions.stores._values import SearchedLogs

# Ranges of the key in one statement; a semantic search asks for hundreds of single events.
_RANGES = 64


def list_vectors(tx: Transaction, searched: SearchedLogs) -> list[VectorProgress]:
    """The contract's `list_vectors`."""
    s, logs = tx.tables.sessions, tx.tables.recall.embeddings

    def build() -> Select[Any]:
        state = [logs.c.embedded_to, logs.c.generation, logs.c.fingerprint]
        return (
            select(*(s.c[name] for name in ("skey", "id", "last_seq")), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*searched_criteria(tx, searched))
        )

    rows = tx.rows(tx.prepare(("vector logs", *searched_shape(searched)), build), searched_values(searched))
    return sorted(VectorProgress(*row[:3]) if row[3] is None else VectorProgress(*row) for row in rows)


def find_vectors(tx: Transaction, key: SessionKey, now: int) -> VectorProgress:
    """The contract's `find_vectors`."""
    return _progress(tx, require_session(tx, key, now))


def _progress(tx: Transaction, session: SessionRow) -> VectorProgress:
    logs = tx.tables.recall.embeddings.c

    def build() -> Select[Any]:
        columns = [logs.embedded_to, logs.generation, logs.fingerprint]
        return select(*columns).where(logs.skey == param("skey"))

    row = tx.row(tx.prepare("vector log", build), {"skey": session.skey})
    return VectorProgress(session.skey, session.id, session.last_seq, *(row or ()))


def load_vectors(
    tx: Transaction, searched: SearchedLogs, places: Mapping[VectorProgress, SeqSet]
) -> dict[tuple[int, int], bytes]:
    """The contract's `load_vectors`: a bounded number of statements, each over ranges of the key."""
    del searched  # the session's own key is never used again
    vectors = tx.tables.recall.vectors.c
    ranges = [(progress.skey, progress.generation, *run) for progress, seqs in places.items() for run in seqs.ranges]
    found: dict[tuple[int, int], bytes] = {}
    for start in range(0, len(ranges), _RANGES):
        some = ranges[start : start + _RANGES]
        size = 1
        while size < len(some):
            size *= 2
        some += [(0, 0, 0, -1)] * (size - len(some))

        def build(size: int = size) -> Select[Any]:
            wanted = (
                and_(
                    vectors.skey == param(f"q_{at}_0"),
                    vectors.generation == param(f"q_{at}_1"),
                    vectors.seq.between(param(f"q_{at}_2"), param(f"q_{at}_3")),
                )
                for at in range(size)
            )
            columns = [vectors.skey, vectors.seq, vectors.data]
            return select(*columns).where(or_(*wanted))

        values = {f"q_{at}_{part}": value for at, each in enumerate(some) for part, value in enumerate(each)}
        rows = tx.rows(tx.prepare(("vectors", size), build), values)
        found.update(((skey, seq), as_bytes(data)) for skey, seq, data in rows)
    return found


def write_vectors(tx: Transaction, key: SessionKey, change: VectorChange, now: int) -> bool:
    """The contract's `write_vectors`. The session row is locked first, so a deletion waits or has been."""
    session = locate(tx, key, now, lock=True)
    progress = change.progress
    if session is None or session.skey != progress.skey:
        return False
    known = _progress(tx, session)
    if (known.embedded_to, known.generation) != (progress.embedded_to, progress.generation):
        return False
    logs, vectors = tx.tables.recall.embeddings, tx.tables.recall.vectors
    values = {
        "embedded_to": change.embedded_to,
        "generation": change.generation,
        "fingerprint": change.fingerprint,
    }
    if progress.generation:
        tx.change(update(logs).where(logs.c.skey == progress.skey).values(**values))
    else:
        tx.change(insert(logs).values(skey=progress.skey, **values))
    if change.anew and progress.generation:
        tx.change(delete(vectors).where(vectors.c.skey == progress.skey))
    statement = tx.prepare("new vectors", lambda: insert(vectors).values({c.name: param(c.name) for c in vectors.c}))
    # What was overwritten while it was embedded gets no vector any more.
    blanked = Ledger.decode(session.ledger).blanked
    vectored = sorted((seq, data) for seq, data in change.vectors.items() if seq not in blanked)
    rows = [(progress.skey, change.generation, seq, data) for seq, data in vectored]
    tx.insert_tuples(statement, rows)
    return True
