"""The facade: everything that an application talks to."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from langchain_sessions._core.edge import check_branch, check_id, made_by, told_methods, utc_now
from langchain_sessions._core.flow import Flow, adrive, ask, drive
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._log.append import AppendMethods
from langchain_sessions._log.event_methods import EventMethods
from langchain_sessions._log.log import bound_to
from langchain_sessions._log.opening import open_log
from langchain_sessions._log.search_methods import SearchMethods
from langchain_sessions._log.session_methods import SessionMethods
from langchain_sessions._log.values import DEFAULT_TIME_TO_LIVE
from langchain_sessions.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import AsyncEngine
    from typing_extensions import Self

    from langchain_sessions._core.rows import Owner
    from langchain_sessions._recall.settings import SearchSettings
    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._engines_by_url import DriverSession


@made_by("SessionService('sqlite:///chat.db')")
@told_methods
class SessionService(SessionMethods, AppendMethods, EventMethods, SearchMethods):
    """Conversations as append-only logs.

    Every method `x` that does I/O has a twin `ax`. The service itself is the operator's: it reaches every session
    of its app. `as_user` gives the view that applications use: it reaches one user's sessions and nothing else.

    Args:
        database: A URL such as `sqlite:///chat.db`, a SQLAlchemy `Engine` or `AsyncEngine`, a session of Cassandra's
            driver, or a store, such as `InMemoryStore()` for what may be forgotten. Needed: nothing is forgotten
            without being asked to. What is given is never closed.
        app: The application; sessions of another app do not exist here.
        codec: A LangGraph serializer for what JSON cannot hold; an encrypting one seals whole messages.
        encrypted: Whether `codec` encrypts. By default asked of LangGraph's own `EncryptedSerializer`.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use; by default on SQLite only.
        tokens: Counts tokens; by default an estimate that needs no vocabulary.
        time_to_live: How long an explicitly created session lives; None for ever.
        adapter_time_to_live: How long a session lives that `open` creates; None for ever.
        expiry: `fixed`, or `sliding`: every append renews the time, at most hourly.
        invocation_timeout: An invocation that is open and idle for longer counts as failed.
        require_user: Refuse sessions that nobody owns.
        hide_superseded: Show what an edit replaced to the operator only: `events` and `search` of views leave it out.
        synchronous: SQLite's durability for a URL: FULL, or NORMAL (a power cut may take the last transactions).
        lock_timeout: How long a call waits for what somebody else has locked, for a URL of a database; by default a
            minute, or what that database has been told itself.
        search: Whether appends keep the index of recall up to date, and how recall works. It costs one append in
            hundreds some milliseconds.
        clock: The present, aware; for tests.
    """

    def __init__(
        self,
        database: str | URL | Engine | AsyncEngine | DriverSession | SessionStore | None = None,
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
        hide_superseded: bool = False,
        synchronous: str = "FULL",
        lock_timeout: timedelta | None = None,
        search: bool | SearchSettings = True,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """See the class. Nothing is opened before first use."""
        self._log = open_log(
            database,
            app=app,
            codec=codec,
            encrypted=encrypted,
            table_prefix=table_prefix,
            create_schema=create_schema,
            tokens=tokens,
            time_to_live=time_to_live,
            adapter_time_to_live=adapter_time_to_live,
            expiry=expiry,
            invocation_timeout=invocation_timeout,
            require_user=require_user,
            hide_superseded=hide_superseded,
            synchronous=synchronous,
            lock_timeout=lock_timeout,
            search=search,
            clock=clock,
        )
        self._owns_store = self._log.store is not database
        self._is_view = False

    def __repr__(self) -> str:
        """Short: whose sessions, and where they are."""
        whose = f" of {self.owner!r}" if self._is_view else ""
        app = "" if self.app == "default" else f" app={self.app!r}"
        return f"<SessionService{app}{whose} over {self._log.store!r}>"

    @property
    def app(self) -> str:
        """The application whose sessions it reaches."""
        return self._log.app

    @property
    def owner(self) -> Owner:
        """Whose sessions this view reaches: a user's, those of nobody (None), or `ANYONE`'s."""
        return self._log.owner

    @property
    def tokens(self) -> TokenCounter:
        """What counts tokens."""
        return self._log.tokens

    def as_user(self, user_id: str | None) -> Self:
        """The same service bound to one owner: every call enforces it.

        Args:
            user_id: The user; None for the sessions that nobody owns.

        Raises:
            InvalidInputError: The id is blank, or None where a user is required; or this is another user's view.
        """
        return bound_to(self, user_id)

    def invocation(
        self, session_id: str, invocation_id: str | None = None, *, branch: str | None = None, author: str | None = None
    ) -> Invocation:
        """One run of a model over a session, as a context manager, sync or async.

        Until it is done, other readers' contexts leave its messages out; if its body raises, they stay left out.

        Args:
            session_id: The session.
            invocation_id: Its id; by default a new one. The id of a run that failed resumes it.
            branch: The branch that it appends to.
            author: Who speaks in it.

        Raises:
            ServiceClosedError: The service was closed, and so nothing of the run could be stored.
        """
        self._log.check_open()
        check_id(session_id, "session_id")
        name = uuid.uuid4().hex if invocation_id is None else check_id(invocation_id, "invocation_id")
        return Invocation(self._log, session_id, name, branch=check_branch(branch), author=author)

    def create_schema(self) -> None:
        """Create or upgrade the tables. Idempotent; safe when many processes do it at once."""
        drive(self._create_schema())

    async def acreate_schema(self) -> None:
        """Async `create_schema`."""
        await adrive(self._create_schema())

    def _create_schema(self) -> Flow[None]:
        self._log.check_open()
        yield from ask(self._log.store.create_schema)

    def close(self) -> None:
        """Finish what runs in the background and close what the service opened; then it refuses every call.

        A view closes nothing.
        """
        drive(self._close())

    async def aclose(self) -> None:
        """Async `close`."""
        await adrive(self._close())

    def _close(self) -> Flow[None]:
        if self._is_view:
            return
        yield from ask(self._log.background.drain, close=True)
        self._log.shared.is_closed = True
        if self._owns_store:
            yield from ask(self._log.store.close)

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


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
