"""What a graph's state holds of a conversation beside the log: few-shots, what was taken back, what others answered.

The log is asked for those messages by their ids, however long ago they were said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolMessage

from langchain_sessions._chat.address import LogsThreads, configurable
from langchain_sessions._chat.news import News, find_news, message_of, turn_length
from langchain_sessions._chat.store_run import STORED, append_all
from langchain_sessions._core.codec.any_message import ident_of
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.matching import query_of, sees
from langchain_sessions._core.view import call_ids
from langchain_sessions._log.log import log_of
from langchain_sessions.events import EventKind, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.selectors import WholeRuns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions._chat.address import Address
    from langchain_sessions._chat.session_memory import ChatOptions
    from langchain_sessions.stores._values import EventSlice

_CHECKPOINTER = "__pregel_checkpointer"
"""Where LangGraph tells a node what keeps its thread; None where nothing does."""
_AT_ONCE = 200
"""So many ids go into one question to the database."""


class GraphRuns:
    """Which runs of logs each run of a graph has had to do with, for as long as it lasts."""

    def __init__(self) -> None:
        """None yet."""
        self._known = WeakKeyDictionary[Any, set[str]]()

    def of(self, graph_run: object | None) -> set[str]:
        """Those of one run of a graph, to be added to; nobody's where none is known."""
        return set() if graph_run is None else self._known.setdefault(graph_run, set())


class GraphState(NamedTuple):
    """What a graph holds around a call.

    Attributes:
        messages: Its list of messages.
        is_kept: Whether it is a thread's: a checkpointer brings it back, under the same ids, in the next run.
        is_logged: Whether that checkpointer logs it.
        runs: The runs of the log that this run of the graph has had to do with.
    """

    messages: Sequence[BaseMessage] = ()
    is_kept: bool = False
    is_logged: bool = False
    runs: AbstractSet[str] = frozenset()

    def without_gone(self, events: list[SessionEvent]) -> list[SessionEvent]:
        """Events without what checkpoints of its thread logged and it has let go of.

        The checkpoint that takes one out, or that goes on from an earlier one, may still be on its way to the log.
        """
        held = {None, *(message.id for message in self.messages)}
        return [event for event in events if not event.is_in_thread or message_of(event).id in held]


NO_STATE = GraphState()


def state_of(config: RunnableConfig, messages: Sequence[BaseMessage], runs: AbstractSet[str]) -> GraphState:
    """What a node holds, by the config of its run. What a subgraph holds is no thread's own."""
    given = configurable(config)
    saver = given.get(_CHECKPOINTER)
    is_kept = saver is not None and "|" not in str(given.get("checkpoint_ns") or "")
    return GraphState(messages, is_kept, is_kept and isinstance(saver, LogsThreads), runs)


class _Found(NamedTuple):
    """What the log has of some messages.

    Attributes:
        events: Those that the agent sees.
        held: The ids of all that it has, whoever sees them.
        gone: The ids of those that a rewind took back.
    """

    events: list[SessionEvent]
    held: set[str]
    gone: set[str]


def tell_apart(
    options: ChatOptions,
    address: Address,
    news: News,
    body: Sequence[BaseMessage],
    recent: Sequence[SessionEvent],
    *,
    state: GraphState,
) -> Flow[News]:
    """Tell what of a state the log has, and log what it lacks of a thread: what a guard answered, say, or a cache.

    What the log took back is not shown. The rest of a state that no thread keeps is a few-shot.

    Args:
        options: How the conversation is kept.
        address: The session.
        news: What is thought of the request so far.
        body: The request.
        recent: The newest messages of the log.
        state: What the graph holds.
    """
    doubtful = [message for message in _in_doubt(news, body, recent) if message.id is not None]
    if not doubtful:
        return news
    found = yield from _look_up(options, address, [str(message.id) for message in doubtful])
    asked = len(body) - 1 - turn_length(body)
    if asked >= 0 and body[asked].id in found.gone:
        # The graph goes on all the same. Its model is shown what it goes on with, and what it says is nobody's.
        return News(tail=tuple(body[asked:]), newest=news.newest, is_taken_back=True)
    lost = {call for message in body if message.id in found.gone for call in call_ids(message)}
    body = [m for m in body if m.id not in found.gone and not (isinstance(m, ToolMessage) and m.tool_call_id in lost)]
    events = sorted({event.seq: event for event in (*recent, *found.events)}.values(), key=lambda event: event.seq)
    news = find_news(body, events, state.runs, is_thread=state.is_kept)
    if not state.is_kept:
        return news
    run_of = {id(message): run for run, ending in news.ended.items() for message in ending}
    lacking = [m for m in (*news.examples, *news.between) if m.id is not None and m.id not in found.held]
    if isinstance(options.store, WholeRuns):
        lacking = [message for message in lacking if id(message) not in run_of]
    told = [
        NewEvent(message=m, author=options.author_of(m), branch=options.branch, invocation_id=run_of.get(id(m)))
        for m in options.store(lacking)
    ]
    if not told:
        return news
    stored: list[SessionEvent] = yield from append_all(address, told)
    news = find_news(body, [*events, *stored], state.runs, is_thread=True)
    return replace(news, told=tuple(stored))


def _in_doubt(news: News, body: Sequence[BaseMessage], recent: Sequence[SessionEvent]) -> Iterator[BaseMessage]:
    """What may have been said longer ago than the newest messages of the log."""
    yield from news.examples
    yield from news.between
    asked = next((at for at in range(len(body) - 1, -1, -1) if body[at].type == "human"), 0)
    # A turn that goes on, while others said a lot.
    if asked < len(body) - 1 and all(message_of(event).id != body[asked].id for event in recent):
        yield from body[asked:]


def _look_up(options: ChatOptions, address: Address, ids: Sequence[str]) -> Flow[_Found]:
    """What the log has of some messages, wherever they stand in it."""
    log = log_of(address.sessions)
    wanted = EventFilter(kinds=frozenset({EventKind.MESSAGE}), standings=STORED | {Standing.REWOUND}, synthetic=False)
    events: list[SessionEvent] = []
    held: set[str] = set()
    gone: set[str] = set()
    for begin in range(0, len(ids), _AT_ONCE):
        now = log.now()
        named = {ident: one for one in ids[begin : begin + _AT_ONCE] if (ident := ident_of(one)[0]) is not None}
        query = replace(query_of(wanted, log.codec, idle_before=log.idle_before(now)), idents=frozenset(named))
        found: EventSlice = yield from ask(log.store.find_events, log.key(address.session_id), query, now)
        for row in found.rows:
            if found.view.standing(row) is Standing.REWOUND:
                gone.add(named[row.ident])
                continue
            held.add(named[row.ident])
            if sees(options.branch, row):
                events.append(log.encoder.event(address.session_id, row, found.view))
    return _Found(events, held, gone - held)
