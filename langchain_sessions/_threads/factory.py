"""A checkpointer for LangGraph's server, which asks for an async context manager without arguments."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from langgraph.checkpoint.serde.base import SerializerProtocol


def checkpointer_factory(
    database: Any,
    *,
    serde: SerializerProtocol | None = None,
    strict_head: bool = False,
    **options: Any,
) -> Callable[[], AbstractAsyncContextManager[SessionCheckpointSaver]]:
    """What a server's checkpointer configuration names.

    In a module of your own, `make = checkpointer_factory("postgresql://…")`; then name `module.py:make` as the path
    in `langgraph.json`. Each call opens a service and closes it at the end.

    Args:
        database: As for `SessionService`.
        serde: As for `SessionCheckpointSaver`.
        strict_head: As for `SessionCheckpointSaver`.
        options: Further arguments of `SessionService`.
    """

    @asynccontextmanager
    async def make() -> AsyncIterator[SessionCheckpointSaver]:
        async with SessionService(database, **options) as sessions:
            yield SessionCheckpointSaver(sessions, serde=serde, strict_head=strict_head)

    return make
