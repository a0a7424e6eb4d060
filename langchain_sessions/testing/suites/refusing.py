"""Bad input: the library's own error, the field in its text, and nothing written."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.errors import InvalidInputError, SessionsError
from langchain_sessions.events import NewEvent
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.suites.base import StoreSuite, ai, human, numbered, snapshot, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is refused
BAD_IDS: dict[str, Any] = {
    "empty": "",
    "blank": " \t",
    "none": None,
    "long": "x" * 256,
    "nul": "a\0b",
    "surrogate": "a\ud83d",
    "number": 7,
    "bytes": b"s1",
    "list": ["s1"],
}


def circular() -> dict[str, Any]:
    """A dict that holds itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


BAD_VALUES: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "object": object(),
    "set": {1},
    "lambda": lambda: 1,
    "bytes": b"x",
    "complex": 1j,
    "lock": threading.Lock(),
    "tuple": (1, 2),
    "datetime": NAIVE,
    "int key": {1: 2},
    "circular": circular(),
    "both halves": "\ud83d" + "\ude00",
    "both halves in a key": {"\ud83d" + "\ude00": 1},
    "deep nan": {"a": [{"b": float("nan")}]},
}


class RefusalSuite(StoreSuite):
    """Refused naming the field."""

    @pytest.mark.parametrize("bad", BAD_IDS)
    def test_bad_ids(self, ada: SessionService, sessions: SessionService, bad: str) -> None:
        """A37, D01, D03: before any storage is touched."""
        value = BAD_IDS[bad]
        before = snapshot(ada, "s1")
        for call in (ada.get, ada.open, ada.delete, ada.messages, ada.events, ada.state, ada.end, ada.invocation):
            with pytest.raises(InvalidInputError, match="session_id"):
                call(value)
        with pytest.raises(InvalidInputError, match="session_id"):
            ada.append(value, human("x"))
        if value is not None:
            for refused in (
                lambda: sessions.as_user(value),
                lambda: sessions.create("s2", user_id=value),
                lambda: ada.create(value),
                lambda: ada.append("s1", human("x"), author=value),
                lambda: ada.append("s1", human("x"), invocation_id=value),
                lambda: ada.append("s1", NewEvent(id=value, message=human("x"))),
                lambda: ada.append("s1", NewEvent(message=human("x"), long_running_tool_ids=(value,))),
                lambda: ada.fork("s1", new_id=value),
            ):
                with pytest.raises(InvalidInputError):
                    refused()
        assert snapshot(ada, "s1") == before
        assert len(sessions.list_sessions().items) == 1

    @pytest.mark.parametrize("bad", BAD_VALUES)
    def test_values_that_json_cannot_hold(self, ada: SessionService, bad: str) -> None:
        """M01, M02, M04: refused by name before a transaction opens, and the store is free at once."""
        value = {"k": BAD_VALUES[bad]}
        ada.append("s1", numbered(2))
        before = snapshot(ada, "s1")
        refused: dict[str, Callable[[], object]] = {
            "metadata": lambda: ada.append("s1", human("x"), metadata=value),
            "metadata ": lambda: ada.append("s1", [ai("ok"), NewEvent(message=human("x"), metadata=value)]),
            "metadata  ": lambda: ada.update("s1", metadata=value),
            "metadata   ": lambda: ada.create("s2", metadata=value),
            "metadata    ": lambda: ada.fork("s1", metadata=value),
            "state_delta": lambda: ada.append("s1", human("x"), state_delta=value),
            "state": lambda: ada.create("s2", state=value),
            "grounding": lambda: ada.append("s1", NewEvent(message=human("x"), grounding=value)),
            "details": lambda: archive(ada, "s1", [1], base=ada.context("s1"), details=value),
        }
        for field, call in refused.items():
            with pytest.raises(InvalidInputError, match=field.strip()):
                call()
        assert snapshot(ada, "s1") == before
        assert len(ada.list_sessions().items) == 1
        ada.append("s1", human("m3"))
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3"]

    def test_naive_times(self, ada: SessionService) -> None:
        """T03."""
        for bad in (NAIVE, "2026-01-01", 0):
            with pytest.raises(InvalidInputError, match="timestamp"):
                ada.append("s1", human("x"), timestamp=bad)  # type: ignore[arg-type]
            for bound in ("since", "until"):
                with pytest.raises(InvalidInputError, match=bound):
                    EventFilter(**{bound: bad})  # type: ignore[arg-type]
        assert ada.get("s1").version == 0

    def test_times_beyond_the_calendar(self, ada: SessionService) -> None:
        """An instant of no year from 1 to 9999 of UTC could never be read again."""
        first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
        last = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=11)))
        for bad in (first, last):
            with pytest.raises(InvalidInputError, match="timestamp"):
                ada.append("s1", human("x"), timestamp=bad)
        for ttl in (timedelta.max, timedelta(0), timedelta(days=-1), 60, "60"):
            with pytest.raises(InvalidInputError, match="time_to_live"):
                ada.create("s2", time_to_live=ttl)  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError, match="time_to_live"):
                ada.update("s1", time_to_live=ttl)  # type: ignore[arg-type]
        assert ada.get("s1").version == 0
        assert len(ada.list_sessions().items) == 1

    @pytest.mark.parametrize("bad", ["text", [1], {"a"}, 3.5])
    def test_what_is_no_mapping(self, ada: SessionService, bad: Any) -> None:
        refused: dict[str, Callable[[], object]] = {
            "metadata": lambda: ada.append("s1", human("x"), metadata=bad),
            "metadata ": lambda: ada.create("s2", metadata=bad),
            "metadata  ": lambda: ada.update("s1", metadata=bad),
            "metadata   ": lambda: ada.fork("s1", metadata=bad),
            "grounding": lambda: ada.append("s1", NewEvent(message=human("x"), grounding=bad)),
            "state_delta": lambda: ada.append("s1", human("x"), state_delta=bad),
            "state": lambda: ada.create("s2", state=bad),
        }
        for field, call in refused.items():
            with pytest.raises(InvalidInputError, match=field.strip()):
                call()
        assert ada.get("s1").version == 0

    @pytest.mark.parametrize("bad", [None, 1, "text", b"x", {"content": "x"}, [None], ["text"], [[human("x")]]])
    def test_what_is_no_message(self, ada: SessionService, bad: Any) -> None:
        with pytest.raises(InvalidInputError, match="messages"):
            ada.append("s1", bad)
        assert ada.get("s1").version == 0

    @pytest.mark.parametrize("bad", ["1", 1.0, True, -1])
    def test_bad_versions(self, ada: SessionService, bad: Any) -> None:
        ada.append("s1", human("m1"))
        with pytest.raises(SessionsError):
            ada.append("s1", human("x"), expected_version=bad)
        assert ada.get("s1").version == 1

    def test_errors_tell_no_text(self, ada: SessionService) -> None:
        """No error carries what somebody said."""
        ada.append("s1", NewEvent(id="e1", message=human("my secret")))
        with pytest.raises(SessionsError) as caught:
            ada.append("s1", NewEvent(id="e1", message=human("another secret")))
        assert "secret" not in str(caught.value)
