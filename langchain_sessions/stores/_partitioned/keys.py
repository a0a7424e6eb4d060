"""Keys of the rows of a partition: ASCII texts whose order is the order of what they name.

Each begins with the partition's own number, which is never used again: rows of a session that was deleted under the
same id are out of reach whether they are gone yet or not.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from langchain_sessions.stores.engine import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.ranges import SeqRange

_SIGN = 1 << 63
_PART = 19
"""Where in a key what is behind its part begins."""
EVENT, NAME, MARK, DELTA, RUN, VALUE = "e", "n", "m", "d", "i", "s"
LEFT, TRAITS, BUCKET, VECTOR, CLAIMS = "u", "f", "x", "v", "l"
CHECKPOINT, CHECKPOINT_ID, WRITES, STAGED, OUTSIDE, SHAPE, NAMESPACE, OF_RUN = "k", "z", "w", "t", "q", "h", "g", "j"

_DIGEST, _NUMBER, _ID = 1, 13, 14
_SHELVED = {
    **dict.fromkeys((EVENT, MARK, DELTA), _NUMBER),
    **dict.fromkeys((NAME, RUN, LEFT, OUTSIDE, OF_RUN), _DIGEST),
    BUCKET: 16,
    VECTOR: 17 + _NUMBER,
    CHECKPOINT: 17 + _ID,
    **dict.fromkeys((CHECKPOINT_ID, WRITES), _ID),
}
"""How many characters behind its part tell the shelf of a key: 4096 positions, or some minutes of checkpoints."""


def prefix(skey: int) -> str:
    """How all keys of a partition begin."""
    return f"{skey:016x}/"


def at(skey: int, part: str, *where: int | str) -> str:
    """A key: numbers by size, texts by code point; both signs of a number in one order."""
    found = [f"{skey:016x}", part]
    # Moved up by half their range, so that numbers below zero stand before those above it.
    found += [f"{each + _SIGN:016x}" if type(each) is int else each.encode().hex() for each in where]  # type: ignore[union-attr]
    return "/".join(found)


def digest(name: str) -> str:
    """A text of any length as one of bounded length."""
    return blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def number_in(key: str, place: int = -1) -> int:
    """The number that is one part of a key."""
    return int(key.split("/")[place], 16) - _SIGN


def text_in(key: str, place: int = -1) -> str:
    """The text that is one part of a key."""
    return bytes.fromhex(key.split("/")[place]).decode()


def under(key: str, limit: int | None = None, *, newest: bool = False) -> Range:
    """All rows whose keys go on behind a key."""
    # `0` is the character behind the stroke.
    return Range(f"{key}/", f"{key}0", limit, newest)


def exactly(key: str) -> Range:
    """The one row that has a key."""
    return Range(key, f"{key}!", 1)


def between(skey: int, part: str, first: int, last: int, limit: int | None = None, *, newest: bool = False) -> Range:
    """Rows of a part that is ordered by one number, both ends included."""
    return Range(at(skey, part, first), f"{at(skey, part, last)}!", limit, newest)


def in_runs(skey: int, part: str, runs: Iterable[SeqRange]) -> list[Range]:
    """Rows of a part at some positions."""
    return [between(skey, part, low, high) for low, high in runs]


def shelf_of(key: str) -> str:
    """The shelf of a row, a beginning of its key: an engine may keep the old rows of a partition apart by it.

    Rows of one shelf stand beside each other, and none has many more than a few thousand of them.
    """
    return key[: _PART + _SHELVED.get(key[_PART - 2 : _PART - 1], 0)]
