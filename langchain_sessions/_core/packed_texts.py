"""Long texts of events as a database stores them: deflated, in a column of their own in the place of both texts.

A row whose text is packed is read as it was written; which rows are packed only the statements know that read and
write them. What keyword search compares is packed along where it cannot be made of the text again.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions._core.edge import UNREADABLE, fold
from langchain_sessions._core.flow import computed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.rows import EventRow

PACKED_FROM: Final = 1_000
"""Characters. Of 500 a fifth of the row would be saved for 12 µs of CPU; of these half, and of 20 000 two thirds."""
_MOST: Final = 1 << 24
"""Bytes, of both texts: what was tampered with must not blow up to gigabytes."""
_LEVEL: Final = 4
"""Two thirds of what 6 takes, for a thirtieth more."""
Packed = Mapping[tuple[str, str | None], "bytes | None"]
"""Long texts that are about to be stored, with what is compared of each, as `pack_text` packed them."""
NOTHING_PACKED: Final[Packed] = MappingProxyType({})
_MISSING: Final = b""
# What keyword search compares: the lower case of the text, the text folded, or what stands behind it.
_LOWER, _FOLDED, _BEHIND = b"\1", b"\2", b"\3"
_SPLIT: Final = "\0"
"""No stored text has it."""
# Inflated by `zlib`, which checks the sum at the end: a damaged text is told from a good one.


def pack_text(text: str, folded: str | None) -> bytes | None:
    """The texts of a row, deflated; None where an eighth would not be saved."""
    how, said = _LOWER, text
    if folded is not None:
        how = _FOLDED if folded == fold(text) else _BEHIND
        said = text if how == _FOLDED else f"{text}{_SPLIT}{folded}"
    data = said.encode()
    if len(data) > _MOST:
        return None
    small = zlib.compress(data, _LEVEL)
    return how + small if len(small) < len(data) * 7 // 8 else None


def packed_ahead(rows: Iterable[EventRow]) -> Flow[Packed]:
    """The long texts of rows that are about to be stored, packed before anything is locked; beside an event loop.

    Who stores them is given it along, as often as he tries.
    """
    texts = {(text, row.folded) for row in rows if (text := row.text) is not None and is_long(text)}
    return computed(sum(len(text) for text, _ in texts), lambda: {each: pack_text(*each) for each in texts})


def unpack_text(packed: bytes) -> tuple[str, str | None]:
    """What `pack_text` was given.

    Raises:
        ValueError: It was altered.
        TypeError: Something else stands where bytes were written.
        zlib.error: It was altered, likewise.
    """
    how, text, folded = _inflated(packed)
    return text, folded if how == _BEHIND else fold(text) if how == _FOLDED else None


def _inflated(packed: bytes) -> tuple[bytes, str, str]:
    data = memoryview(packed)
    unpacker = zlib.decompressobj()
    said = unpacker.decompress(data[1:], _MOST).decode()
    how = bytes(data[:1])
    if not unpacker.eof or unpacker.unused_data or how not in (_LOWER, _FOLDED, _BEHIND):
        raise ValueError(len(data))
    text, _, folded = said.partition(_SPLIT) if how == _BEHIND else (said, "", "")
    return how, text, folded


def said_in(packed: bytes) -> tuple[str | None, str | None]:
    """Both texts of a packed row; none of one that is damaged, so that whoever decodes the message says it."""
    try:
        return unpack_text(packed)
    except UNREADABLE:
        return None, None


def text_in(packed: bytes) -> str | None:
    """The text of a packed row alone: what is compared of it takes as long to make again."""
    try:
        return _inflated(packed)[1]
    except UNREADABLE:
        return None


def is_long(text: str | None) -> bool:
    """Whether a text is packed where that saves something."""
    return text is not None and len(text) >= PACKED_FROM


def packed_form(row: EventRow, ahead: Packed = NOTHING_PACKED) -> tuple[Any, ...]:
    """The values of a row as they are stored, and behind them a long text, which then is in no column of its own.

    What takes the place of another message keeps it there: others may be told by it, as `_sql/log/revisions` says.
    """
    text = row.text
    if text is None or not is_long(text) or row.position is not None:
        return (*row, None)
    packed = ahead.get((text, row.folded), _MISSING)
    if packed is _MISSING:
        packed = pack_text(text, row.folded)
    return (*row, None) if packed is None else (*row._replace(text=None, folded=None), packed)
