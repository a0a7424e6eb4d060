"""K01, K02: writers that are killed at a random moment."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.faults.drills import assert_whole, make_service, message, opened, texts
from tests.faults.processes import CONTEXT, append_until_killed

if TYPE_CHECKING:
    from pathlib import Path

on_databases = pytest.mark.backends("files", "sqlite", "postgres", "mariadb")


@on_databases
@pytest.mark.parametrize("archive_every", [0, 7])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(
    database_url: str, table_prefix: str, archive_every: int
) -> None:
    _kill_writers(database_url, table_prefix, archive_every, rounds=2)


@pytest.mark.soak
@on_databases
@pytest.mark.parametrize("archive_every", [0, 7])
def test_many_killed_writers(database_url: str, table_prefix: str, archive_every: int) -> None:
    _kill_writers(database_url, table_prefix, archive_every, rounds=40)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("archive_every", [0, 7])
def test_a_thousand_killed_writers_of_files(scratch_directory: Path, archive_every: int) -> None:
    """Five hundred each; a folder for fifty, since all of a log is looked at after each."""
    for number in range(10):
        folder = scratch_directory / f"killed_{archive_every}_{number}"
        _kill_writers(folder.as_uri(), "", archive_every, rounds=50)


def _kill_writers(url: str, prefix: str, archive_every: int, rounds: int) -> None:
    chance = random.Random()  # noqa: S311 - the moment of a kill is no secret
    acknowledged: list[str] = []
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        for number in range(rounds):
            acknowledged += _killed_writer(url, prefix, f"w{number}", archive_every, chance.uniform(0.02, 0.3))
            ids = assert_whole(service, "s", acknowledged)
            assert len(ids) <= len(acknowledged) + number + 1, "at most one per writer was stored and not acknowledged"
            _assert_context(service.count("s").events, texts(service, "s"), ids)
            service.append("s", message(f"after-{number}"))
            acknowledged.append(f"after-{number}")


def _killed_writer(url: str, prefix: str, label: str, archive_every: int, seconds: float) -> list[str]:
    """What a writer said before it was killed."""
    listener, said = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=append_until_killed, args=(url, prefix, label, archive_every, said))
    process.start()
    said.close()
    assert listener.recv() == "ready"
    time.sleep(seconds)
    process.kill()
    process.join()
    names: list[str] = []
    with suppress(EOFError):
        while True:
            names.append(listener.recv())
    listener.close()
    return names


def _assert_context(live: int, context: list[str], ids: list[str]) -> None:
    """The context is all of the log, or a summary and all that it does not cover."""
    assert live == len(context)
    if context and context[0].startswith("summary up to "):
        assert context[1:] == ids[len(ids) - len(context) + 1 :]
    else:
        assert context == ids
