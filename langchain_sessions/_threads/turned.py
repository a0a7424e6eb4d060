"""How the bytes of a large value lie in its pieces.

What grows says at its beginning how much it holds: with each item that a list is given its first piece would be another
one. So the beginning lies behind the rest, where a list that grows changes anyway.
"""

from __future__ import annotations

TURNED = 32
"""Added to the kind of a value in pieces: its beginning lies behind the rest."""
_MANY = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
"""How msgpack begins what holds many, and how long such a beginning is; of few it is a byte from 0x80 to 0x9f."""
_ALTERED = "a value is altered"


def beginning(data: bytes, start: int) -> int:
    """Behind what says of a list or a dict how much it holds; where it would begin, of anything else."""
    first = data[start] if start < len(data) else 0
    return start + (1 if first & 0xE0 == 0x80 else _MANY.get(first, 0))  # noqa: PLR2004 - as msgpack has it


def turned(data: bytes, start: int) -> bytes | None:
    """A value with its beginning behind the rest; None for what says nothing of how much it holds.

    Args:
        data: The value.
        start: How much of it goes before: what says how to read it.
    """
    end = beginning(data, start)
    if start == end or end > 0xFF:  # noqa: PLR2004 - a byte says how long it is
        return None
    return b"".join((memoryview(data)[end:], data[:end], bytes((end,))))


def turned_back(data: bytes) -> bytes:
    """What `turned` was given.

    Raises:
        ValueError: It was altered.
    """
    end = data[-1] if data else 0
    if end >= len(data):
        raise ValueError(_ALTERED)
    return b"".join((memoryview(data)[-1 - end : -1], memoryview(data)[: -1 - end]))
