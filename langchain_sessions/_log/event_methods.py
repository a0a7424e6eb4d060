"""The part of a service that is about what was said: read, rewound, overwritten and compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._compaction.background import compact_later, compact_now
from langchain_sessions._core.edge import told_methods
from langchain_sessions._core.flow import adrive, drive
from langchain_sessions._log import read, rewind, shared_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._compaction.plan import Compaction, CompactionResult, ModelCall
    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.rows import Counters
    from langchain_sessions._core.view import Context
    from langchain_sessions._log.log import Log
    from langchain_sessions._log.values import BlankResult, RewindResult
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.filters import EventFilter
    from langchain_sessions.page import Page
    from langchain_sessions.turns import Turn


@told_methods
class EventMethods:
    """The methods of `SessionService` that are about events. Each is a workflow of a module here, run in two ways."""

    _log: Log

    def events(
        self,
        session_id: str,
        where: EventFilter | None = None,
        *,
        cursor: str | None = None,
        with_total: bool = False,
    ) -> Page[SessionEvent]:
        """Events in log order: all of them, or those that a filter wants. Nothing is left out by default.

        Args:
            session_id: The session.
            where: The filter; its page size counts for cursors too.
            cursor: The `next_cursor` or `previous_cursor` of an earlier page. Cursors stay right while events are
                appended; `next_cursor` of the newest page leads to what is appended later. An empty page has none: a
                loop that follows it ends.
            with_total: Count how many there are in all.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(read.find_events(self._log, session_id, where, cursor=cursor, with_total=with_total))

    async def aevents(
        self,
        session_id: str,
        where: EventFilter | None = None,
        *,
        cursor: str | None = None,
        with_total: bool = False,
    ) -> Page[SessionEvent]:
        """Async `events`."""
        return await adrive(read.find_events(self._log, session_id, where, cursor=cursor, with_total=with_total))

    def context(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Context:
        """What a model is to see: standing messages in context order, tool calls whole.

        Args:
            session_id: The session.
            branch: The viewer: it sees root, its ancestors and itself.
            last_n: At most the newest n messages; a tool result whose call is cut off is dropped.
            invocation_id: The running invocation, whose own messages are seen.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(
            read.load_context(self._log, session_id, branch=branch, last_n=last_n, invocation_id=invocation_id)
        )

    async def acontext(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Context:
        """Async `context`."""
        return await adrive(
            read.load_context(self._log, session_id, branch=branch, last_n=last_n, invocation_id=invocation_id)
        )

    def messages(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> list[BaseMessage]:
        """The messages of `context`, and nothing else.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(
            read.load_messages(self._log, session_id, branch=branch, last_n=last_n, invocation_id=invocation_id)
        )

    async def amessages(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> list[BaseMessage]:
        """Async `messages`."""
        return await adrive(
            read.load_messages(self._log, session_id, branch=branch, last_n=last_n, invocation_id=invocation_id)
        )

    def turns(self, session_id: str, *, branch: str | None = None) -> list[Turn]:
        """The turns of one branch scope that stand in the context, in order; a preamble comes first.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(read.load_turns(self._log, session_id, branch=branch))

    async def aturns(self, session_id: str, *, branch: str | None = None) -> list[Turn]:
        """Async `turns`."""
        return await adrive(read.load_turns(self._log, session_id, branch=branch))

    def count(self, session_id: str, *, branch: str | None = None) -> Counters:
        """How many events, turns and tokens are live in one branch scope, without loading any.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(read.count_live(self._log, session_id, branch=branch))

    async def acount(self, session_id: str, *, branch: str | None = None) -> Counters:
        """Async `count`."""
        return await adrive(read.count_live(self._log, session_id, branch=branch))

    def state(self, session_id: str) -> dict[str, Any]:
        """State as one dictionary: the session's keys, `user:` keys and `app:` keys.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return drive(read.load_state(self._log, session_id))

    async def astate(self, session_id: str) -> dict[str, Any]:
        """Async `state`."""
        return await adrive(read.load_state(self._log, session_id))

    def shared_state(self, *, user_id: str | None = None) -> dict[str, Any]:
        """The `user:` keys of a user and the `app:` keys of the app, without a session.

        Args:
            user_id: Whose, on the operator's service, where None means `app:` keys alone; a bound view reads its own.
        """
        return drive(shared_state.load_shared(self._log, user_id))

    async def ashared_state(self, *, user_id: str | None = None) -> dict[str, Any]:
        """Async `shared_state`."""
        return await adrive(shared_state.load_shared(self._log, user_id))

    def update_shared_state(self, changes: Mapping[str, Any], *, user_id: str | None = None) -> dict[str, Any]:
        """Set `user:` and `app:` keys without a session; None deletes one. The shared state after it.

        Args:
            changes: The keys, as `append(state_delta=…)` takes them. The last writer of a key wins.
            user_id: Whose, on the operator's service; a bound view writes its own.

        Raises:
            InvalidInputError: A key is of a session, or a value cannot be stored exactly, or there is no user.
        """
        return drive(shared_state.change_shared(self._log, changes, user_id))

    async def aupdate_shared_state(self, changes: Mapping[str, Any], *, user_id: str | None = None) -> dict[str, Any]:
        """Async `update_shared_state`."""
        return await adrive(shared_state.change_shared(self._log, changes, user_id))

    def rewind(
        self,
        session_id: str,
        *,
        before_invocation: str | None = None,
        to_seq: int | None = None,
        reset_thread: bool = False,
    ) -> RewindResult:
        """Go back: what came after is hidden, and the session's state is what it was. Nothing is deleted.

        Args:
            session_id: The session.
            before_invocation: To before the first standing event of this invocation.
            to_seq: To how the log read at this position; 0 is the beginning. A position before another rewind
                undoes that one.
            reset_thread: On a LangGraph thread, go back even where no checkpoint remains to resume from.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no such invocation or position.
        """
        return drive(
            rewind.rewind_session(
                self._log, session_id, before_invocation=before_invocation, to_seq=to_seq, reset_thread=reset_thread
            )
        )

    async def arewind(
        self,
        session_id: str,
        *,
        before_invocation: str | None = None,
        to_seq: int | None = None,
        reset_thread: bool = False,
    ) -> RewindResult:
        """Async `rewind`."""
        return await adrive(
            rewind.rewind_session(
                self._log, session_id, before_invocation=before_invocation, to_seq=to_seq, reset_thread=reset_thread
            )
        )

    def undo_rewind(self, session_id: str) -> RewindResult:
        """Take the newest standing rewind back: the log reads as it did just before it.

        What was appended since that rewind is hidden in turn.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no rewind to undo.
        """
        return drive(rewind.undo_rewind(self._log, session_id))

    async def aundo_rewind(self, session_id: str) -> RewindResult:
        """Async `undo_rewind`."""
        return await adrive(rewind.undo_rewind(self._log, session_id))

    def blank(
        self,
        session_id: str,
        message_id: str | None = None,
        *,
        seqs: Sequence[int] = (),
        superseded: bool = False,
    ) -> BlankResult:
        """Overwrite what a message said, everywhere: in the log, the index, vectors and old checkpoints. For good.

        Who said it, when and where stays, and so do positions, tool calls (without arguments) and the state that it
        changed; the message now says `[blanked]`. The metadata of its event goes. A record is appended.

        Args:
            session_id: The session.
            message_id: The message, with all its revisions.
            seqs: Or the positions of the events.
            superseded: Only revisions that another one took the place of; of the whole log where nothing is named.

        Raises:
            SessionNotFoundError: There is no such session for this view.
            EventNotFoundError: There is no such message or position.
            InvalidInputError: Nothing was named, or too much, or a position holds no message.
        """
        return drive(_blanking(self._log, session_id, message_id, seqs, superseded=superseded))

    async def ablank(
        self,
        session_id: str,
        message_id: str | None = None,
        *,
        seqs: Sequence[int] = (),
        superseded: bool = False,
    ) -> BlankResult:
        """Async `blank`."""
        return await adrive(_blanking(self._log, session_id, message_id, seqs, superseded=superseded))

    def compact(
        self,
        session_id: str,
        compaction: Compaction,
        *,
        branch: str | None = None,
        invocation_id: str | None = None,
        force: bool = False,
        call: ModelCall | None = None,
        automatic: bool = False,
    ) -> CompactionResult:
        """Compact one branch scope of a session if it is time. Nothing is lost: what goes is archived.

        Args:
            session_id: The session.
            compaction: When and how; without a trigger it is always time.
            branch: The scope; None is root.
            invocation_id: The running invocation, whose events count and stay.
            force: Do not ask the trigger.
            call: What is known of the model call ahead: model, system prompt, tools, context window.
            automatic: Nobody asked for this run: whatever goes wrong becomes an outcome and is never raised, and
                a run that finds another one at work makes way.

        Raises:
            SessionNotFoundError: There is none for this view.
        """
        return drive(
            compact_now(
                self._log,
                session_id,
                compaction,
                branch=branch,
                invocation_id=invocation_id,
                force=force,
                call=call,
                automatic=automatic,
            )
        )

    async def acompact(
        self,
        session_id: str,
        compaction: Compaction,
        *,
        branch: str | None = None,
        invocation_id: str | None = None,
        force: bool = False,
        call: ModelCall | None = None,
        automatic: bool = False,
    ) -> CompactionResult:
        """Async `compact`."""
        return await adrive(
            compact_now(
                self._log,
                session_id,
                compaction,
                branch=branch,
                invocation_id=invocation_id,
                force=force,
                call=call,
                automatic=automatic,
            )
        )

    def compact_later(
        self, session_id: str, compaction: Compaction, *, branch: str | None = None, call: ModelCall | None = None
    ) -> bool:
        """Compact in the background: on a thread, or as a task of the running loop. `close` waits for it.

        Args:
            session_id: The session.
            compaction: When and how; its `on_result` hears what came of it.
            branch: The scope; None is root.
            call: What is known of the model's calls.

        Returns:
            Whether a run was begun: there is never more than one of a scope.
        """
        return drive(compact_later(self._log, session_id, compaction, branch=branch, call=call))

    async def acompact_later(
        self, session_id: str, compaction: Compaction, *, branch: str | None = None, call: ModelCall | None = None
    ) -> bool:
        """Async `compact_later`."""
        return await adrive(compact_later(self._log, session_id, compaction, branch=branch, call=call))


def _blanking(
    log: Log, session_id: str, message_id: str | None, seqs: Sequence[int], *, superseded: bool
) -> Flow[BlankResult]:
    # What is done once in a while is imported when it is done.
    from langchain_sessions._log.blank import blank_events

    return blank_events(log, session_id, message_id, seqs=seqs, superseded=superseded)
