# ruff: noqa: ANN401 - drivers and frames are whatever they are
"""What a call costs, in counts that are the same on every machine: no clock is asked."""

from __future__ import annotations

import gc
import sqlite3
import sys
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

_STEPS = 10
_DRIVERS = ("psycopg/cursor.py", "pymysql/cursors.py")
"""Where the servers' drivers, which are Python, are given a statement."""


class Cost(NamedTuple):
    """What one call took.

    `size`: the bytes of the rows. `steps`: of SQLite's own machine, in tens: rows count that it only looks at.
    `memory`: its peak.
    """

    calls: int
    statements: int
    rows: int
    size: int
    steps: int
    memory: int


class Meter:
    """Counts the functions of Python, and what a database that it is attached to is asked and answers."""

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()

    def attach(self, engine: Engine) -> None:
        """Count on the connections that an engine opens from now on."""
        event.listen(engine, "connect", self._connected)

    def _connected(self, connection: Any, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(self._statement)
            connection.set_progress_handler(self._step, _STEPS)
            connection.row_factory = self._row
        elif hasattr(connection, "row_factory"):  # psycopg's
            connection.row_factory = lambda _cursor: lambda values: self._row(None, tuple(values))

    def _statement(self, _text: str) -> None:
        self._counted["statements"] += 1

    def _step(self) -> int:
        self._counted["steps"] += 1
        return 0

    def _row(self, _cursor: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self._counted["rows"] += 1
        self._counted["size"] += sum(len(value) if isinstance(value, (str, bytes)) else 8 for value in row)
        return row

    def _profile(self, frame: Any, kind: str, _arg: object) -> None:
        code = frame.f_code
        if kind == "call" and code.co_filename != __file__:
            self._counted["calls"] += 1
            self._counted["statements"] += code.co_name == "execute" and code.co_filename.endswith(_DRIVERS)

    def of(self, call: Callable[[], object], again: Callable[[], object]) -> Cost:
        """What a call takes; its memory is that of the same call done again."""
        # What other tests have left to the collector is not this call's.
        gc.collect()
        gc.disable()
        self._counted.clear()
        sys.setprofile(self._profile)
        try:
            call()
        finally:
            sys.setprofile(None)
            gc.enable()
        counted = dict(self._counted)
        tracemalloc.start()
        try:
            again()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return Cost(**{name: counted.get(name, 0) for name in Cost._fields[:-1]}, memory=peak)
