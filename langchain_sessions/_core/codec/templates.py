"""What empty messages look like, so that only differences are stored, and how those of each class are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

# Of the classes that have these fields and no others messages are spelled out where many are made.
_BARE: Final[dict[str, Any]] = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
_ANSWER: Final = {**_BARE, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
AS_BARE, AS_ANSWER, AS_ITS_TEMPLATE = 1, 2, 0
SIZES: Final = {AS_BARE: len(_BARE) + 2, AS_ANSWER: len(_ANSWER) + 2}
"""Fields with the content and the name of the class."""


class Template(NamedTuple):
    """What an empty message of one class looks like."""

    fields: dict[str, Any]
    dicts: tuple[str, ...]
    lists: tuple[str, ...]


def template_of(cls: type[BaseMessage]) -> Template:
    """What an empty message of a class looks like."""
    # What is required was given with every message that is stored: a row that lacks it is read all the same.
    fields: dict[str, Any] = {
        name: None if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in cls.model_fields.items()
    }
    dicts, lists = (tuple(name for name, value in fields.items() if type(value) is kind) for kind in (dict, list))
    return Template(fields, dicts, lists)


def form_of(cls: type[BaseMessage]) -> tuple[int, str]:
    """How messages of a class are made, by the fields of an empty one; and what the class is called."""
    fields = template_of(cls).fields
    others = {name: value for name, value in fields.items() if name not in ("content", "type")}
    form = AS_BARE if others == _BARE else AS_ANSWER if others == _ANSWER else AS_ITS_TEMPLATE
    return form, fields["type"]
