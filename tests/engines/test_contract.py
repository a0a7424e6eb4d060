"""The whole contract, the engine's and the store's, on three nodes; and random use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from langchain_sessions.testing import EngineContract, PrivateLoop, StoreContract
from langchain_sessions.testing.machine import machine_for

if TYPE_CHECKING:
    from langchain_sessions import PartitionedStore
    from langchain_sessions.stores._cassandra.engine import CassandraEngine
    from langchain_sessions.testing import Face

DEEPER = int(os.environ.get("LANGCHAIN_SESSIONS_SOAK", "1"))


class TestCassandraEngine(EngineContract):
    """What the base asks of an engine."""

    @pytest.fixture
    def engine(self, engine: CassandraEngine) -> CassandraEngine:
        return engine


class TestCassandraStore(StoreContract):
    """What everybody asks of a store."""

    @pytest.fixture
    def store(self, store: PartitionedStore) -> PartitionedStore:
        return store


@pytest.mark.timeout(600 * DEEPER)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_random_use(face: Face, store: PartitionedStore) -> None:
    """S01."""
    loop = PrivateLoop()
    run_state_machine_as_test(
        machine_for(lambda: (store, face, loop)),
        settings=settings(
            max_examples=3 * DEEPER,
            stateful_step_count=14 * min(DEEPER, 3),
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        ),
    )
    loop.close()
