"""Cassandra's own tests: they run where `python -m tests.servers.cassandra` has started the nodes, and say so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers import cassandra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions import PartitionedStore
    from langchain_sessions.stores._cassandra.engine import CassandraEngine
    from tests.engines.counting import Counting

URL = os.environ.get(cassandra.URL, "")


def pytest_ignore_collect() -> bool | None:
    """Without nodes there is nothing here."""
    return None if URL else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which engine ran, and how often."""
    if not URL:
        return
    ran = sum(len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "failed"))
    terminalreporter.section("engines")
    terminalreporter.write_line(f"cassandra ran ({cassandra.RELEASE}, three nodes): {ran} tests")
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            if name == "figure":
                terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def nodes() -> cassandra.Nodes:
    """The nodes of this run."""
    return cassandra.Nodes(Path(os.environ[cassandra.FOLDER]))


@pytest.fixture(scope="session")
def engine() -> Iterator[CassandraEngine]:
    """An engine on all nodes; every test works in an app of its own."""
    from langchain_sessions.stores._cassandra.engine import CassandraEngine  # noqa: PLC0415 - an extra

    made = CassandraEngine(URL)
    made.create_schema()
    yield made
    made.close()


@pytest.fixture(scope="session")
def store(engine: CassandraEngine) -> PartitionedStore:
    """The store over the engine."""
    from langchain_sessions import PartitionedStore  # noqa: PLC0415 - only where the engine is

    return PartitionedStore(engine)


@pytest.fixture
def counting() -> Iterator[Counting]:
    """An engine of its own that counts."""
    from tests.engines.counting import Counting  # noqa: PLC0415 - an extra

    made = Counting(URL)
    made.create_schema()
    yield made
    made.close()
