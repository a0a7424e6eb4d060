"""What lies beside checkpoints: values, and the pieces that they consist of, and the messages that they mention."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, bindparam, case, delete, func, literal_column, select, true, update

from langchain_sessions._core.checkpoints import MessageParts, MessageRow, ValueRow, digests_in, unpack_writes
from langchain_sessions._core.packed_texts import text_in
from langchain_sessions._core.piece_removal import made_whole, staying, tellers, told_anew
from langchain_sessions._core.piece_rows import DELTAS, NAME, NAMING, NODE, SPLICE, kids_of
from langchain_sessions._sql.driver.workers import beside
from langchain_sessions._sql.log.lookup import add_rows
from langchain_sessions._sql.tables.types import as_bytes, quoted
from langchain_sessions._sql.threads.staging import replace_writes, writes_stored
from langchain_sessions.errors import StalePlanError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._core.checkpoints import CheckpointRow
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions._sql.driver.transaction import Transaction

_PLACES = 64
"""As many names as a piece can have."""
# A power of two, as the numbers of parameters are.
_CHUNK = 256
_PARAMETERS = [f"d{at}" for at in range(_CHUNK)]
_WITH_NAMES = frozenset(NAMING)
_TEXT = MessageRow._fields.index("text")


def insert_values(tx: Transaction, skey: int, values: Sequence[ValueRow]) -> None:
    """Store values, where the session does not have them."""
    # Never written over: what bears a digest is what it is the digest of.
    rows = ({"skey": skey, **value._asdict()} for value in values)
    add_rows(tx, tx.tables.threads.stored_values, ("skey", "digest"), rows)


def require_values(tx: Transaction, skey: int, wanted: Collection[bytes]) -> None:
    """Assert that some values are there. What they consist of goes no sooner than they do.

    Raises:
        StalePlanError: One is gone.
    """
    v = tx.tables.threads.stored_values.c
    for some in _chunks(sorted(wanted)):
        names = _names(len(some))

        def build(names: Sequence[str] = names) -> Select[Any]:
            mine = (v.skey == bindparam("skey"), v.digest.in_([bindparam(name) for name in names]))
            return select(func.count()).where(*mine)

        if tx.rows(tx.prepare(("values there", len(names)), build), _named(skey, names, some))[0][0] < len(some):
            raise StalePlanError


def read_values(
    tx: Transaction, skey: int, wanted: Iterable[bytes], known: Mapping[bytes, bytes]
) -> dict[bytes, bytes]:
    """Values by their digests with all that they consist of; `known` are some that need not be read."""
    v = tx.tables.threads.stored_values.c
    found: dict[bytes, bytes] = {}
    asked: set[bytes] = set()
    left = [*wanted]
    while left:
        ask = sorted({*left}.difference(asked))
        asked.update(ask)
        new = {digest: row for digest in ask if (row := known.get(digest)) is not None}
        answers: list[Any] = []
        for some in _chunks([digest for digest in ask if digest not in new]):
            names = _names(len(some))

            def build(names: Sequence[str] = names) -> Select[Any]:
                mine = (v.skey == bindparam("skey"), v.digest.in_([bindparam(name) for name in names]))
                columns: list[ColumnElement[Any]] = [v.digest, v.data]
                return select(*columns).where(*mine)

            answers.append(tx.later(tx.prepare(("values", len(names)), build), _named(skey, names, some)))
        if answers:
            tx.flush()
        for answer in answers:
            new.update(rows_of_values(answer.rows))
        found.update(new)
        # Level by level: as many round trips as the value is deep, not one for each piece. Most have no names behind.
        left = [digest for row in new.values() if row[:1] in _WITH_NAMES for digest in kids_of(row)]
    return found


def values_below(tx: Transaction, skey: Any, outside: Any, where: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """The values that a checkpoint names, with all that they consist of, in one statement.

    What is missing comes without data; what stands behind the first 64 names of a piece does not come.
    """
    v = tx.tables.threads.stored_values.c

    def row_of(name: Any) -> Any:
        # A subquery and no join: it is an index lookup whatever the planner thinks of the recursion.
        return select(v.data).where(v.skey == skey, v.digest == name).scalar_subquery()

    def columns(names: Any) -> list[Any]:
        """The first of some names that lie behind each other, its row, and the names behind it."""
        first = func.substr(names, literal_column("1"), literal_column(str(NAME)))
        others = func.substr(names, literal_column(str(NAME + 1)))
        return [first.label(quoted("digest")), row_of(first).label(quoted("data")), others.label(quoted("others"))]

    tree: Any = select(*columns(outside)).where(func.length(outside) > literal_column("0"), *where)
    tree = tree.cte(quoted("tree"), recursive=True)
    kind = func.substr(tree.c.data, literal_column("1"), literal_column("1"))
    last: ColumnElement[bytes] = bindparam("q_last", DELTAS[-1])
    # A part that is told by others has few names, as many as its first byte says.
    told = [
        (
            kind.between(bindparam(f"q_told{count}", least), last),
            func.substr(tree.c.data, literal_column("2"), literal_column(str(NAME * count))),
        )
        for count, least in reversed([*enumerate(DELTAS, 1)])
    ]
    is_list = kind.in_([bindparam("q_node", NODE), bindparam("q_splice", SPLICE)])
    below = case((is_list, func.substr(tree.c.data, literal_column("2"), literal_column(str(NAME * _PLACES)))), *told)
    # Each row leads to the one behind it and to its first kid, so that nothing is asked at each place that it may have.
    ways = select(literal_column("0").label(quoted("way"))).union_all(select(literal_column("1"))).cte(quoted("ways"))
    names = case((ways.c.way == literal_column("0"), tree.c.others), else_=below)
    tree = tree.union_all(
        select(*columns(names)).select_from(tree.join(ways, true())).where(func.length(names) > literal_column("0"))
    )
    return select(tree.c.digest, tree.c.data)


def rows_of_values(rows: Iterable[tuple[Any, ...]]) -> dict[bytes, bytes]:
    """Values by digest as they were read; some drivers return bytes as a view."""
    # Of hundreds of pieces a call for each would cost more than reading them.
    return {
        digest if type(digest) is bytes else as_bytes(digest): data if type(data) is bytes else as_bytes(data)
        for digest, data in rows
        if data is not None
    }


def sweep_values(tx: Transaction, skey: int, rows: Iterable[CheckpointRow]) -> None:
    """Remove the values that neither some checkpoints need nor the writes that are stored for good."""
    v = tx.tables.threads.stored_values
    there = {as_bytes(row[0]) for row in tx.once(select(v.c.digest).where(v.c.skey == skey))}
    if not there:
        return
    kind = func.substr(v.c.data, 1, 1)
    lists = tx.once(select(v.c.digest, v.c.data).where(v.c.skey == skey, kind.in_([NODE, SPLICE])))
    start = func.substr(v.c.data, 1, 1 + NAME * len(DELTAS))
    told = tx.once(select(v.c.digest, start).where(v.c.skey == skey, kind.in_(DELTAS)))
    needed = {digest for row in rows for digest in row.digests}
    staying_roots = frozenset(needed)
    # Writes that another rewind cut count too: undoing it brings them back.
    for part in writes_stored(tx, skey):
        after = part
        if gone := tellers(part) - staying_roots:
            after = told_anew(part, gone, read_values(tx, skey, gone, {}).get)
            replace_writes(tx, skey, part, after)
        needed.update(digests_in(unpack_writes(after.body)))
    stays = staying(needed, {**rows_of_values(lists), **rows_of_values(told)})
    again = stays.rows | made_whole(stays.whole, read_values(tx, skey, stays.whole, {}).get)
    for name in there & again.keys():
        tx.change(update(v).where(v.c.skey == skey, v.c.digest == name).values(data=again[name]))
    insert_values(tx, skey, [ValueRow(name, row) for name, row in again.items() if name not in there])
    for some in _chunks(sorted(there - stays.needed)):
        tx.change(delete(v).where(v.c.skey == skey, v.c.digest.in_(some)))


def _chunks(digests: Sequence[bytes]) -> list[Sequence[bytes]]:
    """As many at a time as one statement takes."""
    return [digests[start : start + _CHUNK] for start in range(0, len(digests), _CHUNK)]


def _names(count: int) -> Sequence[str]:
    """Names of parameters, at least so many: few statements for any count."""
    return _PARAMETERS[: 1 << (count - 1).bit_length()]


def _named(skey: int, names: Sequence[str], digests: Sequence[bytes]) -> dict[str, Any]:
    padded = [*digests, *[digests[-1]] * (len(names) - len(digests))]
    return {"skey": skey, **dict(zip(names, padded, strict=True))}


def read_events(tx: Transaction, skey: int, seqs: SeqSet) -> list[MessageParts]:
    """What `MessageRow`s are made of, at some positions."""
    e = tx.tables.events.c
    # Where a column may hold anything, a packed text takes the place of the text that is not there.
    is_one = tx.flavour == "sqlite"

    def build() -> Select[Any]:
        mine = (e.skey == bindparam("skey"), e.seq.between(bindparam("low"), bindparam("high")))
        columns = {name: tx.tables.of_event[name] for name in (*MessageRow._fields, "packed")}
        if is_one:
            columns["text"] = func.coalesce(columns["text"], columns.pop("packed")).label("text")
        return select(*columns.values()).where(*mine)

    statement = tx.prepare("messages between", build)
    answers = [tx.later(statement, {"skey": skey, "low": low, "high": high}) for low, high in seqs.ranges]
    tx.flush()
    found = chain.from_iterable(answer.rows for answer in answers)
    if is_one:
        return [row if type(row[_TEXT]) is not bytes else _unpacked(row, row[_TEXT]) for row in found]
    rows = [*found]
    packed = [len(row[-1]) for row in rows if row[-1] is not None]
    return beside(tx, packed, partial(_with_texts, rows)) if packed else [row[:-1] for row in rows]


def _with_texts(found: Sequence[tuple[Any, ...]]) -> list[MessageParts]:
    return [row[:-1] if row[-1] is None or row[_TEXT] is not None else _unpacked(row[:-1], row[-1]) for row in found]


def _unpacked(found: tuple[Any, ...], packed: bytes) -> MessageRow:
    """A message whose text is packed."""
    return MessageRow(*found)._replace(text=text_in(packed))
