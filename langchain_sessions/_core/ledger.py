"""Where events stand: pure bookkeeping over the records of a log.

Three kinds of records change the standing of earlier events: a *rewind* to a position, an *edit* that takes the
place of another event, and a *compaction* that archives. The log holds them for ever; a `Ledger` is their effect.

A rewind at n to t makes the view as of n equal the view as of t. That rule is recursive, so a rewind to before
another rewind undoes it. A compaction is judged by what it covers alone: it is in force as long as the newest of
its covered events is not rewound, wherever its own record stands; per scope the widest in force counts.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.edge import UNREADABLE, built
from langchain_sessions._core.once import kept
from langchain_sessions._core.ranges import NO_SEQS, SeqRange, SeqSet, are_ascending, decode_ranges
from langchain_sessions._core.rows import Counters, EventRow, Mark, tally
from langchain_sessions.errors import CorruptRowError
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._core.rows import EventRow, InvocationRow, SessionLog, SessionRow

OF_RUNS = {1: Standing.OPEN, 3: Standing.FAILED, 4: Standing.INTERRUPTED}
"""Where a run that is not done lets its events stand, by how far it got."""
COUNTED = (Standing.LIVE, Standing.INTERRUPTED, Standing.OPEN)

MARK_KINDS = {k.REWIND: "rewind", k.COMPACTION: "compaction", k.BLANK: "blank"}


@dataclass(frozen=True, slots=True)
class Cover:
    """What one compaction archives: its scope up to a position, but for the holes.

    Attributes:
        scope: The branch; None is root.
        record: Seq of the compaction's record.
        first: The first covered position; its summary stands there.
        upto: The last covered position.
        top: The largest covered seq.
        holes: Events of the scope up to `upto` that it does not cover, and the places of those.
        summaries: Seqs of the events that stand for the covered ones.
        at: When it was made, in microseconds.
    """

    scope: str | None
    record: int
    first: int
    upto: int
    top: int
    holes: SeqSet = NO_SEQS
    summaries: tuple[int, ...] = ()
    at: int = 0

    def covers(self, row: EventRow) -> bool:
        """Whether the row is archived by this compaction."""
        if row.place > self.upto or row.seq in self.holes or row.seq in self.summaries:
            return False
        # An edit stands where its original stood: what a compaction left out of its range stays left out when edited.
        return row.place not in self.holes


class Edit(NamedTuple):
    """An event that took the place of another. Between those that a graph made (`rooted`) its head decides."""

    seq: int
    replaces: int
    position: int
    rooted: int = 0


@dataclass(frozen=True, slots=True)
class Ledger:
    """The standing effect of all rewinds, edits and compactions of a log.

    Attributes:
        hidden: Positions that a rewind went back before.
        edits: Edits that are not hidden, oldest first.
        covers: The widest compaction in force of each scope.
        blanked: Events whose text was overwritten. No rewind brings it back.
        blanked_at: Seq of the newest record of that; 0 where there is none.
    """

    hidden: SeqSet = NO_SEQS
    edits: tuple[Edit, ...] = ()
    covers: Mapping[str | None, Cover] = field(default_factory=dict[str | None, Cover])
    blanked: SeqSet = NO_SEQS
    blanked_at: int = 0

    @classmethod
    def of(cls, marks: Iterable[Mark], last_seq: int) -> Ledger:
        """The ledger of a log of `last_seq` entries, from all its marks."""
        ordered = sorted(marks)
        hidden = hidden_at(((mark.seq, int(mark.data)) for mark in ordered if mark.kind == "rewind"), last_seq)
        edits = tuple(
            Edit(mark.seq, *json.loads(mark.data)) for mark in ordered if mark.kind == "edit" and mark.seq not in hidden
        )
        covers: dict[str | None, Cover] = {}
        for mark in (each for each in ordered if each.kind == "compaction"):
            cover = decode_cover(json.loads(mark.data))
            best = covers.get(cover.scope)
            # Its newest covered event stands, so all of it does: a rewind hides everything behind its target.
            if cover.top not in hidden and (best is None or cover.upto >= best.upto):
                covers[cover.scope] = cover
        ledger = cls(hidden, edits, covers)
        for mark in ordered:
            if mark.kind == "blank":
                ledger = ledger.with_blank(mark.seq, SeqSet(_ranges(json.loads(mark.data))))
        return ledger

    @property
    def superseded(self) -> dict[int, Edit]:
        """Which edit took the place of which event."""
        return {edit.replaces: edit for edit in self.edits}

    def with_edit(self, edit: Edit) -> Ledger:
        """The ledger after one more edit."""
        return replace(self, edits=(*self.edits, edit))

    def with_cover(self, cover: Cover) -> Ledger:
        """The ledger after one more compaction."""
        return replace(self, covers={**self.covers, cover.scope: cover})

    def with_blank(self, seq: int, seqs: SeqSet) -> Ledger:
        """The ledger after the text of some more events was overwritten."""
        return replace(self, blanked=self.blanked | seqs, blanked_at=seq)

    def encode(self) -> str | None:
        """As text; None while there is nothing to say."""
        if not (self.hidden or self.edits or self.covers or self.blanked):
            return None
        document: dict[str, object] = {
            "h": self.hidden.ranges,
            "e": self.edits,
            "c": [encode_cover(cover) for cover in self.covers.values()],
        }
        if self.blanked:
            document["b"] = [self.blanked.ranges, self.blanked_at]
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | None) -> Ledger:
        """Read what `encode` wrote."""
        if not text:
            return EMPTY_LEDGER
        document = json.loads(text)
        edits = document["e"]
        if not {*map(len, edits)} <= {len(Edit._fields)}:
            raise ValueError(len(edits))  # made in C below, since every call reads those of its log, and unasked
        blanked, blanked_at = document.get("b", ((), 0))
        return cls(
            SeqSet(_ranges(document["h"])),
            tuple(map(partial(tuple.__new__, Edit), edits)),
            {cover.scope: cover for cover in map(decode_cover, document["c"])},
            SeqSet(_ranges(blanked)),
            blanked_at,
        )


EMPTY_LEDGER = Ledger()


def ledger_of(session: SessionRow) -> Ledger:
    """The ledger of a session, outside of its store.

    Raises:
        CorruptRowError: It cannot be read.
    """
    try:
        return Ledger.decode(session.ledger)
    except UNREADABLE as error:
        problem = f"The row of session {session.id!r} cannot be read; other sessions can."
        raise CorruptRowError(problem) from error


def hidden_at(rewinds: Iterable[tuple[int, int]], last_seq: int) -> SeqSet:
    """What is hidden as of `last_seq`, given all rewinds as (position of the record, position gone back to)."""
    hidden: list[SeqRange] = []
    at = last_seq
    # From the end: a rewind counts only where the way back from the newest position comes past it.
    for seq, target in sorted(rewinds, reverse=True):
        if seq > at:
            continue
        if target + 1 <= seq - 1:
            hidden.append((target + 1, seq - 1))
        at = target
    return SeqSet(tuple(reversed(hidden)))


def encode_cover(cover: Cover) -> list[object]:
    """A cover as a JSON list."""
    holes = cover.holes.ranges
    return [cover.scope, cover.record, cover.first, cover.upto, cover.top, holes, cover.summaries, cover.at]


def decode_cover(item: list[object]) -> Cover:
    """Read what `encode_cover` wrote."""
    scope, record, first, upto, top, holes, summaries, at = item
    return Cover(scope, record, first, upto, top, SeqSet(_ranges(holes)), tuple(summaries), at)  # type: ignore[arg-type]


def _ranges(pairs: object) -> tuple[SeqRange, ...]:
    return tuple((low, high) for low, high in pairs)  # type: ignore[attr-defined]


_NO_LOOKUP: tuple[SeqSet, dict[int, Edit], SeqSet] = (NO_SEQS, {}, NO_SEQS)


@dataclass(frozen=True)
class LogView:
    """Everything that decides where the events of one session stand.

    Attributes:
        ledger: Rewinds, edits and compactions.
        head: The message list of the newest root checkpoint as ordered runs; None where no graph runs here.
        invocations: Status of the invocations that are not done, by id: at least of those of the rows it came with.
        last_seq: The newest position.
        has_unfinished: Whether some invocation is not done, whichever were read.
    """

    ledger: Ledger = EMPTY_LEDGER
    head: tuple[SeqRange, ...] | None = None
    invocations: Mapping[str, Standing] = field(default_factory=dict[str, Standing])
    last_seq: int = 0
    has_unfinished: bool = False
    _lookup: tuple[SeqSet, dict[int, Edit], SeqSet] = field(init=False, repr=False, compare=False, default=_NO_LOOKUP)

    def __post_init__(self) -> None:
        """Prepare the look-ups once; of most logs there is nothing to look up."""
        if self.ledger is EMPTY_LEDGER and self.head is None:
            return
        head = SeqSet.of_runs(self.head) if self.head is not None else SeqSet()
        summaries = SeqSet.of(seq for cover in self.ledger.covers.values() for seq in cover.summaries)
        object.__setattr__(self, "_lookup", (head, self.ledger.superseded, summaries))

    @property
    def is_plain(self) -> bool:
        """Whether everything stands where it was logged: nothing was hidden, edited or archived, and no run is open."""
        return self.ledger is EMPTY_LEDGER and not self.head and not self.invocations and not self.has_unfinished

    @kept
    def outdated(self) -> Mapping[int, int]:
        """What a graph held of a message of which its head holds another revision, and that: whichever came first."""
        return _outdated(self.ledger.edits, self._lookup[0])

    def superseded_by(self, row: EventRow) -> int | None:
        """The edit that took the row's place, if any; asked of each row that is read, and nearly none has one."""
        edit = self.edit_of(row.seq) if row.seq in self._lookup[1] else None
        if edit is None:
            return self.outdated.get(row.seq) if row.flags & r.ROOTED and row.seq not in self._lookup[0] else None
        return edit.seq

    def edit_of(self, seq: int) -> Edit | None:
        """The edit that took the place of a position by itself, whatever a graph's head holds of its message."""
        head, superseded, _ = self._lookup
        edit = superseded.get(seq)
        # What the head holds stands, in whatever order revisions were written: a graph may go back to an earlier one.
        return None if edit is None or (edit.rooted and seq in head) else edit

    def archived_by(self, row: EventRow) -> int | None:
        """The compaction that archives the row, if any."""
        cover = self.ledger.covers.get(row.scope)
        return cover.record if cover is not None and cover.covers(row) else None

    def standing(self, row: EventRow) -> Standing:
        """Where the row stands."""
        if row.kind >= k.FIRST_RECORD:
            return Standing.REWOUND if row.seq in self.ledger.hidden else Standing.LIVE
        head, _, summaries = self._lookup
        if row.flags & r.SUMMARY:
            if row.seq in summaries:
                return Standing.LIVE
            # One that stands for nothing any more was taken back with its compaction, or a wider one took over.
            return Standing.REWOUND if row.seq in self.ledger.hidden else Standing.ARCHIVED
        if self.ledger is not EMPTY_LEDGER and row.seq in self.ledger.hidden:
            return Standing.REWOUND
        if self.superseded_by(row) is not None:
            return Standing.SUPERSEDED
        if row.flags & r.ROOTED and row.seq not in head:
            return Standing.DETACHED
        if self.archived_by(row) is not None:
            return Standing.ARCHIVED
        return self.invocations.get(row.run or "", Standing.LIVE) if self.invocations else Standing.LIVE

    def in_context(self, row: EventRow, invocation_id: str | None = None) -> bool:
        """Whether the row belongs into a prompt of the given invocation, branches aside."""
        standing = self.standing(row)
        if standing is Standing.OPEN or standing is Standing.FAILED:
            return row.run == invocation_id
        return standing is Standing.LIVE or standing is Standing.INTERRUPTED

    def ordered(self, rows: Iterable[EventRow]) -> list[EventRow]:
        """The rows in context order: by position, but a thread's own messages as its head lists them."""
        ordered = sorted(rows, key=lambda row: (row.place, not row.flags & r.SUMMARY, row.seq))
        if not self.head or are_ascending(self.head):
            return ordered
        rank = {seq: at for at, seq in enumerate(seq for low, high in self.head for seq in range(low, high + 1))}
        beside = [row for row in ordered if row.seq not in rank]
        listed = sorted((row for row in ordered if row.seq in rank), key=lambda row: rank[row.seq])
        return _interleave(listed, beside)


