"""What is new in a request: the part that the log does not hold yet."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue

from langchain_sessions._chat.endings import ending_of
from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._core.edge import MAX_ID
from langchain_sessions._core.rows import TURN_OF
from langchain_sessions._core.view import call_ids
from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import Standing
from langchain_sessions.selectors import not_empty

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_sessions.events import SessionEvent

_RESUMABLE = frozenset({Standing.FAILED, Standing.INTERRUPTED, Standing.OPEN})
_UNANSWERED = frozenset({Standing.FAILED, Standing.OPEN})
_SOURCE, _SUMMARIZED = "lc_source", "summarization"
"""How LangChain's own middleware signs the summary that it puts in the place of messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request, sorted.

    Attributes:
        system: Its system messages.
        body: All others, in order.
        summary: What a middleware of LangChain put in the place of earlier messages; what the body does not carry was
            summarised, and is not shown beside it.
    """

    system: tuple[SystemMessage, ...]
    body: tuple[BaseMessage, ...]
    summary: tuple[BaseMessage, ...] = ()

    def carries(self, message: BaseMessage) -> bool:
        """Whether a message that the log holds may be shown."""
        return not self.summary or any(one.id == message.id for one in self.body)


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """How a request relates to the log.

    Attributes:
        examples: Messages that the log does not hold and that nobody said just now: few-shots of a template.
        tail: The running turn as the request carries it, the news included, and what others said just before it.
        fresh: The messages to store.
        start: Where the running turn starts in the context; None where it starts with the news.
        invocation_id: The run that the request continues or repeats; None for a new one.
        stored: How many messages of that run the log holds.
        is_open: Whether the log says already that the run goes on.
        others: The runs of further questions that are asked along with this one, and where they stand.
        given_up: Runs that the request shows to be over, though nobody ended them.
        ended: Of those the ones that somebody else ended with an answer, and what of that the log does not hold.
        between: What of the tail others said just before it.
        told: What of a graph's state was logged just now, since others had answered.
        newest: The last position of the log that was looked at for it.
        answers: The last position of the running turn that the log had; 0 where it had nothing of it.
        is_taken_back: A rewind took back the question of the running turn: nothing more of that is stored.
    """

    examples: tuple[BaseMessage, ...] = ()
    tail: tuple[BaseMessage, ...] = ()
    fresh: tuple[BaseMessage, ...] = ()
    start: int | None = None
    invocation_id: str | None = None
    stored: int = 0
    is_open: bool = False
    others: Mapping[str, Standing] = field(default_factory=dict[str, Standing])
    given_up: tuple[str, ...] = ()
    ended: Mapping[str, Sequence[BaseMessage]] = field(default_factory=dict[str, "Sequence[BaseMessage]"])
    between: tuple[BaseMessage, ...] = ()
    told: tuple[SessionEvent, ...] = ()
    newest: int = 0
    answers: int = 0
    is_taken_back: bool = False


def message_of(event: SessionEvent) -> BaseMessage:
    """The message of an event of a context: such events have one."""
    return cast("BaseMessage", event.message)


def run_of(event: SessionEvent) -> str | None:
    """The run that an event belongs to: its invocation, or what a question from before any run gives its name."""
    if event.invocation_id is not None or not isinstance(event.message, HumanMessage):
        return event.invocation_id
    name = TURN_OF + (event.message.id or event.id)
    return name if len(name) <= MAX_ID else None


def as_messages(value: object) -> list[BaseMessage]:
    """Whatever a chat model takes, as messages; the objects of the caller stay what they are.

    Raises:
        InvalidInputError: It cannot be understood as messages.
    """
    if isinstance(value, str):
        return [HumanMessage(value)]
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, Sequence):
        return convert_to_messages(value)
    raise InvalidInputError(
        "input",
        f"a {type(value).__name__} is no message; name its keys: memory.wrap(chain, input_key=..., history_key=...)",
    )


def sort_request(messages: Sequence[BaseMessage]) -> Request:
    """Part the system messages, and summaries that somebody else made, from what was said."""
    others = [message for message in messages if not isinstance(message, SystemMessage)]
    summary = [message for message in others if message.additional_kwargs.get(_SOURCE) == _SUMMARIZED]
    return Request(
        system=tuple(message for message in messages if isinstance(message, SystemMessage)),
        body=tuple(message for message in others if all(message is not one for one in summary))
        if summary
        else tuple(others),
        summary=tuple(summary),
    )


def likeness(message: BaseMessage) -> tuple[object, ...]:
    """What makes two messages without ids the same: type, content and calls. Metadata is not compared."""
    calls: tuple[object, ...] = ()
    answered = None
    if isinstance(message, AIMessage):
        calls = tuple((call["id"], call["name"], repr(call["args"])) for call in message.tool_calls)
    elif isinstance(message, ToolMessage):
        answered = message.tool_call_id
    kind = message.type.removesuffix("MessageChunk").lower()
    # Blocks of thoughts come and go between providers and clients, and texts come as a string or as one block.
    return kind, str(message.text), repr(_media(message.content)), calls, answered


def _media(content: str | list[Any]) -> list[Any]:
    """The blocks that are neither text nor calls nor thoughts."""
    if isinstance(content, str):
        return []
    skipped = ("text", "reasoning", "thinking", "tool_use", "tool_call", "function_call")
    return [block for block in content if isinstance(block, dict) and block.get("type") not in skipped]


def says_one_thing(body: Sequence[BaseMessage]) -> bool:
    """Whether a request is one question, which carries nothing that the log may hold already."""
    return len(body) == 1 and isinstance(body[0], HumanMessage)


def results_alone(body: Sequence[BaseMessage]) -> Sequence[ToolMessage]:
    """The results of a request that is nothing else."""
    results = [message for message in body if isinstance(message, ToolMessage)]
    return results if len(results) == len(body) else ()


def turn_length(body: Sequence[BaseMessage]) -> int:
    """How many messages of a request follow its last question; all where it has none."""
    return next((at for at, message in enumerate(reversed(body)) if isinstance(message, HumanMessage)), len(body))


def find_news(
    body: Sequence[BaseMessage],
    recent: Sequence[SessionEvent],
    ours: Container[str] = (),
    *,
    is_thread: bool = False,
) -> News:
    """Tell what a request adds to a log.

    A message of the request is in the log if an event has its id, whatever else differs; or if it belongs to a run
    of messages that equals the newest events, which is how hand-written tool loops re-send a turn. What follows the
    last such message and the last AI message that is not in the log is new. So are results of the running turn's
    calls, wherever they stand.

    Args:
        body: The request without its system messages.
        recent: The newest message events of the log in log order, archived, failed and running ones included.
        ours: Runs that what makes this request has had to do with: while they are open they go on, whatever is said in
            their middle.
        is_thread: Whether a graph's thread carries the request: what it holds is the conversation, so a run that counts
            as failed is done where an answer stands behind it.
    """
    # Half a reply that failed, and a summary, are nothing that a caller could send again.
    said = (event for event in recent if not isinstance(event.message, SystemMessage))
    events = [event for event in said if event.error_code is None and not event.is_synthetic]
    by_id = _known_by_id(body, events)
    known = _known_results(body, events) | by_id | _known_run(body, events)
    last_known = max(known, default=-1)
    last_foreign = max((at for at in range(last_known + 1, len(body)) if isinstance(body[at], AIMessage)), default=-1)
    first_new = max(last_known, last_foreign) + 1
    if last_known < last_foreign and first_new < len(body) and isinstance(body[first_new], ToolMessage):
        # A loop that began without memory: the question and the calls belong to the turn that goes on.
        asked = (at for at in range(last_foreign, last_known, -1) if isinstance(body[at], HumanMessage))
        first_new = next(asked, first_new)
    fresh = list(body[first_new:])
    going_on = _going_on(known, ours)
    if going_on is None and (any(isinstance(message, HumanMessage) for message in fresh) or last_known < 0):
        news = _begun(body, fresh, first_new, last_known, events)
    else:
        news = _continued(body, fresh, first_new, known, events, going_on=going_on)
    news = replace(news, newest=max(map(attrgetter("seq"), recent), default=0))
    earlier = len(body) - len(news.tail)
    news = replace(news, answers=max((event.seq for at, event in known.items() if at >= earlier), default=news.answers))
    unanswered = _UNANSWERED if is_thread else _UNANSWERED - {Standing.FAILED}
    left = {at: event for at, event in by_id.items() if at < earlier and event.standing in unanswered}
    over: dict[str, list[int]] = {}
    for at in sorted(left):
        run = run_of(left[at])
        if run is not None and run != news.invocation_id:
            over.setdefault(run, []).append(at)
    if not over:
        return news
    endings = {run: ending_of(body, places, known) for run, places in over.items()}
    ended = {run: ending for run, ending in endings.items() if ending is not None}
    given_up = (run for run, places in over.items() if run in ended or left[places[-1]].standing is Standing.OPEN)
    return replace(news, given_up=tuple(given_up), ended=ended)


def _going_on(known: Mapping[int, SessionEvent], ours: Container[str]) -> str | None:
    """The open run of ours that the newest message of a run belongs to; what a checkpoint logged behind it has none."""
    named = (known[at].invocation_id for at in sorted(known, reverse=True) if known[at].invocation_id is not None)
    newest = next(named, None)
    # While a checkpoint is on its way some of a run may stand as what the thread no longer holds.
    is_open = any(run_of(event) == newest and event.standing is Standing.OPEN for event in known.values())
    return newest if newest is not None and newest in ours and is_open else None


def _known_by_id(body: Sequence[BaseMessage], events: Sequence[SessionEvent]) -> dict[int, SessionEvent]:
    by_id = {message_of(event).id: event for event in events if message_of(event).id}
    known = {at: by_id[message.id] for at, message in enumerate(body) if message.id in by_id}
    for at in sorted(known, reverse=True):
        if _says_something_else(at, body, known, events):
            del known[at]
    for at in range(len(body) - 2, -1, -1):
        # A question that the log had to store under another id stands before the reply that it got.
        if at not in known and at + 1 in known and isinstance(body[at], HumanMessage):
            before = _before_in_run(known[at + 1], events)
            if before is not None and likeness(message_of(before)) == likeness(body[at]):
                known[at] = before
    return known


def _says_something_else(
    at: int, body: Sequence[BaseMessage], known: Mapping[int, SessionEvent], events: Sequence[SessionEvent]
) -> bool:
    """Whether a question has the id of an earlier one, which was answered by itself: somebody counts anew."""
    event = known[at]
    if not isinstance(body[at], HumanMessage) or equal(message_of(event).content, body[at].content):
        return False
    if likeness(message_of(event)) == likeness(body[at]):
        return False
    following = next((known[n] for n in range(at + 1, len(body)) if n in known), None)
    if following is not None:
        return run_of(following) != run_of(event) and not isinstance(following.message, HumanMessage)
    return any(isinstance(reply.message, AIMessage) and run_of(reply) == run_of(event) for reply in events)


def _before_in_run(event: SessionEvent, events: Sequence[SessionEvent]) -> SessionEvent | None:
    """What the log holds of the same run just before an event."""
    before = None
    for other in events:
        if other is event:
            return before
        if run_of(other) == run_of(event):
            before = other
    return None


def _known_results(body: Sequence[BaseMessage], events: Sequence[SessionEvent]) -> dict[int, SessionEvent]:
    """Results that stand alone and come again: their call's run holds the same behind it."""
    known: dict[int, SessionEvent] = {}
    for at, result in enumerate(results_alone(body)):
        if (asked := asking_event(result.tool_call_id, events)) is None:
            continue
        # What stands further up may have answered an earlier call: some count their calls anew.
        behind = (event for event in events if event.position > asked.position)
        run = (event for event in behind if event.invocation_id == asked.invocation_id)
        same = next((event for event in run if likeness(message_of(event)) == likeness(result)), None)
        known.update({} if same is None else {at: same})
    return known


