"""Messages of which only a content and an id were said: nearly all of them, so that they are spelled out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_BARE: Final[dict[str, Any]] = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
_ANSWER: Final = {**_BARE, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
_AS_BARE, AS_ANSWER, _AS_ITS_TEMPLATE = 1, 2, 0
_SIZES: Final = {_AS_BARE: len(_BARE) + 2, AS_ANSWER: len(_ANSWER) + 2}
"""Fields with the content and the name of the class."""


def form_of(fields: dict[str, Any]) -> tuple[int, str]:
    """How messages of a class are made, by the fields of an empty one; and what the class is called."""
    others = {name: value for name, value in fields.items() if name != "type"}
    form = _AS_BARE if others == _BARE else AS_ANSWER if others == _ANSWER else _AS_ITS_TEMPLATE
    return form, fields["type"]


def is_empty(fields: Mapping[str, Any], form: int, called: str) -> bool:
    """Whether a message of this form certainly has nothing else than a content and an id."""
    if len(fields) != _SIZES.get(form):
        return False
    try:
        given, meta = fields["additional_kwargs"], fields["response_metadata"]
        # Values of other classes are not asked: an array answers with an array.
        if type(given) is not dict or given or type(meta) is not dict or meta:
            return False
        if fields["name"] is not None or fields["type"] is not called:
            return False
        if form == _AS_BARE:
            return True
        calls, broken = fields["tool_calls"], fields["invalid_tool_calls"]
        is_list = type(calls) is list and type(broken) is list
        return is_list and not calls and not broken and fields["usage_metadata"] is None
    except KeyError:
        return False