def _outdated(edits: Iterable[Edit], head: SeqSet) -> dict[int, int]:
    """Revisions beside the one of the same message that the head holds, and that one."""
    found, revisions = dict[int, int](), dict[int, set[int]]()
    for edit in edits:
        revisions.setdefault(edit.position, set()).update((edit.seq, edit.replaces))
    for seqs in revisions.values():
        held = max((seq for seq in seqs if seq in head), default=None)
        if held is not None:
            found.update((seq, held) for seq in seqs if seq not in head)
    return found


def _interleave(listed: list[EventRow], beside: list[EventRow]) -> list[EventRow]:
    """Put each of `beside` behind the last listed row that was logged before it."""
    slots: list[list[EventRow]] = [[] for _ in range(len(listed) + 1)]
    # Of each listed row and all behind it the first place: these ascend, whatever the order of the list.
    firsts = [*accumulate((row.place for row in reversed(listed)), min)][::-1]
    for row in beside:
        slots[bisect_left(firsts, row.place)].append(row)
    return [*slots[0], *chain.from_iterable((row, *after) for row, after in zip(listed, slots[1:], strict=True))]


def visible_scopes(viewer: str | None) -> tuple[str | None, ...]:
    """The branches that a viewer sees: root, its ancestors and itself; neither siblings nor children."""
    if viewer is None:
        return (None,)
    parts = viewer.split(".")
    return (None, *(".".join(parts[: depth + 1]) for depth in range(len(parts))))


