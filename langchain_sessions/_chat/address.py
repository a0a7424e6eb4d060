"""Which session a LangChain config means, and whose it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._core.ids import check_id
from langchain_sessions._core.rows import Anyone
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig

    from langchain_sessions.service import SessionService


class Address(NamedTuple):
    """A session as a config names it, and the view of its owner."""

    sessions: SessionService
    session_id: str


def session_id_of(configurable: Mapping[str, Any]) -> str | None:
    """The session that `configurable` names: its `session_id`, else its `thread_id`; None for neither.

    Raises:
        InvalidInputError: In a graph the two differ, so that two logs would be written; or the id is unusable.
    """
    session, thread = configurable.get("session_id"), configurable.get("thread_id")
    in_graph = any(key.startswith("__pregel_") for key in configurable)
    if in_graph and session is not None and thread is not None and str(thread) != session:
        raise InvalidInputError(
            "session_id", "differs from thread_id; in a graph the thread is the session, leave it out"
        )
    if session is not None:
        return check_id(session, "session_id")
    return None if thread is None else check_id(str(thread), "thread_id")


def address_of(sessions: SessionService, config: RunnableConfig | None) -> Address | None:
    """The session of a config as its owner sees it; None where the config names no session.

    The user is `configurable["user_id"]`; where it names none, the session is nobody's. A service that is bound to a
    user stays bound.

    Raises:
        InvalidInputError: An id is unusable, or the config names another user than the service is bound to.
    """
    configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
    session_id = session_id_of(configurable)
    if session_id is None:
        return None
    user = configurable.get("user_id")
    if isinstance(sessions.owner, Anyone):
        return Address(sessions.as_user(user), session_id)
    if user is not None and user != sessions.owner:
        raise InvalidInputError("user_id", "the service is bound to another user")
    return Address(sessions, session_id)


def require_address(sessions: SessionService, config: RunnableConfig | None) -> Address:
    """`address_of`, or an error that says how to name a session.

    Raises:
        InvalidInputError: The config names no session.
    """
    address = address_of(sessions, config)
    if address is None:
        raise InvalidInputError(
            "session_id", 'the config names no session; pass {"configurable": {"session_id": ..., "user_id": ...}}'
        )
    return address
