"""Whose sessions a service reaches, its clock and its life."""

from __future__ import annotations

import copy
import json
import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from langchain_sessions._core.building import built
from langchain_sessions._core.checks import UNREADABLE, require
from langchain_sessions._core.codec.messages import MessageCodec
from langchain_sessions._core.codec.values import as_dict
from langchain_sessions._core.encode import EventEncoder
from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.ids import check_id, check_optional_id
from langchain_sessions._core.rows import ANYONE, EventRow, Owner, SessionHeading, SessionKey, SessionRow
from langchain_sessions._core.times import check_aware, check_duration, from_micros, to_micros, utc_now
from langchain_sessions._recall.settings import SearchSettings
from langchain_sessions.compaction.background import BackgroundRuns
from langchain_sessions.errors import CorruptRowError, InvalidInputError
from langchain_sessions.session import Session
from langchain_sessions.stores.base import SessionStore
from langchain_sessions.tokens import EstimatedTokenCounter, TokenCounter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import AsyncEngine
    from typing_extensions import Self

    from langchain_sessions._recall.index.indexing import Indexer
    from langchain_sessions._recall.meaning.embedder import Embedder
    from langchain_sessions._recall.meaning.embedding import VectorBuilder
    from langchain_sessions._recall.meaning.vector_check import VectorChecker

from langchain_sessions._log.values import DEFAULT_TIME_TO_LIVE


