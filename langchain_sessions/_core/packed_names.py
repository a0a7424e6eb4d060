"""The names of a checkpoint's channels and nodes, for the row that holds them itself."""

from __future__ import annotations

import zlib
from functools import lru_cache

import ormsgpack

_ALTERED = "names are altered"
MOST_NAMES = 512
_USUAL_NAMES = b"\xa5tools\xa5model\xa5agent\xb1branch:to:\xa8messages\x91\xa8messages" + ormsgpack.packb(
    [["__start__"], [["__input__", []], ["__start__", ["__start__"]]], ["__start__"]]
)
"""Names that most graphs have. Part of the format: what was packed with it needs it as it is."""


@lru_cache(256)
def packed_names(names: bytes) -> bytes:
    """The names of a shape, at most `MOST_NAMES` bytes, for the row that holds them itself."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -9, 1, zlib.Z_DEFAULT_STRATEGY, _USUAL_NAMES)
    return packer.compress(names) + packer.flush()


def unpacked_names(packed: bytes) -> bytes:
    """What `packed_names` packed; a `ValueError` where it was altered."""
    unpacker = zlib.decompressobj(-15, _USUAL_NAMES)
    try:
        names = unpacker.decompress(packed, MOST_NAMES)
    except zlib.error as error:
        raise ValueError(_ALTERED) from error
    if not unpacker.eof:
        raise ValueError(_ALTERED)
    return names
