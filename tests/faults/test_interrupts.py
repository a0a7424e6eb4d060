"""Ctrl-C in the middle of a call: no wrong answer afterwards, no lock, nothing half done."""

from __future__ import annotations

import random
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions.stores import _memory
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores.engine import Head, Partition, Range
from tests.faults.drills import assert_whole, in_threads, make_service, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from langchain_sessions import SessionService


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt in the block when so much time has passed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# What an interrupt hits in a finalizer of the driver cannot be raised by it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_an_interrupted_call_leaves_no_answer_for_the_next(database_url: str, table_prefix: str) -> None:
    """A connection whose answer nobody read once gave it to another call: `get` said that there was no session."""
    assert threading.current_thread() is threading.main_thread()
    # What an interrupt does to SQLAlchemy's pool is not ours to mend: it may cost a place, or, between a condition's
    # lock and its block, the lock for other threads. So nothing is asked of the pool, and the locks that count are
    # those of the database, which another service meets too.
    with (
        make_service(database_url, table_prefix=table_prefix) as service,
        make_service(database_url, table_prefix=table_prefix) as beside,
    ):
        for name in ("ada", "grace"):
            service.open(name)
            service.append(name, message(f"{name}-0"))
        acknowledged = [f"ada-{number}" for number in range(1, 150) if _one_round(service, number)]
        in_threads([lambda: beside.append("grace", message("no lock is left"))], timeout=30)
        in_threads([lambda: beside.append("ada", message("nor here"))], timeout=30)
        names = assert_whole(service, "ada", acknowledged)
        assert {name.removesuffix("!") for name in names if name.endswith("!")} <= set(names)
        assert service.verify("ada") == []


def _one_round(service: SessionService, number: int) -> bool:
    """Interrupt one call at a random moment; whether an append was acknowledged. Then look whether all is well."""
    appended = False
    try:
        with interrupted_after(random.uniform(0.0001, 0.004)):  # noqa: S311
            if number % 3:
                name = f"ada-{number}"
                service.append("ada", [HumanMessage(name, id=name), AIMessage(f"{name}!", id=f"{name}!")])
                appended = True
            else:
                service.messages("ada")
    except KeyboardInterrupt:
        pass
    assert service.get("grace").id == "grace"
    assert [found.content for found in service.messages("grace")] == ["grace-0"]
    return appended


class _Interrupting:
    """Interrupts a change of a partition in memory before its n-th line; a lock's block is entered and left whole."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: object) -> _Interrupting | None:
        if frame.f_code.co_filename != _memory.__file__ or frame.f_code.co_name not in {"change", "set", "remove"}:
            return self
        self.left -= event == "line"
        if self.left == 0:
            self.left = -1
            raise KeyboardInterrupt
        return self


@pytest.mark.parametrize("is_new", [False, True])
def test_an_interrupt_at_any_line_of_a_commit_in_memory_leaves_all_or_nothing(*, is_new: bool) -> None:
    place, everything = Partition("app", "s", "one"), Range("", "~")
    line, seen = 0, set[bool]()
    while True:
        line += 1
        engine, at = MemoryEngine(), 0 if is_new else 1
        if not is_new:
            engine.commit(place, 0, Head(1, b"old"), {"a": b"old", "b": b"old"})
        before = engine.read_heads([place]), engine.read_rows(place, [everything])
        changes = {"a": None, "b": b"new", "c": b"new"}
        interrupting, traced = _Interrupting(line), sys.gettrace()
        sys.settrace(interrupting)
        try:
            engine.commit(place, at, Head(at + 1, b"new"), changes)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(traced)
        after = engine.read_heads([place]), engine.read_rows(place, [everything])
        is_done = after != before
        seen.add(is_done)
        assert not is_done or after == ([Head(at + 1, b"new")], [[("b", b"new"), ("c", b"new")]])
        assert engine.commit(place, at + is_done, Head(at + is_done + 1, b"next"), {})
        if interrupting.left > 0:
            break
    assert seen == {False, True}
