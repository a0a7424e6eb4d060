"""What is written and read past `json`'s own functions is what those write, read and refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions._core.codec.values import dump_as_it_is, dump_json, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

IN_ASCII = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
AS_IT_IS = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


class Odd(dict[str, int]):
    """Not a plain dictionary."""


VALUES: list[Any] = [
    *(None, True, 1, -(2**70), 1.5, 1e300, "", "a", "é\u2028\0", "\ud83d\ude00", "\ud83d", [], {}, (1, 2)),
    *({"a": [1, {"b": [None, 2.0]}], "é": '\\"\n'}, {1: 2, None: 3, False: 4, 1.5: 5}, Odd(a=1), [[[[]]]]),
    *(float("nan"), [float("inf")], object(), {"a": {1}}, {(1,): 2}, {"a": b"1"}),
]
TEXTS: list[Any] = [
    *("1", " 1", "1 ", "[1]\n", '{"a":[1,2.5,null,true],"b":"\\u00e9\\ud83d"}', '"a"', "NaN", "-0", "1e5"),
    *("", " ", "nul", '{"a":1', "[1] 2", "1,", "\ufeff1", "[" * 100_000, None, 1, b"1", b"[", bytearray(b"{}")),
]


def told(call: Callable[[Any], Any], value: object) -> str:
    try:
        return repr(call(value))
    except Exception as error:  # noqa: BLE001 - whatever it is
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_it_is_written_alike(value: object) -> None:
    assert told(dump_json, value) == told(IN_ASCII, value)
    assert told(dump_as_it_is, value) == told(AS_IT_IS, value)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text)[:20])
def test_it_is_read_alike(text: str) -> None:
    assert told(read_json, text) == told(json.loads, text)


def test_what_holds_itself_is_refused_as_what_is_too_deep() -> None:
    held: list[Any] = []
    held.append(held)
    with pytest.raises(RecursionError):
        dump_json(held)
