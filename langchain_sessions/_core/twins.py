"""The asynchronous half of a store that has none of its own: a worker thread, and no half-done writes.

`asyncio` is imported where something is awaited: it is a tenth of what importing this package costs, and whoever
works synchronously has no use for it.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
_ASYNC = "Async `"


class MayWait(Protocol):
    """Whatever says of itself whether its methods wait for anything."""

    waits: ClassVar[bool]


S = TypeVar("S", bound=MayWait)


def threaded(
    method: Callable[Concatenate[S, P], T],
) -> Callable[[Callable[[S], None]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Declares the async twin of a method `x`: runs whatever overrides `x`, in a worker thread where that may wait.

    It stands over a declaration, whose parameters and answer are those of `x`: what is only assigned has a type that
    checkers may infer differently.
    """
    name = method.__name__

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call: Callable[..., T] = getattr(self, name)
        if not self.waits:
            return call(*args, **kwargs)
        from langchain_sessions._core.threads import WAITERS

        return await finish(WAITERS.arun(partial(call, *args, **kwargs)))

    # `wraps` copies the mark of an abstract method; this half is supplied.
    twin.__isabstractmethod__ = False  # type: ignore[attr-defined]

    def declare(declared: Callable[[S], None]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        # What it promises is what `x` promises: `wraps` has copied that.
        twin.__name__, twin.__qualname__ = declared.__name__, declared.__qualname__
        return twin

    return declare


def told_alike(cls: type[C]) -> type[C]:
    """Stands over a class with async methods whose text is "Async `x`." and no more: `help()` shows that of `x`."""
    methods = vars(cls)
    for method in [*methods.values()]:
        text: str | None = getattr(method, "__doc__", None)  # with `python -OO` there is none
        if text is not None and text.startswith(_ASYNC) and text.endswith("`."):
            twin = methods.get(text[len(_ASYNC) : -2])
            if twin is not None:
                method.__doc__ = twin.__doc__
    return cls


async def alone(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Await a call in a thread of its own: for what is rare, waits long and must not wait for others' work."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, thread_name_prefix="langchain-sessions-alone")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, lambda: call(*args, **kwargs))
    finally:
        pool.shutdown(wait=False)


async def finish(work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Await some work that must not be torn: a cancelled caller is cancelled after it has finished."""
    import asyncio

    task: asyncio.Future[T] = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception:
            break
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()
