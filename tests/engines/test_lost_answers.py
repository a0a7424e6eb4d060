"""Answers of conditional batches that get lost on the way from real nodes, after the batch has happened."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionsError, SessionService, StoreUnavailableError
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.engines.conftest import URL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.work import Do

WRITERS, EACH = 4, 12


class Losing(CassandraEngine):
    """Loses every third answer: the batch has happened, and a timeout is what its writer hears."""

    def __init__(self, seed: int) -> None:
        super().__init__(URL)
        self._draw = random.Random(seed)  # noqa: S311 - which answers
        self.lost = 0

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        found = yield from super().together(work)
        if self._draw.random() < 1 / 3:
            self.lost += 1
            raise StoreUnavailableError("A timeout.")
        return found


@pytest.mark.parametrize("face", ["sync", "async"])
def test_an_append_whose_answer_was_lost_is_there_once(engine: CassandraEngine, face: str) -> None:
    """Writers that share nothing, on one session: none of their appends fails, is lost or is there twice."""
    app = f"app-{secrets.token_hex(6)}"
    SessionService(PartitionedStore(engine), app=app, search=False).as_user("ada").create("s1")
    engines = [Losing(number) for number in range(WRITERS)]
    errors: list[SessionsError] = []

    def write(writer: int) -> None:
        sessions = SessionService(PartitionedStore(engines[writer]), app=app, search=False).as_user("ada")

        async def awrite() -> None:
            for number in range(EACH):
                await sessions.aappend("s1", HumanMessage("x", id=f"{writer}-{number}"))

        try:
            if face == "async":
                asyncio.run(awrite())
                return
            for number in range(EACH):
                sessions.append("s1", HumanMessage("x", id=f"{writer}-{number}"))
        except SessionsError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(each.lost for each in engines) > WRITERS
    sessions = SessionService(PartitionedStore(engine), app=app, search=False).as_user("ada")
    found = [str(event.id) for event in sessions.events("s1")]
    assert sorted(found) == sorted(f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH))
    assert sessions.verify("s1") == []
    for each in engines:
        each.close()
