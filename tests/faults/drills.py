"""What every drill needs: services that leave nothing behind, both faces in one test body, and the look of a log."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import InMemoryStore, SessionNotFoundError, SessionService
from langchain_sessions._core.flow import Flow, adrive, drive
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.store import SqlStore
from langchain_sessions.testing.archiving import archive
from tests.conftest import MEMORY_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Engine

FACES = ("sync", "async")
_PAST = ("superseded", "rewound")


class Face:
    """Calls a service through one face; the async one on a loop of its own, which its connections outlive calls on."""

    def __init__(self, face: str) -> None:
        self.face = face
        self._loop = asyncio.new_event_loop() if face == "async" else None

    def __call__(self, target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """`target.name(...)`, or its twin."""
        if self._loop is None:
            return getattr(target, name)(*args, **kwargs)
        return self._loop.run_until_complete(getattr(target, f"a{name}")(*args, **kwargs))

    def run(self, flow: Flow[Any]) -> Any:
        """The result of a workflow that is nobody's method."""
        return drive(flow) if self._loop is None else self._loop.run_until_complete(adrive(flow))

    def close(self, *services: SessionService) -> None:
        """Close the services and the loop."""
        if self._loop is None:
            for service in services:
                service.close()
            return
        for service in services:
            self._loop.run_until_complete(service.aclose())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


def make_service(url: str, **options: Any) -> SessionService:
    """A service on a URL of the fixtures; relaxed where durability is not what is tested."""
    if url == MEMORY_URL:
        return SessionService(InMemoryStore())
    return SessionService(url, **{"create_schema": True, "synchronous": "NORMAL", **options})


def engines_of(service: SessionService) -> list[Engine]:
    """The synchronous cores of a service's engines."""
    store = log_of(service).store
    if not isinstance(store, SqlStore):
        return []
    both = (store._engines.sync, store._engines.async_ and store._engines.async_.sync_engine)
    return [engine for engine in both if engine is not None]


def checked_out(service: SessionService) -> int:
    """How many connections are out of their pools, and in use of those that the store keeps itself."""
    counted = (getattr(engine.pool, "checkedout", None) for engine in engines_of(service))
    store = log_of(service).store
    kept = [store._runner._kept, *store._runner._loops.kept] if isinstance(store, SqlStore) else []
    in_use = [each.in_use for each in kept if each is not None]
    return sum(in_use, sum(count() for count in counted if count is not None))


def message(name: str) -> HumanMessage:
    """A message that is its own id."""
    return HumanMessage(name, id=name)


def texts(service: SessionService, session_id: str) -> list[str]:
    """The texts of the context."""
    return [str(found.text) for found in service.messages(session_id)]


def look(service: SessionService, session_id: str) -> Any:
    """Everything that can be seen of a session; None when there is none."""
    try:
        session = service.get(session_id)
    except SessionNotFoundError:
        return None
    rows = [
        (
            event.seq,
            event.kind.value,
            event.standing.value,
            None if event.message is None else event.message.text,
            event.branch,
            event.invocation_id,
            event.state_delta,
        )
        for event in service.events(session_id).items
    ]
    counters = service.count(session_id)
    about = session.title, sorted(session.metadata), session.ended_at is not None
    return about, session.version, rows, service.state(session_id), counters, texts(service, session_id)


def assert_whole(service: SessionService, session_id: str, acknowledged: Sequence[str] = ()) -> list[str]:
    """Assert that a log has no gap, no duplicate and all that was acknowledged; the ids of its messages."""
    while True:  # a server may still do what a client asked for that was killed
        version, events = service.get(session_id).version, service.events(session_id).items
        if service.get(session_id).version == version:
            break
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert version == len(events)
    ids = [
        str(event.message.id)
        for event in events
        if event.message is not None and event.message.id and event.standing.value not in _PAST
    ]
    assert len(ids) == len(set(ids))
    assert set(acknowledged) <= set(ids), sorted(set(acknowledged) - set(ids))[:5]
    assert service.verify(session_id) == []
    return ids


def archive_some(service: SessionService, session_id: str, keep: int = 2) -> bool | None:
    """Commit a compaction of all but the newest messages; None when there was too little, False for a lost race."""
    base = service.context(session_id)
    covered = [event.seq for event in base.events if not event.is_synthetic][:-keep]
    if len(covered) < keep:
        return None
    from langchain_sessions import NewEvent  # noqa: PLC0415 - keeps the imports above to what every drill needs

    summary = [NewEvent(message=AIMessage(f"summary up to {covered[-1]}"))]
    return archive(service, session_id, covered, base=base, summary=summary) is not None


@contextmanager
def opened(*services: SessionService) -> Iterator[tuple[SessionService, ...]]:
    """Close services at the end, and assert that no connection is still out."""
    try:
        yield services
        assert [checked_out(service) for service in services] == [0] * len(services)
    finally:
        for service in services:
            service.close()


def in_threads(work: Sequence[Callable[[], Any]], timeout: float = 100.0) -> list[Any]:
    """Run functions at once, each in a thread; their results in order. The first error is raised."""
    start = threading.Barrier(len(work))
    results: list[Any] = [None] * len(work)
    errors: list[BaseException] = []

    def one(at: int) -> None:
        try:
            start.wait(timeout)
            results[at] = work[at]()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=one, args=(at,), daemon=True) for at in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def kill(pid: int, signal: int) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal)
