"""Removing checkpoints: by run, by count, by age. Events always stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.checkpoints import ROOT, CheckpointRow
from langchain_sessions._core.edge import check_duration, from_micros, require
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._threads.given import COUNTERS
from langchain_sessions._threads.rebuild import decode_metadata, decode_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import timedelta

    from langchain_sessions._log.log import Log
    from langchain_sessions._threads.cache import MessageCache
    from langchain_sessions._threads.forms import ValueForms
    from langchain_sessions._threads.record import Record
    from langchain_sessions.stores._threads import CheckpointKey, Keep, ThreadRows, ThreadStore


class CheckpointPruner:
    """Removes checkpoints of threads."""

    def __init__(self, log: Log, store: ThreadStore, cache: MessageCache, forms: ValueForms) -> None:
        """Remove from a store, within the reach of a log's owner."""
        self._log = log
        self._store = store
        self._cache = cache
        self._forms = forms

    def delete_for_runs(self, run_ids: Sequence[str]) -> Flow[None]:
        """Remove those of some runs, but for those from which a delta channel of a later one is rebuilt."""
        wanted = {str(run) for run in _many(run_ids, "run_ids")}

        def keep(view: ThreadRows) -> Collection[CheckpointKey]:
            kept = {(row.ns, row.cid) for row in view.rows if row.run_id not in wanted}
            # What nothing tells the run of came from the newest checkpoint, and goes with it.
            coming = {place for place, last in _coming(view) if last is None or last.run_id not in wanted}
            return {*self._with_ancestors(view, kept), *coming}

        if wanted:
            app, owner = self._log.app, self._log.owner
            for key in (yield from ask(self._store.find_runs, app, owner, sorted(wanted))):
                # Those whose time is over too: what a run left is to go.
                yield from ask(self._store.prune_checkpoints, key, 0, keep)
                self._cache.forget(app, key.id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str) -> Flow[None]:
        """Remove all but the newest of each namespace and what it is rebuilt from, or all."""
        require(strategy in ("keep_latest", "delete"), "strategy", "give 'keep_latest' or 'delete'")
        yield from self._prune_all(thread_ids, _nothing if strategy == "delete" else self._latest(1, None))

    def trim(self, thread_ids: Sequence[str], *, keep: int | None, older_than: timedelta | None) -> Flow[int]:
        """Remove old ones by count, by age, or by both; how many."""
        require(keep is not None or older_than is not None, "keep", "give keep, older_than or both")
        require(keep is None or (type(keep) is int and keep >= 1), "keep", "give a number above zero")
        cutoff = None
        if older_than is not None:
            # As LangGraph writes times, so that they compare as texts.
            cutoff = from_micros(self._log.now() - check_duration(older_than, "older_than")).isoformat()
        return (yield from self._prune_all(thread_ids, self._latest(keep or 1, cutoff)))

    def _prune_all(self, thread_ids: Sequence[str], keep: Keep) -> Flow[int]:
        total = 0
        for thread_id in _many(thread_ids, "thread_ids"):
            key = self._log.key(str(thread_id))
            total += yield from ask(self._store.prune_checkpoints, key, self._log.now(), keep)
            # Records of what is gone must not be inherited from.
            self._cache.forget(self._log.app, str(thread_id))
        return total

    def _latest(self, keep: int, cutoff: str | None) -> Keep:
        """Chooses the newest of each namespace, and what is younger than a time."""

        def kept_of(view: ThreadRows) -> Collection[CheckpointKey]:
            kept: set[CheckpointKey] = set()
            left: dict[int, int] = {}
            for row in sorted(view.in_sight, key=lambda row: row.cid, reverse=True):
                left[row.ns] = left.get(row.ns, keep) - 1
                young = cutoff is not None and _record(view, row).ts >= cutoff
                if left[row.ns] >= 0 or young:
                    kept.add((row.ns, row.cid))
            stays = self._with_ancestors(view, kept - self._finished_calls(view, kept))
            return {*stays, *(place for place, _ in _coming(view))}

        return kept_of

    def _finished_calls(self, view: ThreadRows, kept: Collection[CheckpointKey]) -> set[CheckpointKey]:
        """Those within a subgraph's call whose root checkpoint is there and goes: each call has its own namespace."""
        roots = {row.cid for row in view.rows if row.ns == ROOT}
        finished: set[CheckpointKey] = set()
        for row in view.rows:
            place = (row.ns, row.cid)
            if place in kept and ":" in view.namespaces.get(row.ns, "").rsplit("|", 1)[-1]:
                started = (decode_metadata(view.session_id, row, self._forms).get("parents") or {}).get("")
                if started in roots and (ROOT, started) not in kept:
                    finished.add(place)
        return finished

    def _with_ancestors(self, view: ThreadRows, kept: set[CheckpointKey]) -> Collection[CheckpointKey]:
        """Some checkpoints and those from which their delta channels are rebuilt."""
        by_place = {(row.ns, row.cid): row for row in view.rows}
        needed = set(kept)
        for place in kept:
            row = by_place[place]
            missing = set(decode_metadata(view.session_id, row, self._forms).get(COUNTERS) or ())
            missing -= _record(view, row).stored
            seen = {row.cid}
            # Ids made by hand may go round in a circle.
            while missing and row.parent is not None and row.parent not in seen and (row.ns, row.parent) in by_place:
                row = by_place[row.ns, row.parent]
                seen.add(row.cid)
                needed.add((row.ns, row.cid))
                missing -= _record(view, row).stored
        return needed


def _coming(view: ThreadRows) -> Iterator[tuple[CheckpointKey, CheckpointRow | None]]:
    """The missing checkpoints that may be about to come, each with the newest one before it.

    Ids grow with time: where a newer one is there, the process that was about to write this one was gone before.
    """
    newest: dict[int, CheckpointRow] = {}
    for row in view.rows:
        if row.ns not in newest or newest[row.ns].cid < row.cid:
            newest[row.ns] = row
    for ns, cid in view.missing:
        # A call of a subgraph is over with the step of the root that it is part of.
        before = [newest[each] for each in {ROOT, ns} if each in newest]
        last = max(before, key=lambda row: row.cid, default=None)
        if last is None or cid > last.cid:
            yield (ns, cid), last


def _record(view: ThreadRows, row: CheckpointRow) -> Record:
    return decode_record(view.session_id, row, view.shapes.get(row.shape, b""))


def _nothing(view: ThreadRows) -> Collection[CheckpointKey]:
    del view
    return ()


def _many(given: Sequence[str], name: str) -> list[str]:
    """Several ids: one text would be taken for its letters."""
    require(not isinstance(given, (str, bytes)), name, "give a list of ids, not one id")
    return list(given)