class Bound:
    """Whose sessions a service reaches, its clock and its life."""

    def __init__(
        self,
        database: str | URL | Engine | AsyncEngine | SessionStore = "sqlite://",
        *,
        app: str = "default",
        codec: SerializerProtocol | None = None,
        encrypted: bool | None = None,
        table_prefix: str = "",
        create_schema: bool | None = None,
        tokens: TokenCounter | None = None,
        time_to_live: timedelta | None = DEFAULT_TIME_TO_LIVE,
        adapter_time_to_live: timedelta | None = None,
        expiry: Literal["fixed", "sliding"] = "fixed",
        invocation_timeout: timedelta = timedelta(minutes=15),
        require_user: bool = False,
        synchronous: str = "FULL",
        search: bool | SearchSettings = True,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        self.app = check_id(app, "app")
        require(expiry in ("fixed", "sliding"), "expiry", "give 'fixed' or 'sliding'")
        self._time_to_live = None if time_to_live is None else check_duration(time_to_live, "time_to_live")
        self._adapter_time_to_live = (
            None if adapter_time_to_live is None else check_duration(adapter_time_to_live, "adapter_time_to_live")
        )
        self._slides = expiry == "sliding"
        self._invocation_timeout = check_duration(invocation_timeout, "invocation_timeout")
        self._require_user = require_user
        self._clock = clock
        self._owner: Owner = ANYONE
        self.background = BackgroundRuns()
        self._to_embed: dict[SessionKey, None] = {}
        self.tokens: TokenCounter = tokens if tokens is not None else EstimatedTokenCounter()
        self.codec = MessageCodec(codec, encrypts=_encrypts(codec, encrypted))
        self.encoder = EventEncoder(self.codec, self.tokens)
        self._search_settings = _search_settings(search)
        self._is_view = False
        self._owns_store = not isinstance(database, SessionStore)
        self.store = (
            database
            if isinstance(database, SessionStore)
            else _sql_store(database, table_prefix=table_prefix, create_schema=create_schema, synchronous=synchronous)
        )

    def as_user(self, user_id: str | None) -> Self:
        """The same service bound to one owner: every call enforces it.

        Args:
            user_id: The user; None for the sessions that nobody owns.

        Raises:
            InvalidInputError: The id is blank, or None where a user is required.
        """
        require(user_id is not None or not self._require_user, "user_id", "this service requires a user")
        bound = copy.copy(self)
        bound._owner = check_optional_id(user_id, "user_id")
        bound._owns_store = False
        bound._is_view = True
        return bound

    @property
    def owner(self) -> Owner:
        """Whose sessions this view reaches: a user's, those of nobody (None), or `ANYONE`'s."""
        return self._owner

    def key(self, session_id: str) -> SessionKey:
        """The key of a session for this view.

        Raises:
            InvalidInputError: The id cannot be one.
        """
        return SessionKey(self.app, check_id(session_id, "session_id"), self._owner)

    def now(self) -> int:
        """The present in microseconds."""
        return to_micros(check_aware(self._clock(), "clock"))

    def idle_before(self, now: int) -> int:
        """Open invocations that were not touched since then count as failed."""
        return now - self._invocation_timeout

    def _create_schema(self) -> Flow[None]:
        """Create or upgrade the tables. Idempotent; safe when many processes do it at once."""
        yield from ask(self.store.create_schema)

    create_schema, acreate_schema = faces(_create_schema)

    def _close(self) -> Flow[None]:
        """Finish what runs in the background and close what the service opened. A view closes nothing."""
        if not self._is_view:
            yield from ask(self.background.drain, close=True)
        if self._owns_store:
            yield from ask(self.store.close)

    close, aclose = faces(_close)

    def __enter__(self) -> Self:
        """Use the service as a context manager; it is closed at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the service."""
        self.close()

    async def __aenter__(self) -> Self:
        """Use the service as an async context manager; it is closed at the end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the service."""
        await self.aclose()

    def _indexer(self) -> Indexer:
        from langchain_sessions._recall.index.indexing import Indexer

        settings = self._search_settings
        if settings is None:
            raise InvalidInputError("search", "this service was built with search=False")
        return Indexer(self.store, self.codec, settings.engine, self.now)

    def _embedder(self) -> Embedder | None:
        return None if self._search_settings is None else self._search_settings.embedder

    def _vector_builder(self, embedder: Embedder) -> VectorBuilder:
        from langchain_sessions._recall.meaning.embedding import VectorBuilder

        return VectorBuilder(self.store, self.codec, embedder, self.now)

    def _vector_checker(self, embedder: Embedder) -> VectorChecker:
        from langchain_sessions._recall.meaning.vector_check import VectorChecker

        return VectorChecker(self.store, self.codec, embedder, self.now())

    def _embed_later(self, keys: Iterable[SessionKey]) -> Flow[None]:
        """Embed what some logs hold, beside the conversation; never at the cost of who noticed it."""
        embedder = self._embedder()
        self._to_embed.update(dict.fromkeys(keys))
        if embedder is None or not self._to_embed:
            return
        builder = self._vector_builder(embedder)
        try:
            yield from ask(
                self.background.start,
                (self.app, "", ".embedding"),
                lambda: builder.work_off(self._to_embed, lambda: self.background.is_closed),
            )
        except RuntimeError:  # no thread is left: the next search tries again
            return

    def _record(self, kind: int, now: int) -> EventRow:
        """A record of something that happens to a log."""
        name = uuid.uuid4().hex
        return EventRow(0, name, 0, None, None, kind, 0, now, 0, None, None, None, None, None, None, None, None)

    def session_of(self, row: SessionRow | SessionHeading) -> Session:
        """The public value of a session row.

        Raises:
            CorruptRowError: It cannot be read.
        """
        try:
            return built(Session, _fields(row))
        except UNREADABLE as error:
            problem = f"The row of session {row.id!r} cannot be read; other sessions can."
            raise CorruptRowError(problem) from error


def _fields(row: SessionRow | SessionHeading) -> dict[str, Any]:
    return {
        "id": row.id,
        "app": row.app,
        "user_id": row.user_id,
        "title": row.title,
        "created_at": from_micros(row.created_at),
        "updated_at": from_micros(row.updated_at),
        "expires_at": None if row.expires_at is None else from_micros(row.expires_at),
        "ended_at": None if row.ended_at is None else from_micros(row.ended_at),
        "metadata": {} if row.metadata == "{}" else as_dict(json.loads(row.metadata), "metadata"),
        "version": row.last_seq,
        "message_count": row.live_events,
        "turn_count": row.live_turns,
        "token_count": row.live_tokens,
    }


def _search_settings(given: bool | SearchSettings) -> SearchSettings | None:
    if isinstance(given, SearchSettings):
        return given
    return SearchSettings() if given else None


def _encrypts(codec: SerializerProtocol | None, given: bool | None) -> bool:
    if codec is None:
        return False
    if given is not None:
        return given
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    return isinstance(codec, EncryptedSerializer)


def _sql_store(database: Any, **options: Any) -> SessionStore:
    from langchain_sessions._sql.store import SqlStore

    return SqlStore(database, **options)