# -- what entries say of other entries: everything can be read back from the log ------------------------------


def marks_of(rows: Iterable[EventRow]) -> list[Mark]:
    """The marks that rows carry; every mark can be read back from the log."""
    marks: list[Mark] = []
    for row in rows:
        if row.extra is None:
            continue
        kind = "edit" if row.flags & r.EDIT else MARK_KINDS.get(row.kind)
        if kind is None:
            continue
        value = json.loads(row.extra).get("mark")
        if value is not None:
            marks.append(Mark(row.seq, kind, json.dumps(value, separators=(",", ":"))))
    return marks


def covers_of(row: EventRow | None) -> list[list[int]]:
    """The runs that a compaction record or a summary names."""
    if row is None or row.extra is None:
        return []
    found: list[list[int]] = json.loads(row.extra).get("covers", [])
    return found


def last_mark(rows: Sequence[EventRow]) -> int:
    """The newest status that rows report for their invocation; 0 for none."""
    return next((mark for row in reversed(rows) if (mark := (row.flags >> r.MARK_SHIFT) & 7)), 0)


# -- the view of a session, and what counts as live in it -----------------------------------------------------


def open_invocations(rows: Iterable[InvocationRow], idle_before: int) -> dict[str, Standing]:
    """The standing that each invocation gives its events; one left open for too long has failed."""
    found: dict[str, Standing] = {}
    for row in rows:
        standing = OF_RUNS.get(row.status)
        if standing is Standing.OPEN and row.updated_at < idle_before:
            standing = Standing.FAILED
        if standing is not None:
            found[row.id] = standing
    return found


