"""K09: the database server is killed under three writers and started again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from langchain_sessions import StoreUnavailableError
from tests.faults.drills import FACES, Face, assert_whole, checked_out, make_service, message
from tests.servers import PrivateMariaDB, PrivatePostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions import SessionService
    from tests.servers import PrivateServer

WRITERS = 3


@pytest.fixture
def server(backend: str) -> Iterator[PrivateServer]:
    """A durable server of the test's own."""
    kind = PrivatePostgres if backend == "postgres" else PrivateMariaDB
    if not kind.installed():
        pytest.skip(f"the programs of {backend} are not on this machine")
    made: PrivateServer = kind(durable=True)
    with made as started:
        yield started


@pytest.mark.backends("postgres", "mariadb")
@pytest.mark.parametrize("face", FACES)
def test_the_same_engine_goes_on_after_its_server_was_killed(server: PrivateServer, face: str) -> None:
    service = make_service(server.url)
    caller = Face("sync")
    writers = [Writer(service, f"w{number}", face) for number in range(WRITERS)]
    service.open("s")
    for writer in writers:
        writer.start()
    _until(lambda: min(len(writer.acknowledged) for writer in writers) >= 5)
    server.kill()
    time.sleep(0.3)
    server.start()
    seen = [len(writer.acknowledged) for writer in writers]
    _until(lambda: all(len(writer.acknowledged) >= was + 5 for writer, was in zip(writers, seen, strict=True)))
    for writer in writers:
        writer.stop()
    acknowledged = [name for writer in writers for name in writer.acknowledged]
    assert sorted(assert_whole(service, "s", acknowledged)) == sorted(acknowledged)
    assert checked_out(service) == 0
    caller.close(service)


class Writer(threading.Thread):
    """Appends one message after another, each until it is acknowledged."""

    def __init__(self, service: SessionService, label: str, face: str) -> None:
        super().__init__(daemon=True)
        # The async face has an engine of its own per loop, so each of these writers has a service of its own.
        self._own = face == "async"
        self._service = make_service(str(_url(service))) if self._own else service
        self._label = label
        self._face = Face(face)
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []

    def run(self) -> None:
        """Append until told to stop."""
        while not self._stopping.is_set():
            name = f"{self._label}-{len(self.acknowledged)}"
            try:
                self._face(self._service, "append", "s", message(name))
            except StoreUnavailableError:
                time.sleep(0.02)
            else:
                self.acknowledged.append(name)
        if self._own:
            self._face.close(self._service)

    def stop(self) -> None:
        """Finish the current append and end."""
        self._stopping.set()
        self.join(30)
        assert not self.is_alive()


def _url(service: SessionService) -> str:
    from tests.faults.drills import engines_of  # noqa: PLC0415

    return engines_of(service)[0].url.render_as_string(hide_password=False)


def _until(condition: object, seconds: float = 40) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)
