"""V01, V05: what commit a76aedc has written is read back equal, also after a migration that was killed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command
from sqlalchemy import text

from langchain_sessions import SessionCheckpointSaver, SessionService
from langchain_sessions._sql.tables.schema import SCHEMA_VERSION
from tests.faults.drills import engines_of, make_service, opened
from tests.faults.injection import Injector
from tests.faults.processes import CONTEXT
from tests.migrations.first_release import (
    chat_graph,
    config_of,
    desk_graph,
    everything_seen,
    frozen,
    sealed_seen,
    service_of,
    thaw,
)
from tests.migrations.steps import die_at, die_creating, upgrade, upgrade_at
from tests.servers.databases import connection

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {"sqlite": "sqlite", "postgres": "postgresql", "mariadb": "mariadb"}
on_databases = pytest.mark.backends(*NAMES)


@pytest.fixture
def thawed(backend: str, fresh_database: Callable[[], str]) -> Callable[[], str]:
    """Gives out databases as they were written."""

    def make() -> str:
        thaw(NAMES[backend], url := fresh_database())
        return url

    return make


@pytest.fixture
def found(backend: str) -> dict[str, Any]:
    """What is to be found in it."""
    kept = frozen(NAMES[backend])
    inside: dict[str, Any] = kept.get("found", kept)
    for log in inside["logs"].values():
        by_the_rule_of_revisions(log["events"])
    return inside


def by_the_rule_of_revisions(events: list[dict[str, Any]]) -> None:
    """Where a thread's head holds a revision of a message, the others are superseded; they were told as detached."""
    held = {event["message"].split()[1]: event["seq"] for event in events if _is_said(event, "live")}
    for event in events:
        if _is_said(event, "detached") and event["message"].split()[1] in held:
            event["standing"], event["superseded_by"] = "superseded", held[event["message"].split()[1]]


def _is_said(event: dict[str, Any], standing: str) -> bool:
    return event["message"] is not None and event["standing"] == standing


@on_databases
def test_it_is_read_back_equal(thawed: Callable[[], str], found: dict[str, Any]) -> None:
    url = thawed()
    assert everything_seen(url) == found
    assert everything_seen(url) == found  # reading brought the index up to date, and nothing else


@on_databases
def test_what_the_fourth_schema_held_is_read_back_equal(backend: str, fresh_database: Callable[[], str]) -> None:
    kept = frozen(NAMES[backend], of="schema_4")
    thaw(NAMES[backend], url := fresh_database(), of="schema_4")
    assert everything_seen(url) == kept.get("found", kept)


@on_databases
def test_it_goes_on(thawed: Callable[[], str]) -> None:
    with service_of(thawed()) as sessions:
        ada, saver = sessions.as_user("ada"), SessionCheckpointSaver(sessions)
        version = ada.get("talk").version
        assert [event.seq for event in ada.append("talk", HumanMessage("on"))] == [version + 1]
        ada.rewind("runs", to_seq=2)
        assert [message.text for message in ada.messages("runs")] == ["Where is the passport?", "In the blue drawer."]
        chat, config = chat_graph(saver), config_of("chat", "ada")
        before = len(chat.get_state(config).values["messages"])
        assert len(chat.invoke({"messages": [HumanMessage("on")]}, config)["messages"]) == before + 2
        assert len(ada.messages("rewound")) == 6
        ada.undo_rewind("rewound")
        assert len(chat.get_state(config_of("rewound", "ada")).values["messages"]) == len(ada.messages("rewound")) == 8
        desk, waiting = desk_graph(saver), config_of("desk", "ada")
        with pytest.raises(ValueError, match="not yet"):
            desk.invoke(Command(resume="the blue one"), waiting)
        assert desk.get_state(waiting).values["answer"] == "the blue one"
        assert ada.create("gone").version == 0
        assert {name: ada.verify(name) for name in ("talk", "runs", "chat", "rewound", "desk", "gone")} == {
            name: [] for name in ("talk", "runs", "chat", "rewound", "desk", "gone")
        }


@pytest.mark.backends("sqlite")
def test_what_was_sealed_is_read_back_equal(fresh_database: Callable[[], str]) -> None:
    thaw("sealed", url := fresh_database())
    assert sealed_seen(url) == frozen("sealed")


@on_databases
@pytest.mark.timeout(600)
def test_a_migration_that_is_killed_is_taken_up_again(
    backend: str, thawed: Callable[[], str], found: dict[str, Any]
) -> None:
    # Reading all of it takes a server seconds; a file is read at every boundary, a server at some.
    _kill_migrations(thawed, found, points=1_000 if backend == "sqlite" else 3)


@pytest.mark.soak
@on_databases
@pytest.mark.timeout(1_800)
def test_a_migration_that_is_killed_anywhere_is_taken_up_again(
    thawed: Callable[[], str], found: dict[str, Any]
) -> None:
    _kill_migrations(thawed, found, points=1_000)


def _kill_migrations(thawed: Callable[[], str], found: dict[str, Any], points: int) -> None:
    for boundary in _spread(_boundaries(thawed(), SessionService.create_schema), points):
        _killed(die_creating, url := thawed(), boundary)
        assert everything_seen(url) == found, boundary


@pytest.mark.backends("sqlite")
@pytest.mark.timeout(300)
def test_steps_of_later_releases_that_are_killed_leave_what_was_written(
    thawed: Callable[[], str], found: dict[str, Any]
) -> None:
    for boundary in _spread(_boundaries(thawed(), upgrade), points=4):
        _killed(die_at, url := thawed(), boundary)
        upgrade_at(url, "")
        with connection(url) as conn:
            versions = "schema_versions WHERE version > :known"
            assert conn.scalars(text(f"SELECT count(*) FROM {versions}"), {"known": SCHEMA_VERSION}).one() == 2
            # This release knows nothing of them, and would refuse.
            conn.execute(text(f"DELETE FROM {versions}"), {"known": SCHEMA_VERSION})
        assert everything_seen(url) == found, boundary


def _spread(boundaries: int, points: int) -> range:
    """So many of the boundaries, or a few more, evenly."""
    return range(0, boundaries, max(1, boundaries // points))


def _boundaries(url: str, migrate: Callable[[SessionService], object]) -> int:
    """How many statements and commits a migration is made of."""
    with opened(make_service(url)) as (service,):
        injector = Injector(*engines_of(service))
        with injector.counting():
            migrate(service)
        injector.close()
    assert injector.count
    return injector.count


def _killed(target: Callable[[str, str, int], None], url: str, boundary: int) -> None:
    process = CONTEXT.Process(target=target, args=(url, "", boundary))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, boundary
