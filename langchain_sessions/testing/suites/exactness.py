"""What is stored comes back equal: every kind of message, every character, every instant."""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_sessions.events import NewEvent
from langchain_sessions.testing.suites.base import StoreSuite, human, texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.service import SessionService


class Words(str):
    """A string that is more than one, like what `message.text` is."""

    __slots__ = ()


class Pair(NamedTuple):
    """A tuple that is more than one."""

    first: int
    second: int


ODD_TEXTS = {
    "nul": "a\0b\0",
    "lone surrogate": "half \ud83d of it",
    "both halves": "from two chunks: " + "\ud83d" + "\ude00",
    "zwj emoji": "👩‍👩‍👧‍👦",
    "override": "abc \u202e def",
    "nfc and nfd": "é e\u0301",
    "bom": "\ufeffx",
    "separators": "a\u2028b\u2029c\x85d\r\ne\tf",
    "last": "\U0010ffff\uffff\ufffe",
    "blank": "   ",
    "newline": "\n",
    "trailing blanks": "x   ",
    "empty": "",
    "tag": '{"$":["tuple",[1]]}',
    "backslashes": "\\u0000 \\ \\\\ \\n",
    "quotes": "'\"`$$;--",
    "percent": "%s %(x)s {} ${x} :name ?",
}

MESSAGES: dict[str, BaseMessage] = {
    "human": HumanMessage("hi", id="h1", name="Ada", additional_kwargs={"k": {"deep": [1, None]}}),
    "system": SystemMessage("be kind"),
    "empty ai": AIMessage(""),
    "no content": AIMessage([]),
    "tool calls": AIMessage(
        "let me see",
        id="a1",
        tool_calls=[{"name": "f", "args": {"x": 1.5, "ü": "\0"}, "id": "c1", "type": "tool_call"}],
        invalid_tool_calls=[{"name": None, "args": "{", "id": "c2", "error": "bad", "type": "invalid_tool_call"}],
        usage_metadata={
            "input_tokens": 3,
            "output_tokens": 4,
            "total_tokens": 7,
            "input_token_details": {"cache_read": 1},
        },
        response_metadata={"model_name": "m", "logprobs": [float("-inf"), 0.1], "finish_reason": "stop"},
    ),
    "blocks": AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "sig"}},
            {"type": "text", "text": "see", "annotations": []},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
            "bare",
        ]
    ),
    "tool": ToolMessage("42", tool_call_id="c1", name="f", artifact={"raw": b"\x00\xff"}, status="error", id="t1"),
    "documents": ToolMessage(
        [{"type": "text", "text": "found"}],
        tool_call_id="c1",
        artifact=[Document("text", metadata={"p": (1, 2)}, id="d1"), (1, {2, 3}), float("nan").hex()],
    ),
    "times": ToolMessage(
        "t", tool_call_id="c", artifact=(datetime(2026, 1, 1, tzinfo=timezone.utc), timedelta(1), 2**80)
    ),
    "chat": ChatMessage(content="hi", role="narrator"),
    "function": FunctionMessage(content="4", name="add"),
    "lc keys": HumanMessage(
        [{"type": "text", "text": "x", "lc": 1, "id": ["langchain", "secret"], "kwargs": {}}],
        additional_kwargs={"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
    ),
    "lc text": HumanMessage('{"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {}}'),
    "own tag": HumanMessage("x", additional_kwargs={"$": ["bytes", "AA=="], "a": {"$": 1}}),
    "odd keys": ToolMessage("x", tool_call_id="c", artifact={1: "int", None: "none", ("a",): "tuple"}),
}


