"""From what a caller has (a URL, an engine, a store) and wants to the plumbing of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._compaction.background import BackgroundRuns
from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.edge import check_duration, check_id, require
from langchain_sessions._core.event_encoding import EventEncoder
from langchain_sessions._core.rows import ANYONE
from langchain_sessions._log.log import Log, Shared
from langchain_sessions._recall.settings import SearchSettings
from langchain_sessions._tokens.estimate import EstimatedTokenCounter
from langchain_sessions.stores._engines_by_url import engine_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.stores._base import SessionStore


def open_log(
    database: Any,
    *,
    app: str,
    codec: SerializerProtocol | None,
    encrypted: bool | None,
    tokens: TokenCounter | None,
    time_to_live: timedelta | None,
    adapter_time_to_live: timedelta | None,
    expiry: str,
    invocation_timeout: timedelta,
    require_user: bool,
    hide_superseded: bool,
    search: bool | SearchSettings,
    clock: Callable[[], datetime],
    **store: Any,
) -> Log:
    """The plumbing of an operator's service; the arguments are those of `SessionService`. Nothing is opened yet."""
    require(expiry in ("fixed", "sliding"), "expiry", "give 'fixed' or 'sliding'")
    usable = all(callable(getattr(codec, name, None)) for name in ("dumps_typed", "loads_typed"))
    require(codec is None or usable, "codec", "give a serializer of LangGraph, such as JsonPlusSerializer()")
    counts = callable(getattr(tokens, "count_messages", None)) and not isinstance(tokens, type)
    require(tokens is None or counts, "tokens", "give a TokenCounter, such as best_counter('gpt-4o')")
    messages = MessageCodec(codec, encrypts=_encrypts(codec, encrypted))
    counter: TokenCounter = tokens if tokens is not None else EstimatedTokenCounter()
    return Log(
        app=check_id(app, "app"),
        owner=ANYONE,
        store=_store(database, store),
        codec=messages,
        encoder=EventEncoder(messages, counter),
        tokens=counter,
        background=BackgroundRuns(),
        search=_search_settings(search),
        clock=clock,
        time_to_live=_micros(time_to_live, "time_to_live"),
        adapter_time_to_live=_micros(adapter_time_to_live, "adapter_time_to_live"),
        slides=expiry == "sliding",
        invocation_timeout=check_duration(invocation_timeout, "invocation_timeout"),
        require_user=require_user,
        hide_superseded=hide_superseded,
        shared=Shared(),
    )


def _store(database: Any, options: dict[str, Any]) -> SessionStore:
    # Each kind of store is imported by whom it serves: SQLAlchemy alone is half of a cold start.
    if not isinstance(database, str):
        from langchain_sessions.stores._base import SessionStore

        if isinstance(database, SessionStore):
            return database
    engine = engine_for(database, table_prefix=options["table_prefix"], create_schema=options["create_schema"])
    if engine is not None:
        from langchain_sessions.stores._partitioned.store import PartitionedStore

        return PartitionedStore(engine)
    from langchain_sessions._sql.store import SqlStore

    return SqlStore(database, **options)


def _micros(duration: timedelta | None, field: str) -> int | None:
    return None if duration is None else check_duration(duration, field)


def _search_settings(given: bool | SearchSettings) -> SearchSettings | None:
    if isinstance(given, SearchSettings):
        return given
    require(isinstance(given, bool), "search", "give True, False or SearchSettings")
    return SearchSettings() if given else None


def _encrypts(codec: SerializerProtocol | None, given: bool | None) -> bool:
    if codec is None:
        return False
    if given is not None:
        return given
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    return isinstance(codec, EncryptedSerializer)
