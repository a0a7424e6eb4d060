"""One body, two faces: a workflow is written once as a generator and run synchronously or asynchronously.

A workflow asks for I/O with `yield from ask(store.find_session, key)`. The synchronous driver calls that method; the
asynchronous one awaits its twin, which has the same name with an `a` in front on the same object. A public class has
two real methods that run the workflow with `drive` and `adrive`; inside the package `faces` makes both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F")
P = ParamSpec("P")

LARGE: Final = 1 << 16
"""Characters. To count, pack or index so many takes milliseconds, for which nobody else should wait."""


Request = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""One request for I/O: a bound method that has an async twin, and its arguments."""
Flow = Generator[Request, Any, T]
"""A workflow: it yields requests, receives their answers and returns a `T`."""


def ask(method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
    """Ask for `method(*args, **kwargs)`, answered by the driver; typed as the method is.

    A method that `faces` made is itself a workflow: it goes on under the driver that runs already.
    """
    try:
        # Not of the method itself: what does not find the name there formats a message that nobody reads.
        body: Callable[..., Flow[T]] | None = method.__func__.__dict__.get("flow")  # type: ignore[attr-defined]
    except AttributeError:
        body = None
    if body is not None:
        return body(method.__self__, *args, **kwargs)  # type: ignore[attr-defined]
    return _asked(method, args, kwargs)


class _Turn:
    """A turn of others."""

    def give(self) -> None:
        """Threads have theirs when they are due."""

    async def agive(self) -> None:
        """Of an event loop others have none while a workflow computes."""
        import asyncio  # noqa: PLC0415 - for who has a loop

        await asyncio.sleep(0)


_turn = _Turn()


def give_way() -> Flow[None]:
    """Let others of an event loop go on, between parts of something long."""
    return ask(_turn.give)


def _asked(method: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Flow[T]:
    answer: T = yield method, args, kwargs
    return answer


async def _answer(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer to a request, by the async twin."""
    twin = getattr(method.__self__, "a" + method.__name__)  # type: ignore[attr-defined]
    return await twin(*args, **kwargs)


def drive(flow: Flow[T]) -> T:
    """Run a workflow synchronously."""
    try:
        method, args, kwargs = next(flow)
        while True:
            try:
                answer = method(*args, **kwargs)
            except BaseException as error:
                method, args, kwargs = flow.throw(error)
            else:
                method, args, kwargs = flow.send(answer)
    except StopIteration as finished:
        result: T = finished.value
        return result
    except BaseException as error:
        _drop_own_frames(error)
        raise


async def adrive(flow: Flow[T]) -> T:
    """Run a workflow asynchronously."""
    try:
        request = next(flow)
        while True:
            try:
                answer = await _answer(*request)
            except BaseException as error:
                request = flow.throw(error)
            else:
                request = flow.send(answer)
    except StopIteration as finished:
        result: T = finished.value
        return result
    except BaseException as error:
        _drop_own_frames(error)
        raise


def _drop_own_frames(error: BaseException) -> None:
    """Take what this module did out of a traceback, but for its first frame: who reads it looks for the workflow's."""
    # Eight or ten frames of a traceback would be ours alone, one pair for each level of a workflow.
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        if at.tb_next.tb_next is not None and at.tb_next.tb_frame.f_globals is globals():
            at.tb_next = at.tb_next.tb_next
        else:
            at = at.tb_next


class _Computing:
    """Makes calls that wait for nothing: where somebody is called, or in a thread of their own beside a loop."""

    def compute(self, call: Callable[[], T]) -> T:
        """Make a call."""
        return call()

    async def acompute(self, call: Callable[[], T]) -> T:
        """Async `compute`."""
        from langchain_sessions._core.threads import COMPUTERS  # noqa: PLC0415 - for who has a loop

        return await COMPUTERS.arun(call)


_COMPUTING = _Computing()


def computed(size: int, call: Callable[[], T]) -> Flow[T]:
    """What a call makes of so many characters: of few at once."""
    return call() if size < LARGE else (yield from ask(_COMPUTING.compute, call))


def _publish(face: Any, body: Callable[..., Any], name: str, doc: str | None) -> None:
    """Give a generated face the name, the documentation and the signature that a reader expects."""
    face.__name__ = name
    face.__qualname__ = f"{body.__qualname__.rsplit('.', 1)[0]}.{name}"
    face.__doc__ = doc
    signature = inspect.signature(body)
    returned = str(signature.return_annotation)
    if returned.startswith("Flow["):
        signature = signature.replace(return_annotation=returned[5:-1])
    face.__signature__ = signature


def faces(
    body: Callable[Concatenate[S, P], Flow[T]],
) -> tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """The methods `name` and `aname` of the workflow method `_name`, the synchronous one first."""

    @wraps(body)
    def face(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(body(self, *args, **kwargs))

    @wraps(body)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await adrive(body(self, *args, **kwargs))

    name = body.__name__.lstrip("_")
    _publish(face, body, name, body.__doc__)
    _publish(twin, body, f"a{name}", f"Async `{name}`.")
    face.flow = body  # type: ignore[attr-defined]
    return face, twin


class _Both:
    """Two faces that go into the class which they stand in: `x` under the name that it has there, and `ax`."""

    def __init__(self, face: Callable[..., Any], twin: Callable[..., Any]) -> None:
        self._faces = {"": face, "a": twin}

    def __set_name__(self, owner: type, name: str) -> None:
        for prefix, face in self._faces.items():
            face.__name__ = prefix + name
            setattr(owner, prefix + name, face)


def stands_for(
    face: Callable[Concatenate[S, P], T], twin: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]
) -> Callable[[Callable[[S], None]], Callable[Concatenate[S, P], T]]:
    """Stands over a declaration in a class whose base declares both: what is only assigned has no sure type.

    It says no more than the name, which the two faces take.
    """
    both: Any = _Both(face, twin)
    return lambda _declaration: both


def both_faces(body: Callable[Concatenate[S, P], Flow[T]]) -> Callable[Concatenate[S, P], T]:
    """Stands over a workflow `x` in a class whose base declares `x` and `ax`: both run it."""
    both: Any = _Both(*faces(body))
    return cast("Callable[Concatenate[S, P], T]", both)


def declared(method: F) -> Callable[[Callable[..., None]], F]:
    """Stands over a declaration that is `method`: what is only assigned has no sure type for checkers."""
    return lambda _declaration: method
