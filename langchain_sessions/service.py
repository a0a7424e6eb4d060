"""The facade: everything that an application talks to."""

from __future__ import annotations

import uuid

from langchain_sessions._core.ids import check_branch, check_id
from langchain_sessions._log.search import Searching
from langchain_sessions.invocation import Invocation


class SessionService(Searching):
    """Conversations as append-only logs.

    Every method `x` that does I/O has a twin `ax`. The service itself is the operator's: it reaches every session
    of its app. `as_user` gives the view that applications use: it reaches one user's sessions and nothing else.

    Args:
        database: A URL such as `sqlite:///chat.db`, a SQLAlchemy `Engine` or `AsyncEngine`, or a store. Engines
            and stores that are given are never closed.
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
        synchronous: SQLite's durability for a URL: FULL, or NORMAL (a power cut may take the last transactions).
        search: Whether appends keep the index of recall up to date, and how recall works. It costs one append in
            hundreds some milliseconds.
        clock: The present, aware; for tests.
    """

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
        """
        self.key(session_id)
        name = uuid.uuid4().hex if invocation_id is None else check_id(invocation_id, "invocation_id")
        return Invocation(self, session_id, name, branch=check_branch(branch), author=author)
