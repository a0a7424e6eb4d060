"""Values that nest deeper than recursion goes, as a table of their parts, which is flat however deep they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LIST: Final = "list"
_TUPLE: Final = "tuple"
_DICT: Final = "dict"
_NAMES: Final[dict[type, str]] = {list: _LIST, tuple: _TUPLE, dict: _DICT}


def flattened(value: Any, pack: Callable[[Any], Any]) -> list[Any] | None:
    """A table of what a value consists of, the value itself last; None for one that holds itself.

    A part that holds others is `[kind, [where they stand]]`, any other part is what `pack` makes of it, which is no
    list. What stands in a value twice stands in the table once.
    """
    table: list[Any] = []
    places: dict[int, int] = {}
    entered: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        key = id(part)
        if key in places:
            continue
        held = _held(part)
        if held is not None and key not in entered:
            entered.add(key)
            # What was entered and has no place yet is on the way here.
            if any(id(inner) in entered and id(inner) not in places for inner in held):
                return None
            waiting += (part, *held)
            continue
        places[key] = len(table)
        table.append(pack(part) if held is None else [_NAMES[type(part)], [places[id(inner)] for inner in held]])
    return table


def restored(table: list[Any], unpack: Callable[[Any], Any]) -> Any:
    """The value that a table was made of."""
    parts: list[Any] = []
    for entry in table:
        if type(entry) is not list:
            parts.append(unpack(entry))
            continue
        kind, places = entry
        held = [parts[place] for place in places]
        parts.append(
            held if kind == _LIST else tuple(held) if kind == _TUPLE else dict(zip(held[::2], held[1::2], strict=True))
        )
    return parts[-1]


def _held(part: Any) -> list[Any] | None:
    """What a part holds, keys before their values; None where it holds nothing that may nest."""
    kind = type(part)
    if kind is dict:
        return [inner for pair in part.items() for inner in pair]
    return [*part] if kind is list or kind is tuple else None
