"""Shelves in SQL: copies of the indexes of an owner's many logs, read together with what is on none of them.

A shelf never changes, another takes its place. A read lists them before all else and once more at its end: where both
lists are the same, whatever was on a shelf in between was there all the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, and_, case, func, insert, literal_column, or_, select

from langchain_sessions._core.checkpoints import blanked_at
from langchain_sessions._core.rows import owner_shape
from langchain_sessions._sql.driver.transaction import Later, Row, Transaction, param
from langchain_sessions._sql.index.searched_logs import Some, is_shelved, named_keys, named_values, prepared_for
from langchain_sessions._sql.log.expiry_in_sql import is_over
from langchain_sessions._sql.log.lookup import key_values, owner_criterion, session_columns, session_row
from langchain_sessions._sql.log.removing import drop_shelves, remove_shelves
from langchain_sessions._sql.tables.recall import TRAITS
from langchain_sessions._sql.tables.types import as_bytes
from langchain_sessions.stores._values import IndexRead, SearchedLogs, ShelfChange, StoredShelf, shelf_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions.stores._values import Copied, IndexQuery

T = TypeVar("T")

_AT_ONCE = 500
# Sessions of which a sum is cheaper than a look at each copy, and how many of the newest are looked at besides.
_MANY = 256
_NEWEST = 48
# No bucket that begins so comes after this in the order of code points.
_BEGINNING_END = "\U0010ffff"


def can_shelve(searched: SearchedLogs) -> bool:
    """Whether these are logs that shelves are kept for: all sessions of one owner."""
    return searched.session_id is None and owner_shape(searched.owner) != "any"


def find_shelves(tx: Transaction, searched: SearchedLogs) -> Later:
    """The shelves of an owner."""
    shelves = tx.tables.recall.shelves.c

    def build() -> Select[Any]:
        columns = [shelves.shelf, shelves.fingerprint, shelves.slots]
        return select(*columns).where(*_mine(tx, searched)).order_by(shelves.shelf)

    return tx.later(tx.prepare(("shelves", owner_shape(searched.owner)), build), key_values(searched.key, searched.now))


def _mine(tx: Transaction, searched: SearchedLogs) -> list[ColumnElement[bool]]:
    shelves = tx.tables.recall.shelves.c
    whose = shelves.user_id.is_(None) if owner_shape(searched.owner) == "none" else shelves.user_id == param("k_owner")
    return [shelves.app == param("k_app"), whose]


def find_left(tx: Transaction, searched: SearchedLogs, moved: tuple[int, ...] | None = None) -> Later:
    """The sessions that no shelf holds as they are now, and those that expired, as `ask_progress` has them.

    Args:
        tx: Where to ask.
        searched: Whose.
        moved: Their keys, where they are known; None to look through all.
    """
    if moved == ():
        return Later()
    s, logs = tx.tables.sessions, tx.tables.recall.logs
    some = Some(moved)

    def build() -> Select[Any]:
        state = [logs.c.indexed_to, logs.c.fingerprint, logs.c.generation]
        # Expired ones are told as well: a shelf may still hold their words, which no search may find.
        left = or_(is_over(tx.tables), ~is_shelved(tx)) if some.keys is None else named_keys(tx)
        return (
            select(*session_columns(tx.tables), *state)
            .select_from(s.outerjoin(logs, logs.c.skey == s.c.skey))
            .where(*_owned(tx, searched), left)
            .order_by(s.c.skey)
        )

    shape = "left", owner_shape(searched.owner), some.keys is not None
    statement = prepared_for(tx, some, shape, build)
    return tx.later(statement, {**key_values(searched.key, searched.now), **named_values(some)})


def _owned(tx: Transaction, searched: SearchedLogs) -> list[ColumnElement[bool]]:
    return [tx.tables.sessions.c.app == param("k_app"), *owner_criterion(tx.tables, owner_shape(searched.owner))]


def copies_of(query: IndexQuery, shelves: Sequence[Row]) -> Copied | None:
    """What the shelves hold, where the caller knows it and it is worth a sum."""
    copied = None if query.copied is None else query.copied([row[0] for row in shelves])
    return None if copied is None or copied.logs < _MANY else copied


def find_moved(tx: Transaction, searched: SearchedLogs, copied: Copied) -> tuple[int, ...] | None:
    """The keys of what `find_left` finds, at half its price; None where only that can tell.

    Positions only grow. So where all sessions together are no further than their copies, but for some that were active
    last or were left beside the copies before, no other one has moved.
    """
    s, known = tx.tables.sessions.c, Some(tuple(sorted(copied.left)) or None)

    def build() -> Any:
        over = case((is_over(tx.tables), 1), else_=0)
        mine = _owned(tx, searched)
        newest = select(s.skey, s.last_seq, over).where(*mine).order_by(s.activity.desc(), s.skey.desc())
        # One statement, so that it is all of one moment. A sum of integers fails where it is too large for one.
        whole = select(literal_column("0"), func.total(s.last_seq), func.total(over)).where(*mine)
        parts = [select(newest.limit(_NEWEST).subquery())]
        if known.keys is not None:
            parts.append(select(s.skey, s.last_seq, over).where(*mine, named_keys(tx)))
        return whole.union_all(*parts)

    shape = "moved", owner_shape(searched.owner), known.keys is not None
    statement = prepared_for(tx, known, shape, build)
    (_, total, gone), *rows = tx.rows(statement, {**key_values(searched.key, searched.now), **named_values(known)})
    ahead, moved = total - copied.total, list[int]()
    if ahead or gone:
        for skey, last_seq, is_gone in dict.fromkeys(rows):
            further = last_seq - copied.upto(skey)
            ahead, gone = ahead - further, gone - is_gone
            moved += [skey] if further or is_gone else []
    return None if ahead or gone else tuple(moved)


def find_shelf_buckets(tx: Transaction, query: IndexQuery) -> Later:
    """The asked buckets of every shelf."""
    shelves, terms = tx.tables.recall.shelves, tx.tables.recall.shelf_terms
    searched = query.searched
    if not (query.buckets or query.beginnings):
        return Later()

    def build() -> Select[Any]:
        joined = shelves.join(terms, terms.c.shelf == shelves.c.shelf)
        columns = [terms.c.shelf, terms.c.bucket, terms.c.data]
        return select(*columns).select_from(joined).where(*_mine(tx, searched), bucket_criterion(terms, query))

    values = {**key_values(searched.key, searched.now), **bucket_values(query)}
    return tx.later(tx.prepare(("shelf buckets", owner_shape(searched.owner), *bucket_shape(query)), build), values)


def buckets_by(rows: Iterable[Row]) -> dict[int, dict[str, bytes]]:
    """Buckets by shelf."""
    found: dict[int, dict[str, bytes]] = {}
    for shelf, bucket, data in rows:
        found.setdefault(shelf, {})[bucket] = data
    return found


def load_shelves(tx: Transaction, numbers: Sequence[int]) -> dict[int, dict[str, bytes]]:
    """All that some shelves hold."""
    terms = tx.tables.recall.shelf_terms.c
    statement = tx.prepare(
        "whole shelf", lambda: select(terms.shelf, terms.bucket, terms.data).where(terms.shelf == param("shelf"))
    )
    found = [tx.later(statement, {"shelf": number}) for number in numbers]
    tx.flush()
    return buckets_by([row for outcome in found for row in outcome.rows])


def read_copies(tx: Transaction, skeys: Sequence[int]) -> IndexRead | None:
    """The shelves that are to hold some sessions, with all that is on them; None where these changed on the way."""
    claims = _claims(tx, skeys)
    numbers = sorted({shelf for _, shelf, *_ in claims})
    buckets = load_shelves(tx, numbers)
    if _claims(tx, skeys) != claims:
        return None
    found = {shelf: StoredShelf(shelf, made or "", slots or 0, b"") for _, shelf, made, slots, _ in claims}
    shelves = [
        shelf._replace(traits=as_bytes(buckets.get(number, {}).get(TRAITS, b""))) for number, shelf in found.items()
    ]
    current = {skey for skey, *_, is_current in claims if is_current}
    return IndexRead([], [], shelves, buckets, frozenset(skeys) - current)


def _claims(tx: Transaction, skeys: Sequence[int]) -> list[Row]:
    """Session, shelf, what built it and its slots, and whether it is to hold the session as it is now."""
    s, recall = tx.tables.sessions.c, tx.tables.recall
    held, shelves = recall.shelf_logs, recall.shelves
    joined = held.join(tx.tables.sessions, s.skey == held.c.skey).outerjoin(shelves, shelves.c.shelf == held.c.shelf)
    is_current = held.c.last_seq == s.last_seq

    def build() -> Select[Any]:
        columns: list[ColumnElement[Any]] = [
            held.c.skey,
            held.c.shelf,
            shelves.c.fingerprint,
            shelves.c.slots,
            is_current,
        ]
        return select(*columns).select_from(joined).where(held.c.skey == param("skey")).order_by(held.c.shelf)

    statement = tx.prepare("shelves of a log", build)
    return [row for skey in skeys for row in tx.rows(statement, {"skey": skey})]


def shelves_of(tx: Transaction, rows: Sequence[Row], query: IndexQuery) -> list[StoredShelf] | None:
    """Shelves with the traits that the caller does not have; None where one is gone."""
    missing = [row[0] for row in rows if shelf_key(row[0]) not in query.held]
    traits = dict(_rows_of(tx, missing, TRAITS))
    if len(traits) < len(missing):
        return None
    return [StoredShelf(number, made, slots, traits.get(number, b"")) for number, made, slots in rows]


def _rows_of(tx: Transaction, numbers: Sequence[int], bucket: str) -> list[tuple[int, bytes]]:
    terms = tx.tables.recall.shelf_terms.c

    def build() -> Select[Any]:
        return select(terms.data).where(terms.shelf == param("shelf"), terms.bucket == param("bucket"))

    statement = tx.prepare("shelf bucket", build)
    found = [(number, tx.later(statement, {"shelf": number, "bucket": bucket})) for number in numbers]
    tx.flush()
    return [(number, as_bytes(outcome.rows[0][0])) for number, outcome in found if outcome.rows]


# -- which buckets -----------------------------------------------------------------------------------------


def padded(asked: Sequence[T]) -> list[T]:
    """What is asked for, some of it twice: few shapes for all numbers of them."""
    size = 1 << max(0, len(asked) - 1).bit_length()
    return [*asked, *[asked[-1]] * (size - len(asked))] if asked else []


def bucket_criterion(terms: Table, query: IndexQuery) -> ColumnElement[bool]:
    """Which rows of terms a query asks for."""
    wanted: list[ColumnElement[bool]] = [
        and_(terms.c.bucket >= param(f"q_from{at}"), terms.c.bucket <= param(f"q_to{at}"))
        for at in range(len(query.beginnings))
    ]
    if query.buckets:
        wanted.append(terms.c.bucket.in_([param(f"q_bucket{at}") for at in range(len(padded(query.buckets)))]))
    return or_(*wanted)


def bucket_shape(query: IndexQuery) -> tuple[int, int]:
    """What tells such statements from each other."""
    return len(padded(query.buckets)), len(query.beginnings)


def bucket_values(query: IndexQuery) -> dict[str, Any]:
    """The values of `bucket_criterion`."""
    values: dict[str, Any] = {f"q_bucket{at}": bucket for at, bucket in enumerate(padded(query.buckets))}
    values.update((f"q_from{at}", start) for at, start in enumerate(query.beginnings))
    values.update((f"q_to{at}", start + _BEGINNING_END) for at, start in enumerate(query.beginnings))
    return values


# -- writing -----------------------------------------------------------------------------------------------


def write_shelf(tx: Transaction, change: ShelfChange) -> bool:
    """The contract's `write_shelf`. The sessions are locked first, so a deletion waits or has been."""
    if (change.shelf and not _are_there(tx, change)) or _count(tx, change.replaced) != len(change.replaced):
        return False
    drop_shelves(tx, change.replaced)
    shelf, recall = change.shelf, tx.tables.recall
    if shelf is None:
        remove_shelves(tx, list(change.logs))
        return True
    whole = tx.prepare(
        "new shelf", lambda: insert(recall.shelves).values({c.name: param(c.name) for c in recall.shelves.c})
    )
    row = {"shelf": shelf.number, "app": change.app, "user_id": change.owner}
    tx.run(whole, {**row, "fingerprint": shelf.fingerprint, "slots": shelf.slots})
    for table, values in (
        (recall.shelf_logs, [(skey, shelf.number, seq) for skey, seq in change.logs.items()]),
        (
            recall.shelf_terms,
            [(shelf.number, name, data) for name, data in {TRAITS: shelf.traits, **change.buckets}.items()],
        ),
    ):

        def build(table: Table = table) -> Any:
            return insert(table).values({c.name: param(c.name) for c in table.c})

        tx.insert_tuples(tx.prepare(("new shelf of", table.name), build), values)
    return True


def _are_there(tx: Transaction, change: ShelfChange) -> bool:
    """Lock the sessions of a shelf against deletion; whether all are there, with nothing blanked since it was read."""
    s = tx.tables.sessions.c
    keys = sorted(change.logs)
    found = 0
    for start in range(0, len(keys), _AT_ONCE):
        asked = select(*session_columns(tx.tables)).where(s.skey.in_(keys[start : start + _AT_ONCE])).order_by(s.skey)
        if tx.flavour != "sqlite":
            # On PostgreSQL the weakest lock that keeps a row from being deleted: appends to these sessions go on.
            asked = asked.with_for_update(read=True, key_share=True)
        rows = [session_row(row) for row in tx.once(asked)]
        found += sum(blanked_at(row) <= change.logs[row.skey] for row in rows)
    return found == len(keys)


def _count(tx: Transaction, numbers: Sequence[int]) -> int:
    shelves = tx.tables.recall.shelves.c
    asked = select(shelves.shelf).where(shelves.shelf.in_(numbers)).order_by(shelves.shelf)
    return len(tx.once(asked.with_for_update() if tx.flavour != "sqlite" else asked)) if numbers else 0
