"""Compactions: a record and a summary are appended, and the ledger is rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.archive import prepare_archive
from langchain_sessions._core.ledger import covers_of
from langchain_sessions._core.rows import EventRow, SessionKey, moved
from langchain_sessions.stores._partitioned.access import Change, Partitions, event_rows
from langchain_sessions.stores._partitioned.live import scope_rows
from langchain_sessions.stores._partitioned.runs import read_left, runs_of

if TYPE_CHECKING:
    from langchain_sessions._core.archive import Prepared
    from langchain_sessions._core.flow import Flow
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores._values import ArchivePlan


def archive_events(at: Partitions, key: SessionKey, plan: ArchivePlan) -> Flow[tuple[EventRow, ...] | None]:
    """The contract's `archive_events`."""
    done: tuple[EventRow, ...] | None = yield from at.change(key, plan.now, _Archiving(at, plan).decide)
    return done


class _Archiving:
    """One compaction, prepared once as long as its grounds stand, however many writers win the race before it."""

    def __init__(self, at: Partitions, plan: ArchivePlan) -> None:
        self._at = at
        self._plan = plan
        self._prepared: Prepared | None = None

    def decide(self, head: SessionHead) -> Flow[Change]:
        """What becomes of a head."""
        plan = self._plan
        left = [] if self._prepared is None else (yield from read_left(self._at, head, self._prepared.range[1]))
        view = head.view(plan.idle_before, left)
        if self._prepared is None or not self._prepared.stands(head.session, view):
            self._prepared = yield from self._prepare(head, view)
        if self._prepared is None:
            return Change(None)
        archived = self._prepared.at(head.session.last_seq)
        ledger = view.ledger.with_cover(archived.cover).encode()
        after = head.with_session(**moved(head.session, len(archived.rows), plan.now), ledger=ledger)
        return Change(archived.rows, after.adding(archived.counted), event_rows(head.skey, archived.rows))

    def _prepare(self, head: SessionHead, view: LogView) -> Flow[Prepared | None]:
        scope = self._plan.scope
        near = yield from scope_rows(self._at, head, view, scope)
        left = yield from read_left(self._at, head, runs_of(near))
        views = head.view(self._plan.idle_before, left), head.view(0, left)
        cover = view.ledger.covers.get(scope)
        old = [] if cover is None else (yield from self._at.events(head, [(cover.record, cover.record)]))
        covers = covers_of(old[0]) if old else []
        return prepare_archive(self._plan, near, head.session, views, covers)
