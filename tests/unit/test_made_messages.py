"""Messages that are made many at once are those that are read one by one, in every respect."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.rows import NO_MESSAGE_ID, SEALED, EventRow
from langchain_sessions._core.view import said_values
from langchain_sessions._threads.split import snapshot
from langchain_sessions.errors import CorruptRowError, SealedEventError

if TYPE_CHECKING:
    from collections.abc import Callable

_USAGE: Any = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "input_token_details": {"cache_read": 4}}
_CALL: Any = {"name": "look", "args": {"query": "été", "deep": [1, {"a": None}]}, "id": "c1", "type": "tool_call"}
_BAD: Any = {"name": "look", "args": "{", "id": "c2", "error": "cut", "type": "invalid_tool_call"}
_META = {"model_name": "gpt", "token_usage": {"details": {"n": 0}}, "finish_reason": "stop", "logprobs": None, "t": 0.5}
MESSAGES: list[BaseMessage] = [
    HumanMessage("hi"),
    HumanMessage("hi", id="1", name="ada"),
    HumanMessage([{"type": "text", "text": "hi"}, "there"], id="2"),
    HumanMessage("hi", id="x" * 300),
    HumanMessage("hi", id="3", additional_kwargs={"$5": "$5", "cost": "$5"}, example=True),
    AIMessage("", id="4", tool_calls=[_CALL], invalid_tool_calls=[_BAD], usage_metadata=_USAGE),
    AIMessage("there", id="5", response_metadata=_META, additional_kwargs={"refusal": None}),
    AIMessage("there", additional_kwargs={"at": b"1", "pair": (1, 2), "far": float("inf")}),
    AIMessage([{"type": "text", "text": "x", "extras": {"signature": "s"}}], usage_metadata=_USAGE),
    SystemMessage("be brief"),
    ToolMessage("found", tool_call_id="c1", name="look", id="6", artifact={"rows": [1]}, status="error"),
    ToolMessage([{"type": "text", "text": "found"}], tool_call_id="c1"),
    ChatMessage(content="hm", role="judge", id="7"),
]


def _row(codec: MessageCodec, message: BaseMessage) -> EventRow:
    kind, flags, ident, text, folded, body = codec.encode(message)
    parts: Any = (1, ident or "of-ours", 0, None, None, kind, flags, 0, 0, *[None] * 4, text, folded, body, None)
    return EventRow(*parts)


def _all_of(message: BaseMessage) -> list[Any]:
    """Whatever can be told of a message."""
    slots = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
    told = [getattr(message, name) for name in slots]
    return [type(message), *told, [*message.__dict__], message.model_dump(), message.model_dump(exclude_unset=True)]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"{message.type}-{message.id or ''}"[:12])
def test_many_are_made_as_one_is(message: BaseMessage) -> None:
    codec = MessageCodec()
    row = _row(codec, message)
    one = codec.decode("s", row)
    many = codec.decode_all("s", [row, row])
    assert [*map(_all_of, many)] == [_all_of(one)] * 2
    assert many == [message, message]
    _, left = codec.cast(said_values([row]))
    assert bool(left) == ('"$' in (row.body or "")), "what plain JSON says takes no call of its own"
    for copied in (
        copy.copy(many[0]),
        copy.deepcopy(many[0]),
        many[0].model_copy(),
        pickle.loads(pickle.dumps(many[0])),  # noqa: S301 - our own
    ):
        assert _all_of(copied) == _all_of(one)
    many[0].additional_kwargs["new"] = 1
    assert many[1] == message, "two messages share nothing that can change"


@pytest.mark.parametrize(
    "damage",
    [
        {"body": '{"name":"a"} '},
        {"body": '{"name":"a"'},
        {"body": "[]"},
        {"body": "1"},
        {"body": ""},
        {"body": 7},
        {"body": b"{}"},
        {"body": '{"content":5}'},
        {"body": '{"$class":1}'},
        {"body": '{"name":{"$":["nothing",1]}}'},
        {"body": "[" * 100_000},
        {"body": "{}", "text": None},
        {"text": 5},
        {"text": None},
        {"flags": "x", "body": "{}"},
        {"flags": "x"},
        {"flags": SEALED, "body": "x"},
        {"flags": SEALED, "body": "{}"},
        {"kind": 99},
        {"kind": "x", "body": "{}"},
        {"flags": NO_MESSAGE_ID},
    ],
    ids=lambda damage: str(damage)[:40],
)
def test_what_is_damaged_is_told_as_of_one(damage: dict[str, Any]) -> None:
    codec = MessageCodec()
    sound = _row(codec, HumanMessage("hi", id="1"))
    row = sound._replace(**damage)

    def told(read: Callable[[], BaseMessage]) -> object:
        try:
            return _all_of(read())
        except (CorruptRowError, SealedEventError) as error:
            return type(error), str(error)

    assert told(lambda: codec.decode_all("s", [sound, row])[1]) == told(lambda: codec.decode("s", row))


def test_a_snapshot_shares_nothing_that_can_change() -> None:
    for message in MESSAGES:
        kept = snapshot(message.__dict__)
        assert kept == message.__dict__
        assert [*kept] == [*message.__dict__]
        for name, value in message.__dict__.items():
            if isinstance(value, (dict, list)):
                assert kept[name] is not value
    deep = {"a": [1, {"b": [2]}, (3, [4])], "c": {}}
    kept = snapshot(deep)
    deep["a"][1]["b"].append(0)  # type: ignore[index]
    deep["a"][2][1].append(0)  # type: ignore[index]
    assert kept == {"a": [1, {"b": [2]}, (3, [4])], "c": {}}
