"""A conversation that is a tree, as people's exports have them: each branch of it is one talk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from langchain_sessions._importing.values import SourceError
from langchain_sessions.events import NewEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STRANGE = (ValueError, TypeError, KeyError, AttributeError, LookupError, OverflowError, OSError, RecursionError)
"""What Python raises over an element that is none of the form that it should have."""
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Tree:
    """A conversation in which some was asked or answered anew.

    Attributes:
        said: What was said, by its name, of two that follow the same the elder first; None where a place says nothing.
        before: The name of what stands before each.
        shown: The end that was looked at last.
        read: What makes messages of what was said, given those of them that stand before; with what cannot be read.
    """

    said: Mapping[str, Any]
    before: Mapping[str, str | None]
    shown: str | None
    read: Callable[[Mapping[str, Any], Sequence[BaseMessage]], Sequence[BaseMessage | SourceError]]

    def way_to(self, end: str) -> list[str]:
        """The names from the beginning to an end."""
        found: list[str] = []
        at: str | None = end
        while at is not None and at in self.said:
            found.append(at)
            at = self.before.get(at)
        return found[::-1]

    def branches(self) -> tuple[list[tuple[str, str]], int]:
        """The ends, each with the name of its branch; and how many names no beginning leads to.

        The eldest at a fork goes on with the branch of what stands before, any other begins one of its own name. So
        a branch is called alike whatever is said later, in it or beside it.
        """
        after: dict[str | None, list[str]] = {}
        for name in self.said:
            parent = self.before.get(name)
            after.setdefault(parent if parent in self.said else None, []).append(name)
        branch = {name: name for name in after.get(None, [])}
        waiting, found = list(reversed(branch)), list[tuple[str, str]]()
        while waiting:
            name = waiting.pop()
            children = after.get(name, [])
            if not children:
                found.append((name, branch[name]))
            branch.update({child: child if at else branch[name] for at, child in enumerate(children)})
            waiting += reversed(children)
        return found, len(self.said) - len(branch)

    def events(self, end: str) -> Iterator[NewEvent | SourceError]:
        """What was said on the way to an end."""
        so_far: list[BaseMessage] = []
        for name in self.way_to(end):
            if not (said := self.said[name]):
                continue
            try:
                found = self.read(said, so_far)
            except SourceError as problem:
                found = [problem]
            except STRANGE:
                found = [SourceError("it is no message of this form")]
            messages = [each for each in found if isinstance(each, BaseMessage)]
            problems = [each for each in found if isinstance(each, SourceError)]
            at = None
            try:
                at = moment_of(said) if messages else None
            except STRANGE:
                problems.append(SourceError("its time cannot be read, and is left out"))
            yield from (SourceError(f"message {name}: {problem}") for problem in problems)
            for nth, message in enumerate(messages):
                named = message.model_copy(update={"id": name if nth == 0 else f"{name}/{nth}"})
                so_far.append(named)
                yield NewEvent(message=named, timestamp=at)


def moment_of(said: Mapping[str, Any]) -> datetime | None:
    """When something was said; without a zone it is of UTC."""
    at = said.get("create_time") or said.get("created_at")
    if isinstance(at, str):
        told = datetime.fromisoformat(at.replace("Z", "+00:00"))
        return (told if told.tzinfo else told.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    return datetime.fromtimestamp(at, timezone.utc) if at else None


def unknown(what: str, kind: Any) -> SourceError:
    return SourceError(f"its {what} {str(kind)[:_LONGEST_NAME]!r} is not known here")


def text_block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def content_of(blocks: Sequence[dict[str, Any]]) -> Any:
    """Blocks as a message has them: nothing but words is a text."""
    return words_of(blocks) if all(block["type"] == "text" for block in blocks) else [*blocks]


def words_of(blocks: Sequence[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def with_call(result: ToolMessage, tool: str) -> list[BaseMessage]:
    """A result of no call is shown to nobody, so it gets one."""
    return [AIMessage("", tool_calls=[tool_call(name=tool, args={}, id=result.tool_call_id)]), result]
