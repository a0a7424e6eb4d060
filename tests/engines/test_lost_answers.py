"""Answers of real nodes that get lost after a batch has happened, that come twice, or that say nothing."""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from cassandra import OperationTimedOut
from cassandra.protocol import ErrorMessage
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionsError, SessionService, StoreUnavailableError
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from langchain_sessions.stores.engine import Head, Partition, Range, Row
from langchain_sessions.testing import PrivateLoop
from langchain_sessions.testing.faces import FACES, faced
from tests.engines.conftest import URL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cassandra.cluster import ResponseFuture, Session

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.work import Do
    from langchain_sessions.testing import Face

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


class Told:
    """An answer that comes twice, and then an error, as where the driver asked a second node beside the first."""

    def __init__(self, response: ResponseFuture) -> None:
        self._response: Any = response

    def __getattr__(self, name: str) -> object:
        return getattr(self._response, name)

    def add_callbacks(self, page: Callable[[object], None], failed: Callable[[Exception], None]) -> None:
        def twice(rows: object) -> None:
            page(rows)
            page(rows)
            failed(OperationTimedOut())

        self._response.add_callbacks(twice, failed)


class Twice:
    """A session of the driver whose answers come twice."""

    def __init__(self, session: Session) -> None:
        self._session: Any = session

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def execute_async(self, *arguments: Any, **options: Any) -> Told:
        return Told(self._session.execute_async(*arguments, **options))


@pytest.mark.parametrize("face", FACES)
def test_an_answer_that_comes_twice_counts_once(engine: CassandraEngine, face: Face) -> None:
    """Also one of several pages: no row is there twice, and none is missing."""
    partition = Partition(f"app-{secrets.token_hex(6)}", "s", "1" * 32)
    names = [f"e/{number:05}" for number in range(3500)]
    loop = PrivateLoop()
    it = faced(CassandraEngine(Twice(engine._link.session())), face, loop)
    for version in range(7):
        rows: dict[str, bytes | None] = dict.fromkeys(names[version * 500 :][:500], b"x")
        assert it.commit(partition, version, Head(version + 1, b""), rows)
    found = it.read_rows(partition, [Range("", "~"), Range("e/", "e0", newest=True), Range("", "~", 3)])
    assert [[row.key for row in rows] for rows in found] == [names, names[::-1], names[:3]]
    loop.close()


@pytest.mark.parametrize("face", FACES)
def test_who_is_in_the_way_of_others_asks_again(
    engine: CassandraEngine, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many write to one partition, a node says of a read that is to be exact that it came to nothing."""
    partition = Partition(f"app-{secrets.token_hex(6)}", "s", "1" * 32)
    loop = PrivateLoop()
    it = CassandraEngine(URL)
    by_face = faced(it, face, loop)
    assert engine.commit(partition, 0, Head(1, b""), {"k": b"1"})
    by_face.read_heads([partition])
    begin, refused = it._link._begin_each, [0] * 9

    def crowded(work: Sequence[Do], *, serial: bool) -> list[Future[list[Any]]]:
        if not serial or not refused:
            return begin(work, serial=serial)
        refused.pop()
        told: Future[list[Any]] = Future()
        told.set_exception(ErrorMessage(code=0x1700, message="CAS operation result is unknown", info=None))
        return [told]

    monkeypatch.setattr(it._link, "_begin_each", crowded)
    assert by_face.read_rows(partition, [Range("", "~")]) == [[Row("k", b"1")]]
    assert refused == []
    it.close()
    loop.close()
