"""Templates that are filled with what was said: never by `str.format`, since people write braces."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from langchain_sessions._core.edge import require
from langchain_sessions._core.message_types import role_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.prompts import BasePromptTemplate


Template: TypeAlias = "str | BasePromptTemplate[str]"
"""A text with `{slots}`, or a LangChain prompt template with these as its input variables."""
_SLOT = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")
"""A word in braces; in double ones it means itself. All other braces do, too."""


def check_template(template: Template, *slots: str, optional: Collection[str] = ()) -> Template:
    """The template, if it has the slots and asks for nothing else.

    Raises:
        InvalidInputError: It lacks one, or has others.
    """
    found = (
        {name for _, name in _SLOT.findall(template) if name}
        if isinstance(template, str)
        else {*template.input_variables}
    )
    for name in slots:
        require(name in found, "template", f"has no {{{name}}}")
    others = sorted(found - {*slots, *optional})
    known = ", ".join(f"{{{name}}}" for name in (*slots, *optional))
    way_out = "give them by .partial(...)"
    if isinstance(template, str):
        way_out = f"there are {known}; {{{{word}}}} means the word in braces"
    require(not others, "template", f"asks for {', '.join(others)} too; {way_out}")
    return template


def fill(template: Template, **slots: str) -> str:
    """A template with its slots filled in one pass: braces in the values mean nothing."""
    if not isinstance(template, str):
        return template.format(**{name: value for name, value in slots.items() if name in template.input_variables})
    return _SLOT.sub(lambda found: f"{{{found[1]}}}" if found[1] else slots.get(found[2], found[0]), template)


def transcript(messages: Sequence[BaseMessage]) -> str:
    """Messages as escaped lines: nothing in them can close the fence that they stand in, or pose as another's line."""
    said = [(role_of(m).upper(), escape(str(m.text), quote=False).splitlines()) for m in messages]
    return "\n".join(f"{role}: " + "\n  ".join(lines) for role, lines in said if lines)
