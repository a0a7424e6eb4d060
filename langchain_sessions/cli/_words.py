"""Errors of the library in the words of the command: what to type, not what to call."""

from __future__ import annotations

from langchain_sessions._importing.reasons import why_unreachable
from langchain_sessions.errors import (
    EventConflictError,
    EventNotFoundError,
    InvalidInputError,
    SchemaError,
    SchemaMissingError,
    SchemaVersionError,
    SealedEventError,
    SessionEndedError,
    SessionExistsError,
    SessionNotFoundError,
    SessionsError,
    SyncNotAvailableError,
    UnsupportedDatabaseError,
)

_TYPED = {
    "after_seq": "--after",
    "at_seq": "--at",
    "cursor": "--after",
    "database": "--url",
    "form": "--format",
    "last_n": "--last",
    "limit": "--limit",
    "max_turns": "--keep",
    "message_id": "MESSAGE",
    "new_id": "--as",
    "query": "QUERY",
    "serde": "--key-from",
    "session_id": "SESSION",
    "source": "SOURCE",
    "table_prefix": "--prefix",
    "to_seq": "--to",
    "user": "--user",
    "user_from": "--user-from",
    "user_id": "--user",
    "app": "--app",
    "branch": "--branch",
}
"""What somebody typed for a parameter."""
_POINTERS = ("; start it, or correct host and port of the URL, and see the cause.", "; see the cause.")
_PLACES = ("cannot be reached", "could not connect", "cannot be read or written")


def in_words(error: SessionsError) -> str:
    """One line that says what is wrong and what to type."""
    told = _of_input(error) if isinstance(error, (InvalidInputError, EventConflictError)) else _of_state(error)
    if isinstance(error, EventNotFoundError):
        told = told.replace(f"events({error.session_id!r})", f"`langchain-sessions show {error.session_id} --log`")
    pointer = next((each for each in _POINTERS if told.endswith(each)), "")
    if pointer:
        # A command shows no causes.
        why = why_unreachable(error.__cause__) if any(words in told for words in _PLACES) else ""
        told = f"{told.removesuffix(pointer)}{why and ': '}{why}."
    return " ".join(told.split())


def _of_input(error: InvalidInputError | EventConflictError) -> str:
    if isinstance(error, EventConflictError):
        return f"Session {error.session_id!r} holds another message as event {error.event_id!r} already."
    told = str(error).replace("name a message, or positions, or pass superseded=True", "name one, or give --superseded")
    return told.replace(f"{error.field}:", f"{_TYPED.get(error.field, error.field)}:", 1)


def _of_state(error: SessionsError) -> str:
    told = str(error)
    if isinstance(error, SchemaMissingError):
        told = "The database holds no tables of langchain-sessions. `langchain-sessions init` creates them."
    elif isinstance(error, SchemaVersionError):
        told = (
            f"The database has schema version {error.found}; this release knows up to {error.known}. "
            "Type pip install --upgrade langchain-sessions."
        )
    elif isinstance(error, SchemaError):
        told = told.replace("Call create_schema().", "`langchain-sessions migrate` brings it up to date.")
        told = told.replace("Give a table_prefix, such as 'chat_'", "Give --prefix, such as chat_")
    elif isinstance(error, SessionNotFoundError):
        why = "it does not exist, has expired or belongs to somebody else"
        told = f"No session {error.session_id!r} within reach: {why}. `langchain-sessions list` names those there are."
    elif isinstance(error, SessionExistsError):
        told = f"The session id {error.session_id!r} is taken. Give another."
    elif isinstance(error, SessionEndedError):
        told = (
            f"Session {error.session_id!r} has ended. `langchain-sessions fork {error.session_id}` goes on in a copy."
        )
    elif isinstance(error, SealedEventError):
        told = f"Event {error.seq} of session {error.session_id!r} is sealed: an application that has its key reads it."
    elif isinstance(error, UnsupportedDatabaseError):
        told = told.replace("; or InMemoryStore() for what may be forgotten", "")
    elif isinstance(error, SyncNotAvailableError):
        told = "--url: name a driver that is not asynchronous, such as postgresql://… or sqlite:///…"
    return told