def _known_run(body: Sequence[BaseMessage], events: Sequence[SessionEvent]) -> dict[int, SessionEvent]:
    """The longest run of the request that equals the newest events and starts with a question."""
    ours = [likeness(message) for message in body]
    newest = events[-len(ours) :] if ours else ()
    theirs = [likeness(message_of(event)) for event in newest]
    for end in range(len(ours), 0, -1):
        length = 0
        while length < min(end, len(theirs)) and ours[end - 1 - length] == theirs[-1 - length]:
            length += 1
        start = end - length
        run = list(events[len(events) - length :])
        if length and _is_whole_run(body, start, run):
            return dict(zip(range(start, end), run, strict=True))
    return {}


def _is_whole_run(body: Sequence[BaseMessage], start: int, run: Sequence[SessionEvent]) -> bool:
    """Whether a run of equal messages is one conversation sent again, and not the same words said twice."""
    if not isinstance(body[start], HumanMessage) and start > 0:
        return False
    if start > 0 and not isinstance(body[start - 1], AIMessage):
        return False
    if any(isinstance(event.message, AIMessage) for event in run):
        return True
    # An unanswered question: asked again after a failure, or appended by the application just before the call.
    return all(event.standing is Standing.FAILED or event.invocation_id is None for event in run)


def _begun(
    body: Sequence[BaseMessage],
    fresh: Sequence[BaseMessage],
    first_new: int,
    last_known: int,
    events: Sequence[SessionEvent],
) -> News:
    """A request that says something new, or results that stand alone."""
    invocation, stored, answers = None, 0, 0
    if fresh and isinstance(fresh[0], ToolMessage):
        asked = asking_event(fresh[0].tool_call_id, events)
        if asked is not None:
            invocation, answers = asked.invocation_id, asked.seq
        stored = _count(invocation, events)
    # What nobody said just now are few-shots, or what others said behind the last message that the log holds.
    between = body[last_known + 1 : first_new]
    is_template = last_known < 0
    return News(
        examples=tuple(between) if is_template else (),
        tail=tuple(fresh) if is_template else (*not_empty(between), *fresh),
        fresh=tuple(fresh),
        between=() if is_template else tuple(between),
        invocation_id=invocation,
        stored=stored,
        answers=answers,
    )


