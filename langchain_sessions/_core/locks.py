"""Locks that a fork leaves whole: in a child no thread is left that could release what it held.

Forks wait for the locks that are made here, so that a child finds whole what they guard: caches, and a store within the
process. SQLite besides notes in the memory of the process which of its connections hold a lock: a child that was copied
in the middle of a write believes for ever that one of its own does, and each of its writes would time out; and its own
locks, which a read holds too, stay as they were copied. Queues that threads stand in for longer are empty in a child.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol
from weakref import WeakSet

_PATIENCE = 10.0
"""Seconds. A write that waits for another process's lock must not stop a fork for good."""


class Queue(Protocol):
    """Something that threads wait in."""

    def leave_all(self) -> None:
        """Forget who waits, and who has the turn: they are threads of another process."""
        ...


# Reentrant: making a lock may have garbage collected, and what is collected may make one too.
_making = threading.RLock()
_turns: WeakSet[threading.RLock] = WeakSet()
_locks: WeakSet[threading.Lock] = WeakSet()
_queues: WeakSet[Queue] = WeakSet()
_held = threading.local()


def new_turn() -> threading.RLock:
    """A lock that is held while something is written, and that forks wait for."""
    # Reentrant: an application may fork in a callback that runs inside a write of its own thread.
    turn = threading.RLock()
    with _making:
        _turns.add(turn)
    return turn


class TurnOfThread(threading.local):
    """A turn of each thread's own: nobody waits for it but forks.

    What is under way outside of Python may hold locks that no fork can see, SQLite's for one: a child that was copied
    meanwhile would wait for them for ever.
    """

    def __init__(self) -> None:
        """Begun in each thread when it first looks."""
        super().__init__()
        self.turn = new_turn()


def new_lock() -> threading.Lock:
    """A lock that is held for a moment, and that is free in a child."""
    lock = threading.Lock()
    with _making:
        _locks.add(lock)
    return lock


def empty_in_child(queue: Queue) -> None:
    """Have a queue left by all in a child."""
    with _making:
        _queues.add(queue)


def _wait() -> None:
    _making.acquire()
    held = _held.locks = list[Any]()
    # Turns first: who has one may ask for a lock, and never the other way round.
    for locks in (tuple(_turns), tuple(_locks)):
        held += [lock for lock in locks if lock.acquire(timeout=_PATIENCE)]


def _go_on() -> None:
    for lock in _held.locks:
        lock.release()
    _held.locks = []
    _making.release()


def _begin_anew() -> None:
    _go_on()
    for lock in _locks:
        if lock.locked():  # by a thread that was not worth waiting for, and is not here
            lock.release()
    for queue in _queues:
        queue.leave_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_begin_anew)
