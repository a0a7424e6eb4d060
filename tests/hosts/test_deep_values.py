"""What nests deeper than recursion goes comes back as it was, whatever stands at its bottom."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._core.codec.values import dump_json, load_json, pack, unpack


def nested(levels: int, bottom: Any) -> Any:
    for level in range(levels):
        bottom = {"q": bottom} if level % 2 else [bottom, level]
    return {"q": bottom}


def levels_of(value: Any) -> list[tuple[type, Any]]:
    """The classes from the top to the bottom, with what stands beside the way: comparing deep values recurses."""
    found: list[tuple[type, Any]] = []
    while type(value) is list or (type(value) is dict and "q" in value):
        found.append((type(value), value[1:] if type(value) is list else list(value)))
        value = value["q"] if type(value) is dict else value[0]
    return [*found, (type(value), value)]


BOTTOMS: list[Any] = [
    1,
    (1, (2, b"x")),
    {(1, 2): "a", "$": {3, 4}},
    "from two chunks: " + "\ud83d" + "\ude00",
    date(2026, 1, 1),
    Document("text", metadata={"at": (1, 2)}, id="d"),
]


@pytest.mark.parametrize("levels", [150, 198, 199, 200, 700, 985, 20_000])
@pytest.mark.parametrize("bottom", BOTTOMS, ids=lambda value: type(value).__name__)
def test_arguments_of_a_call_come_back_however_deep_they_are(levels: int, bottom: Any) -> None:
    call: Any = {"name": "look", "args": {"q": nested(levels, bottom), "n": 1}, "id": "c1", "type": "tool_call"}
    message = AIMessage("")
    message.tool_calls = [call]  # not asked whether it is one, which recurses
    with SessionService(InMemoryStore()) as sessions:
        sessions.open("s1")
        sessions.append("s1", message)
        [found] = sessions.messages("s1")
    assert isinstance(found, AIMessage)
    args = found.tool_calls[0]["args"]
    assert list(args) == ["q", "n"]
    assert levels_of(args["q"]) == levels_of(call["args"]["q"])


def test_what_holds_itself_is_text_and_what_stands_twice_is_stored_once() -> None:
    circle: list[Any] = [1]
    circle.append({"in": circle})
    one, text = unpack(pack({"in": circle}))["in"]
    assert one == 1
    assert text == str(circle[1])
    both: Any = (1,)
    for _ in range(400):
        both = [both, both]
    packed = dump_json(pack(both))
    assert len(packed) < 40_000
    found = load_json(packed)
    for _ in range(400):
        assert type(found) is list
        assert len(found) == 2
        found = found[1]
    assert found == (1,)


def test_what_no_table_takes_apart_is_text() -> None:
    inside = Document("text", metadata={"deep": nested(300, (1,))})
    found = unpack(pack(nested(300, inside)))
    assert levels_of(found)[-1][0] is str
