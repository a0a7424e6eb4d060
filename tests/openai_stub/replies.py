"""What the stub may be told to answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading


@dataclass(frozen=True)
class Say:
    """A plain answer, streamed word by word."""

    text: str


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True)
class CallTools:
    """An answer that calls tools, several at once if need be."""

    calls: tuple[Call, ...]
    text: str = ""


@dataclass(frozen=True)
class Fill:
    """Structured output in whatever form the request asks for: a tool call, JSON text, a JSON schema."""

    value: dict[str, Any]


@dataclass(frozen=True)
class Overflow:
    """The prompt exceeds the context window."""


@dataclass(frozen=True)
class Fail:
    """An HTTP error, such as 429 or 500."""

    status: int = 429
    code: str = "rate_limit_exceeded"


@dataclass(frozen=True)
class Refuse:
    """An HTTP error with a body of its own, as other servers word it."""

    status: int
    body: dict[str, Any] | list[Any] | str


@dataclass(frozen=True)
class Truncated:
    """An answer that ends with `length`, and what it is said to have cost."""

    text: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Cut:
    """A stream whose connection breaks after some chunks."""

    text: str
    after: int = 3


@dataclass(frozen=True)
class Hold:
    """An answer that waits until it is released, after some chunks of a stream."""

    text: str
    release: threading.Event
    after: int = 0


Reply = Say | CallTools | Fill | Overflow | Fail | Refuse | Truncated | Cut | Hold


def call(tool: str, _id: str | None = None, /, **args: Any) -> CallTools:
    """An answer that calls one tool."""
    return CallTools((Call(tool, args, _id),))
