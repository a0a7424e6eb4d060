"""Asking somebody's embedder, which may fail, hang or return nonsense: none of it may cost anybody a search."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from langchain_core.embeddings import Embeddings

from langchain_sessions._core.locks import new_lock
from langchain_sessions._recall.index.traits_cache import TraitsCache
from langchain_sessions._recall.meaning.signs import SignedPart
from langchain_sessions._recall.meaning.vectors import QueryVector, signature_of
from langchain_sessions.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_sessions.stores._base import SessionStore

_log = logging.getLogger(__name__)

Vectors: TypeAlias = Sequence[Sequence[float]]
Embed: TypeAlias = Callable[[list[str]], "Vectors | Awaitable[Vectors]"]
"""A function from texts to vectors, one for each, sync or async."""

LONGEST_TEXT: Final = 4_000
"""Characters of a text that are embedded; what follows is found by its words alone."""

MOST_SIGNS: Final = 8 * 2**20
"""Bytes of signs that a process keeps, as they are stored; in memory twice as many."""

BATCH_TIMEOUT: Final = 60.0
"""Seconds that a batch may take in the background."""

# Any sentence will do, as long as it stays the same: vectors of another one would look like another embedder.
_PROBE: Final = "Ada asked where the blue notebook with her grandmother's recipes was."
# Queries: pages of one search, and the same question of several tools.
_REMEMBERED: Final = 64
_SHORTEST_REST: Final = 30.0
_LONGEST_REST: Final = 3600.0


class Embedder:
    """An embedder behind one door: every answer is checked, no call waits for ever, the first failure is logged.

    Synchronous functions run on a thread of their own, so that one that hangs holds up nobody. After a call that did
    not return in time nothing is asked until it returns or half a minute has passed, then a minute, two, up to an hour.

    Args:
        embed: A function, or LangChain `Embeddings`.
        timeout: Seconds that a search waits.
    """

    def __init__(self, embed: Embed | Embeddings, *, timeout: float) -> None:
        self._timeout = timeout
        self._documents, self._query, self._adocuments, self._aquery = _doors(embed)
        self._lock = new_lock()
        self._known: OrderedDict[str, QueryVector] = OrderedDict()
        self._signature: str | None = None
        self._hanging: futures.Future[Any] | None = None
        self._rest = _SHORTEST_REST
        self._rests_until = 0.0
        self._told = False
        # Weak: settings may outlive the stores that they were used with.
        self._signs: WeakKeyDictionary[SessionStore, TraitsCache[SignedPart]] = WeakKeyDictionary()

    def known_signs(self, store: SessionStore) -> TraitsCache[SignedPart]:
        """The signs of vectors that this process has read from a store, by session, set and last position."""
        known = self._signs.get(store)
        return known or self._signs.setdefault(store, TraitsCache(SignedPart.unpack, MOST_SIGNS))

    # -- what recall asks ----------------------------------------------------------------------------------

    def documents(self, texts: Sequence[str], timeout: float = BATCH_TIMEOUT) -> list[list[float]]:
        """A vector for each text.

        Raises:
            EmbeddingError: It failed, did not answer in time, or the answer was none.
        """
        with self._telling():
            return _checked(self._wait(self._documents, _cut(texts), timeout), len(texts))

    async def adocuments(self, texts: Sequence[str], timeout: float = BATCH_TIMEOUT) -> list[list[float]]:
        """Async `documents`."""
        with self._telling():
            return _checked(await self._await(self._documents, self._adocuments, _cut(texts), timeout), len(texts))

    def signature(self) -> str:
        """What tells this embedder from others: what it makes of a known text. Asked once.

        Raises:
            EmbeddingError: It failed.
        """
        if self._signature is None:
            self._signature = signature_of(self.documents([_PROBE], self._timeout)[0])
        return self._signature

    async def asignature(self) -> str:
        """Async `signature`."""
        if self._signature is None:
            self._signature = signature_of((await self.adocuments([_PROBE], self._timeout))[0])
        return self._signature

    def is_well(self) -> bool:
        """Whether it answers at all just now."""
        try:
            self.documents([_PROBE])
        except EmbeddingError:
            return False
        return True

    async def ais_well(self) -> bool:
        """Async `is_well`."""
        try:
            await self.adocuments([_PROBE])
        except EmbeddingError:
            return False
        return True

    def query(self, text: str) -> QueryVector | None:
        """What a query means; None where nobody can tell just now. The last ones are remembered."""
        if (known := self._remembered(text)) is not None:
            return known
        try:
            with self._telling():
                answer = _checked([self._wait(self._query, text[:LONGEST_TEXT], self._timeout)], 1)
        except EmbeddingError:
            return None
        return self._remember(text, answer[0])

    async def aquery(self, text: str) -> QueryVector | None:
        """Async `query`."""
        if (known := self._remembered(text)) is not None:
            return known
        try:
            with self._telling():
                found = await self._await(self._query, self._aquery, text[:LONGEST_TEXT], self._timeout)
                answer = _checked([found], 1)
        except EmbeddingError:
            return None
        return self._remember(text, answer[0])

    def _remembered(self, text: str) -> QueryVector | None:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
            return self._known.get(text)

    def _remember(self, text: str, values: Sequence[float]) -> QueryVector | None:
        vector = QueryVector.of(values)
        if vector is not None:
            with self._lock:
                self._known[text] = vector
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return vector

    # -- calling it ----------------------------------------------------------------------------------------

    def _require_awake(self) -> None:
        returned = self._hanging is not None and self._hanging.done()
        if time.monotonic() < self._rests_until and not returned:
            problem = "it did not answer in time a moment ago"
            raise EmbeddingError(problem)

    def _late(self, hanging: futures.Future[Any] | None) -> EmbeddingError:
        self._hanging = hanging
        self._rests_until = time.monotonic() + self._rest
        # Each time twice as long: one that is down for a day is asked a few dozen times, not at every search.
        self._rest = min(2 * self._rest, _LONGEST_REST)
        return EmbeddingError("it did not answer in time")

    def _wait(self, call: Callable[[Any], Any], argument: object, timeout: float) -> Any:
        self._require_awake()
        future = _begin(call, argument)
        try:
            return future.result(timeout)
        except futures.TimeoutError:
            raise self._late(future) from None

    async def _await(
        self,
        call: Callable[[Any], Any],
        acall: Callable[[Any], Awaitable[Any]] | None,
        argument: object,
        timeout: float,
    ) -> Any:
        self._require_awake()
        if acall is not None:
            return await self._arun(acall, argument, timeout)
        future = _begin(call, argument)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except asyncio.TimeoutError:
            raise self._late(future) from None

    async def _arun(self, acall: Callable[[Any], Awaitable[Any]], argument: object, timeout: float) -> Any:
        task: asyncio.Task[Any] = asyncio.ensure_future(_awaited(acall, argument))
        # Not `wait_for`, which waits for a task that ignores being cancelled.
        try:
            await asyncio.wait({task}, timeout=timeout)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_forget)
        if not task.done():
            raise self._late(None)
        return task.result()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """The first of several failures goes to the log of the process."""
        try:
            yield
        except EmbeddingError as error:
            told, self._told = self._told, True
            if not told:
                _log.warning("%s Searches go by words until it answers.", error)
            raise
        self._told = False
        self._rest = _SHORTEST_REST


def _doors(
    embed: Embed | Embeddings,
) -> tuple[
    Callable[[Any], Any],
    Callable[[Any], Any],
    Callable[[Any], Awaitable[Any]] | None,
    Callable[[Any], Awaitable[Any]] | None,
]:
    """How to ask for documents and for a query, on a thread and on a loop; None where only a thread will do."""
    if isinstance(embed, Embeddings):
        kind = type(embed)
        # The base class runs the synchronous half on the loop's own threads, of which a hanging one is never given up.
        is_own = kind.aembed_documents is not Embeddings.aembed_documents
        is_own_query = kind.aembed_query is not Embeddings.aembed_query
        return (
            embed.embed_documents,
            embed.embed_query,
            embed.aembed_documents if is_own else None,
            embed.aembed_query if is_own_query else None,
        )
    function = cast("Callable[[list[str]], Any]", embed)
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(type(function).__call__):
        return function, lambda text: _only(_waited(function([text]))), None, None

    async def aone(text: str) -> Any:
        return _only(await function([text]))

    return function, aone, function, aone


def _only(answer: Sequence[Any]) -> Any:
    (vector,) = answer
    return vector


def _begin(call: Callable[[Any], Any], argument: object) -> futures.Future[Any]:
    """Run a function on a daemon thread: one that never returns keeps no process from ending."""
    future: futures.Future[Any] = futures.Future()
    # From now on it cannot be cancelled, only waited for or not.
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer = _waited(context.run(call, argument))
        except BaseException as error:
            future.set_exception(EmbeddingError(f"it raised {type(error).__name__}"))
        else:
            future.set_result(answer)

    threading.Thread(target=work, name="embed", daemon=True).start()
    return future


def _waited(answer: Any) -> Any:
    return asyncio.run(_wrapped(answer)) if inspect.isawaitable(answer) else answer


async def _wrapped(answer: Awaitable[Any]) -> Any:
    return await answer


async def _awaited(acall: Callable[[Any], Awaitable[Any]], argument: object) -> Any:
    try:
        return await acall(argument)
    except Exception as error:
        problem = f"it raised {type(error).__name__}"
        raise EmbeddingError(problem) from None


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _cut(texts: Iterable[str]) -> list[str]:
    return [text[:LONGEST_TEXT] for text in texts]


def _checked(answer: Any, count: int) -> list[list[float]]:
    """The vectors of an answer, if it is one.

    Raises:
        EmbeddingError: Not one vector for each text, not all of one size, or not all numbers.
    """
    try:
        vectors = [[float(value) for value in vector] for vector in answer]
    except (TypeError, ValueError, OverflowError):
        problem = "its answer is no list of vectors"
        raise EmbeddingError(problem) from None
    if len(vectors) != count or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        problem = f"it returned {len(vectors)} vectors for {count} texts, or vectors of several sizes"
        raise EmbeddingError(problem)
    if not all(math.isfinite(value) for vector in vectors for value in vector):
        problem = "its answer holds numbers that are none"
        raise EmbeddingError(problem)
    return vectors
