"""Forking while another thread writes to SQLite: the fork waits until the write is over.

SQLite notes in the memory of the process which of its connections hold a lock. A child that was copied in the middle of
a write believes for ever that one of its own does, and each of its writes would time out.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet

_PATIENCE = 10.0
"""Seconds. A write that waits for another process's lock must not stop a fork for good."""
_turns: WeakSet[threading.RLock] = WeakSet()
_held = threading.local()


def new_turn() -> threading.RLock:
    """A lock that is held while something is written, and that forks wait for."""
    # Reentrant: an application may fork in a callback that runs inside a write of its own thread.
    turn = threading.RLock()
    _turns.add(turn)
    return turn


def _wait() -> None:
    held = _held.turns = list[threading.RLock]()
    for turn in tuple(_turns):
        if turn.acquire(timeout=_PATIENCE):
            held.append(turn)


def _go_on() -> None:
    for turn in _held.turns:
        turn.release()
    _held.turns = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_go_on)
