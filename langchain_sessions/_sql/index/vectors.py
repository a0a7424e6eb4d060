"""Vectors of events in SQL, and parts of their signs: found by session, set and position. No database compares them."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Select, and_, case, delete, func, insert, literal_column, or_, select, update

from langchain_sessions._core.ledger import Ledger
from langchain_sessions._sql.driver.transaction import Later, Row, Transaction, param
from langchain_sessions._sql.index.searched_logs import searched_criteria, searched_shape, searched_values
from langchain_sessions._sql.log.lookup import locate, require_session
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions.stores._vectors import VectorChange, VectorProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._core.rows import SessionKey, SessionRow
    from langchain_sessions._sql.tables.schema import Tables
    from langchain_sessions.stores._values import SearchedLogs

# Ranges of the key in one statement; a semantic search asks for hundreds of single events.
_RANGES: Final = 64
# Parts of signs that are asked for by name; where more are wanted, all of the scope are read at once.
_MOST_NAMED: Final = 4 * _RANGES


def list_vectors(tx: Transaction, searched: SearchedLogs) -> list[VectorProgress]:
    """The contract's `list_vectors`."""
    found = ask_vectors(tx, searched)
    tx.flush()
    return vectors_in(found.rows)


def ask_vectors(tx: Transaction, searched: SearchedLogs) -> Later:
    """How far the vectors of the searched logs go, and which parts of their signs there are."""
    s, logs = tx.tables.sessions, tx.tables.recall.embeddings

    def build() -> Select[Any]:
        joined = _with_signs(s.outerjoin(logs, logs.c.skey == s.c.skey), tx.tables, is_outer=True)
        columns: list[ColumnElement[Any]] = [s.c[name] for name in ("skey", "id", "last_seq")]
        columns += [case((_is_first(tx.tables), s.c.ledger)), *_state(tx.tables)]
        return select(*columns).select_from(joined).where(*searched_criteria(tx, searched))

    return tx.later(tx.prepare(("vector logs", *searched_shape(searched)), build), searched_values(searched))


def vectors_in(rows: Sequence[Row]) -> list[VectorProgress]:
    """What `ask_vectors` found."""
    by_log = groupby(sorted(rows, key=itemgetter(0)), itemgetter(0))
    return [
        _told((*found[0][:3], max(row[3] or "" for row in found)), [row[4:] for row in found])
        for found in (list(parts) for _, parts in by_log)
    ]


def _with_signs(logs: Any, tables: Tables, *, is_outer: bool) -> Any:
    """Logs beside the parts of their signs: large rows, which lie where those of the index do, in chunks below zero."""
    terms = tables.recall.terms
    mine = and_(terms.c.skey == tables.recall.embeddings.c.skey, terms.c.chunk < literal_column("0"))
    return logs.join(terms, mine, isouter=is_outer)


def _is_first(tables: Tables) -> ColumnElement[bool]:
    """Whether a row is of the first part of its log, or of none: what the session holds is large, and sent once."""
    terms, others = tables.recall.terms.c, tables.recall.terms.alias("others").c
    first = select(func.min(others.chunk)).where(others.skey == terms.skey).scalar_subquery()
    return or_(terms.chunk.is_(None), terms.chunk == first)


def _state(tables: Tables) -> list[ColumnElement[Any]]:
    """How far the vectors of a log go, and a part of their signs."""
    logs, terms = tables.recall.embeddings.c, tables.recall.terms.c
    return [logs.embedded_to, logs.generation, logs.fingerprint, terms.chunk, terms.bucket]


def _told(session: Sequence[Any], rows: Sequence[Row]) -> VectorProgress:
    """A log of which a row was read for each part of its signs; where it has no vectors nothing is in that."""
    skey, name, last_seq, ledger = session
    blanked_at = Ledger.decode(ledger).blanked_at
    if not rows or rows[0][0] is None:
        return VectorProgress(skey, name, last_seq, blanked_at=blanked_at)
    embedded_to, generation, fingerprint, *_ = rows[0]
    signs = sorted(-chunk for *_, chunk, bucket in rows if bucket == _bucket(generation))
    return VectorProgress(skey, name, last_seq, embedded_to, generation, fingerprint, tuple(signs), blanked_at)


def _bucket(generation: int) -> str:
    """Where the signs of a set lie; no bucket of terms is called so."""
    return f"~{generation}"


def find_vectors(tx: Transaction, key: SessionKey, now: int) -> VectorProgress:
    """The contract's `find_vectors`."""
    return _progress(tx, require_session(tx, key, now))


def _progress(tx: Transaction, session: SessionRow) -> VectorProgress:
    logs = tx.tables.recall.embeddings

    def build() -> Select[Any]:
        joined = _with_signs(logs, tx.tables, is_outer=True)
        return select(*_state(tx.tables)).select_from(joined).where(logs.c.skey == param("skey"))

    rows = list(tx.rows(tx.prepare("vector log", build), {"skey": session.skey}))
    return _told((session.skey, session.id, session.last_seq, session.ledger), rows)


