"""The counter of ways: how many modules a call passes."""

from __future__ import annotations

from pathlib import Path

from langchain_core.messages import HumanMessage

import langchain_sessions
from benchmarks.walks import modules_passed
from langchain_sessions import SessionService


def test_a_call_passes_the_modules_that_it_enters() -> None:
    root = Path(langchain_sessions.__file__).parent
    with SessionService("sqlite://") as service:
        service.open("s")
        service.append("s", HumanMessage("warm"))
        read = modules_passed(lambda: service.get("s"))
        written = modules_passed(lambda: service.append("s", HumanMessage("hello")))
    assert read & written
    assert {module for module in read | written if not (root / module).is_file()} == set()
    assert written - read
    assert modules_passed(lambda: None) == set()
