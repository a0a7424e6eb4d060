"""Values as a notebook shows them: a small table, whose texts are texts and never markup."""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LONGEST = 160
_FIELD = 60
_HEAD = '<th style="text-align: left">'
_CELL = '<td style="text-align: left; vertical-align: top; white-space: pre-wrap">'


@runtime_checkable
class Shown(Protocol):
    """What knows its columns in a table."""

    def _shown(self) -> Mapping[str, object]: ...


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The beginning of a text, with a mark where it was cut."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def brief(value: object) -> str:
    """A dataclass as it is written: what was given and is no default, with long texts cut."""
    given = []
    for each in fields(cast("Any", value)):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        shown = getattr(value, each.name)
        if each.repr and (default is MISSING or shown != default):
            given.append(f"{each.name}={_brief(shown)}")
    return f"{type(value).__name__}({', '.join(given)})"


def _brief(value: object) -> str:
    """A value of a field: sets as they are typed, always in the same order, and texts in one line."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_brief, value)))}}}"
    return str(value) if isinstance(value, Enum) else shortened(repr(value), _FIELD)


def html_of(caption: str, values: Sequence[object]) -> str:
    """A table of values under a line that says what they are. None is an empty cell, an empty column is left out."""
    rows = [value._shown() if isinstance(value, Shown) else {"": repr(value)} for value in values]  # noqa: SLF001 - ours
    columns = [name for name in dict.fromkeys(name for row in rows for name in row) if _is_told(name, rows)]
    head = "".join(f"{_HEAD}{_escaped(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(row.get(name)) for name in columns)}</tr>" for row in rows)
    return f"<p>{_escaped(caption)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(text: str) -> str:
    from html import escape

    return escape(text)


def _is_told(name: str, rows: Iterable[Mapping[str, object]]) -> bool:
    return any(row.get(name) is not None for row in rows)


def _cell(value: object) -> str:
    return f"{_CELL}{'' if value is None else _escaped(shortened(str(value)))}</td>"
