"""Reading logs: what a model is to see, and everything else."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.cursors import decode_positions, encode_cursor
from langchain_sessions._core.edge import UNREADABLE, check_branch, check_kind, require
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import query_of
from langchain_sessions._core.rows import SAID
from langchain_sessions._core.state import merged_view
from langchain_sessions._core.view import Context, has_calls, pair_tool_calls, said_values
from langchain_sessions._log.log import read_rows
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.filters import EventFilter
from langchain_sessions.page import Page
from langchain_sessions.turns import Turn, split_turns

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.rows import Counters
    from langchain_sessions._log.log import Log
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.stores._values import EventSlice


_EVERYTHING = EventFilter()
_body = itemgetter(SAID.index("body"))


def find_events(
    log: Log,
    session_id: str,
    where: EventFilter | None = None,
    *,
    cursor: str | None = None,
    with_total: bool = False,
) -> Flow[Page[SessionEvent]]:
    """`SessionService.events`."""
    check_kind(where, EventFilter, "where", "EventFilter(…), such as EventFilter(roles={'human'})")
    now = log.now()
    chosen = log.seen(where if where is not None else _EVERYTHING)
    idle = log.idle_before(now)
    query = query_of(chosen, log.codec, session_id=session_id, idle_before=idle, with_total=with_total)
    older = False
    if cursor is not None:
        direction, (at, size, *_) = decode_positions(cursor, 2, "older", "newer")
        older = direction == "older"
        query = replace(query, newest=older, offset=0, limit=query.limit or size or None)
        if older:
            query = replace(query, before_seq=at if query.before_seq is None else min(at, query.before_seq))
        else:
            query = replace(query, after_seq=max(at, query.after_seq or 0))
    found = yield from ask(log.store.find_events, log.key(session_id), query, now)
    return _page(log, session_id, found, query.limit, cursor, newest=query.newest, offset=query.offset)


def _page(
    log: Log, session_id: str, found: EventSlice, size: int | None, cursor: str | None, *, newest: bool, offset: int
) -> Page[SessionEvent]:
    items = tuple(log.encoder.event(session_id, row, found.view) for row in found.rows)
    if not items:
        return Page(items=(), total=found.total)
    # Nothing lies before position 1, and nothing before a page that takes all.
    starts = items[0].seq == 1 or size is None or (newest and len(items) < size)
    first = not newest and cursor is None and not offset
    previous = None if starts or first else encode_cursor("older", items[0].seq, size)
    return Page(
        items=items,
        next_cursor=encode_cursor("newer", items[-1].seq, size),
        previous_cursor=previous,
        total=found.total,
    )


def load_context(
    log: Log,
    session_id: str,
    *,
    branch: str | None = None,
    last_n: int | None = None,
    invocation_id: str | None = None,
) -> Flow[Context]:
    """`SessionService.context`."""
    require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
    viewer = check_branch(branch)
    found = yield from read_rows(log, session_id, viewer, invocation_id=invocation_id, last_n=last_n)
    rows = [*found.rows]
    paired = pair_tool_calls(log.codec.decode_all(session_id, rows))
    cover = found.view.ledger.covers.get(viewer)
    events = tuple(log.encoder.event(session_id, rows[index], found.view) for index, _ in paired)
    return Context(
        session_id=session_id,
        branch=viewer,
        events=events,
        messages=tuple(message for _, message in paired),
        tokens=sum(event.tokens for event in events),
        exact=log.tokens.exact,
        version=found.session.last_seq,
        compaction=0 if cover is None else cover.record,
    )


def load_messages(
    log: Log,
    session_id: str,
    *,
    branch: str | None = None,
    last_n: int | None = None,
    invocation_id: str | None = None,
) -> Flow[list[BaseMessage]]:
    """`SessionService.messages`."""
    require(last_n is None or (type(last_n) is int and last_n > 0), "last_n", "give a whole number above 0")
    viewer = check_branch(branch)
    found = yield from read_rows(log, session_id, viewer, invocation_id=invocation_id, last_n=last_n, said_only=True)
    messages = log.codec.decode_all(session_id, found.rows)
    # What a message says beside its text is in its body: without one it is neither a call nor a result.
    if {*map(_body, said_values(found.rows))} <= {None} or not has_calls(messages):
        return messages
    return [message for _, message in pair_tool_calls(messages)]


def load_turns(log: Log, session_id: str, *, branch: str | None = None) -> Flow[list[Turn]]:
    """`SessionService.turns`."""
    context = yield from load_context(log, session_id, branch=branch)
    return split_turns(context.events, branch)


def count_live(log: Log, session_id: str, *, branch: str | None = None) -> Flow[Counters]:
    """`SessionService.count`."""
    return (yield from ask(log.store.count_live, log.key(session_id), check_branch(branch), log.now()))


def load_state(log: Log, session_id: str) -> Flow[dict[str, Any]]:
    """`SessionService.state`."""
    found = yield from ask(log.store.load_state, log.key(session_id), log.now())
    try:
        return merged_view(found.session, found.user, found.app)
    except UNREADABLE as error:
        problem = f"The state of session {session_id!r} cannot be read; its log can."
        raise CorruptRowError(problem) from error
