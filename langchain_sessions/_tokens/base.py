"""The contract of a token counter, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from langchain_sessions._core.edge import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from langchain_core.messages import BaseMessage, SystemMessage
    from langchain_core.tools import BaseTool

Tool: TypeAlias = "dict[str, Any] | type | Callable[..., Any] | BaseTool"
"""Whatever `bind_tools` takes: a schema, a tool, a function, a pydantic model."""


@dataclass(frozen=True, kw_only=True)
class MediaCosts:
    """What is charged for content that is not text, whatever its length in bytes.

    Attributes:
        image: Tokens per image; 85 is OpenAI's price at low detail.
        file: Tokens per audio clip, video or document that carries no text of its own.
    """

    image: int = 85
    file: int = 500

    def __post_init__(self) -> None:
        """Refuse negative prices."""
        require(self.image >= 0, "image", "must not be negative")
        require(self.file >= 0, "file", "must not be negative")


@dataclass(frozen=True, kw_only=True)
class TokenTotal:
    """What one model call would send.

    Attributes:
        tokens: The whole prompt, reply priming included.
        messages: The part of the messages.
        system: The part of the system prompt that was passed beside the messages.
        tools: The part of the tool schemas.
        exact: Whether every text was counted with a vocabulary. The frame of a message, media
            and tool schemas follow fixed rules either way.
    """

    tokens: int
    messages: int
    system: int
    tools: int
    exact: bool


class TokenCounter(Protocol):
    """Anything that counts tokens: pure, thread-safe, free of I/O once constructed.

    To write one, subclass `TextCounter`: it needs `exact` and `count_text` only.
    """

    @property
    def exact(self) -> bool:
        """Whether `count_text` is the count of a real vocabulary rather than an estimate."""
        ...

    def count_text(self, text: str) -> int:
        """Count a bare text; 0 for the empty one, never negative."""
        ...

    def count_message(self, message: BaseMessage) -> int:
        """Count one message with its frame, name, calls and media; additive over a prompt."""
        ...

    def count_messages(
        self,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> TokenTotal:
        """Count a whole prompt: the sum of its messages, system prompt, tools and reply priming."""
        ...
