"""Removing checkpoints: by run, by count, by age. Events always stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.checkpoints import ROOT, CheckpointRow
from langchain_sessions._core.checks import require
from langchain_sessions._core.flow import Flow, ask, async_face, sync_face
from langchain_sessions._core.times import check_duration, from_micros
from langchain_sessions._log.log import log_of
from langchain_sessions._threads.access import ThreadAccess
from langchain_sessions._threads.record import Record, decode_metadata, decode_record

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from langchain_sessions.stores.threads import CheckpointPlace, Keep, ThreadRows

_COUNTERS = "counters_since_delta_snapshot"


class Pruning(ThreadAccess):
    """The part of the saver that removes checkpoints."""

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Flow[None]:
        """Remove the checkpoints and writes of some runs in every thread in reach. Events stay.

        Checkpoints from which a delta channel of a later one is rebuilt stay too. What came from a removed one comes
        from the nearest before it that is left.
        """
        wanted = {str(run) for run in _many(run_ids, "run_ids")}

        def choose(view: ThreadRows) -> Collection[CheckpointPlace]:
            return self._with_ancestors(view, {(row.ns, row.cid) for row in view.rows if row.run_id not in wanted})

        if wanted:
            app, owner = self.sessions.app, self.sessions.owner
            for key in (yield from ask(self._store.find_runs, app, owner, sorted(wanted))):
                # Those whose time is over too: what a run left is to go.
                yield from ask(self._store.prune_checkpoints, key, 0, choose)
                self._cache.forget(app, key.id)

    delete_for_runs = sync_face(_delete_for_runs)
    adelete_for_runs = async_face(_delete_for_runs)

    def _prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> Flow[None]:
        """Remove checkpoints. Events stay.

        Args:
            thread_ids: The threads; those that are not there are passed over.
            strategy: `keep_latest` keeps the newest of each namespace, and those from which its delta channels are
                rebuilt; calls of subgraphs that are over go with the checkpoint that they started from. `delete`
                keeps none.

        Raises:
            InvalidInputError: There is no such strategy, or `thread_ids` is a single text.
        """
        require(strategy in ("keep_latest", "delete"), "strategy", "give 'keep_latest' or 'delete'")
        yield from self._prune_all(thread_ids, _nothing if strategy == "delete" else self._latest(1, None))

    prune = sync_face(_prune)
    aprune = async_face(_prune)

    def _trim(
        self, thread_ids: Sequence[str], *, keep: int | None = None, older_than: timedelta | None = None
    ) -> Flow[int]:
        """Remove old checkpoints by count, by age, or by both; events stay.

        Args:
            thread_ids: The threads; those that are not there are passed over.
            keep: How many of the newest of each namespace stay, whatever their age; 1 by default.
            older_than: Only checkpoints that are older go.

        Returns:
            How many checkpoints were removed.

        Raises:
            InvalidInputError: Neither is given, or something cannot be used.
        """
        require(keep is not None or older_than is not None, "keep", "give keep, older_than or both")
        require(keep is None or (type(keep) is int and keep >= 1), "keep", "give a number above zero")
        cutoff = None
        if older_than is not None:
            cutoff = from_micros(log_of(self.sessions).now() - check_duration(older_than, "older_than")).isoformat()
        return (yield from self._prune_all(thread_ids, self._latest(keep or 1, cutoff)))

    trim = sync_face(_trim)
    atrim = async_face(_trim)

    def _prune_all(self, thread_ids: Sequence[str], choose: Keep) -> Flow[int]:
        total = 0
        for thread_id in _many(thread_ids, "thread_ids"):
            key = log_of(self.sessions).key(str(thread_id))
            total += yield from ask(self._store.prune_checkpoints, key, log_of(self.sessions).now(), choose)
            # Records of what is gone must not be inherited from.
            self._cache.forget(self.sessions.app, str(thread_id))
        return total

    def _latest(self, keep: int, cutoff: str | None) -> Keep:
        """Chooses the newest of each namespace, and what is younger than a time."""

        def choose(view: ThreadRows) -> Collection[CheckpointPlace]:
            kept: set[CheckpointPlace] = set()
            left: dict[int, int] = {}
            for row in sorted(view.in_sight, key=lambda row: row.cid, reverse=True):
                left[row.ns] = left.get(row.ns, keep) - 1
                young = cutoff is not None and _record(view, row).ts >= cutoff
                if left[row.ns] >= 0 or young:
                    kept.add((row.ns, row.cid))
            return self._with_ancestors(view, kept - self._finished_calls(view, kept))

        return choose

    def _finished_calls(self, view: ThreadRows, kept: Collection[CheckpointPlace]) -> set[CheckpointPlace]:
        """Those within a subgraph's call whose root checkpoint is there and goes: each call has its own namespace."""
        roots = {row.cid for row in view.rows if row.ns == ROOT}
        finished: set[CheckpointPlace] = set()
        for row in view.rows:
            place = (row.ns, row.cid)
            if place in kept and ":" in view.namespaces.get(row.ns, "").rsplit("|", 1)[-1]:
                started = (decode_metadata(view.session_id, row, self.serde).get("parents") or {}).get("")
                if started in roots and (ROOT, started) not in kept:
                    finished.add(place)
        return finished

    def _with_ancestors(self, view: ThreadRows, kept: set[CheckpointPlace]) -> Collection[CheckpointPlace]:
        """Some checkpoints and those from which their delta channels are rebuilt."""
        by_place = {(row.ns, row.cid): row for row in view.rows}
        needed = set(kept)
        for place in kept:
            row = by_place[place]
            missing = set(decode_metadata(view.session_id, row, self.serde).get(_COUNTERS) or ())
            missing -= _record(view, row).stored
            seen = {row.cid}
            while missing and row.parent is not None and row.parent not in seen and (row.ns, row.parent) in by_place:
                row = by_place[row.ns, row.parent]
                seen.add(row.cid)
                needed.add((row.ns, row.cid))
                missing -= _record(view, row).stored
        return needed


def _record(view: ThreadRows, row: CheckpointRow) -> Record:
    return decode_record(view.session_id, row, view.shapes.get(row.shape, b""))


def _nothing(view: ThreadRows) -> Collection[CheckpointPlace]:
    del view
    return ()


def _many(given: Sequence[str], name: str) -> list[str]:
    """Several ids: one text would be taken for its letters."""
    require(not isinstance(given, (str, bytes)), name, "give a list of ids, not one id")
    return list(given)
