"""One run of a model over a session: open, then done, failed or interrupted; the home of `temp:` state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._core.edge import pointing, told_methods
from langchain_sessions._core.flow import Flow, adrive, drive
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.state import TEMP
from langchain_sessions._log.append import append_events
from langchain_sessions._log.read import load_context
from langchain_sessions.events import InvocationStatus, NewEvent, SessionEvent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from langchain_core.messages import BaseMessage
    from typing_extensions import Self

    from langchain_sessions._core.view import Context
    from langchain_sessions._log.log import Log


@pointing
@told_methods
class Invocation:
    """A run in progress. Use it as a context manager, sync or async.

    Leaving the block marks the run done; an exception marks it failed, a cancellation or a closed generator
    interrupted. What was appended stays in the log in each case; only the context leaves a failed run out.

    Attributes:
        session_id: The session.
        id: The run's id.
        state: Changes of state to be stored with the next append. `temp:` keys stay here and die with the handle.
    """

    def __init__(
        self, log: Log, session_id: str, invocation_id: str, *, branch: str | None, author: str | None
    ) -> None:
        """Made by `SessionService.invocation`."""
        self.session_id = session_id
        self.id = invocation_id
        self.state: dict[str, Any] = {}
        self._log = log
        self._branch = branch
        self._author = author
        self._stored: dict[str, Any] = {}
        self._count = 0
        self._is_open = False

    def __repr__(self) -> str:
        """Short: which run of which session."""
        return f"<Invocation {self.id!r} of {self.session_id!r}>"

    def append(
        self,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent] = (),
        *,
        state_delta: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        status: InvocationStatus | None = None,
    ) -> list[SessionEvent]:
        """Append to the session as part of this run, with the state that was changed since the last append.

        Args:
            messages: What to append.
            state_delta: Further changes of state.
            metadata: The caller's own data.
            status: How far the run has got; by default it opens with its first append.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        return drive(self._append(messages, state_delta, metadata, status))

    async def aappend(
        self,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent] = (),
        *,
        state_delta: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        status: InvocationStatus | None = None,
    ) -> list[SessionEvent]:
        """Async `append`."""
        return await adrive(self._append(messages, state_delta, metadata, status))

    def _append(
        self,
        messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent],
        state_delta: Mapping[str, Any] | None,
        metadata: Mapping[str, Any] | None,
        status: InvocationStatus | None,
    ) -> Flow[list[SessionEvent]]:
        changed = {
            key: value for key, value in self.state.items() if key not in self._stored or self._stored[key] != value
        }
        removed = {key: None for key in self._stored if key not in self.state}
        delta = {**changed, **removed, **(state_delta or {})}
        delta = {key: value for key, value in delta.items() if not key.startswith(TEMP)}
        events = yield from append_events(
            self._log,
            self.session_id,
            messages,
            branch=self._branch,
            author=self._author,
            invocation_id=self.id,
            invocation_status=status or (None if self._is_open else InvocationStatus.OPEN),
            first_ordinal=self._count,
            state_delta=delta,
            metadata=metadata,
        )
        self._stored = {key: value for key, value in self.state.items() if not key.startswith(TEMP)}
        self._is_open = True
        self._count += len(events)
        return events

    def context(self, *, last_n: int | None = None) -> Context:
        """The context as this run sees it, its own messages included.

        Raises:
            SessionNotFoundError: There is no such session.
        """
        return drive(self._context(last_n))

    async def acontext(self, *, last_n: int | None = None) -> Context:
        """Async `context`."""
        return await adrive(self._context(last_n))

    def _context(self, last_n: int | None) -> Flow[Context]:
        return load_context(self._log, self.session_id, branch=self._branch, last_n=last_n, invocation_id=self.id)

    def _finish(self, error: BaseException | None) -> Flow[None]:
        status = InvocationStatus.DONE
        if error is not None:
            status = InvocationStatus.FAILED if isinstance(error, Exception) else InvocationStatus.INTERRUPTED
        self._is_open = True
        yield from self._append((), None, None, status)

    def __enter__(self) -> Self:
        """Begin the run; it shows in the log with its first append."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Mark the run done, failed or interrupted."""
        drive(self._finish(error))

    async def __aenter__(self) -> Self:
        """Begin the run; it shows in the log with its first append."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Mark the run done, failed or interrupted."""
        await adrive(self._finish(error))


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
