"""A message of which more than a text and an id was said is not taken for one of which no more was."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_sessions._core.codec.any_message import MessageCodec, is_empty

CODEC = MessageCodec()


class Asked:
    """Who asks it whether it is empty, or equal to something, is told off."""

    def __bool__(self) -> bool:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = object.__hash__


@pytest.mark.parametrize("cls", [HumanMessage, AIMessage, SystemMessage])
def test_a_text_alone_is_its_own_column(cls: type[BaseMessage]) -> None:
    for message_id in (None, "m1"):
        message = cls("hello", id=message_id)
        _, _, ident, text, folded, body = CODEC.encode(message)
        assert (ident, text, folded, body) == (message_id, "hello", None, None)


@pytest.mark.parametrize("cls", [HumanMessage, AIMessage])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("additional_kwargs", {"a": {}}),
        ("response_metadata", {"b": 0}),
        ("name", ""),
        ("type", "other"),
    ],
)
def test_whatever_else_was_said_is_kept(cls: type[BaseMessage], field: str, value: object) -> None:
    message = cls("hello")
    vars(message)[field] = value
    body = CODEC.encode(message)[-1]
    assert body is not None
    assert field in body


@pytest.mark.parametrize(
    "field", ["tool_calls", "invalid_tool_calls", "usage_metadata", "additional_kwargs", "response_metadata", "name"]
)
def test_values_of_other_classes_are_not_asked(field: str) -> None:
    fields = vars(AIMessage("hello"))
    form = CODEC._forms[AIMessage]
    assert is_empty(fields, *form)
    fields[field] = Asked()
    assert not is_empty(fields, *form)
    fields[field] = OrderedDict[str, int]()
    assert not is_empty(fields, *form)


def test_a_field_that_is_missing_or_strange_is_no_mistake() -> None:
    lacking = AIMessage("hello")
    del vars(lacking)["usage_metadata"]
    assert CODEC.encode(lacking)[-1] is None
    vars(lacking)["strange"] = 1
    assert "strange" in str(CODEC.encode(lacking)[-1])
