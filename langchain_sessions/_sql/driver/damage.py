"""Whether what a transaction has read is what was written: asked after an operation has tripped, and only then.

An operation trips over damage or over a mistake of its own, and both raise what Python raises over a wrong value. So
the decoders are asked: where everything that was read can be read, the error is told as what it is, a mistake.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import Integer, LargeBinary, String

from langchain_sessions._core.checkpoints import unpack_staged, unpack_writes
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.ledger import Ledger
from langchain_sessions._core.packed_texts import unpack_text
from langchain_sessions._core.ranges import decode_ranges
from langchain_sessions._core.rows import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions._sql.tables.schema import Tables

Read = tuple[tuple[str, ...], "Sequence[Sequence[Any]]"]
"""The names of the columns of a statement, and the rows that it answered."""


def is_damaged(read: Iterable[Read], tables: Tables) -> bool:
    """Whether something among the rows that were read is not what was ever written."""
    kinds = _kinds(tables)
    return any(
        not _fits(_meant(name, names), value, kinds)
        for names, rows in read
        for row in rows
        if len(row) == len(names)
        for name, value in zip(names, row, strict=True)
        if value is not None
    ) or any(not _is_mark(row) for names, rows in read if names == _MARK for row in rows)


def _meant(name: str, names: Sequence[str]) -> str:
    """What a column is that has the name of others: told by those beside it."""
    if name == "body" and not _OF_WRITES.isdisjoint(names):
        return "staged" if "n" in names else "writes"
    return "event kind" if name == "kind" and "ident" in names else name


def _is_mark(row: Sequence[Any]) -> bool:
    """Whether a ledger can be made of a mark."""
    try:
        Ledger.of([Mark(*row)], 1)
    except UNREADABLE:
        return False
    return True


def _kinds(tables: Tables) -> dict[str, set[type]]:
    """What Python makes of the columns of each name."""
    found: dict[str, set[type]] = {}
    for table in tables.metadata.tables.values():
        for column in table.c:
            kinds = found.setdefault(column.name, set())
            if isinstance(column.type, Integer):
                kinds.update((int, Decimal))
            elif isinstance(column.type, (String, LargeBinary)):
                # Names that compare by their bytes come as either, driver by driver.
                kinds.update((str, bytes, memoryview))
    return found


def _fits(name: str, value: Any, kinds: Mapping[str, set[type]]) -> bool:
    allowed = kinds.get(name)
    if allowed and not isinstance(value, tuple(allowed)):
        return False
    decode = _DECODERS.get(name)
    if decode is None:
        return True
    try:
        decode(value)
    except UNREADABLE:
        return False
    return True


def _document(text: Any) -> None:
    if not isinstance(json.loads(text), dict):
        raise TypeError


def _ranges(data: Any) -> None:
    # Text without a character decodes as no ranges, and was never written.
    decode_ranges(bytes(memoryview(data)))


def _within(most: int) -> Callable[[Any], None]:
    def check(number: Any) -> None:
        if not isinstance(number, (int, Decimal)) or not 0 <= number < most:
            raise ValueError

    return check


def _mark(data: Any) -> None:
    if isinstance(data, str):
        json.loads(data)


_MARK = Mark._fields
_OF_WRITES = frozenset({"n", "part"})
"""Columns beside which a body holds pending writes; what other bodies hold their serializer alone can read."""
_COUNT = _within(1 << 62)
"""Far from the end of what a column holds: what is added to it never overflows it."""
_DECODERS: dict[str, Callable[[Any], object]] = {
    "data": _mark,
    "delta": _document,
    "event kind": _within(1 << 15),
    "events": _COUNT,
    "extra": _document,
    "flags": _within(1 << 31),
    "head_runs": _ranges,
    "indexed_to": _COUNT,
    "initial_state": _document,
    "ledger": Ledger.decode,
    "live_events": _COUNT,
    "live_tokens": _COUNT,
    "live_turns": _COUNT,
    "metadata": _document,
    "others": _ranges,
    "packed": unpack_text,
    "refs": _ranges,
    "runs": _ranges,
    "staged": lambda body: unpack_staged(0, body).writes,
    "state": _document,
    "tokens": _within(1 << 40),
    "turns": _COUNT,
    "value": json.loads,
    "writes": unpack_writes,
}
