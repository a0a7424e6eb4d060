"""One test body for both faces: a stand-in that answers `x` by the twin `ax` on a loop of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from langchain_sessions._core.flow import Flow, adrive, drive
from langchain_sessions.invocation import Invocation
from langchain_sessions.service import SessionService
from langchain_sessions.stores._base import SessionStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from types import TracebackType

T = TypeVar("T")
Face = Literal["sync", "async"]
FACES: tuple[Face, ...] = ("sync", "async")
_FACED = (SessionService, SessionStore, Invocation)


class PrivateLoop:
    """An event loop for synchronous code. Whatever is bound to a loop, such as a connection, stays usable on it."""

    def __init__(self) -> None:
        """Make the loop; it runs only while `run` waits."""
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self._loop.run_until_complete(work)

    def gather(self, *work: Awaitable[T]) -> list[T]:
        """The results of several coroutines that run at once."""

        async def together() -> list[T]:
            return list(await asyncio.gather(*work))

        return self.run(together())

    def close(self) -> None:
        """Finish what the loop still holds and close it."""
        with suppress(RuntimeError):
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class _AsyncFace:
    """Stands in for an object: its methods run their async twins; what they return is faced alike."""

    def __init__(self, target: Any, loop: PrivateLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found
        twin = getattr(type(self._target), f"a{name}", None)
        return self._awaited(twin) if twin is not None else self._passed_on(found)

    def _awaited(self, twin: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        @wraps(twin)
        def run(*args: Any, **kwargs: Any) -> Any:
            return self._loop.run(twin(self._target, *args, **kwargs))

        return run

    def _passed_on(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return _AsyncFace(result, self._loop) if isinstance(result, _FACED) else result

        return call

    def run_flow(self, flow: Flow[T]) -> T:
        """The result of a workflow, run asynchronously."""
        return self._loop.run(adrive(flow))

    def __enter__(self) -> Any:
        self._loop.run(self._target.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.run(self._target.__aexit__(kind, error, at))


def faced(target: T, face: Face, loop: PrivateLoop) -> T:
    """The object itself, or a stand-in whose synchronous methods run the async ones.

    Args:
        target: A service, a store, an engine or an invocation.
        face: `sync` for the object itself, `async` for the stand-in.
        loop: Where the async methods run.

    Returns:
        Something that is used like the object. Views and invocations that it makes have the same face.
    """
    return target if face == "sync" else cast("T", _AsyncFace(target, loop))


def run_flow(target: object, flow: Flow[T]) -> T:
    """Run a workflow on the face of an object that `faced` returned."""
    return target.run_flow(flow) if isinstance(target, _AsyncFace) else drive(flow)


class SettableClock:
    """A clock that stands still until it is told to move: `SessionService(..., clock=SettableClock())`."""

    def __init__(self, start: datetime | None = None) -> None:
        """Start at an aware moment, by default one in 2026."""
        self.moment = start or datetime(2026, 1, 5, 9, 30, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        """The present."""
        return self.moment

    def advance(self, **duration: float) -> None:
        """Move on, for example by `hours=2`."""
        self.moment += timedelta(**duration)
