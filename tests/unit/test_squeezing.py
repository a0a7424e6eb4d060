"""Bodies of thread rows, deflated: they come back equal, and one that was altered is refused."""

from __future__ import annotations

import zlib
from random import Random

import ormsgpack
import pytest

from langchain_sessions._core.checkpoints import opened, squeezed

DRAW = Random(1)  # noqa: S311 - no secret
WORDS = " ".join(DRAW.choices(["lantern", "harbour", "captain", "ledger", "salt"], k=20_000)).encode()


@pytest.mark.parametrize("size", [0, 1, 128, 129, 400, 4_096, 4_097, 60_000])
def test_a_body_comes_back_equal(size: int) -> None:
    for body in (WORDS[:size], DRAW.randbytes(size)):
        stored = squeezed(ormsgpack.packb([body]))
        assert ormsgpack.unpackb(opened(stored)) == [body]
    assert len(squeezed(WORDS[:size])) <= size


def test_only_what_becomes_smaller_is_deflated() -> None:
    body = b"\x92" + WORDS[:600]
    noise = b"\x92" + DRAW.randbytes(600)
    assert len(squeezed(body)) < 400
    assert squeezed(noise) == noise
    assert squeezed(body[:128]) == body[:128]


def test_what_was_deflated_without_words_is_read() -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, -12, 5)
    assert opened(b"\xc1" + packer.compress(WORDS[:600]) + packer.flush()) == WORDS[:600]


def test_an_altered_body_is_refused() -> None:
    stored = squeezed(b"\x92" + WORDS[:600])
    for altered in (stored[:40], stored[:1] + b"\xff" * 40, stored[:1]):
        with pytest.raises(ValueError, match="altered"):
            opened(altered)


def test_a_body_that_blows_up_is_refused() -> None:
    stored = squeezed(bytes(1 << 20))
    assert opened(stored) == bytes(1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    with pytest.raises(ValueError, match="altered"):
        opened(b"\xc1" + packer.compress(bytes(1 << 24)) + packer.flush())
