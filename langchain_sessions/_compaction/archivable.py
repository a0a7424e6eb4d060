"""What of a scope may be archived, whatever a strategy wants: pure decisions over events.

The events of a scope fall into *segments*: its turns, and what precedes the first. A sub-agent's branch often has
no human message at all; there a segment is one piece of work, up to an answer without calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import SystemMessage, ToolMessage

from langchain_sessions._core.view import call_ids
from langchain_sessions.events import SessionEvent, Standing
from langchain_sessions.turns import Turn, split_turns, starts_turn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_FINISHED = (Standing.LIVE, Standing.INTERRUPTED)


def is_summary(event: SessionEvent) -> bool:
    """Whether a compaction made the event: it names what it stands for."""
    return event.is_synthetic and bool(event.covers)


def spoken(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """The events without summaries."""
    return [event for event in events if not is_summary(event)]


def split_segments(events: Iterable[SessionEvent], scope: str | None) -> list[Turn]:
    """The turns of a scope in context order, summaries left out; see the module for branches without a human."""
    turns = split_turns(spoken(events), scope)
    if scope is None or not turns or not turns[0].is_preamble:
        return turns
    return [*_split_work(turns[0]), *turns[1:]]


def _split_work(preamble: Turn) -> list[Turn]:
    pieces: list[list[SessionEvent]] = []
    finished = True
    for event in preamble:
        changed = bool(pieces) and pieces[-1][-1].invocation_id != event.invocation_id
        if finished or changed:
            pieces.append([])
        pieces[-1].append(event)
        message = event.message
        finished = message is not None and message.type == "ai" and not call_ids(message)
    return [Turn(events=tuple(piece), branch=preamble.branch) for piece in pieces]


def pinned(events: Sequence[SessionEvent]) -> SessionEvent | None:
    """The newest system message: it stays in force however old it is, and costs no place in a window."""
    return next((event for event in reversed(events) if isinstance(event.message, SystemMessage)), None)


def choose_archived(
    events: Sequence[SessionEvent], scope: str | None, wanted: Iterable[SessionEvent]
) -> tuple[SessionEvent, ...]:
    """The part of `wanted` that may go, in context order.

    Kept are: the newest turn; a turn that an open invocation, an open long-running call or an unanswered call of
    the newest run belongs to; a tool call whose results stay, and the other way round; a human message unless its
    whole turn goes. A call of an older turn that will never be answered goes with its turn.
    """
    segments = split_segments(events, scope)
    names = {event.seq for event in wanted}
    partners = _pairs(event for segment in segments for event in segment)
    held = _held(segments, partners)
    chosen: list[SessionEvent] = []
    for segment in segments:
        if not held.isdisjoint(event.seq for event in segment):
            continue
        going = _whole_pairs({event.seq for event in segment} & names, partners, names)
        if starts_turn(segment.events[0]) and not all(
            event.seq in going or isinstance(event.message, SystemMessage) for event in segment
        ):
            going.discard(segment.first_seq)
        chosen += [event for event in segment if event.seq in going]
    return tuple(chosen)


def _pairs(events: Iterable[SessionEvent]) -> dict[int, set[int]]:
    """For each event with tool calls or a result the seqs of the whole exchange, itself included."""
    asked: dict[str, list[SessionEvent]] = {}
    exchange: dict[int, set[int]] = {}
    for event in events:
        if event.message is None:
            continue
        for call in call_ids(event.message):
            asked.setdefault(call, []).append(event)
            exchange.setdefault(event.seq, {event.seq})
        if isinstance(event.message, ToolMessage) and (callers := asked.get(event.message.tool_call_id)):
            # The nearest call that has no answer yet, as the context pairs them: an id may be used again.
            together = exchange[callers.pop().seq]
            together.add(event.seq)
            exchange[event.seq] = together
    return exchange


def _held(segments: Sequence[Turn], partners: dict[int, set[int]]) -> set[int]:
    """Seqs of every segment that has to stay, with the segments that a late result ties to one of them."""
    if not segments:
        return set()
    newest = segments[-1]
    answered = _answered(event for segment in segments for event in segment)
    # What the newest run has asked may still be answered, in whatever turn it asked.
    running = {event.invocation_id for event in newest} - {None}
    held = {event.seq for event in newest}
    for segment in segments[:-1]:
        if any(_is_going_on(event, answered, running) for event in segment):
            held |= {event.seq for event in segment}
    grown = True
    # Until nothing is tied to what stays: a late result may tie a turn to one that is itself held by another.
    while grown:
        grown = False
        for segment in segments:
            own = {event.seq for event in segment}
            tied = set().union(*(partners.get(seq, ()) for seq in own))
            if not own <= held and tied & held:
                held |= own
                grown = True
    return held


def _is_going_on(event: SessionEvent, answered: Collection[str], running: Collection[str | None]) -> bool:
    if event.standing not in _FINISHED:
        return True
    if any(call not in answered for call in event.long_running_tool_ids):
        return True
    if event.message is None or event.invocation_id not in running:
        return False
    return any(call not in answered for call in call_ids(event.message))


def _answered(events: Iterable[SessionEvent]) -> set[str]:
    return {event.message.tool_call_id for event in events if isinstance(event.message, ToolMessage)}


def _whole_pairs(going: set[int], partners: dict[int, set[int]], wanted: Collection[int]) -> set[int]:
    return {seq for seq in going if all(other in wanted for other in partners.get(seq, ()))}
