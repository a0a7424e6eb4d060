"""Templates that are filled with what was said: never by `str.format`, since people write braces."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, TypeAlias

from langchain_sessions._core.edge import require
from langchain_sessions._core.kinds import role_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.prompts import BasePromptTemplate


Template: TypeAlias = "str | BasePromptTemplate[str]"
"""A text with `{slots}`, or a LangChain prompt template with these as its input variables."""


def check_template(template: Template, *slots: str) -> Template:
    """The template, if it has the slots and asks for nothing else.

    Raises:
        InvalidInputError: It lacks one, or has others.
    """
    if isinstance(template, str):
        for name in slots:
            require(f"{{{name}}}" in template, "template", f"has no {{{name}}}")
        return template
    for name in slots:
        require(name in template.input_variables, "template", f"has no {{{name}}}")
    others = sorted(set(template.input_variables) - set(slots))
    require(not others, "template", f"asks for {', '.join(others)} too; give them by .partial(...)")
    return template


def fill(template: Template, **slots: str) -> str:
    """A template with its slots filled in one pass: braces in the values mean nothing."""
    if not isinstance(template, str):
        return template.format(**slots)
    parts: list[str] = []
    rest = template
    while rest:
        found = [(rest.find(f"{{{name}}}"), name) for name in slots if f"{{{name}}}" in rest]
        if not found:
            break
        at, name = min(found)
        parts += [rest[:at], slots[name]]
        rest = rest[at + len(name) + 2 :]
    return "".join([*parts, rest])


def transcript(messages: Sequence[BaseMessage]) -> str:
    """Messages as escaped lines: nothing in them can close the fence that they stand in, or pose as another's line."""
    said = [(role_of(m).upper(), escape(str(m.text), quote=False).splitlines()) for m in messages]
    return "\n".join(f"{role}: " + "\n  ".join(lines) for role, lines in said if lines)
