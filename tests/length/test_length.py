# ruff: noqa: ANN401 - a place is a URL or a store
"""No public call costs more because a log is long or a database full: what it costs is what it returns or changes.

Each call runs on a log of 100 and on one of 20 000 live events that nothing has archived, among 100 and 2 000 sessions
of other users, and what is exact is compared: functions of Python, statements, rows and their bytes, steps of
SQLite's machine, memory.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._log.log import log_of
from tests.length.calls import CALLS, OF_GRAPHS, grow
from tests.length.meter import Cost, Meter

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Databases

SHORT, LONG = (100, 100), (20_000, 2_000)
ALLOWED = 1.2
SEARCHES = frozenset({"search for something rare", "the search tool"})
"""SQLite looks for the words of a search in each chunk of the index of a log, of which 20 000 events have six."""
ALLOWED_STEPS = 1.9
MEMORY_NOISE = 256 * 1024
"""What tables and lists of the process take now and then to grow. The log itself is several megabytes."""


class Ground(NamedTuple):
    """A short and a long log; files, of which each call gets copies of its own, or what all calls share."""

    short: Any
    long: Any


@pytest.fixture(scope="module")
def ground(backend: str, all_databases: Databases) -> Ground:
    made: list[Any] = []
    for live, others in (SHORT, LONG):
        place: Any = InMemoryStore() if backend == "memory" else all_databases.create(backend)
        with SessionService(place, **_quickly(backend)) as service:
            grow(service, live, others)
        made.append(place)
    return Ground(*made)


def _quickly(backend: str) -> dict[str, Any]:
    return {"sqlite": {"synchronous": "NORMAL"}, "memory": {}}.get(backend, {"create_schema": True})


def cost_of(call: str, backend: str, place: Any, directory: Path) -> Cost:
    """What a call takes the third time."""
    if backend == "sqlite":
        own = directory / f"{call}.db"
        shutil.copy(place.removeprefix("sqlite:///"), own)
        place = f"sqlite:///{own}"
    meter = Meter()
    with SessionService(place, **_quickly(backend)) as service:
        engine = None if backend == "memory" else log_of(service).store._engines.sync  # type: ignore[attr-defined]
        if engine is not None:
            meter.attach(engine)
        act = CALLS[call](service)
        for at in range(2):
            act(at)
        return meter.of(lambda: act(2), lambda: act(3))


@pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_costs_the_same_on_a_long_log(call: str, backend: str, ground: Ground, tmp_path: Path) -> None:
    if (backend, call) == ("memory", "list_sessions"):
        pytest.skip("it goes through all that this process keeps")
    if call in OF_GRAPHS and backend != "sqlite":
        pytest.skip("what all calls share would be a graph's from then on")
    # What is due once a minute falls to whichever call comes first in it: it does so to one of two, not to both.
    grown = _growth(call, backend, ground, tmp_path) and _growth(call, backend, ground, tmp_path)
    assert not grown, f"{call}: {grown}"


def _growth(call: str, backend: str, ground: Ground, directory: Path) -> dict[str, tuple[int, int]]:
    """What a call takes more of on the long log than it may: on the short one, and there."""
    short, long = (cost_of(call, backend, place, directory) for place in ground)
    most = {name: ALLOWED * count for name, count in short._asdict().items()}
    if call in SEARCHES:
        most["steps"] = ALLOWED_STEPS * short.steps
    most["memory"] += MEMORY_NOISE
    most["steps"] += 1  # they are counted in tens, from wherever the call before left off
    return {name: (getattr(short, name), count) for name, count in long._asdict().items() if count > most[name]}
