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
from typing import TYPE_CHECKING, Final

if sys.version_info >= (3, 12):
    from math import sumprod
else:

    def sumprod(left: Iterable[int], right: Iterable[int], /) -> int:
        """The sum of products."""
        return sum(map(mul, left, right))


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._core.codec.any_message import MessageCodec

VECTOR_LAYOUT: Final = 2
"""Raised whenever vectors are stored otherwise, or made of another text: those of another layout are made anew."""

_NORM: Final = Struct("<f")
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

    def cosine(self, packed: bytes) -> float | None:
        """Similarity to a stored vector; None where that is no vector of this size."""
        if len(packed) != _NORM.size + len(self.numbers):
            return None
        (norm,) = _NORM.unpack_from(packed)
        numbers = memoryview(packed)[_NORM.size :].cast("b")
        return sumprod(self.numbers, numbers) / (self.norm * norm) if norm else None


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
        numbers = _whole(values, _STORED)
        if not any(numbers):
            return b""
        norm = math.sqrt(sumprod(numbers, numbers))
        packed = _NORM.pack(norm) + bytes(number & 0xFF for number in numbers)
        if self._codec.encrypts:
            return self._codec.seal_text(json.dumps(base64.b64encode(packed).decode())).encode()
        return packed

    def unpack(self, session_id: str, seq: int, stored: bytes) -> bytes:
        """A packed vector, unsealed where it was sealed.

        Raises:
            SealedEventError: The codec has another key.
        """
        if not self._codec.encrypts:
            return stored
        return base64.b64decode(str(self._codec.unseal_text(session_id, seq, stored.decode())))


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