def asking_event(call_id: str, events: Sequence[SessionEvent]) -> SessionEvent | None:
    """The newest event that made the call which a result answers."""
    for event in reversed(events):
        if call_id in call_ids(message_of(event)):
            return event
    return None


def _continued(
    body: Sequence[BaseMessage],
    fresh: Sequence[BaseMessage],
    first_new: int,
    known: dict[int, SessionEvent],
    events: Sequence[SessionEvent],
    *,
    going_on: str | None,
) -> News:
    """A request that carries on with a turn that the log knows, or with a run."""
    begun = (at for at in sorted(known) if going_on is not None and run_of(known[at]) == going_on)
    start = next(begun, None)
    if start is None:
        start = _start_of_turn(body, first_new, known)
    turn = _KnownTurn(start, {at: known[at] for at in sorted(known) if at >= start})
    missed = [m for at, m in enumerate(body[start:first_new], start) if at not in known and _is_missed(m, events)]
    added = [*missed, *fresh]
    invocation = going_on or turn.run_to_go_on(says_more=bool(added))
    standings = turn.standings
    before = body[:start]
    is_template = start <= min(known, default=start) and all(message.id is None for message in before)
    return News(
        examples=tuple(before) if is_template else (),
        tail=tuple(body[start:]),
        fresh=tuple(added),
        start=None if turn.first is None else turn.first.position,
        invocation_id=invocation,
        stored=_count(invocation, turn.events.values()),
        is_open=standings.get(invocation or "") is Standing.OPEN,
        others={run: where for run, where in standings.items() if run != invocation and run.startswith(TURN_OF)},
    )


