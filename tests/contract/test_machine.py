"""Random use of every store, compared with a list: seconds here, hours under `make soak`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from langchain_sessions.testing.machine import machine_for

if TYPE_CHECKING:
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.testing import Face, PrivateLoop

# Examples and steps. A step on a server is some twenty round trips.
SIZES = {"memory": (60, 30), "files": (6, 20), "sqlite": (15, 20), "postgres": (4, 14), "mariadb": (4, 14)}
DEEPER = int(os.environ.get("LANGCHAIN_SESSIONS_SOAK", "1"))


@pytest.mark.timeout(120 * DEEPER)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_random_use(face: Face, backend: str, shared_store: SessionStore, shared_loop: PrivateLoop) -> None:
    """S01."""
    examples, steps = SIZES[backend]
    run_state_machine_as_test(
        machine_for(lambda: (shared_store, face, shared_loop)),
        settings=settings(
            max_examples=examples * DEEPER,
            stateful_step_count=steps * min(DEEPER, 3),
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
