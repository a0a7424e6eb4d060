"""Which events a search may return: quickly by what the index knows, then for certain by the event itself."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import visible_scopes
from langchain_sessions._core.times import to_micros
from langchain_sessions._recall.engine import SUMMARY, SYNTHETIC, only_term, only_tool_of, tool_term, tools_of
from langchain_sessions._recall.index.parts import LABELLED
from langchain_sessions._recall.text.speakers import speaker_of
from langchain_sessions.events import Standing
from langchain_sessions.filters import AnyBranch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._recall.index.chunks import PackedPart
    from langchain_sessions.search import SearchFilter

_SECOND = 1_000_000


class Admission:
    """A search filter, applied.

    Args:
        where: The filter.
    """

    def __init__(self, where: SearchFilter) -> None:
        self.where = where
        self.kinds = where.kinds
        self._since = None if where.since is None else to_micros(where.since)
        self._until = None if where.until is None else to_micros(where.until)
        self._scopes = None if isinstance(where.branch, AnyBranch) else visible_scopes(where.branch)
        self._gone = frozenset(
            standing
            for standing, included in (
                (Standing.REWOUND, where.include_rewound),
                (Standing.SUPERSEDED, where.include_superseded),
            )
            if not included
        )

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

    def admits(self, row: EventRow, view: LogView) -> bool:
        """Whether everything but the message itself meets the filter."""
        where = self.where
        standing = view.standing(row)
        return (
            self.is_there(row, view)
            and (not self.kinds or row.kind in self.kinds)
            and (self._since is None or row.at >= self._since)
            and (self._until is None or row.at <= self._until)
            and (where.synthetic is None or bool(row.flags & r.SYNTHETIC) is where.synthetic)
            and (where.archived is None or (view.archived_by(row) is not None) is where.archived)
            and (where.failed is None or (standing is Standing.FAILED) is where.failed)
        )

    def admits_message(self, row: EventRow, message: BaseMessage) -> bool:
        """Whether the message meets the rest of the filter."""
        where = self.where
        return (
            (not where.authors or (row.author or speaker_of(message)) in where.authors)
            and (not where.tools or not where.tools.isdisjoint(tools_of(message)))
            and (not where.without_tools or only_tool_of(message) not in where.without_tools)
        )

    @property
    def needs_message(self) -> bool:
        """Whether `admits_message` looks at anything."""
        return bool(self.where.authors or self.where.tools or self.where.without_tools)

    def needs_row(self, view: LogView) -> bool:
        """Whether the index cannot decide for a log: something changed where its events stand, or it is too coarse."""
        where, ledger = self.where, view.ledger
        return bool(
            self._since is not None
            or self._until is not None
            or where.archived is not None
            or where.failed is not None
            or ledger.hidden
            or ledger.edits
            or (self._scopes is not None and view.head is not None)
            or any(cover.summaries for cover in ledger.covers.values())
        )

    # -- quickly -------------------------------------------------------------------------------------------

    def hide(self, part: PackedPart, view: LogView) -> None:
        """Tell a chunk which of its events do not count, neither as hits nor as neighbours."""
        facts = part.facts
        first, seqs = facts.first_seq, facts.seqs
        if not self.where.include_rewound:
            for low, high in view.ledger.hidden.runs:
                part.hidden.update(range(bisect_left(seqs, low - first), bisect_right(seqs, high - first)))
        if not self.where.include_superseded:
            for edit in view.ledger.edits:
                at = bisect_left(seqs, edit.replaces - first)
                if not edit.rooted and at < len(seqs) and seqs[at] == edit.replaces - first:
                    part.hidden.add(at)
        part.hidden = {index for index in part.hidden if not facts.flags[index] & SUMMARY}
        if self._scopes is not None and view.head is None:
            # What a viewer may not see must not show through what stands beside it.
            seen = {number for number, name in enumerate(facts.branches) if name in self._scopes}
            part.hidden.update(index for index, number in enumerate(facts.branch_numbers) if number not in seen)

    def quick(self, part: PackedPart, view: LogView) -> Callable[[int], bool] | None:
        """A test by index that never refuses what `admits` would admit; None where it would refuse nothing."""
        tests = [*self._of_facts(part, view), *self._of_tools(part)]
        if len(tests) > 1:
            return lambda index: all(test(index) for test in tests)
        return tests[0] if tests else None

    def _of_facts(self, part: PackedPart, view: LogView) -> Iterator[Callable[[int], bool]]:
        facts = part.facts
        if self.kinds:
            kinds, wanted = facts.kinds, self.kinds
            yield lambda index: kinds[index] in wanted
        if self.where.authors:
            numbers, marks = facts.author_numbers, facts.flags
            chosen = {number for number, name in enumerate(facts.authors) if name in self.where.authors}
            yield lambda index: numbers[index] in chosen and not marks[index] & LABELLED
        if self._scopes is not None and view.head is None:
            places = facts.branch_numbers
            seen = {number for number, name in enumerate(facts.branches) if name in self._scopes}
            yield lambda index: places[index] in seen
        if self._since is not None or self._until is not None:
            yield self._in_time(part)
        if self.where.synthetic is not None:
            flags, asked = facts.flags, self.where.synthetic
            yield lambda index: bool(flags[index] & SYNTHETIC) is asked

    def _of_tools(self, part: PackedPart) -> Iterator[Callable[[int], bool]]:
        if self.where.tools:
            yield _places(part, map(tool_term, self.where.tools)).__contains__
        if self.where.without_tools:
            away = _places(part, map(only_term, self.where.without_tools))
            if away:
                yield lambda index: index not in away

    def _in_time(self, part: PackedPart) -> Callable[[int], bool]:
        facts = part.facts
        low = -1 if self._since is None else self._since // _SECOND - facts.first_second
        high = float("inf") if self._until is None else self._until // _SECOND - facts.first_second
        seconds = facts.seconds
        return lambda index: low <= seconds[index] <= high


def _places(part: PackedPart, terms: Iterable[str]) -> set[int]:
    """The events in which any of some terms occurs."""
    found = filter(None, map(part.find, terms))
    return {index for each in found for index, _ in each.pairs()}
