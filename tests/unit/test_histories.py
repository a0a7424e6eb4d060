"""The checker of histories finds what it is for: a history with an anomaly of each kind, and one without."""

from __future__ import annotations

import pytest

from tests.engines.histories import Operation, anomalies

FINE = [
    Operation(0, 1, "s", "a"),
    Operation(0, None, "s", "b"),
    Operation(2, 3, "s", "c"),
    Operation(2, 4, "s", seen=("a",)),
    Operation(5, 6, "s", seen=("a", "c")),
    Operation(7, 8, "s", seen=("a", "c", "b")),
]


def test_a_history_that_some_order_explains_has_none() -> None:
    """An append that failed may come late, and one beside a read may be seen or not."""
    assert anomalies(FINE) == []


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ([*FINE, Operation(9, 10, "s", seen=("a", "c", "b", "a"))], "twice"),
        ([*FINE, Operation(9, 10, "s", seen=("a", "b"))], "disagree"),
        ([*FINE, Operation(9, 10, "s", seen=("a", "c", "b", "d"))], "nobody added it"),
        ([*FINE, Operation(9, 10, "s", "d")], "is lost"),
        ([*FINE, Operation(9, 10, "s", seen=("a",))], "cycle"),  # a stale read
        ([Operation(0, 1, "s", "b"), Operation(2, 3, "s", "a"), Operation(4, 5, "s", seen=("a", "b"))], "cycle"),
    ],
)
def test_an_anomaly_is_found(operations: list[Operation], problem: str) -> None:
    assert [problem in found for found in anomalies(operations)] == [True]
