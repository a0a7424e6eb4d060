"""How much there is: sizes, the biggest sessions, growth, and what compaction saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from langchain_sessions.events import EventKind, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.stores._values import WALK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_sessions.service import SessionService
    from langchain_sessions.session import Session

_WINDOWS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
_KILO = 1000
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass
class Growth:
    """What came in a window of time."""

    sessions: int = 0
    entries: int = 0


@dataclass
class Saved:
    """What compactions in force take off the prompts."""

    runs: int = 0
    archived: int = 0
    tokens: int = 0


@dataclass
class Totals:
    """What `stats` adds up."""

    sessions: int = 0
    users: int = 0
    entries: int = 0
    live_messages: int = 0
    live_tokens: int = 0
    bytes: int | None = None
    growth: dict[str, Growth] = field(default_factory=lambda: {name: Growth() for name in _WINDOWS})
    compaction: Saved = field(default_factory=Saved)

    def told(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"sessions: {self.sessions}, of {self.users} users"
        yield f"entries: {self.entries}"
        yield f"live: {self.live_messages} messages, {self.live_tokens} tokens"
        if self.bytes is not None:
            each = f", {in_units(self.bytes // self.entries)} an entry" if self.entries else ""
            yield f"size: {in_units(self.bytes)}{each}"
        for name, growth in self.growth.items():
            yield f"last {name}: {growth.sessions} new sessions, {growth.entries} entries"
        saved = self.compaction
        archived = f"{saved.archived} entries archived, {saved.tokens} tokens saved in each prompt"
        yield f"compaction: {saved.runs} in force, {archived}"


def all_sessions(sessions: SessionService) -> Iterator[Session]:
    """All of them, newest activity first."""
    cursor: str | None = None
    while True:
        page = sessions.list_sessions(limit=WALK, cursor=cursor)
        yield from page
        cursor = page.next_cursor
        if cursor is None:
            return


def add_up(sessions: SessionService, biggest: int) -> tuple[Totals, list[Session]]:
    """The totals, and the biggest sessions."""
    totals, users = Totals(), set[str | None]()
    top: list[Session] = []
    now = datetime.now(timezone.utc)
    for each in all_sessions(sessions):
        users.add(each.user_id)
        totals.sessions += 1
        totals.entries += each.version
        totals.live_messages += each.message_count
        totals.live_tokens += each.token_count
        top = sorted([*top, each], key=lambda one: -one.version)[: max(biggest, 0)]
        for name, window in _WINDOWS.items():
            _grow(totals.growth[name], sessions, each, now - window)
        if each.version > each.message_count:
            _save(totals.compaction, sessions, each)
    totals.users = len(users - {None})
    return totals, top


def _grow(growth: Growth, sessions: SessionService, session: Session, since: datetime) -> None:
    if session.updated_at < since:
        return
    if session.created_at >= since:
        growth.sessions += 1
        growth.entries += session.version
        return
    # The first entry since then says how many came: positions have no gaps.
    first = next(iter(sessions.events(session.id, EventFilter(since=since, page_size=1))), None)
    growth.entries += 0 if first is None else session.version - first.seq + 1


def _save(saved: Saved, sessions: SessionService, session: Session) -> None:
    kinds = {EventKind.COMPACTION}
    for each in sessions.events(session.id, EventFilter(kinds=kinds, standings={Standing.LIVE})):
        told = each.metadata
        if told.get("outcome") != "compacted":
            continue
        saved.runs += 1
        saved.tokens += int(told.get("tokens_before", 0)) - int(told.get("tokens_after", 0))
        saved.archived += int(told.get("archived", 0))


def in_units(number: int | None) -> str:
    """A size as people read it."""
    if number is None:
        return "size unknown"
    size, unit = float(number), 0
    while size >= _KILO and unit < len(_UNITS) - 1:
        size, unit = size / _KILO, unit + 1
    return f"{number} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def stored_bytes(sessions: SessionService, target: Path | None) -> int | None:
    """What a database takes, or a folder of files; None where it does not tell."""
    from langchain_sessions._log.log import log_of

    told = log_of(sessions).store.describe().bytes
    if told is not None or target is None:
        return told
    return sum(each.stat().st_size for each in target.rglob("*") if each.is_file())