class ExactSuite(StoreSuite):
    """Stored exactly, code point for code point, on every backend alike."""

    @pytest.mark.parametrize("name", ODD_TEXTS)
    def test_text(self, ada: SessionService, name: str) -> None:
        """I01, I03, I05, I10, A33."""
        text = ODD_TEXTS[name]
        ada.append(
            "s1", [HumanMessage(text), AIMessage([{"type": "text", "text": text}]), ToolMessage(text, tool_call_id="c")]
        )
        contents = [event.message.content for event in ada.events("s1") if event.message is not None]
        assert contents == [text, [{"type": "text", "text": text}], text]
        ada.append("s1", human("still usable"))
        assert ada.get("s1").version == 4

    @pytest.mark.parametrize("name", MESSAGES)
    def test_messages(self, ada: SessionService, name: str) -> None:
        """I11, S27, M08: equal in every field, and of the same class."""
        given = MESSAGES[name]
        ada.append("s1", given)
        stored = ada.events("s1")[0].message
        assert stored == given
        assert type(stored) is type(given)
        assert stored.__dict__ == given.__dict__
        ada.append("s1", NewEvent(id=ada.events("s1")[0].id, message=given))
        assert ada.get("s1").version == 1

    def test_big_text(self, ada: SessionService) -> None:
        """A33, I08: past every limit that a text column may have."""
        words = "Grüße 🦜 " * 200_000
        ada.append(
            "s1", [human(words), AIMessage([{"type": "image", "base64": "QUJD" * 2_500_000, "mime_type": "x/y"}])]
        )
        first, second = ada.events("s1")
        assert first.message is not None
        assert second.message is not None
        assert first.message.content == words
        assert second.message.content == [{"type": "image", "base64": "QUJD" * 2_500_000, "mime_type": "x/y"}]

    def test_big_foreign_text_in_a_block(self, ada: SessionService) -> None:
        """A33: what a server takes in one statement is not used up by escapes."""
        block = {"type": "text", "text": "语🦜" * 700_000 + "\0"}
        ada.append("s1", AIMessage([block]))
        message = ada.events("s1")[0].message
        assert message is not None
        assert message.content == [block]

    def test_subclasses_of_plain_values(self, ada: SessionService) -> None:
        """They come back as the built-in values that they are equal to, whole."""
        given = {"text": Words("w" * 20_000), "pair": Pair(1, 2), "dict": OrderedDict(a=[Words("x")])}
        ada.append("s1", ToolMessage("found", tool_call_id="c", artifact=given))
        message = ada.events("s1")[0].message
        assert isinstance(message, ToolMessage)
        assert message.artifact == given

    def test_chunks_become_messages(self, ada: SessionService) -> None:
        ada.append("s1", AIMessageChunk(content="whole answer", id="a1"))
        stored = ada.messages("s1")[0]
        assert (type(stored), stored.content, stored.id) == (AIMessage, "whole answer", "a1")

    def test_metadata(self, ada: SessionService) -> None:
        """I02, M08."""
        odd: dict[str, Any] = {
            "a\0b": "\0",
            "ü": ["\ud83d", 1e300, -0.0, 2**70, True, None],
            "lc": 1,
            "$": ["x", 1],
            "": {},
        }
        ada.append("s1", human("m1"), metadata=odd)
        ada.update("s1", metadata={**odd, "none": {"deep": None}})
        assert dict(ada.events("s1")[0].metadata) == odd
        assert dict(ada.get("s1").metadata) == {**odd, "none": {"deep": None}}

    def test_event_fields(self, ada: SessionService) -> None:
        """Every field of an agent framework's event has a home."""
        given = NewEvent(
            message=AIMessage("hi"),
            id="e1",
            author="writer",
            branch="orch.writer",
            invocation_id="run",
            state_delta={"a": 1},
            metadata={"m": 1},
            long_running_tool_ids=("c1", "c2"),
            error_code="E1",
            error_message="went wrong \0",
            grounding={"sources": ["x"]},
            interrupted=True,
        )
        ada.append("s1", given)
        [stored] = ada.events("s1")
        names = (
            "id",
            "author",
            "branch",
            "invocation_id",
            "long_running_tool_ids",
            "error_code",
            "error_message",
            "grounding",
        )
        for name in names:
            assert getattr(stored, name) == getattr(given, name), name
        assert (dict(stored.state_delta), dict(stored.metadata), stored.is_interrupted) == ({"a": 1}, {"m": 1}, True)

    def test_records_carry_their_fields(self, ada: SessionService) -> None:
        ada.append("s1", NewEvent(error_code="429", error_message="slow down", long_running_tool_ids=("c1",)))
        [stored] = ada.events("s1")
        assert (stored.error_code, stored.error_message, stored.long_running_tool_ids) == ("429", "slow down", ("c1",))


class TimeSuite(StoreSuite):
    """UTC with microseconds, whatever the zone of the caller or of the process."""

    def test_zones_and_microseconds(self, ada: SessionService) -> None:
        """T04."""
        moment = datetime(2026, 7, 1, 12, 0, 0, 123457, tzinfo=timezone(timedelta(hours=5, minutes=45)))
        [given] = ada.append("s1", human("m1"), timestamp=moment)
        [stored] = ada.events("s1")
        assert given.timestamp == stored.timestamp == moment
        assert stored.timestamp.microsecond == 123457
        assert stored.timestamp.utcoffset() == timedelta(0)

    @pytest.mark.parametrize("year", [1, 1969, 2106, 9999])
    def test_far_times(self, ada: SessionService, year: int) -> None:
        moment = datetime(year, 12, 30, 23, 59, 59, 999999, tzinfo=timezone.utc)
        ada.append("s1", human("m1"), timestamp=moment)
        assert ada.events("s1")[0].timestamp == moment

    @pytest.fixture
    def zone(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        """Sets the time zone of the process."""

        def move(name: str) -> None:
            monkeypatch.setenv("TZ", name)
            time.tzset()

        yield move
        monkeypatch.undo()
        time.tzset()

    def test_the_zone_of_the_process(self, ada: SessionService, zone: Any) -> None:
        """A4, T06."""
        moment = datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=timezone.utc)
        zone("Asia/Kolkata")
        ada.append("s1", human("m1"), timestamp=moment)
        before = ada.get("s1")
        for name in ("Pacific/Kiritimati", "Pacific/Niue"):
            zone(name)
            assert ada.events("s1")[0].timestamp == moment
            assert ada.get("s1") == before
        assert texts(ada.messages("s1")) == ["m1"]
