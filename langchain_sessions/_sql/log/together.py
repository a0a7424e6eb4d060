"""Appends of this process that wait for one session travel together: one statement, one commit for all of them.

On a server each would wait for the lock of the session's row until the one before it has reached the disk. So the first
one goes at once, by itself. Those that come while it is under way go together afterwards, in their order, led by one of
them. Each returns after its commit, with what it would have been told alone. Where they cannot go together, because one
of them finds what only it must be told, each goes alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.locks import empty_in_child, new_lock
from langchain_sessions._core.rows import SessionKey, bytes_of
from langchain_sessions.stores._values import AppendBatch, Appended

T = TypeVar("T")
_MOST = 64
"""Appends that travel together."""
_MOST_SAID = 1 << 20
"""Characters that travel together. Beyond these a statement takes longer than its way, and its lock is held for it."""
_PATIENCE = 5.0
"""Seconds. Whoever is under way for so long waits for somebody else, or is gone: what waits for it goes alone."""

Send = Callable[[SessionKey, AppendBatch], Flow[T]]


class WaitedTooLong(Exception):  # noqa: N818 - it says what happened, and nobody outside hears of it
    """Nobody told a passenger anything for long."""


class Passenger:
    """An append that waits: for its answer, or to be told to lead others, or to go alone.

    It waits by a queue, or by a future of its own event loop: those of `concurrent.futures`, which serve both, wake a
    loop through a socket.
    """

    __slots__ = ("_answers", "_told", "_waits", "batch", "is_told", "leads", "others")

    def __init__(self, batch: AppendBatch) -> None:
        """Wait with a batch."""
        self.batch = batch
        self.leads = False
        self.others: list[Passenger] = []
        self.is_told = False
        self._told: Appended | None = None
        self._answers: SimpleQueue[None] = SimpleQueue()
        self._waits: tuple[int, Any, Any] | None = None

    def tell(self, appended: Appended | None) -> None:
        """Its answer; None to go alone, or to lead. One thread at a time tells, and what is told first stands."""
        if self.is_told:
            return
        self._told, self.is_told = appended, True
        self._answers.put(None)
        if self._waits is None:  # whoever says later that it waits in a loop looks whether it was told
            return
        thread, loop, future = self._waits
        if thread == threading.get_ident():
            _end_waiting(future)
        else:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits in it
                loop.call_soon_threadsafe(_end_waiting, future)

    def answer(self) -> Appended | None:
        """Wait for what it is told.

        Raises:
            WaitedTooLong: It was not told for long.
        """
        if self.is_told:
            time.sleep(0)  # it leads those that arrived with it, who come now
        else:
            with suppress(Empty):
                self._answers.get(timeout=_PATIENCE)
        if not self.is_told:
            raise WaitedTooLong
        return self._told

    async def aanswer(self) -> Appended | None:
        """Async `answer`."""
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waits = (threading.get_ident(), loop, future)
        if self.is_told:
            await asyncio.sleep(0)  # as above
        else:
            late = loop.call_later(_PATIENCE, _end_waiting, future)
            try:
                await future
            finally:
                late.cancel()
        if not self.is_told:
            raise WaitedTooLong
        return self._told


Journey = list[Passenger]
"""Who waits until what is under way for a session is over."""


def _end_waiting(future: Any) -> None:
    if not future.done():
        future.set_result(None)


class Travelling:
    """Who is under way for which session, in this process."""

    def __init__(self) -> None:
        """Nobody is."""
        self._lock = new_lock()
        self._journeys: dict[SessionKey, Journey] = {}
        self._arrived: SessionKey | None = None
        """Of which session several arrived last, when nobody waited for it any more."""
        empty_in_child(self)

    def leave_all(self) -> None:
        """Forget what is under way: it is so in the process that this one was forked from."""
        self._journeys = {}

    def append(
        self, key: SessionKey, batch: AppendBatch, alone: Send[Appended], together: Send[Appended | None]
    ) -> Flow[Appended]:
        """Have a batch sent alone, or together with others that wait for the same session."""
        journey, passenger = self._join(key, batch)
        if passenger is None:
            try:
                return (yield from alone(key, batch))
            finally:
                self._end(key, journey)
        told = yield from self._wait(key, journey, passenger)
        if told is None and passenger.leads:
            try:
                self._gather(journey, passenger)
                if not passenger.others:
                    return (yield from alone(key, batch))
                told = yield from _lead(key, passenger, together)
            finally:
                self._end_leading(key, journey, passenger)
        return told if told is not None else (yield from alone(key, batch))

    def _join(self, key: SessionKey, batch: AppendBatch) -> tuple[Journey, Passenger | None]:
        """What is under way for a session, begun where nothing was, and who waits for it."""
        with self._lock:
            journey = self._journeys.get(key)
            if journey is not None:
                passenger = Passenger(batch)
                journey.append(passenger)
                return journey, passenger
            journey = self._journeys[key] = []
            if self._arrived != key:
                return journey, None
            # Those that travelled with it are about to come again: it leads them, if they are here in a moment.
            self._arrived, passenger = None, Passenger(batch)
            passenger.leads = True
            passenger.tell(None)
            return journey, passenger

    def _wait(self, key: SessionKey, journey: Journey, passenger: Passenger) -> Flow[Appended | None]:
        """What a passenger is told. Who is cancelled on the way is so at the end of it."""
        cancelled: BaseException | None = None
        while True:
            try:
                told = yield from ask(passenger.answer)
            except BaseException as error:
                is_late = isinstance(error, WaitedTooLong)
                if not self._leaves(error, key, journey, passenger):
                    cancelled = cancelled if is_late else error
                elif cancelled is not None:
                    raise cancelled from None
                elif is_late:
                    return None
                else:
                    raise
            else:
                if cancelled is None:
                    return told
                if passenger.leads:
                    self._end_leading(key, journey, passenger)
                raise cancelled

    def _leaves(self, error: BaseException, key: SessionKey, journey: Journey, passenger: Passenger) -> bool:
        """Whether a passenger waits no longer, in which case nobody waits for it either."""
        with self._lock:
            is_late = isinstance(error, WaitedTooLong)
            if passenger in journey:
                journey.remove(passenger)
                leaves = True
            elif is_late:
                leaves = not (passenger.is_told or passenger.leads)
            else:
                # Cancelled while its batch is on its way: it hears of that when the batch has arrived.
                leaves = passenger.leads or not _is_cancellation(error)
            if is_late and leaves and self._journeys.get(key) is journey:
                del self._journeys[key]  # the next one begins anew
        if leaves and passenger.leads:
            self._end_leading(key, journey, passenger)
        return leaves

    def _end_leading(self, key: SessionKey, journey: Journey, leader: Passenger) -> None:
        for other in leader.others:
            other.tell(None)  # who was not told better finds out alone what became of it
        self._end(key, journey, came_together=bool(leader.others))

    def _end(self, key: SessionKey, journey: Journey, *, came_together: bool = False) -> None:
        """Have those that waited go, led by the first of them."""
        with self._lock:
            if not journey:
                if self._journeys.get(key) is journey:
                    del self._journeys[key]
                    self._arrived = key if came_together else None
                return
            leader = journey.pop(0)
            leader.leads = True
        leader.tell(None)

    def _gather(self, journey: Journey, leader: Passenger) -> None:
        """Have a leader take along who waits by now: also those that came since it was told, before it went."""
        with self._lock:
            room = _MOST_SAID - bytes_of(leader.batch.rows)
            for other in journey[: _MOST - 1]:
                room -= bytes_of(other.batch.rows)
                if room < 0:
                    break  # it leads those behind it
                leader.others.append(other)
            del journey[: len(leader.others)]


def _lead(key: SessionKey, leader: Passenger, together: Send[Appended | None]) -> Flow[Appended | None]:
    """Send the batches of several as one, and tell each its part; None where each is to go alone."""
    all_of_them = [leader, *leader.others]
    rows = tuple([row for each in all_of_them for row in each.batch.rows])
    batch = leader.batch._replace(
        rows=rows,
        now=max(each.batch.now for each in all_of_them),
        is_bare=all(each.batch.is_bare for each in all_of_them),
        packed={text: packed for each in all_of_them for text, packed in each.batch.packed.items()},
    )
    try:
        appended = yield from together(key, batch)
    except Exception:
        return None  # whose fault it is each finds out alone
    if appended is None or appended.view is not None:
        return None
    at, parts = 0, list[Appended]()
    for each in all_of_them:
        part = appended.rows[at : at + len(each.batch.rows)]
        parts.append(Appended(part, part[-1].seq))
        at += len(part)
    for other, told in zip(leader.others, parts[1:], strict=True):
        other.tell(told)
    return parts[0]


def _is_cancellation(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, asyncio.CancelledError)