def load_vectors(
    tx: Transaction, searched: SearchedLogs, places: Mapping[VectorProgress, SeqSet]
) -> dict[tuple[int, int], bytes]:
    """The contract's `load_vectors`: one round trip where statements are sent together."""
    # The session's own key is never used again: no other criterion is needed to ask by it.
    ranges = [
        (each.skey, each.generation, *run)
        for each, seqs in places.items()
        for run in seqs.ranges
        if each.generation > 0
    ]
    signs = [
        (each.skey, -seq, _bucket(-each.generation))
        for each, seqs in places.items()
        if each.generation < 0
        for seq in seqs
    ]
    asked = [_vectors(tx, ranges[start : start + _RANGES]) for start in range(0, len(ranges), _RANGES)]
    if len(signs) > _MOST_NAMED:
        parts = [_all_signs(tx, searched)]
    else:
        parts = [_signs(tx, signs[start : start + _RANGES]) for start in range(0, len(signs), _RANGES)]
    tx.flush()
    found = {(skey, seq): as_bytes(data) for each in asked for skey, seq, data in each.rows}
    wanted = {*signs}
    for each in parts:
        found.update(((skey, -at), as_bytes(data)) for skey, at, name, data in each.rows if (skey, at, name) in wanted)
    return found


def _vectors(tx: Transaction, ranges: Sequence[tuple[int, int, int, int]]) -> Later:
    """Vectors of some ranges of the key."""
    v = tx.tables.recall.vectors.c

    def one(at: int) -> ColumnElement[bool]:
        in_set = and_(v.skey == param(f"q_{at}_0"), v.generation == param(f"q_{at}_1"))
        return and_(in_set, v.seq.between(param(f"q_{at}_2"), param(f"q_{at}_3")))

    return _any_of(tx, "vectors", [v.skey, v.seq, v.data], one, ranges, (0, 0, 0, -1))


def _signs(tx: Transaction, places: Sequence[tuple[int, int, str]]) -> Later:
    """Some parts of signs."""
    t = tx.tables.recall.terms.c

    def one(at: int) -> ColumnElement[bool]:
        return and_(t.skey == param(f"q_{at}_0"), t.chunk == param(f"q_{at}_1"), t.bucket == param(f"q_{at}_2"))

    return _any_of(tx, "signs", [t.skey, t.chunk, t.bucket, t.data], one, places, (0, 0, "~"))


def _any_of(
    tx: Transaction,
    name: str,
    columns: Sequence[ColumnElement[Any]],
    one: Callable[[int], ColumnElement[bool]],
    places: Sequence[tuple[Any, ...]],
    nowhere: tuple[Any, ...],
) -> Later:
    """The rows at some places, filled up to one of a few sizes: a single compiled statement for each of these."""
    size = 1 << max(0, len(places) - 1).bit_length()
    some = [*places, *[nowhere] * (size - len(places))]
    values = {f"q_{at}_{part}": value for at, each in enumerate(some) for part, value in enumerate(each)}
    return tx.later(tx.prepare((name, size), lambda: select(*columns).where(or_(*map(one, range(size))))), values)


def _all_signs(tx: Transaction, searched: SearchedLogs) -> Later:
    """All signs of the searched logs."""
    s, logs, t = tx.tables.sessions, tx.tables.recall.embeddings, tx.tables.recall.terms.c

    def build() -> Select[Any]:
        joined = _with_signs(s.join(logs, logs.c.skey == s.c.skey), tx.tables, is_outer=False)
        columns = [t.skey, t.chunk, t.bucket, t.data]
        return select(*columns).select_from(joined).where(*searched_criteria(tx, searched))

    return tx.later(tx.prepare(("all signs", *searched_shape(searched)), build), searched_values(searched))


def write_vectors(tx: Transaction, key: SessionKey, change: VectorChange, now: int) -> bool:
    """The contract's `write_vectors`. The session row is locked first, so a deletion waits or has been."""
    session = locate(tx, key, now, lock=True)
    progress = change.progress
    if session is None:
        return False
    blanked = Ledger.decode(session.ledger).blanked
    if not change.is_due(_progress(tx, session), blanked):
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
    terms = tx.tables.recall.terms
    if change.anew and progress.generation:
        tx.change(delete(vectors).where(vectors.c.skey == progress.skey))
    if change.gone:
        parts = terms.c.chunk.in_([-upto for upto in change.gone])
        tx.change(delete(terms).where(terms.c.skey == progress.skey, parts))
    statement = tx.prepare("new vectors", lambda: insert(vectors).values({c.name: param(c.name) for c in vectors.c}))
    tx.insert_tuples(statement, [(progress.skey, change.generation, *each) for each in change.kept(blanked)])
    if change.signs is not None:
        part = (progress.skey, -change.signs.upto, _bucket(change.generation), change.signs.data)
        made = tx.prepare("new signs", lambda: insert(terms).values({c.name: param(c.name) for c in terms.c}))
        tx.insert_tuples(made, [part])
    return True
