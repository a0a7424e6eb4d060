"""Conversations that people had in ChatGPT and in Claude, as their exports have them: a session for each branch."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from langchain_sessions._importing.chatgpt import chatgpt_tree
from langchain_sessions._importing.claude import claude_tree
from langchain_sessions._importing.trees import STRANGE
from langchain_sessions._importing.values import BROKEN, History, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_ENDS = 300
"""How many ends of one conversation come over: each repeats what stands before it."""


def is_of_assistant(element: Any) -> bool:
    """Whether an element of a list is a conversation of such an export."""
    return isinstance(element, dict) and ("mapping" in element or "chat_messages" in element)


def assistant_histories(element: Any, name: str) -> Iterator[History]:
    """A conversation of an export, and each other branch of it as one beside it.

    Args:
        element: The conversation.
        name: Its name, where it has none.
    """
    if isinstance(element, dict) and BROKEN in element:
        yield History(name, None, {}, iter([SourceError(element[BROKEN])]))
        return
    try:
        found = element.get("conversation_id") or element.get("id") or element.get("uuid") or name
        title = element.get("title") or element.get("name")
        tree = chatgpt_tree(element) if "mapping" in element else claude_tree(element)
        branches, lost = tree.branches()
    except STRANGE:
        yield _none(name)
        return
    if lost and not branches:
        yield _none(name)
        return
    problems: list[SourceError] = []
    if lost:
        problems.append(SourceError(f"{lost} of its messages follow each other in a circle, and are left out"))
    # The one that was looked at last stays, whatever else is too much.
    taken = [each for at, each in enumerate(branches) if at < _MOST_ENDS or each[0] == tree.shown]
    if len(taken) < len(branches):
        problems.append(SourceError(f"it has {len(branches)} ends: {len(branches) - len(taken)} of them are left out"))
    for end, branch in taken:
        session = str(found) if branch == taken[0][1] else f"{found}/{branch}"
        events = chain(problems, tree.events(end))
        yield History(session, None, {}, events, title if isinstance(title, str) else None)
        problems = []


def _none(name: str) -> History:
    return History(name, None, {}, iter([SourceError("it is no conversation of this form")]))
