"""How much was appended to each log since its index was last brought up to date: events are counted, bytes are not."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions._core.rows import EventRow, SessionKey

MOST_BYTES: Final = 1_000_000
"""Of text that may wait for the index of a log: a search scans what waits, at about a second of CPU for 5 MB."""

_MOST_LOGS: Final = 10_000


def bytes_of(rows: Iterable[EventRow]) -> int:
    """About how much there is to read in some events."""
    return sum(len(row.text or "") + len(row.body or "") for row in rows)


class Tally:
    """Bytes by log, as far as this process appended them; safe to share between threads.

    It decides no more than which append pays: a search looks at what waits itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], int] = OrderedDict()

    def passes(self, key: SessionKey, size: int) -> bool:
        """Count what was appended; whether with it too much waits, which is then counted as done."""
        name = (key.app, key.id)
        with self._lock:
            waiting = self._waiting.pop(name, 0) + size
            if waiting > MOST_BYTES:
                return True
            self._waiting[name] = waiting
            if len(self._waiting) > _MOST_LOGS:
                self._waiting.popitem(last=False)
        return False
