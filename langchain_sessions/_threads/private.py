"""Keeping out of checkpoints what a model says to itself in a call: a graph that waits for its tools holds the call."""

from __future__ import annotations

import dataclasses
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.types import Overwrite, Send

from langchain_sessions._core.codec.privacy import PRIVATE_ARGUMENT, without_private, without_private_argument

_NAME = PRIVATE_ARGUMENT.encode()


def may_be_private(tag: str, data: bytes) -> bool:
    """Whether a serialized value may hold such an argument; of one that is encrypted nobody can tell."""
    return _NAME in data or "+" in tag


def without_private_calls(value: Any) -> Any:
    """A value without the private argument of the calls in it; itself where there is none."""
    kind = type(value)
    if kind is dict:
        call = without_private_argument(value)
        found = {key: without_private_calls(item) for key, item in call.items()}
        return value if call is value and _same(found.values(), value.values()) else found
    if kind is list or kind is tuple:
        items = [without_private_calls(item) for item in value]
        return value if _same(items, value) else kind(items)
    if isinstance(value, AIMessage):
        return without_private(value)
    if kind is Send:
        argument = without_private_calls(value.arg)
        return value if argument is value.arg else Send(value.node, argument, timeout=value.timeout)
    if kind is Overwrite:
        inner = without_private_calls(value.value)
        return value if inner is value.value else dataclasses.replace(value, value=inner)
    return value


def _same(found: Any, given: Any) -> bool:
    return all(one is other for one, other in zip(found, given, strict=True))
