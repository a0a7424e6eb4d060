"""K01, K02: writers that are killed at a random moment."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from tests.faults.drills import FACES, assert_whole, make_service, message, opened, texts
from tests.faults.processes import CHAT, append_until_killed, chat_until_killed, chatting, killed
from tests.faults.soaking import ROUNDS, apart

if TYPE_CHECKING:
    from langchain_sessions import SessionService
    from tests.conftest import Counted

on_databases = pytest.mark.backends("files", "sqlite", "postgres", "mariadb")


@on_databases
@pytest.mark.parametrize("archive_every", [0, 7])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(
    database_url: str, table_prefix: str, archive_every: int
) -> None:
    _kill_writers(database_url, table_prefix, archive_every, rounds=2)


@on_databases
@pytest.mark.parametrize("face", FACES)
def test_a_killed_chat_loses_no_turn_that_was_answered(database_url: str, table_prefix: str, face: str) -> None:
    _kill_chats(database_url, table_prefix, face, rounds=2)


@pytest.mark.soak
@on_databases
@pytest.mark.parametrize("archive_every", [0, 7])
def test_many_killed_writers(database_url: str, table_prefix: str, archive_every: int, counted: Counted) -> None:
    """A database for twenty-five, since all of a log is looked at after each."""
    for number in range(ROUNDS // 4 // 25):
        acknowledged = _kill_writers(*apart(database_url, table_prefix, number), archive_every, rounds=25)
        counted("archivers killed" if archive_every else "writers killed", 25)
        counted("acknowledged", acknowledged)


@pytest.mark.soak
@on_databases
@pytest.mark.parametrize("face", FACES)
def test_many_killed_chats(database_url: str, table_prefix: str, face: str, counted: Counted) -> None:
    for number in range(ROUNDS // 8 // 25 + 1):
        acknowledged = _kill_chats(*apart(database_url, table_prefix, number), face, rounds=25)
        counted("chats killed", 25)
        counted("acknowledged", acknowledged)


def _kill_writers(url: str, prefix: str, archive_every: int, rounds: int) -> int:
    """How many appends were acknowledged, before kills and between them."""
    chance = random.Random()  # noqa: S311 - the moment of a kill is no secret
    acknowledged: list[str] = []
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        for number in range(rounds):
            moment = chance.uniform(0, 0.1)
            acknowledged += killed(moment, append_until_killed, url, prefix, f"w{number}", archive_every)
            ids = assert_whole(service, "s", acknowledged)
            assert len(ids) <= len(acknowledged) + number + 1, "at most one per writer was stored and not acknowledged"
            _assert_context(service.count("s").events, texts(service, "s"), ids)
            service.append("s", message(f"after-{number}"))
            acknowledged.append(f"after-{number}")
    return len(acknowledged)


def _kill_chats(url: str, prefix: str, face: str, rounds: int) -> int:
    """Chats that archive now and then, and some that do not; how many turns were answered."""
    chance = random.Random()  # noqa: S311 - the moment of a kill is no secret
    acknowledged: list[str] = []
    with opened(make_service(url, table_prefix=prefix)) as (service,):
        service.create_schema()
        for number in range(rounds):
            after = 6 * (number % 2)
            moment = chance.uniform(0, 0.1)
            acknowledged += killed(moment, chat_until_killed, url, prefix, f"w{number}", (face, after))
            _assert_turns(service, acknowledged, unanswered=number + 1)
            # The next turn is taken by a model that refuses a prompt which is not whole.
            chatting(service, after).invoke([HumanMessage(f"question after-{number}", id=f"after-{number}")], CHAT)
            acknowledged.append(f"after-{number}")
            _assert_turns(service, acknowledged, unanswered=number + 1)
    return len(acknowledged)


def _assert_turns(service: SessionService, acknowledged: list[str], unanswered: int) -> None:
    """What was answered is in the log, in order, each question before its answer; of each writer one more at most."""
    assert_whole(service, "s", acknowledged)
    said = [event.message for event in service.events("s").items if event.message is not None]
    asked = [str(each.id) for each in said if each.type == "human"]
    assert [name for name in asked if name in set(acknowledged)] == acknowledged
    assert len(asked) <= len(acknowledged) + unanswered
    for at, each in enumerate(said):
        if each.id in acknowledged:
            assert said[at + 1].type == "ai", each.id


def _assert_context(live: int, context: list[str], ids: list[str]) -> None:
    """The context is all of the log, or a summary and all that it does not cover."""
    assert live == len(context)
    if context and context[0].startswith("summary up to "):
        assert context[1:] == ids[len(ids) - len(context) + 1 :]
    else:
        assert context == ids
