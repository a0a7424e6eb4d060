"""Conversations with a fault each go on, fit, and forget nothing: the benchmark's runs, shorter."""

from __future__ import annotations

import pytest

from benchmarks.fault_runs import FACTS, RUNS, WINDOW

TURNS = 60
FAULTS = [name for name in RUNS if not name.startswith("refused")]
WORDINGS = [name for name in RUNS if name.startswith("refused")]


@pytest.mark.parametrize("name", [*FAULTS, *WORDINGS[::25]])
def test_a_conversation_with_a_fault_goes_on(name: str) -> None:
    done = RUNS[name](TURNS)
    assert done.answered == TURNS
    assert done.found == FACTS
    assert done.largest <= WINDOW
    assert done.problems == []
    # Where nobody told us the window, the provider does, once for each compaction.
    assert done.refused <= (TURNS // 10 if name in WORDINGS else 0)
