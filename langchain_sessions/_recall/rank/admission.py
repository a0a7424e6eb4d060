"""Which events a search may return: quickly by what the index knows, then for certain by the event itself."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.matching import INDEXED, matches, message_tests, needs_row, passes, query_of
from langchain_sessions._core.message_types import MESSAGE_CODES
from langchain_sessions._recall.index.builder import SUMMARY, SYNTHETIC, only_term, tool_term
from langchain_sessions._recall.index.inverted import LABELLED
from langchain_sessions.events import Standing
from langchain_sessions.filters import AnyBranch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._recall.index.chunks import PackedEvents
    from langchain_sessions._recall.index.postings import Segment
    from langchain_sessions._recall.index.ranking_traits import ChunkTraits
    from langchain_sessions.filters import EventFilter

_SECOND = 1_000_000
TAKEN_BACK: Final = frozenset({Standing.REWOUND, Standing.SUPERSEDED})
"""What nobody says any more: a search finds it where its filter asks for such standings."""
SEARCHED: Final = frozenset(Standing) - TAKEN_BACK


class Admission:
    """A filter, applied to what a search finds.

    Args:
        where: The filter.
        codec: Reads the messages that it asks.
        idle_before: Open invocations not touched since count as failed.
        session_id: The one session that is searched, where it is one.
    """

    def __init__(self, where: EventFilter, codec: MessageCodec, idle_before: int = 0, session_id: str = "") -> None:
        self.where = where
        seen = replace(where, standings=where.standings or SEARCHED)
        stored = query_of(seen, codec, session_id=session_id, idle_before=idle_before)
        self.query = replace(stored, kinds=stored.kinds & MESSAGE_CODES if stored.kinds else MESSAGE_CODES)
        self.kinds = self.query.kinds if stored.kinds else frozenset[int]()
        self._of_rows = replace(self.query, predicate=None)
        self._of_messages = message_tests(where, codec)
        self._asks_rows = needs_row(self._of_rows, SEARCHED)
        self._scopes = None if isinstance(where.branch, AnyBranch) else visible_scopes(where.branch)
        self._gone = TAKEN_BACK - where.standings

    # -- for certain ---------------------------------------------------------------------------------------

    def is_there(self, row: EventRow, view: LogView) -> bool:
        """Whether the event is to be seen at all: not gone, and within the viewer's sight."""
        return view.standing(row) not in self._gone and (
            self._scopes is None or bool(row.flags & r.ROOTED) or row.branch in self._scopes
        )

    def counts(self, row: EventRow, view: LogView) -> bool:
        """Whether the event counts at all in ranking: what `hide` leaves of a chunk, so that all is ranked alike."""
        if self._scopes is not None and view.head is None and row.branch not in self._scopes:
            return False
        return bool(row.flags & r.SUMMARY) or view.standing(row) not in self._gone

    def counts_all(self, view: LogView) -> bool:
        """Whether every event of a log counts: nothing was taken back, replaced or summed up, and all is in sight."""
        ledger = view.ledger
        return self._scopes is None and not (ledger.hidden or ledger.edits or ledger.covers)

    def admits(self, row: EventRow, view: LogView) -> bool:
        """Whether everything but the message itself meets the filter."""
        return matches(row, self._of_rows, view)

    def admits_message(self, row: EventRow, message: BaseMessage) -> bool:
        """Whether the message meets the rest of the filter."""
        return passes(self._of_messages, row, message)

    @property
    def asks_messages(self) -> bool:
        """Whether `admits_message` looks at any."""
        return bool(self._of_messages)

    @property
    def needs_message(self) -> bool:
        """Whether the index cannot tell all that only the message can."""
        return bool(self._of_messages.keys() - INDEXED)

    def needs_row(self, view: LogView) -> bool:
        """Whether the index cannot decide for a log: something changed where its events stand, or it is too coarse."""
        ledger = view.ledger
        return bool(
            self._asks_rows
            or ledger.hidden
            or ledger.edits
            or (self._scopes is not None and view.head is not None)
            or any(cover.summaries for cover in ledger.covers.values())
        )

    # -- quickly -------------------------------------------------------------------------------------------

    def hide(self, parts: Iterable[PackedEvents], view: LogView, *, for_good: bool = False) -> None:
        """Tell the chunks of a log which of their events do not count, neither as hits nor as neighbours.

        Args:
            parts: The chunks.
            view: Where the events of the log stand.
            for_good: Hide only what stays so until the log has another event: a graph may go back without one.
        """
        asked = Standing.SUPERSEDED in self._gone and view.ledger.edits
        replaced = _replaced(view, for_good=for_good) if asked else ()
        rewound = view.ledger.hidden.ranges if Standing.REWOUND in self._gone else ()
        for part in parts:
            self._hide(part, view, replaced, rewound)

    def hide_calls(self, part: PackedEvents | Segment) -> None:
        """Hide calls and results of tools that the filter leaves out: a search holds the words that it asks for.

        It would find itself, and show what stands beside it.
        """
        if self.where.without_tools:
            part.hidden.update(_places(part, map(only_term, self.where.without_tools)))

    def _hide(
        self, part: PackedEvents, view: LogView, replaced: Collection[int], rewound: Iterable[tuple[int, int]]
    ) -> None:
        traits = part.traits
        first, seqs = traits.first_seq, traits.seqs
        for low, high in rewound:
            part.hidden.update(range(bisect_left(seqs, low - first), bisect_right(seqs, high - first)))
        for seq in replaced:
            at = bisect_left(seqs, seq - first)
            if at < len(seqs) and seqs[at] == seq - first:
                part.hidden.add(at)
        if part.hidden:
            # Whether a summary stands, its compaction says: that is asked of the row.
            part.hidden = {index for index in part.hidden if not traits.flags[index] & SUMMARY}
        part.hidden.update(traits.left_out)
        if self._scopes is not None and view.head is None:
            # What a viewer may not see must not show through what stands beside it.
            seen = {number for number, name in enumerate(traits.branches) if name in self._scopes}
            part.hidden.update(index for index, number in enumerate(traits.branch_numbers) if number not in seen)

    def split_left_out(self, traits: ChunkTraits, view: LogView) -> tuple[set[int], set[int]]:
        """Of which events a chunk lacks the words: those that may be found, since they stand again or are asked for."""
        seqs = {traits.first_seq + traits.seqs[index] for index in traits.left_out}
        gone = {seq for seq in seqs if self._is_gone(seq, view)}
        return seqs - gone, gone

    def may_come_back(self, traits: ChunkTraits, view: LogView) -> bool:
        """Whether something that a chunk lacks the words of stands, or may stand again without another event."""
        seqs = {traits.first_seq + traits.seqs[index] for index in traits.left_out}
        return any(seq not in view.ledger.hidden for seq in seqs - _replaced(view, for_good=True))

    def _is_gone(self, seq: int, view: LogView) -> bool:
        if seq in view.ledger.hidden:
            return Standing.REWOUND in self._gone
        return Standing.SUPERSEDED in self._gone and view.edit_of(seq) is not None

    def quick(self, part: PackedEvents, view: LogView) -> Callable[[int], bool] | None:
        """A test by index that never refuses what `admits` would admit; None where it would refuse nothing."""
        tests = [*self._of_traits(part, view), *self._of_tools(part)]
        if len(tests) > 1:
            return lambda index: all(test(index) for test in tests)
        return tests[0] if tests else None

    def _of_traits(self, part: PackedEvents, view: LogView) -> Iterator[Callable[[int], bool]]:
        traits = part.traits
        if self.kinds:
            kinds, wanted = traits.kinds, self.kinds
            yield lambda index: kinds[index] in wanted
        if self.where.authors:
            numbers, marks = traits.author_numbers, traits.flags
            chosen = {number for number, name in enumerate(traits.authors) if name in self.where.authors}
            yield lambda index: numbers[index] in chosen and not marks[index] & LABELLED
        if self._scopes is not None and view.head is None:
            places = traits.branch_numbers
            seen = {number for number, name in enumerate(traits.branches) if name in self._scopes}
            yield lambda index: places[index] in seen
        if self.query.since is not None or self.query.until is not None:
            yield self._in_time(part)
        if self.where.synthetic is not None:
            flags, asked = traits.flags, self.where.synthetic
            yield lambda index: bool(flags[index] & SYNTHETIC) is asked

    def _of_tools(self, part: PackedEvents) -> Iterator[Callable[[int], bool]]:
        if self.where.tools:
            yield _places(part, map(tool_term, self.where.tools)).__contains__
        if self.where.without_tools:
            away = _places(part, map(only_term, self.where.without_tools))
            if away:
                yield lambda index: index not in away

    def _in_time(self, part: PackedEvents) -> Callable[[int], bool]:
        traits = part.traits
        low = -1 if self.query.since is None else self.query.since // _SECOND - traits.first_second
        high = float("inf") if self.query.until is None else self.query.until // _SECOND - traits.first_second
        seconds = traits.seconds
        return lambda index: low <= seconds[index] <= high


def _replaced(view: LogView, *, for_good: bool) -> set[int]:
    """The events that others took the place of; of what a graph made its head decides, which may go back."""
    edits = view.ledger.edits
    found = {edit.replaces for edit in edits if not edit.rooted}
    if for_good:
        return found
    rooted = [edit for edit in edits if edit.rooted]
    found.update(edit.replaces for edit in rooted if view.edit_of(edit.replaces) is not None)
    made = {seq for edit in rooted for seq in (edit.seq, edit.replaces)}
    return found.union(made.intersection(view.outdated) if rooted else ())


def _places(part: PackedEvents | Segment, terms: Iterable[str]) -> set[int]:
    """The events in which any of some terms occurs."""
    found = [each for term in terms if (each := part.find(term)) is not None]
    return {index for each in found for index, _ in each.pairs()}
