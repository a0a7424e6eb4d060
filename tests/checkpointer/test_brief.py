"""What a checkpoint's body says briefly comes back as it was, whatever it is, and is brief where it is as usual."""

from __future__ import annotations

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6

from langchain_sessions._chat.address import brief_time, brief_versions, whole_time, whole_versions
from langchain_sessions._core.edge import UNREADABLE, to_micros, utc_now
from langchain_sessions._threads.split import brief_skeleton, whole_skeleton

STEPS = st.builds(lambda step, low: step << 32 | low, st.integers(0, 5), st.sampled_from([0, 1, 7, 2**32 - 1]))
ANY_VERSION = STEPS | st.integers(-(2**63), 2**63 - 1) | st.none() | st.text(max_size=4) | st.floats(allow_nan=False)
REFERENCE = b"\x81\xb6langchain_sessions:ref\x93"


@given(st.lists(STEPS) | st.lists(ANY_VERSION, max_size=5))
def test_versions_come_back(versions: list[object]) -> None:
    packed = ormsgpack.packb(brief_versions(versions))
    found = whole_versions(ormsgpack.unpackb(packed))
    assert found == versions
    assert [type(each) for each in found] == [type(each) for each in versions]


def test_versions_that_are_equal_take_a_byte() -> None:
    version = 4_000 << 32 | 0xDEADBEEF
    assert len(ormsgpack.packb(brief_versions([version] * 9))) <= 10 + 8


@given(st.integers(-(2**62), 2**62) | st.text(), st.uuids().map(str) | st.text(max_size=40))
def test_a_time_comes_back(ts: int | str, cid: str) -> None:
    for near in (cid, str(uuid6())):
        told = ormsgpack.unpackb(ormsgpack.packb(brief_time(ts, near)))
        assert whole_time(told, near) == ts


def test_the_time_of_a_new_id_takes_little() -> None:
    cid, ts = str(uuid6()), to_micros(utc_now())
    assert len(ormsgpack.packb(brief_time(ts, cid))) <= 5
    assert whole_time(brief_time(ts, cid), cid) == ts


@given(st.lists(st.sampled_from([REFERENCE, b"\xc1", b"\1", b"\x81", b"ref", b"\x00"])).map(b"".join))
def test_a_skeleton_comes_back(data: bytes) -> None:
    if data[:1] != b"\xc1":  # MessagePack never begins so
        assert whole_skeleton(brief_skeleton(data)) == data
        assert len(brief_skeleton(data)) <= len(data)


@pytest.mark.parametrize("told", [[], [1, -1], [1, 5], [1, 2**33, 0], [0, 1, 1], ["x", 1, 1], [1, None], None, [None]])
def test_versions_that_are_altered_are_refused(told: object) -> None:
    with pytest.raises(UNREADABLE):
        assert whole_versions(told) is None  # type: ignore[arg-type]


def test_a_time_that_lost_its_id_is_refused() -> None:
    with pytest.raises(UNREADABLE):
        whole_time(-7, "checkpoint")
