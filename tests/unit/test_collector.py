"""The collector rests for a while, and is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from langchain_sessions._core.collecting import resting_collector


def test_the_collector_rests_and_goes_on_whatever_happens() -> None:
    with resting_collector():
        assert not gc.isenabled()
        with resting_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), resting_collector():
        _ = 1 // 0
    assert gc.isenabled()


def test_one_that_somebody_stopped_stays_so() -> None:
    gc.disable()
    try:
        with resting_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
