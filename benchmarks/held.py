# ruff: noqa: ANN401, SLF001 - it looks into what it measures
"""How long a compaction holds its session beside four busy writers, and an append beside a compaction.

A session is held from the answer to the first statement of a write transaction, which locks its row, to the end of the
commit. Four threads append to a session of a thousand live events; compactions that leave ten are made meanwhile.
Printed are milliseconds: of the transactions of appends and of compactions, and what an append takes as its caller
sees it, without compactions and with them. SQLite runs in a file; PostgreSQL and MariaDB where the tests find them.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import Compaction, Outcome, SessionService, SlidingWindow
from langchain_sessions._sql.driver.runner import Runner
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

LIVE, WRITERS, COMPACTIONS, SECONDS = 1_000, 4, 20, 4.0
SERVERS = {"postgres": "LANGCHAIN_SESSIONS_TEST_POSTGRES", "mariadb": "LANGCHAIN_SESSIONS_TEST_MARIADB"}
_NO_CHANGES = (TransactionKind.READ, TransactionKind.STATEMENT)


class Held(NamedTuple):
    """Seconds for which sessions were held, by what held them, and those that appends took without and with it."""

    appends: list[float]
    compactions: list[float]
    alone: list[float]
    beside: list[float]


class Watch:
    """Notes how long each write transaction holds its session, by the thread that runs it."""

    def __init__(self) -> None:
        """Nothing was held yet."""
        self.held: dict[str, list[float]] = {"writer": [], "compaction": []}
        self._original: Any = Runner._in_transaction

    def __enter__(self) -> Self:
        """Look into every transaction from now on."""
        original, held = self._original, self.held

        def timed(*given: Any) -> Any:
            *rest, kind, work = given
            operation, args, kwargs = work
            locked: list[float] = []

            def noting(transaction: Any, *args: Any, **kwargs: Any) -> Any:
                if transaction.flavour == "sqlite":
                    locked.append(time.perf_counter())  # it has begun with the lock
                spoken = transaction._cursor, transaction._send
                transaction._cursor = _Noting(transaction._cursor, locked)
                if transaction._send is not None:
                    transaction._send = _noted(transaction._send, locked)
                try:
                    return operation(transaction, *args, **kwargs)
                finally:
                    transaction._cursor, transaction._send = spoken

            try:
                return original(*rest, kind, (noting, args, kwargs))
            finally:
                name = threading.current_thread().name.partition(" ")[0]
                if kind not in _NO_CHANGES and locked and name in held:
                    held[name].append(time.perf_counter() - locked[0])

        Runner._in_transaction = timed  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        """Look away."""
        Runner._in_transaction = self._original  # type: ignore[method-assign]


def _noted(call: Any, locked: list[float]) -> Any:
    def noting(*args: Any, **kwargs: Any) -> Any:
        answer = call(*args, **kwargs)
        locked.append(time.perf_counter())
        return answer

    return noting


class _Noting:
    """A driver's cursor that notes when it was answered."""

    def __init__(self, cursor: Any, answered: list[float]) -> None:
        self._cursor = cursor
        self.execute = _noted(cursor.execute, answered)
        self.executemany = _noted(cursor.executemany, answered)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def measured(url: str) -> Held:
    """What a busy session comes to on a database."""
    with SessionService(url, create_schema=True) as service, Watch() as watch:
        said = [HumanMessage(f"m {n}") if n % 2 == 0 else AIMessage(f"m {n}") for n in range(LIVE)]
        for name in ("warm", "s1"):
            service.open(name)
            service.append(name, said)
        service.compact("warm", Compaction(None, SlidingWindow(10)))
        taken: dict[bool, list[float]] = {False: [], True: []}
        done, compacts = threading.Event(), threading.Event()

        def write() -> None:
            number = 0
            while not done.is_set():
                number += 1
                start, beside = time.perf_counter(), compacts.is_set()
                service.append("s1", [HumanMessage(f"w {number}"), AIMessage("yes")])
                taken[beside].append(time.perf_counter() - start)

        writers = [threading.Thread(target=write, name=f"writer {number}") for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        time.sleep(SECONDS)
        threading.current_thread().name = "compaction"
        watch.held["compaction"].clear()
        compacts.set()
        outcomes = []
        for _ in range(COMPACTIONS):
            time.sleep(SECONDS / COMPACTIONS)
            outcomes.append(service.compact("s1", Compaction(None, SlidingWindow(10))).outcome)
        done.set()
        for writer in writers:
            writer.join()
        threading.current_thread().name = "MainThread"
        lost = [outcome.value for outcome in outcomes if outcome is not Outcome.COMPACTED]
        if lost or service.verify("s1"):
            print("not compacted:", lost, service.verify("s1"))
    return Held(watch.held["writer"], watch.held["compaction"], taken[False], taken[True])


def places() -> Iterator[tuple[str, str]]:
    """The databases at hand, by name."""
    with tempfile.TemporaryDirectory() as folder:
        yield "sqlite", f"sqlite:///{folder}/held.db"
    for name, variable in SERVERS.items():
        if variable in os.environ:
            yield name, os.environ[variable]


def _shown(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return f"{median(ordered) * 1e3:8.1f} {ordered[int(len(ordered) * 0.99)] * 1e3:8.1f} {ordered[-1] * 1e3:8.1f}"


def main() -> None:
    """Print the table."""
    print(f"{'milliseconds':44}{'count':>6}{'median':>9}{'99 %':>9}{'most':>9}")
    for name, url in places():
        found = measured(url)
        rows = {
            "an append holds the session": found.appends,
            "a compaction holds the session": found.compactions,
            "an append takes, without compactions": found.alone,
            "an append takes, beside compactions": found.beside,
        }
        for what, seconds in rows.items():
            print(f"{name:10}{what:34}{len(seconds):>6} {_shown(seconds)}", flush=True)


if __name__ == "__main__":
    main()
