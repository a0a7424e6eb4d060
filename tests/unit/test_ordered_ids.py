"""Ids of checkpoints as bytes: they come back as they were, and sort as the ids do, whatever these are."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from langchain_sessions._core.edge import LONGEST, packed_id, unpacked_id
from langchain_sessions.errors import CorruptRowError

NIL, ALL = str(uuid.UUID(int=0)), str(uuid.UUID(int=2**128 - 1))
# Few digits, so that many ids have long beginnings in common.
FEW = st.text("09af", min_size=32, max_size=32).map(lambda digits: str(uuid.UUID(digits)))
TAILS = st.text("09af-:g!/`@é\x00 A", max_size=3)
CUT = st.builds(lambda name, at, tail: name[:at] + tail, FEW, st.integers(0, 37), TAILS)
SWAPPED = st.builds(lambda name, at, tail: name[:at] + tail + name[at + 1 :], FEW, st.integers(0, 35), TAILS)
IDS = FEW | CUT | SWAPPED | st.text(max_size=40) | st.uuids().map(str)


DASHED = "--345678-1234-1234-1234-123456789012"


@settings(max_examples=600)
@given(IDS, IDS)
@example(NIL, "")
@example(NIL, NIL + "0")
@example(NIL[:-1] + "1", NIL + "x")
@example(ALL, ALL + "a")
@example(ALL, "g")
@example("00000000", "00000000-")
@example(DASHED, "34--5678-1234-1234-1234-123456789012")
def test_they_sort_as_the_ids_do(one: str, other: str) -> None:
    assert (packed_id(one) < packed_id(other)) == (one < other)
    assert (packed_id(one) == packed_id(other)) == (one == other)


@given(IDS)
@example(DASHED)
@example("1234-678-1234-1234-1234-1234--789012")
def test_they_come_back(name: str) -> None:
    assert unpacked_id(packed_id(name)) == name


@given(st.lists(IDS, max_size=30))
def test_lists_sort_alike(names: list[str]) -> None:
    assert [unpacked_id(each) for each in sorted(map(packed_id, names))] == sorted(names)


def test_a_uuid_is_short_in_its_usual_form_alone() -> None:
    name = str(uuid.uuid4())
    assert packed_id(name) == uuid.UUID(name).bytes
    for other in (name.upper(), f"{{{name}}}", name.replace("-", ""), NIL):
        assert len(packed_id(other)) > 16
    assert len(packed_id("\U0010ffff" * 255)) == LONGEST


def test_bytes_that_were_altered_are_refused() -> None:
    with pytest.raises(CorruptRowError):
        unpacked_id(b"short")
