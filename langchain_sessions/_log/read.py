"""Reading logs: what a model is to see, and everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.checks import UNREADABLE, require
from langchain_sessions._core.flow import Flow, ask, faces
from langchain_sessions._core.ids import check_branch
from langchain_sessions._core.state import merged_view
from langchain_sessions._core.view import Context, pair_tool_calls
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.filters import EventFilter
from langchain_sessions.page import Page, decode_positions, encode_cursor
from langchain_sessions.turns import Turn, split_turns

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.rows import Counters
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.stores.values import EventSlice

from langchain_sessions._log.append import Writing

_EVERYTHING = EventFilter()


class Reading(Writing):
    """Reading logs: what a model is to see, and everything else."""

    def _events(
        self,
        session_id: str,
        wanted: EventFilter | None = None,
        *,
        cursor: str | None = None,
        with_total: bool = False,
    ) -> Flow[Page[SessionEvent]]:
        """Events in log order: all of them, or those that a filter wants. Nothing is left out by default.

        Args:
            session_id: The session.
            wanted: The filter; its page size counts for cursors too.
            cursor: The `next_cursor` or `previous_cursor` of an earlier page. Cursors stay right while events are
                appended; `next_cursor` of the newest page leads to what is appended later. An empty page has none: a
                loop that follows it ends.
            with_total: Count how many there are in all.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        now = self.now()
        chosen = wanted if wanted is not None else _EVERYTHING
        query = self.encoder.query(chosen, idle_before=self.idle_before(now), with_total=with_total)
        older = False
        if cursor is not None:
            direction, (at, size, *_) = decode_positions(cursor, 2, "older", "newer")
            older = direction == "older"
            query = replace(query, newest=older, offset=0, limit=query.limit or size or None)
            if older:
                query = replace(query, before_seq=min(at, query.before_seq or at))
            else:
                query = replace(query, after_seq=max(at, query.after_seq or at))
        found = yield from ask(self.store.find_events, self.key(session_id), query, now)
        return self._page(session_id, found, query.limit, cursor, newest=query.newest, offset=query.offset)

    events, aevents = faces(_events)

    def _page(
        self, session_id: str, found: EventSlice, size: int | None, cursor: str | None, *, newest: bool, offset: int
    ) -> Page[SessionEvent]:
        items = tuple(self.encoder.event(session_id, row, found.view) for row in found.rows)
        if not items:
            return Page(items=(), total=found.total)
        starts = items[0].seq == 1 or size is None or (newest and len(items) < size)
        first = not newest and cursor is None and not offset
        previous = None if starts or first else encode_cursor("older", items[0].seq, size)
        return Page(
            items=items,
            next_cursor=encode_cursor("newer", items[-1].seq, size),
            previous_cursor=previous,
            total=found.total,
        )

    def _context(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Flow[Context]:
        """What a model is to see: standing messages in context order, tool calls whole.

        Args:
            session_id: The session.
            branch: The viewer: it sees root, its ancestors and itself.
            last_n: At most the newest n messages; a tool result whose call is cut off is dropped.
            invocation_id: The running invocation, whose own messages are seen.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
        now = self.now()
        viewer = check_branch(branch)
        found = yield from ask(
            self.store.load_context, self.key(session_id), viewer, invocation_id, last_n, now, self.idle_before(now)
        )
        messages = self.codec.decode_all(session_id, found.rows)
        paired = pair_tool_calls(messages)
        cover = found.view.ledger.covers.get(viewer)
        return Context(
            session_id=session_id,
            branch=viewer,
            events=tuple(self.encoder.event(session_id, found.rows[index], found.view) for index, _ in paired),
            messages=tuple(message for _, message in paired),
            tokens=sum(found.rows[index].tokens for index, _ in paired),
            exact=self.tokens.exact,
            version=found.session.last_seq,
            compaction=0 if cover is None else cover.record,
        )

    context, acontext = faces(_context)

    def _messages(
        self,
        session_id: str,
        *,
        branch: str | None = None,
        last_n: int | None = None,
        invocation_id: str | None = None,
    ) -> Flow[list[BaseMessage]]:
        """The messages of `context`, and nothing else.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
        now = self.now()
        found = yield from ask(
            self.store.load_context,
            self.key(session_id),
            check_branch(branch),
            invocation_id,
            last_n,
            now,
            self.idle_before(now),
        )
        return [message for _, message in pair_tool_calls(self.codec.decode_all(session_id, found.rows))]

    messages, amessages = faces(_messages)

    def _turns(self, session_id: str, *, branch: str | None = None) -> Flow[list[Turn]]:
        """The turns of one branch scope that stand in the context, in order; a preamble comes first.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        context = yield from self._context(session_id, branch=branch)
        return split_turns(context.events, branch)

    turns, aturns = faces(_turns)

    def _count(self, session_id: str, *, branch: str | None = None) -> Flow[Counters]:
        """How many events, turns and tokens are live in one branch scope, without loading any.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        return (yield from ask(self.store.count_live, self.key(session_id), check_branch(branch), self.now()))

    count, acount = faces(_count)

    def _state(self, session_id: str) -> Flow[dict[str, Any]]:
        """State as one dictionary: the session's keys, `user:` keys and `app:` keys.

        Raises:
            SessionNotFoundError: There is no such session for this view.
        """
        found = yield from ask(self.store.load_state, self.key(session_id), self.now())
        try:
            return merged_view(found.session, found.user, found.app)
        except UNREADABLE as error:
            problem = f"The state of session {session_id!r} cannot be read; its log can."
            raise CorruptRowError(problem) from error

    state, astate = faces(_state)
