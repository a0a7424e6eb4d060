"""Every error that this library raises, in the caller's vocabulary.

All derive from `SessionsError`. A message names the id or the field and the way out; it never
carries the text of a conversation, a password or the repr of a driver's exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core import exceptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.exceptions import ContextOverflowError as _ContextOverflow
    from langchain_core.messages import BaseMessage

    from langchain_sessions._compaction.plan import Outcome


if not TYPE_CHECKING:
    # Older releases of the core do not have it. What retries on the core's error retries on ours.
    _ContextOverflow = getattr(exceptions, "ContextOverflowError", Exception)


class SessionsError(Exception):
    """The root of all errors of this library. Pickled or copied, an error says and knows the same."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with its sentence, which most of them do not take; where a worker of a pool
        # raises such an error, the pool breaks or waits for ever.
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[SessionsError], args: tuple[Any, ...], fields: dict[str, Any]) -> SessionsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InvalidInputError(SessionsError, ValueError):
    """A caller's value cannot be used; nothing was written.

    Attributes:
        field: The name of the parameter that was refused.
    """

    def __init__(self, field: str, problem: str) -> None:
        """Name the field and say what is wrong with it."""
        self.field = field
        super().__init__(f"{field}: {problem}")


class SessionNotFoundError(SessionsError, LookupError):
    """There is no such session for this caller: missing, expired and foreign ids read alike."""

    def __init__(self, session_id: str) -> None:
        """Name the id, never the reason: a stranger must not learn that it exists."""
        self.session_id = session_id
        why = "it does not exist, has expired or belongs to somebody else"
        super().__init__(f"No session {session_id!r} within reach: {why}. open() makes one that does not exist.")


class SessionExistsError(SessionsError, ValueError):
    """The id is taken within this app; the existing session was not touched."""

    def __init__(self, session_id: str) -> None:
        """Name the id."""
        self.session_id = session_id
        super().__init__(f"The session id {session_id!r} is taken. Choose another, or open() your own session.")


class SessionEndedError(SessionsError):
    """The session was ended; it takes no events until it is reopened."""

    def __init__(self, session_id: str) -> None:
        """Name the id."""
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} has ended. Call reopen() to append to it again.")


class StaleSessionError(SessionsError):
    """An append named a version that is no longer the newest; nothing was written."""

    def __init__(self, session_id: str, expected: int, actual: int) -> None:
        """Name both versions."""
        self.session_id = session_id
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"Session {session_id!r} is at version {actual}, not {expected}. Read it again and retry the append."
        )


class HeadConflictError(SessionsError):
    """Another checkpoint became the head of a thread; with `strict_head` nothing was written."""

    def __init__(self, session_id: str, parent: str | None, head: str) -> None:
        """Name both checkpoints."""
        self.session_id = session_id
        self.parent = parent
        self.head = head
        super().__init__(
            f"The head of thread {session_id!r} is checkpoint {head!r}, not {parent!r}. Read the state again and retry."
        )


class StalePlanError(SessionsError):
    """A plan was made from what is gone: its session was created anew, or values that it builds upon were removed.

    Between a checkpointer and its store; callers never see it, since the checkpointer plans again.
    """


class EventConflictError(SessionsError):
    """An event id stands in the log with another message; the first one was kept."""

    def __init__(self, session_id: str, event_id: str) -> None:
        """Name the event."""
        self.session_id = session_id
        self.event_id = event_id
        super().__init__(
            f"Session {session_id!r} already holds another message as event {event_id!r}. "
            "Use a new id, or edit() to replace the message."
        )


class EventNotFoundError(SessionsError, LookupError):
    """A message, event or position that an operation names does not stand in the log."""

    def __init__(self, session_id: str, what: str) -> None:
        """Name what was looked for."""
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} has no {what}. events({session_id!r}) shows what it has.")


class SealedEventError(SessionsError):
    """An event was written with an encrypting codec that this service does not have."""

    def __init__(self, session_id: str, seq: int) -> None:
        """Name the event."""
        self.session_id = session_id
        self.seq = seq
        super().__init__(
            f"Event {seq} of session {session_id!r} is sealed. Give the service the codec that it was written with."
        )


class ServiceClosedError(SessionsError, RuntimeError):
    """The service was closed; nothing was read or written."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("This SessionService was closed. Make another one, or close it when its last call is over.")


class StoreError(SessionsError):
    """The storage engine failed; its own exception is the cause."""


class StoreUnavailableError(StoreError):
    """The storage engine could not be reached, is locked, full or went away."""


class CommitUnknownError(StoreUnavailableError):
    """Nobody can say whether something was written: the engine's answer got lost, and others wrote since."""


