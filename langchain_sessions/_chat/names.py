"""Names of tools and speakers that no provider refuses, wherever a message repeats them.

A model may call a tool by a name that is none, and a speaker may be called as people are; the log keeps what was said.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, TypeVar, cast

_TAKEN_BY_ALL = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's rule, the strictest
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")
_WORD = re.compile(r"[A-Za-z0-9]")
_LONGEST = 64
_UNNAMED = "unnamed"
CALL_BLOCKS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call"})

Call = TypeVar("Call")


def taken_name(name: str | None) -> str:
    """A name that every provider takes; the same object where it is one. What is lost of it, a hash stands for."""
    if not name:
        return _UNNAMED
    if _TAKEN_BY_ALL.fullmatch(name):
        return name
    made = _REFUSED.sub("_", name)
    if len(made) <= _LONGEST and _WORD.search(made) and name.isascii():
        return made
    seed = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = made[: _LONGEST - len(seed) - 1] if _WORD.search(made) else _UNNAMED
    return f"{kept}_{seed}"


def with_taken_name(named: Call) -> Call:
    """A call, in any of its forms, with a name that every provider takes; the same object where it has one."""
    call = cast("dict[str, Any]", named)
    name = call.get("name")
    if not (isinstance(name, str) or name is None) or taken_name(name) is name:
        return named
    return cast("Call", {**call, "name": taken_name(name)})


def with_taken_names(calls: list[Call]) -> list[Call]:
    """Calls with names that every provider takes; the same object where they have them."""
    made = [with_taken_name(call) for call in calls]
    return calls if all(a is b for a, b in zip(calls, made, strict=True)) else made


def block_with_taken_name(block: dict[str, Any]) -> dict[str, Any]:
    """A block of content; where it is a call, with a name that every provider takes."""
    return with_taken_name(block) if block.get("type") in CALL_BLOCKS else block


def kwargs_with_taken_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a message carries beside its content, its calls with names that every provider takes."""
    changes: dict[str, Any] = {}
    calls, single = kwargs.get("tool_calls"), kwargs.get("function_call")
    if isinstance(calls, list):
        given: list[Any] = calls
        made = [_with_function(call) for call in given]
        if any(a is not b for a, b in zip(given, made, strict=True)):
            changes["tool_calls"] = made
    if isinstance(single, dict) and (named := with_taken_name(cast("dict[str, Any]", single))) is not single:
        changes["function_call"] = named
    return {**kwargs, **changes} if changes else kwargs


def _with_function(call: object) -> object:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    named = with_taken_name(cast("dict[str, Any]", function))
    return call if named is function else {**cast("dict[str, Any]", call), "function": named}
