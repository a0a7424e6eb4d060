"""Vectors as they are stored: whole numbers of one byte each, so that every machine and database ranks alike.

A vector of 384 dimensions takes 388 bytes. The loss is less than a hundredth of what tells two sentences apart, and
products of whole numbers are exact: no rounding differs between processors. No library for numbers is needed for the
few hundred vectors that a search compares.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from dataclasses import dataclass
from operator import mul
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from langchain_sessions._recall.index.columns import from_bytes

if sys.version_info >= (3, 12):
    from math import sumprod
else:

    def sumprod(left: Iterable[int], right: Iterable[int], /) -> int:
        """The sum of products."""
        return sum(map(mul, left, right))


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._core.codec.any_message import MessageCodec

VECTOR_LAYOUT: Final = 2
"""Raised whenever vectors are stored otherwise, or made of another text: those of another layout are made anew."""

P = TypeVar("P")

_NORM: Final = Struct("<f")
_MIDDLE: Final = 128
_MOVED_UP: Final = bytes(number ^ _MIDDLE for number in range(256))
_MOST_ADDED: Final = 255
_TOO_LARGE: Final = 2**32
_STORED: Final = 127
_ASKED: Final = 32_767
_FOLDED: Final = 32
_SAME: Final = 0.95


@dataclass(frozen=True, slots=True)
class QueryVector:
    """What a query means, in whole numbers.

    Attributes:
        numbers: Its direction.
        norm: Its length.
    """

    numbers: tuple[int, ...]
    norm: float

    @classmethod
    def of(cls, values: Sequence[float]) -> QueryVector | None:
        """From what an embedder returned; None where it says nothing."""
        numbers = _whole(values, _ASKED)
        return cls(numbers, math.sqrt(sumprod(numbers, numbers))) if any(numbers) else None

    @property
    def signs(self) -> int:
        """A bit for each number, as `signs_of` tells of stored ones."""
        middle = sum(self.numbers) // len(self.numbers) if min(self.numbers) >= 0 else 0
        return int("".join(["01"[number > middle] for number in self.numbers]), 2)

    def cosine(self, packed: bytes) -> float | None:
        """Similarity to a stored vector; None where that is no vector of this size."""
        return self.cosines({"": packed}).get("")

    def cosines(self, packed: Mapping[P, bytes]) -> dict[P, float]:
        """Similarities to stored vectors; what is no vector of this size is left out."""
        size = _NORM.size + len(self.numbers)
        known = {place: _NORM.unpack_from(data)[0] for place, data in packed.items() if len(data) == size}
        products = self._products([packed[place][_NORM.size :] for place in known])
        return {
            place: product / (self.norm * norm)
            for (place, norm), product in zip(known.items(), products, strict=True)
            if norm
        }

    def _products(self, vectors: Sequence[bytes]) -> list[int]:
        """The sum of products with each of some vectors, made for all of them at once.

        The numbers that they have in one place are laid end to end with room between, one large number, which is
        multiplied as a whole: a sixth of the time that it takes to multiply number by number.
        """
        code, width = ("I", 4) if _MOST_ADDED * sum(map(abs, self.numbers)) < _TOO_LARGE else ("Q", 8)
        # Numbers from 0 to 255, and apart those that are taken away: nothing is borrowed from a neighbour.
        joined = b"".join(vectors).translate(_MOVED_UP)
        room = bytearray(width * len(vectors))
        added = taken = 0
        for at, number in enumerate(self.numbers):
            if number:
                room[::width] = joined[at :: len(self.numbers)]
                if number > 0:
                    added += number * int.from_bytes(room, "little")
                else:
                    taken -= number * int.from_bytes(room, "little")
        plus, minus = (from_bytes(code, each.to_bytes(len(room), "little")) for each in (added, taken))
        moved = _MIDDLE * sum(self.numbers)
        return [more - less - moved for more, less in zip(plus, minus, strict=True)]


class VectorFormat:
    """Turns vectors into bytes and back.

    A vector tells much of the text that it was made of. A codec that encrypts messages therefore seals vectors too.

    Args:
        codec: That of the messages.
    """

    def __init__(self, codec: MessageCodec) -> None:
        self._codec = codec

    def fingerprint(self, signature: str) -> str:
        """What tells vectors apart that must not be compared: their form, and the embedder's signature."""
        return f"{VECTOR_LAYOUT}{'s' if self._codec.encrypts else 'p'}:{signature}"

    def same(self, fingerprint: str, other: str) -> bool:
        """Whether two fingerprints are of the same form and embedder; one machine computes a little unlike another."""
        form, _, signature = fingerprint.partition(":")
        other_form, _, other_signature = other.partition(":")
        return form == other_form and _same_signature(signature, other_signature)

    def pack(self, values: Sequence[float]) -> bytes:
        """A vector as it is stored; nothing where it says nothing."""
        packed = packed_numbers(values)
        return self.sealed(packed) if packed else b""

    def sealed(self, packed: bytes) -> bytes:
        """What was packed, as it is stored."""
        if not self._codec.encrypts:
            return packed
        return self._codec.seal_text(json.dumps(base64.b64encode(packed).decode())).encode()

    def unpack(self, session_id: str, seq: int, stored: bytes) -> bytes:
        """What was packed, unsealed where it was sealed.

        Raises:
            SealedEventError: The codec has another key.
        """
        if not self._codec.encrypts:
            return stored
        return base64.b64decode(str(self._codec.unseal_text(session_id, seq, stored.decode())))


def packed_numbers(values: Sequence[float]) -> bytes:
    """A vector in a byte for each number, after its length; nothing where it says nothing."""
    numbers = _whole(values, _STORED)
    if not any(numbers):
        return b""
    return _NORM.pack(math.sqrt(sumprod(numbers, numbers))) + bytes(number & 0xFF for number in numbers)


def numbers_in(packed: bytes) -> bytes:
    """The numbers of a packed vector."""
    return packed[_NORM.size :]


def signature_of(values: Sequence[float]) -> str:
    """A short name of the embedder that made this vector of a known text."""
    folded = [0.0] * _FOLDED
    for at, value in enumerate(values):
        folded[at % _FOLDED] += value if at // _FOLDED % 2 == 0 else -value
    return f"{len(values)}:{bytes(number & 0xFF for number in _whole(folded, _STORED)).hex()}"


def _same_signature(signature: str, other: str) -> bool:
    size, _, digits = signature.partition(":")
    other_size, _, other_digits = other.partition(":")
    if digits == other_digits or size != other_size:
        return size == other_size
    mine, yours = _numbers(digits), _numbers(other_digits)
    norms = math.sqrt(sumprod(mine, mine) * sumprod(yours, yours))
    return norms > 0 and sumprod(mine, yours) / norms >= _SAME


def _numbers(digits: str) -> list[int]:
    return list(memoryview(bytes.fromhex(digits)).cast("b"))


def _whole(values: Sequence[float], most: int) -> tuple[int, ...]:
    """A direction in whole numbers of which the largest is `most`; zeroes where it has none."""
    largest = max(map(abs, values), default=0.0)
    if not largest:
        return (0,) * len(values)
    return tuple(round(value / largest * most) for value in values)