class CorruptRowError(StoreError):
    """A stored row cannot be read; other rows are not affected.

    Attributes:
        event_id: Where an append bears the id of such a message, the id; else None.
    """

    event_id: str | None = None


class SchemaError(StoreError):
    """The tables of the database and this release do not fit together."""


class SchemaMissingError(SchemaError):
    """The tables do not exist yet."""

    def __init__(self) -> None:
        """Say how to create them."""
        super().__init__("The session tables do not exist. Call create_schema(), or run the SQL of schema_sql().")


class SchemaVersionError(SchemaError):
    """The database has a newer schema than this release knows; nothing was written."""

    def __init__(self, found: int, known: int) -> None:
        """Name both versions."""
        self.found = found
        self.known = known
        super().__init__(
            f"The database has schema version {found}; this release knows up to {known}. Upgrade langchain-sessions."
        )


class UnsupportedDatabaseError(SessionsError, ValueError):
    """The database is not one of those that the library is tested with."""


class EmbeddingError(SessionsError):
    """The embedder of a service failed; nothing was changed. Searches go on by words."""

    def __init__(self, problem: str) -> None:
        """Say how it failed, never on which text."""
        super().__init__(f"The embedder failed: {problem}.")


class SyncNotAvailableError(SessionsError, RuntimeError):
    """A synchronous method was called on a store that was given only an async engine."""

    def __init__(self) -> None:
        """Say how to get the synchronous half."""
        super().__init__(
            "This store has only an async engine. Use the a… methods, or build the service from a URL or a sync Engine."
        )


class MissingDependencyError(SessionsError, ImportError):
    """An optional part is not installed."""

    def __init__(self, part: str, extra: str) -> None:
        """Name the extra that brings it."""
        super().__init__(f"{part} needs an optional dependency: pip install 'langchain-sessions[{extra}]'")


class VocabularyMissingError(SessionsError, LookupError):
    """A vocabulary for exact token counts is not on this machine, and no download was allowed."""

    def __init__(self, encoding: str) -> None:
        """Name the encoding and the ways to get it."""
        self.encoding = encoding
        super().__init__(
            f"The vocabulary {encoding!r} is not in tiktoken's cache. Pass cache_dir= to where it is, "
            "allow_download=True to fetch it, or use EstimatedTokenCounter."
        )


class ReplyNotStoredError(SessionsError):
    """A model answered and the answer could not be stored: raised where `on_store_error` is `raise`.

    Attributes:
        session_id: The session.
        messages: The answer, with the tool calls and results that came with it.
    """

    def __init__(self, session_id: str, messages: Sequence[BaseMessage]) -> None:
        """Keep the answer: it was paid for."""
        super().__init__(f"The answer in session {session_id!r} was not stored; it is in the error's `messages`.")
        self.session_id = session_id
        self.messages: tuple[BaseMessage, ...] = tuple(messages)


class PromptTooLongError(SessionsError, _ContextOverflow):
    """A prompt is too long, and could not be made to fit: a provider refused it, or an exact count says so.

    The provider's own error is the cause, where it was asked.

    Attributes:
        session_id: The session.
        parts: What the prompt was made of, and what each part counts for in tokens.
        window: How many tokens the model takes, where that is known.
    """

    def __init__(self, session_id: str, parts: Mapping[str, int], window: int | None) -> None:
        """Name the parts, so that it can be seen which of them to shorten."""
        named = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        limit = "" if window is None else f" of {window}"
        super().__init__(
            f"The prompt of session {session_id!r} exceeds the model's window{limit} and could not be made to fit. "
            f"About {sum(parts.values())} tokens: {named}."
        )
        self.session_id = session_id
        self.parts: dict[str, int] = dict(parts)
        self.window = window


class SummaryError(SessionsError):
    """No usable summary was made; the history stays as it is.

    Attributes:
        outcome: What the run's record will say.
        calls: How many model calls were made.
    """

    def __init__(self, outcome: Outcome, reason: str, *, calls: int = 0) -> None:
        """Say what happened, without any text of the conversation."""
        self.outcome = outcome
        self.calls = calls
        super().__init__(reason)


class BareAdvisorError(SessionsError, TypeError):
    """An advisor was run as a step of a chain, where it never sees the reply."""

    def __init__(self) -> None:
        """Say what to write instead."""
        super().__init__(
            "A memory advisor cannot be a step of a chain: it would never see the reply. "
            "Write prompt | memory.wrap(model) instead of prompt | memory | model."
        )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Tell what was meant. Nothing here is imported before it is needed: all else builds on this module."""
        if name.startswith("_"):  # the import system asks for these
            raise AttributeError(name)
        from langchain_sessions._core.lazy import at_the_top  # noqa: PLC0415

        return at_the_top(__name__)(name)
