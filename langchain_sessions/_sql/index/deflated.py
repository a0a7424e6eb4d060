"""Rows of the index that are deflated: above all those of long messages, of whose logs they are the larger part.

The numbers of passages in which words occur, one list a word, shrink to less than half. Logs of short messages have
many chunks of which a search reads the same words, so their words mostly stay as they are read.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions._sql.tables.recall import TRAITS
from langchain_sessions._sql.tables.types import as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_sessions.stores._values import StoredChunk

_DEFLATED: Final = b"\xff\xff\xff\xff"
"""Where a bucket says how long its words are, which are never so long; traits begin with a bracket."""
_LONG: Final = 128
"""Terms of a message, on average: of about 1 000 characters."""
_FEWEST: Final = 2_000
_MOST: Final = 1 << 26
"""Bytes: what was tampered with must not blow up to gigabytes."""
_LEVEL: Final = 4
"""Half of what 6 takes, for a thirtieth more."""


def rows_of(flavour: str, chunk: StoredChunk, buckets: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The rows of a chunk by the names of its buckets, as they are stored in a database."""
    # Traits are read once by a process, words by each search.
    yield TRAITS, _deflated(chunk.traits)
    # PostgreSQL would compress what is longer itself, by a third of that, and inflate it for each search.
    are_deflated = flavour == "postgresql" or chunk.terms > _LONG * chunk.events
    for name, data in buckets.items():
        yield name, _deflated(data) if are_deflated else data


def _deflated(data: bytes) -> bytes:
    if not _FEWEST <= len(data) <= _MOST:
        return data
    small = zlib.compress(data, _LEVEL)
    return _DEFLATED + small if len(small) < len(data) * 3 // 4 else data


def opened(data: Any) -> bytes:
    """What was stored, inflated; as it is where that is damaged, so that its reader says so."""
    found = as_bytes(data)
    if not found.startswith(_DEFLATED):
        return found
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(found[len(_DEFLATED) :], _MOST)
    except zlib.error:
        return found
    return whole if unpacker.eof else found
