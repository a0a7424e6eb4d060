"""A session as a plain list: what every store must agree with, computed naively from all records each time.

It shares no code with the ledger: what is visible is found by walking the list, what is archived by comparing sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

IDLE_MICROSECONDS = 15 * 60 * 1_000_000
_STATUS = {"open": Standing.OPEN, "failed": Standing.FAILED, "interrupted": Standing.INTERRUPTED}
_COUNTED = (Standing.LIVE, Standing.INTERRUPTED, Standing.OPEN)


@dataclass(frozen=True, kw_only=True)
class Said:
    """A message to append: `key` is what identifies it, None for one that is never a repetition."""

    text: str
    key: object = None
    speaker: str = "human"


@dataclass(kw_only=True)
class Record:
    """One entry of the list."""

    seq: int
    kind: str = "message"
    text: str | None = None
    key: object = None
    speaker: str = ""
    branch: str | None = None
    run: str | None = None
    delta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    place: int = 0
    replaces: int | None = None
    target: int | None = None
    covered: frozenset[int] = frozenset()
    summaries: tuple[int, ...] = ()
    summary_of: int | None = None


@dataclass
class Run:
    """An invocation: how far it got, and when it was last heard of."""

    status: str
    at: int


class ConflictInModelError(Exception):
    """The model says that this append is a conflict."""


@dataclass
class ListModel:
    """One session."""

    records: list[Record] = field(default_factory=list[Record])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    is_ended: bool = False

    # -- what there is -------------------------------------------------------------------------------------

    def visible(self, upto: int | None = None) -> set[int]:
        """The positions that no rewind went back before: as of a rewind, what was visible at its target."""
        states: list[set[int]] = [set()]
        for record in self.records[:upto]:
            before = states[-1] if record.target is None else states[record.target]
            states.append(before | {record.seq})
        return states[-1]

    def scope_of(self, record: Record) -> str | None:
        """The branch that it is compacted in."""
        return record.branch

    def in_force(self, scope: str | None) -> Record | None:
        """The compaction that counts: of those none of whose covered events is rewound, the widest and newest."""
        seen = self.visible()
        standing = [r for r in self.records if r.kind == "compaction" and r.branch == scope and r.covered <= seen]
        return max(standing, key=lambda r: (max(self.places(r.covered)), r.seq), default=None)

    def places(self, seqs: Iterable[int]) -> set[int]:
        """The context positions of some records."""
        return {self.records[seq - 1].place for seq in seqs}

    def standings(self, now: int) -> dict[int, Standing]:
        """Where every record stands."""
        seen = self.visible()
        forces = {scope: self.in_force(scope) for scope in {record.branch for record in self.records}}
        replaced = {record.replaces for record in self.records if record.seq in seen and record.replaces is not None}
        return {
            record.seq: self._standing(record, seen, replaced, forces[record.branch], now) for record in self.records
        }

    def _standing(self, record: Record, seen: set[int], replaced: set[int], force: Record | None, now: int) -> Standing:
        if record.summary_of is not None:
            return self._of_summary(record, seen, force)
        if record.seq not in seen:
            return Standing.REWOUND
        if record.kind != "message":
            return Standing.LIVE
        if record.seq in replaced:
            return Standing.SUPERSEDED
        if force is not None and record.place in self.places(force.covered):
            return Standing.ARCHIVED
        return self._of_run(record.run, now)

    def _of_summary(self, record: Record, seen: set[int], force: Record | None) -> Standing:
        if force is not None and record.seq in force.summaries:
            return Standing.LIVE
        return Standing.ARCHIVED if record.seq in seen else Standing.REWOUND

    def _of_run(self, name: str | None, now: int) -> Standing:
        run = self.runs.get(name) if name is not None else None
        if run is None or run.status == "done":
            return Standing.LIVE
        if run.status == "open" and now - run.at > IDLE_MICROSECONDS:
            return Standing.FAILED
        return _STATUS[run.status]

    def context(self, viewer: str | None, now: int, last_n: int | None = None) -> list[Record]:
        """What a viewer's prompt holds: the newest in context order, then the turns of each run side by side."""
        stand = self.standings(now)
        shown = [
            record
            for record in self.records
            if record.kind == "message"
            and stand[record.seq] in (Standing.LIVE, Standing.INTERRUPTED)
            and (record.branch is None or (viewer is not None and f"{viewer}.".startswith(f"{record.branch}.")))
        ]
        shown.sort(key=lambda record: (record.place, record.summary_of is None, record.seq))
        newest = shown if last_n is None else shown[-last_n:]
        began: dict[str | int, int] = {}
        for at, record in enumerate(newest):
            began.setdefault(record.run or record.seq, at)
        return sorted(newest, key=lambda record: began[record.run or record.seq])

    def state(self) -> dict[str, Any]:
        """The session's own state."""
        seen, merged = self.visible(), dict[str, Any]()
        for record in self.records:
            if record.seq in seen:
                merged.update(record.delta)
        return {key: value for key, value in merged.items() if value is not None}

    def count(self, scope: str | None, now: int) -> tuple[int, int]:
        """How many events and turns are live in a scope, running ones included."""
        stand = self.standings(now)
        live = [
            record
            for record in self.records
            if record.kind == "message" and record.branch == scope and stand[record.seq] in _COUNTED
        ]
        return len(live), sum(record.speaker == "human" and record.summary_of is None for record in live)

    # -- what happens to it --------------------------------------------------------------------------------

    def add(self, **fields: Any) -> Record:
        """Append one record."""
        record = Record(seq=len(self.records) + 1, **fields)
        record.place = record.place or record.seq
        self.records.append(record)
        return record

    def current(self, key: object, run: str | None, now: int) -> Record | None:
        """The record that holds a message now, as an append of this run sees it."""
        stand = self.standings(now)
        for record in reversed(self.records):
            if record.kind == "message" and record.key == key and record.summary_of is None:
                standing = stand[record.seq]
                if standing is not Standing.SUPERSEDED and not _is_gone(record, standing, run):
                    return record
        return None

    def append(
        self, said: Sequence[Said], *, branch: str | None, run: str | None, status: str | None,
        delta: Mapping[str, Any], now: int,
    ) -> list[int]:  # fmt: skip
        """Append messages; the positions at which they stand.

        Raises:
            ConflictInModelError: An id stands with another text; nothing was appended.
        """
        kept, positions = len(self.records), list[int]()
        for at, item in enumerate(said):
            try:
                found = self._repeated(item, run, now)
            except ConflictInModelError:
                del self.records[kept:]
                raise
            if found is None:
                fields = {"text": item.text, "key": item.key, "speaker": item.speaker, "branch": branch, "run": run}
                found = self.add(**fields, delta=delta if at == 0 else {})
            positions.append(found.seq)
        if not said and delta:
            positions.append(self.add(kind="state", delta=delta, branch=branch, run=run).seq)
        elif not said and status:
            positions.append(self.add(kind="invocation", branch=branch, run=run).seq)
        if run is not None:
            was = self.runs.get(run)
            self.runs[run] = Run(status or (was.status if was else "done"), now)
        return positions

    def _repeated(self, item: Said, run: str | None, now: int) -> Record | None:
        """The record that an append repeats; None for a new message."""
        if item.key is None:
            return None
        current = self.current(item.key, run, now)
        if current is None:
            return None
        same = (item.text, item.speaker)
        if (current.text, current.speaker) == same:
            return current
        stand = self.standings(now)
        # The name of the first append stands for it even where an edit took its place.
        for record in reversed(self.records):
            named = record.key == item.key and record.replaces is None and (record.text, record.speaker) == same
            if named and not _is_gone(record, stand[record.seq], run):
                return record
        raise ConflictInModelError

    def edit(self, key: object, text: str, speaker: str, now: int) -> Record | None:
        """Replace a message; None when no such message stands."""
        current = self.current(key, None, now)
        if current is None or (current.text, current.speaker) == (text, speaker):
            return current
        return self.add(
            text=text, key=key, speaker=speaker, branch=current.branch, place=current.place, replaces=current.seq
        )

    def rewind(self, target: int) -> None:
        """Go back."""
        self.add(kind="rewind", target=target)

    def undo_target(self) -> int | None:
        """Where undoing goes back to; None when there is nothing to undo."""
        seen = self.visible()
        rewinds = {record.seq: record.target for record in self.records if record.target is not None}
        open_ = [seq for seq, target in rewinds.items() if seq in seen and target + 1 not in rewinds]
        return max(open_) - 1 if open_ else None

    def archive(self, scope: str | None, covered: frozenset[int], base: int, text: str | None, now: int) -> bool:
        """Archive a range, as long as it stands as it did when it was chosen."""
        force, stand = self.in_force(scope), self.standings(now)
        untouched = all(
            seq in stand
            and stand[seq] in (Standing.LIVE, Standing.INTERRUPTED)
            and self.records[seq - 1].branch == scope
            and self.records[seq - 1].kind == "message"
            for seq in covered
        )
        if not covered or not untouched or (force.seq if force else 0) != base:
            return False
        total = covered | (force.covered if force else frozenset())
        first = min(self.places(total))
        record = self.add(kind="compaction", branch=scope, covered=total, summaries=force.summaries if force else ())
        if text is not None:
            made = self.add(text=text, speaker="ai", branch=scope, place=first, summary_of=record.seq)
            record.summaries = (made.seq,)
        return True


def _is_gone(record: Record, standing: Standing, run: str | None) -> bool:
    """Whether the name of a record is free for an append of this run."""
    return standing is Standing.REWOUND or (standing is Standing.FAILED and record.run != run)
