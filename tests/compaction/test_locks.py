"""Locks are taken in one order: whatever changes sessions at once, the servers take no transaction back."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import Compaction, InvocationStatus, SessionService, SlidingWindow
from langchain_sessions._sql.driver.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 2.0


@pytest.mark.backends("postgres", "mariadb")
def test_no_two_transactions_wait_for_each_other(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_back: list[str] = []
    original = Runner._pause

    def noting(runner: Runner, error: Exception, attempt: int) -> float:
        taken_back.append(f"{type(error).__name__}: {type(error.__cause__).__name__}")
        return original(runner, error, attempt)

    monkeypatch.setattr(Runner, "_pause", noting)
    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        ada = service.as_user("ada")
        for name in ("s1", "s2"):
            ada.open(name)
            ada.append(name, [HumanMessage("hi"), AIMessage("hello")])

        def append(number: int) -> None:
            delta = {"user:last": number, "app:last": number, "own": number}
            ada.append(f"s{number % 2 + 1}", [HumanMessage("x"), AIMessage("y")], state_delta=delta)

        def fail(number: int) -> None:
            run = f"run {number}"
            ada.append("s1", [HumanMessage("q")], invocation_id=run, invocation_status=InvocationStatus.OPEN)
            ada.append("s1", [], invocation_id=run, invocation_status=InvocationStatus.FAILED)

        def compact(number: int) -> None:
            ada.compact(f"s{number % 2 + 1}", Compaction(None, SlidingWindow(6)))

        def rewind(_: int) -> None:
            ada.rewind("s2", to_seq=1)
            ada.undo_rewind("s2")

        errors = _at_once([append, append, append, append, fail, compact, rewind])
        assert errors == []
        assert taken_back == []
        assert [ada.verify(name) for name in ("s1", "s2")] == [[], []]


def _at_once(acts: list[Callable[[int], Any]]) -> list[BaseException]:
    """What goes wrong while each act is done again and again, in a thread of its own."""
    errors: list[BaseException] = []
    until = time.monotonic() + SECONDS

    def go_on(act: Callable[[int], Any]) -> None:
        number = 0
        try:
            while time.monotonic() < until:
                act(number)
                number += 1
        except BaseException as error:  # noqa: BLE001 - told at the end
            errors.append(error)

    threads = [threading.Thread(target=go_on, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