def view_of(session: SessionRow | SessionLog, unfinished: Collection[InvocationRow], idle_before: int) -> LogView:
    """Where the events of a session stand, given its invocations that are not done."""
    if not (session.ledger or unfinished) and session.head_runs is None:
        return built(LogView, {"invocations": {}, "last_seq": session.last_seq})
    standings = open_invocations(unfinished, idle_before) if unfinished else {}
    head = None if session.head_runs is None else tuple(decode_ranges(session.head_runs))
    ledger = Ledger.decode(session.ledger) if session.ledger else EMPTY_LEDGER
    return LogView(ledger, head, standings, session.last_seq, bool(unfinished))


def count_scope(rows: Iterable[EventRow], view: LogView, scope: str | None) -> Counters:
    """The counters of one scope, from its rows. Running invocations count; failed ones do not."""
    live = (row for row in rows if row.scope == scope and view.standing(row) in COUNTED)
    return tally(live).get(scope, Counters())


def tally_change(
    before: Iterable[EventRow], view_before: LogView, after: Iterable[EventRow], view_after: LogView
) -> dict[str | None, Counters]:
    """How the counters change when some rows stood in one way before and stand in another after; only what does."""
    old = tally(row for row in before if view_before.standing(row) in COUNTED)
    new = tally(row for row in after if view_after.standing(row) in COUNTED)
    nothing = Counters()
    changes = {scope: Counters(*map(sub, new.get(scope, nothing), old.get(scope, nothing))) for scope in {**old, **new}}
    return {scope: change for scope, change in changes.items() if change != nothing}


def moved_between(before: LogView, after: LogView) -> SeqSet:
    """The positions whose events may stand otherwise in one view than in the other, invocations aside.

    As many as changed, however long the log is: counters follow by the difference of those alone.
    """
    old, new = before.ledger, after.ledger
    heads = [SeqSet.of_runs(view.head or ()) for view in (before, after)]
    found = differing(old.hidden, new.hidden) | differing(*heads)
    if old.edits != new.edits:
        edits = {*old.edits} ^ {*new.edits}
        found = found | SeqSet.of(seq for edit in edits for seq in (edit.seq, edit.replaces))
    for scope in {**old.covers, **new.covers}:
        one, other = old.covers.get(scope), new.covers.get(scope)
        if one != other:
            found = found | _between_covers(one, other, {*old.edits, *new.edits})
    return found & SeqSet.between(1, before.last_seq)


def differing(one: SeqSet, other: SeqSet) -> SeqSet:
    """What is in one of two sets alone."""
    return NO_SEQS if one == other else (one - other) | (other - one)


def _between_covers(one: Cover | None, other: Cover | None, edits: Iterable[Edit]) -> SeqSet:
    """What one of two compactions of a scope archives and the other does not, and what stands for it."""
    covers = [cover for cover in (one, other) if cover is not None]
    low = 0 if len(covers) == 1 else min(cover.upto for cover in covers)
    high = max(cover.upto for cover in covers)
    found = SeqSet.between(low + 1, high)
    for cover in covers:
        found = found | cover.holes | SeqSet.of(cover.summaries)
    # An edit stands where its original stood.
    return found | SeqSet.of(edit.seq for edit in edits if edit.position <= high)