class _KnownTurn(NamedTuple):
    """The running turn as far as the log holds it: where it starts in the request, and its events by their place."""

    start: int
    events: Mapping[int, SessionEvent]

    @property
    def first(self) -> SessionEvent | None:
        """The event that it begins with."""
        return self.events.get(self.start) or next(iter(self.events.values()), None)

    @property
    def standings(self) -> dict[str, Standing]:
        """Its runs, and where the last event of each stands."""
        named = ((run_of(event), event.standing) for event in self.events.values())
        return {run: standing for run, standing in named if run is not None}

    def run_to_go_on(self, *, says_more: bool) -> str | None:
        """The run that the reply belongs to; None where the turn is over and the same is asked once more."""
        is_over = bool(self.events) and all(event.standing not in _RESUMABLE for event in self.events.values())
        is_answered = any(isinstance(event.message, AIMessage) for event in self.events.values())
        if is_over and is_answered and not says_more:
            return None
        named = (event.invocation_id for event in self.events.values() if event.invocation_id is not None)
        # Of several questions the last names the run: the reply belongs behind it.
        return next(named, None) or next(reversed(self.standings), None)


def _is_missed(message: BaseMessage, events: Sequence[SessionEvent]) -> bool:
    """Whether a message of the running turn should be in the log: a result, or calls that the log does not know."""
    calls = call_ids(message)
    unknown = bool(calls) and all(asking_event(call, events) is None for call in calls)
    return unknown or isinstance(message, ToolMessage)


def _start_of_turn(body: Sequence[BaseMessage], first_new: int, known: dict[int, SessionEvent]) -> int:
    """Where the newest question stands, with those that were logged together with it."""
    start = max((at for at in range(first_new) if isinstance(body[at], HumanMessage)), default=0)
    while start in known and start - 1 in known and isinstance(body[start - 1], HumanMessage):
        before, after = known[start - 1], known[start]
        if before.seq + 1 != after.seq or before.invocation_id != after.invocation_id:
            break
        start -= 1
    return start


def _count(invocation: str | None, events: Iterable[SessionEvent]) -> int:
    return 0 if invocation is None else sum(event.invocation_id == invocation for event in events)
