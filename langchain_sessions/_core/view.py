"""The one view that prompts, token counts and compaction share.

The order of the steps is fixed: rewinds, edits, compactions, branch visibility, runs, window, tool pairing. All but
the last are about rows: `context_rows`, which every store ends its `load_context` with. The last looks at whole
messages: `pair_tool_calls`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter, itemgetter, ne
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_sessions._core.edge import pointing
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.message_types import FIRST_RECORD
from langchain_sessions._core.ranges import NO_SEQS, SeqSet, are_ascending
from langchain_sessions._core.rows import PLAIN, ROOTED, SAID, SUMMARY, EventRow, plain_rows
from langchain_sessions._core.showing import html_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions.events import SessionEvent

_log = logging.getLogger(__name__)
MOST_READS: Final = 5
"""How often a thread is read that gets one checkpoint after the other meanwhile."""
_ELSEWHERE = ROOTED | SUMMARY
"""Where such a row stands a thread or a compaction says."""
_run_of = attrgetter("invocation_id")
_said_of = itemgetter(*map(EventRow._fields.index, SAID))
_said_in = itemgetter(slice(len(SAID)))
_named_run = itemgetter(SAID.index("invocation_id"))
_UNREAD = (0,) * (len(PLAIN) - len(SAID))
# Where clients note why a reply ended: OpenAI's and most, Anthropic and Bedrock Converse, Ollama.
_END_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")

_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking", "reasoning_content"})
"""Kinds of what a model says to itself, as its clients write them."""
CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens", "model_context_window_exceeded"})
"""What is said of a reply that did not come to its end: its own limit was reached, or the window was full."""


@pointing
@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What the model is to see of a session, from one branch.

    Attributes:
        session_id: The session.
        branch: The viewer's branch; None is root.
        events: The standing events in context order; tool calls whole.
        messages: Their messages, in the same order. A call that was never answered is left out of its message.
        tokens: What the messages count for.
        exact: Whether that count is exact.
        version: The version of the log that this was read at.
        compaction: Record of the compaction in force for the viewer's own scope; 0 for none.
    """

    session_id: str
    branch: str | None
    events: tuple[SessionEvent, ...]
    messages: tuple[BaseMessage, ...]
    tokens: int
    exact: bool
    version: int
    compaction: int = 0

    def __iter__(self) -> Iterator[BaseMessage]:
        """Over the messages."""
        return iter(self.messages)

    def __len__(self) -> int:
        """How many messages."""
        return len(self.messages)

    def __repr__(self) -> str:
        """Short: whose it is, and its size."""
        branch = "" if self.branch is None else f" for {self.branch}"
        return f"<Context of {self.session_id!r}{branch}: {self._size()}>"

    def _size(self) -> str:
        about = "" if self.exact else "about "
        return f"{len(self.messages)} messages, {about}{self.tokens} tokens, version {self.version}"

    def _repr_html_(self) -> str:
        return html_of(f"Context of session {self.session_id!r}: {self._size()}", self.events)


def context_rows(
    rows: Iterable[EventRow], view: LogView, viewer: str | None, invocation_id: str | None, last_n: int | None
) -> list[EventRow]:
    """Of a log's rows the messages that stand in a viewer's context, in the order of a prompt.

    Args:
        rows: At least those that may stand there; what does not is left out.
        view: Where they stand.
        viewer: The branch that looks: it sees root, its ancestors and itself.
        invocation_id: The running invocation, whose own messages are seen.
        last_n: At most the newest so many.
    """
    scopes = visible_scopes(viewer)  # once: this runs for every row of every read
    said: list[EventRow] = []
    flags = 0
    for row in rows:
        if row.kind < FIRST_RECORD and (row.branch in scopes or row.flags & ROOTED):
            said.append(row)
            flags |= row.flags
    if view.is_plain and not flags & _ELSEWHERE:
        shown = sorted(said)
    else:
        shown = view.ordered(row for row in said if view.in_context(row, invocation_id))
    # The window is cut before runs are put together: a database reads the newest rows and knows no others.
    return runs_together(shown if last_n is None else shown[-last_n:])


def elsewhere(view: LogView, since: int = 1) -> SeqSet:
    """Events that stand at another place than their own, wherever they were logged.

    They are summaries, what compactions left out, and of messages that were edited the revisions that stand: of a
    message that was edited four hundred times it is one.

    Args:
        view: Where events stand.
        since: Only those whose place is this one or behind it.
    """
    replaced = view.ledger.superseded
    found = {edit.seq for edit in view.ledger.edits if edit.position >= since}
    found = {seq for seq in found if seq not in replaced or (view.head and view.edit_of(seq) is None)}
    holes = NO_SEQS
    for cover in view.ledger.covers.values():
        holes = holes | cover.holes
        if cover.first >= since:
            found.update(cover.summaries)
    return SeqSet.of(found) | (holes & SeqSet.between(since, view.last_seq))


