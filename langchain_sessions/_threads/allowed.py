"""Classes that the application allowed: their objects are stored by name and fields, and rebuilt without a call.

No class is called, imported or looked up because stored bytes name it: a name is compared with those in this table.
"""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Interrupt, Overwrite
from pydantic import BaseModel
from typing_extensions import is_typeddict

from langchain_sessions._core.codec.same import fields_of
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALWAYS = (Command, Interrupt, Overwrite)
_slots = {
    name: cast("Any", BaseModel.__dict__[name]).__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
}


def is_rebuildable(kind: type) -> bool:
    """Whether objects of a class consist of fields that say all about them."""
    if issubclass(kind, BaseMessage):
        return False
    return (
        issubclass(kind, (Enum, BaseModel))
        or dataclasses.is_dataclass(kind)
        or hasattr(kind, "__attrs_attrs__")
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


class Allowed:
    """The classes that may be rebuilt.

    Args:
        wanted: Classes, `(module, name)` of classes that are loaded, or typed dictionaries; what the annotations of
            their fields name is allowed too.

    Raises:
        InvalidInputError: One is something else.
    """

    def __init__(self, wanted: Iterable[object] = ()) -> None:
        """See the class."""
        if isinstance(wanted, (type, str)):
            name = wanted.__name__ if isinstance(wanted, type) else "MyState"
            raise InvalidInputError("allow", f"give a list of classes, such as allow=[{name}]")
        classes: dict[type, None] = {}
        for one in wanted:
            if isinstance(one, tuple):
                _collect(_imported(cast("tuple[str, ...]", one)), classes, set())
            elif is_typeddict(one) or (isinstance(one, type) and is_rebuildable(one)):
                _collect(one, classes, set())
            else:
                problem = "is no dataclass, model, enumeration, named tuple or typed dictionary"
                raise InvalidInputError("allow", f"{getattr(one, '__name__', type(one).__name__)} {problem}")
        self.classes = tuple(classes)
        self._names = {kind: f"{kind.__module__}:{kind.__qualname__}" for kind in (*_ALWAYS, *self.classes)}
        self._classes = {name: kind for kind, name in self._names.items()}

    def __contains__(self, kind: type) -> bool:
        """Whether a class is allowed."""
        return kind in self._names

    def and_also(self, wanted: Iterable[object]) -> Allowed:
        """These and others."""
        return Allowed((*self.classes, *wanted))

    def name_of(self, kind: type) -> str | None:
        """What is stored of an allowed class; None for any other."""
        return self._names.get(kind)

    def fields_in(self, value: Any) -> Any:
        """What an object consists of."""
        if isinstance(value, Enum):
            members = type(value).__members__
            return ["name", value.name] if value.name in members else ["value", value.value]
        if isinstance(value, BaseModel):
            return [
                dict(value.__dict__),
                sorted(value.__pydantic_fields_set__),
                value.__pydantic_extra__,
                value.__pydantic_private__,
            ]
        return list(value) if isinstance(value, tuple) else fields_of(value)

    def rebuild(self, name: str, parts: Any) -> Any:
        """The object again.

        Raises:
            InvalidInputError: Its class is not allowed.
        """
        kind: Any = self._classes.get(name)
        if kind is None:
            short = name.rpartition(":")[2]
            raise InvalidInputError(
                "allow", f"a value holds a {short}: SessionCheckpointSaver(sessions, allow=[{short}])"
            )
        if issubclass(kind, Enum):
            return kind[parts[1]] if parts[0] == "name" else kind(parts[1])
        if issubclass(kind, tuple):
            return tuple.__new__(kind, parts)
        made = kind.__new__(kind)
        if issubclass(kind, BaseModel):
            fields, names, extra, private = parts
            for slot, part in zip(_slots.values(), (fields, set(names), extra, private), strict=True):
                slot(made, part)
            return made
        for field, part in parts.items():
            object.__setattr__(made, field, part)
        return made


def _imported(name: tuple[str, ...]) -> Any:
    """A class that is loaded already; None where there is none of this name."""
    *module, last = name
    return getattr(sys.modules.get(".".join(module)), last, None)


def _collect(hint: Any, into: dict[type, None], seen: set[int]) -> None:
    """The classes that an annotation names, and those of their fields."""
    if id(hint) in seen:
        return
    seen.add(id(hint))
    inner = list(get_args(hint))
    if get_origin(hint) is Annotated:
        inner = inner[:1]
    if isinstance(hint, TypeVar):
        inner = [hint.__bound__, *hint.__constraints__]
    if isinstance(hint, type) and get_origin(hint) is None:
        if not is_rebuildable(hint) and not is_typeddict(hint):
            return
        if not is_typeddict(hint):
            into[hint] = None
        inner = [] if issubclass(hint, Enum) else _field_hints(hint)
    for one in inner:
        _collect(one, into, seen)


def _field_hints(kind: type) -> list[Any]:
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except Exception:  # an annotation may name what is not there, and evaluate to anything
        return [hint for hint in getattr(kind, "__annotations__", {}).values() if not isinstance(hint, str)]
