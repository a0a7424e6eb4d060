"""The kinds of entries of a log: one table of message types, the records beside them, what messages say of themselves.

A new message type is a number and a row here: the codec stores the fields of any class. Numbers are stored: one that
was given away is never given again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_sessions.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Message kinds are small and positive, records of other happenings are 32 and above.
HUMAN, AI, SYSTEM, TOOL, CHAT, FUNCTION, OTHER = 1, 2, 3, 4, 5, 6, 7
STATE, REWIND, COMPACTION, INVOCATION, LIFECYCLE, BLANK = 32, 33, 34, 35, 36, 37
FIRST_RECORD: Final = 32


class StoredMessage(Protocol):
    """What is read of a row to rebuild its message."""

    @property
    def seq(self) -> int:
        """Its position."""
        ...

    @property
    def ident(self) -> str:
        """Its identity."""
        ...

    @property
    def kind(self) -> int:
        """Its kind."""
        ...

    @property
    def flags(self) -> int:
        """Its flags."""
        ...

    @property
    def text(self) -> str | None:
        """Its text, where that is all of its content."""
        ...

    @property
    def body(self) -> str | None:
        """What else it holds."""
        ...


class MessageKind(NamedTuple):
    """One type of message.

    Attributes:
        code: What is stored.
        name: What LangChain calls it.
        role: What models and transcripts call it.
        cls: Its class; None where messages of any other class are meant.
        is_common: Whether every client of a model takes it; what is not goes out as what a human or an assistant says.
    """

    code: int
    name: str
    role: str
    cls: type[BaseMessage] | None
    is_common: bool = False


MESSAGES: Final = (
    MessageKind(HUMAN, "human", "user", HumanMessage, is_common=True),
    MessageKind(AI, "ai", "assistant", AIMessage, is_common=True),
    MessageKind(SYSTEM, "system", "system", SystemMessage, is_common=True),
    MessageKind(TOOL, "tool", "tool", ToolMessage, is_common=True),
    MessageKind(CHAT, "chat", "chat", ChatMessage),
    MessageKind(FUNCTION, "function", "function", FunctionMessage),
    MessageKind(OTHER, "other", "other", None),
)
OF_TOOLS: Final = frozenset((TOOL, FUNCTION))
"""What a tool returned: nobody says it, and a word of a query that is a tool's name names nobody."""

MESSAGE_CODES: Final = frozenset(range(HUMAN, FIRST_RECORD))
"""What is stored of messages, with the codes that later releases may give to types of theirs."""
CLASSES: Final[Mapping[int, type[BaseMessage]]] = {kind.code: kind.cls for kind in MESSAGES if kind.cls is not None}
CODES: Final[Mapping[type[BaseMessage], int]] = {cls: code for code, cls in CLASSES.items()}
ROLE_CODES: Final[Mapping[str, int]] = {name: kind.code for kind in MESSAGES for name in (kind.name, kind.role)}
"""What is stored by each name that a filter may give."""
TYPES: Final[Mapping[str, str]] = {name: kind.name for kind in MESSAGES for name in (kind.name, kind.role)}
"""LangChain's name by each of these names."""
RECORDS: Final[Mapping[int, EventKind]] = {
    STATE: EventKind.STATE,
    REWIND: EventKind.REWIND,
    COMPACTION: EventKind.COMPACTION,
    INVOCATION: EventKind.INVOCATION,
    LIFECYCLE: EventKind.LIFECYCLE,
    BLANK: EventKind.BLANK,
}
_MOST_CODES = 256
ENTRY_CODES: Final[Mapping[EventKind, frozenset[int]]] = {
    EventKind.MESSAGE: MESSAGE_CODES,
    **{kind: frozenset({code}) for code, kind in RECORDS.items()},
    EventKind.UNKNOWN: frozenset(range(FIRST_RECORD, _MOST_CODES)) - RECORDS.keys(),
}
_ROLES: Final[Mapping[str, str]] = {kind.name: kind.role for kind in MESSAGES}
# What stands where a name would, and names nobody: roles as other systems write them.
_NOBODY: Final = frozenset({*ROLE_CODES, "bot", "model", "developer"})


def role_of(message: BaseMessage) -> str:
    """What models and transcripts call the one who says a message."""
    return _ROLES.get(message.type, message.type)


def speaker_of(message: BaseMessage) -> str | None:
    """Whom a message names as the one who says it; a role is nobody."""
    if message.name:
        return message.name
    if isinstance(message, ChatMessage) and message.role.strip() and message.role.lower() not in _NOBODY:
        return message.role
    return None


def tools_of(message: BaseMessage) -> set[str]:
    """The tools that a message calls or answers for."""
    if isinstance(message, AIMessage):
        return {str(call["name"]) for call in (*message.tool_calls, *message.invalid_tool_calls) if call["name"]}
    if isinstance(message, (ToolMessage, FunctionMessage)) and message.name:
        return {message.name}
    return set()


def only_tool_of(message: BaseMessage) -> str | None:
    """The one tool that a message is about: it answers for it, or calls it without a word."""
    used = tools_of(message)
    if len(used) != 1 or (isinstance(message, AIMessage) and str(message.text).strip()):
        return None
    return next(iter(used))


def imported_class(module: str, name: str) -> type[BaseMessage] | None:
    """A message class of the application that is loaded already. Nothing is imported for stored text."""

    def descend(classes: Iterable[type[BaseMessage]]) -> type[BaseMessage] | None:
        for cls in classes:
            if (cls.__module__, cls.__qualname__) == (module, name):
                return cls
            if (found := descend(cls.__subclasses__())) is not None:
                return found
        return None

    return descend(BaseMessage.__subclasses__())