def replaced(view: LogView) -> SeqSet:
    """Events in whose place an edit stands: they would take up room in a window of newest rows."""
    found = view.ledger.superseded
    return SeqSet.of(seq for seq in found if view.edit_of(seq) is not None) if view.head else SeqSet.of(found)


def is_reordered(view: LogView) -> bool:
    """Whether a thread lists messages in another order than they were logged in: its newest may be old rows then."""
    return view.head is not None and not are_ascending(view.head)


def listed_back(view: LogView, size: int) -> Iterator[SeqSet]:
    """What a thread lists and no compaction has archived, from the end of its list, some at a time.

    A window needs no more of it than it holds. What is logged beside the thread stands behind the last listed event
    that was logged before it: however little of the list is read, the newest of that stand in their order, and what
    would stand before all that is read comes first.
    """
    cover = view.ledger.covers.get(None)
    upto, holes = (0, NO_SEQS) if cover is None else (cover.upto, cover.holes)
    back = (seq for low, high in reversed(view.head or ()) for seq in range(high, low - 1, -1))
    left = (seq for seq in back if seq > upto or seq in holes)
    while some := [*islice(left, size)]:
        yield SeqSet.of(some)
        size *= 4


class PlainRows(Sequence[EventRow]):
    """`plain_rows` that are made when somebody asks for them.

    Attributes:
        values: The `PLAIN` columns of each, or the `SAID` ones where nobody asks for more.
    """

    __slots__ = ("values",)

    def __init__(self, values: list[tuple[Any, ...]]) -> None:
        """Hold what was read."""
        self.values = values

    @property
    def said(self) -> list[tuple[Any, ...]]:
        """The `SAID` columns of each."""
        values = self.values
        return [*map(_said_in, values)] if values and len(values[0]) > len(SAID) else values

    @property
    def runs(self) -> list[str | None]:
        """The run of each."""
        return [*map(_named_run, self.values)]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.values)

    def __iter__(self) -> Iterator[EventRow]:
        """Make them all."""
        values = self.values
        is_whole = not values or len(values[0]) == len(PLAIN)
        return iter(plain_rows(values if is_whole else [value + _UNREAD for value in values]))

    @overload
    def __getitem__(self, at: int) -> EventRow: ...

    @overload
    def __getitem__(self, at: slice) -> PlainRows: ...

    def __getitem__(self, at: int | slice) -> EventRow | PlainRows:
        """Make one."""
        if isinstance(at, slice):
            return PlainRows(self.values[at])
        (row,) = PlainRows([self.values[at]])
        return row


def said_values(rows: Sequence[EventRow]) -> Iterable[tuple[Any, ...]]:
    """The `SAID` columns of some rows."""
    return rows.said if type(rows) is PlainRows else map(_said_of, rows)


def are_together(named: list[str | None]) -> bool:
    """Whether rows whose runs have these names stand as `runs_together` has them."""
    distinct = set(named)
    # Nearly always: without a name each row is a run of its own, and named runs seldom cross.
    return len(distinct) <= 1 or (None not in distinct and len(distinct) == 1 + sum(map(ne, named, named[1:])))


def runs_together(rows: list[EventRow]) -> list[EventRow]:
    """The rows of a context with those of each run side by side, where the run began.

    Two tabs that talk at once are logged in between each other. A prompt in which two questions come before two
    answers is refused by strict providers and misread by others, so the log keeps the order in which things
    happened, and every view of it keeps the turns whole.
    """
    if are_together([*map(_run_of, rows)]):
        return rows
    groups: dict[str, list[EventRow]] = {}
    for row in rows:
        groups.setdefault(row.run or row.ident, []).append(row)
    return [row for group in groups.values() for row in group]


class Paired(NamedTuple):
    """A message that belongs into a prompt, and where it stood in the input."""

    at: int
    message: BaseMessage


def pair_tool_calls(messages: Sequence[BaseMessage]) -> list[Paired]:
    """Make the tool calls of a conversation valid for every provider.

    Each result follows directly after its call, whatever was logged between. A result without a call is dropped
    with a warning. A call without a result is left out of its message, unless it belongs to the last AI message
    of the running turn: that one is still being worked on. A message of which nothing is left is dropped.
    """
    if not has_calls(messages):
        return [Paired(index, message) for index, message in enumerate(messages)]
    answers, orphans = _match_results(messages)
    if orphans:
        _log.warning("Left %d tool results without a call out of a prompt.", orphans)
    running = _running_call(messages)
    paired: list[Paired] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        calls = call_ids(message)
        if not calls:
            paired.append(Paired(index, message))
            continue
        dead = [call for call in calls if call not in answers.get(index, {})] if index != running else []
        kept = without_calls(message, dead) if dead else message
        if kept is not None:
            paired.append(Paired(index, kept))
            paired.extend(Paired(at, messages[at]) for at in sorted(answers.get(index, {}).values()))
    return paired


