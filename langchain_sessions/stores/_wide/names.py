"""What became of a commit whose answer got lost: its name stands in the head, until very many others have followed.

A head has the names of its newest sixteen commits, and of those of the last minute up to 512: so many others may write
while one waits for an answer that never comes. Only sessions that are written that fast have more than sixteen.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from langchain_sessions.stores._wide.work import Known

SIZE: Final = 8
"""Bytes of a name."""
_LEAST: Final = 16
_MOST: Final = 512
_TICK: Final = 4
"""Seconds."""
_TICKS: Final = 16
_ROUND: Final = 1 << 16
"""Ticks until the same come again, after three days."""
_DRAWN: Final = SIZE - 2


def new_name() -> bytes:
    """A name for a commit: when it was made, and what no other commit of that moment draws."""
    return _now().to_bytes(2, "big") + secrets.token_bytes(_DRAWN)


def followed_by(name: bytes, stamp: bytes | None) -> bytes:
    """What a head has after a commit: its name, and those of the head before it that it keeps."""
    kept = (stamp or b"")[: (_MOST - 1) * SIZE]
    now = _now()
    # From the oldest on: a commit leaves out about as many as it adds, and looks at no others, however many there are.
    while len(kept) >= _LEAST * SIZE and _is_old(kept[-SIZE:], now):
        kept = kept[:-SIZE]
    return name + kept


def _is_old(name: bytes, now: int) -> bool:
    # Clocks of other processes may be ahead.
    age = (now - int.from_bytes(name[:2], "big")) % _ROUND
    return min(age, _ROUND - age) > _TICKS


def is_among(name: bytes | None, known: Known, now: Known) -> bool | None:
    """Whether a commit happened that was to follow one head, as another one says it; None where that cannot be said."""
    if name in now.names:
        return True
    others = len(now.names)
    has_all = others < _LEAST or not {*known.names[:1]}.isdisjoint(now.names)
    return False if has_all or 0 < now.version - known.version <= others else None


def _now() -> int:
    return int(time.time()) // _TICK % _ROUND