def has_calls(messages: Sequence[BaseMessage]) -> bool:
    """Whether there is a call or a result among some messages: most conversations have neither."""
    for message in messages:
        if isinstance(message, AIMessage):
            if message.tool_calls or message.invalid_tool_calls:
                return True
        elif isinstance(message, ToolMessage):
            return True
    return False


def _match_results(messages: Sequence[BaseMessage]) -> tuple[dict[int, dict[str, int]], int]:
    """For each calling message its results by call id, as indexes; and how many results match no call.

    A result answers the nearest earlier call of its id that has no answer yet, so an id may be used again.
    """
    asked: dict[str, list[int]] = {}
    answers: dict[int, dict[str, int]] = {}
    orphans = 0
    for index, message in enumerate(messages):
        for call in call_ids(message):
            asked.setdefault(call, []).append(index)
        if not isinstance(message, ToolMessage):
            continue
        open_calls = asked.get(message.tool_call_id, [])
        if open_calls:
            # The newest first: an id that is used twice was asked again, and the answer is to the later one.
            answers.setdefault(open_calls.pop(), {})[message.tool_call_id] = index
        else:
            orphans += 1
    return answers, orphans


def _running_call(messages: Sequence[BaseMessage]) -> int | None:
    """The calling message that is still being worked on: the last AI message, with nothing but results after it."""
    for index in range(len(messages) - 1, -1, -1):
        if not isinstance(messages[index], ToolMessage):
            return index if isinstance(messages[index], AIMessage) else None
    return None


_CALLERS_TOOLS = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call"})


def call_ids(message: BaseMessage) -> list[str]:
    """The ids of the tool calls that a message makes, malformed ones included: providers expect answers to both."""
    if not isinstance(message, AIMessage):
        return []
    named = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls) if call["id"]]
    if isinstance(message.content, str):
        return named
    # OpenAI's own tools that the caller executes are called in the content alone.
    blocks = [
        block for block in message.content if isinstance(block, dict) and str(block.get("type")) in _CALLERS_TOOLS
    ]
    return named + [block["call_id"] for block in blocks if isinstance(block.get("call_id"), str)]


def why_ended(reply: BaseMessage) -> str:
    """Why a reply ended, in the provider's words, in lower case; empty where it does not say."""
    told: dict[str, Any] = reply.response_metadata
    reason = next((told[key] for key in _END_KEYS if told.get(key)), None)
    if reason is None and told.get("status") == "incomplete":  # OpenAI's Responses API
        details = told.get("incomplete_details")
        reason = cast("dict[str, Any]", details).get("reason") if isinstance(details, dict) else None
    return str(reason or "").lower()


def is_cut(reply: object) -> bool:
    """Whether a reply ended before its end; what is no message does not say."""
    return isinstance(reply, BaseMessage) and why_ended(reply) in CUT


def without_calls(message: BaseMessage, dead: Sequence[str]) -> BaseMessage | None:
    """A copy of a message without some of its calls; None when nothing would be left of it."""
    if not isinstance(message, AIMessage):
        return message
    gone = set(dead)
    changes: dict[str, Any] = {
        "tool_calls": [call for call in message.tool_calls if call["id"] not in gone],
        # The same call may stand in four places of a message, and a provider reads any of them.
        "invalid_tool_calls": [call for call in message.invalid_tool_calls if call["id"] not in gone],
        "content": _without_blocks(message.content, gone),
        "additional_kwargs": _without_raw_calls(message.additional_kwargs, gone),
    }
    named = changes["tool_calls"] or changes["invalid_tool_calls"]
    if not named and isinstance(changes["content"], list):
        # What led to the calls goes with them: nobody takes a thought that nothing follows.
        while changes["content"] and is_thought(changes["content"][-1]):
            changes["content"].pop()
    left = named or _has_words(changes["content"])
    return message.model_copy(update=changes) if left else None


def _without_blocks(content: Any, gone: set[str]) -> Any:
    if not isinstance(content, list):
        return content
    blocks: list[Any] = content
    return [
        block
        for block in blocks
        if not (isinstance(block, dict) and "call" in f"{block.get('type', '')}".replace("tool_use", "call"))
        or str(block.get("call_id") or block.get("id")) not in gone
    ]


def _without_raw_calls(kwargs: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    raw = kwargs.get("tool_calls")
    if not isinstance(raw, list):
        return kwargs
    kept = [call for call in raw if not (isinstance(call, dict) and call.get("id") in gone)]
    rest = {key: value for key, value in kwargs.items() if key != "tool_calls"}
    return {**rest, "tool_calls": kept} if kept else rest


def _has_words(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return not all(map(is_thought, content))


def is_thought(block: object) -> bool:
    """Whether a part of a reply is what the model said to itself."""
    return isinstance(block, dict) and str(block.get("type")) in _THOUGHTS
