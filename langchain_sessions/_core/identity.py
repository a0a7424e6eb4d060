"""Identities: which rows of a batch are new, which are stored already, and which take the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions._core.ledger import Edit, Ledger, LogView
from langchain_sessions._core.rows import numbered
from langchain_sessions.errors import CorruptRowError, EventConflictError, EventNotFoundError, StaleSessionError
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._core.rows import EventRow
    from langchain_sessions.stores._values import AppendBatch


class Identified(NamedTuple):
    """A batch whose identities are known: its rows as stored, which of them are new, which are edits."""

    rows: tuple[EventRow, ...]
    fresh: tuple[EventRow, ...]
    edits: tuple[Edit, ...]


def require_version(
    session_id: str, batch: AppendBatch, existing: Iterable[EventRow], view: LogView, last_seq: int
) -> None:
    """Refuse a batch that expects another version, unless it stands exactly where that version would have put it.

    That is the same append again, whose answer got lost on its way.

    Raises:
        StaleSessionError: The log has moved on without it.
    """
    expected = batch.expected_version
    if expected is None or expected == last_seq:
        return
    places = {row.seq: row.id for row in existing if view.standing(row) not in (Standing.REWOUND, Standing.FAILED)}
    if any(places.get(expected + 1 + at) != row.id for at, row in enumerate(batch.rows)):
        raise StaleSessionError(session_id, expected, last_seq)


def require_question(session_id: str, batch: AppendBatch, ledger: Ledger) -> None:
    """Refuse what answers something that was taken back: a log is not to show it alone.

    Raises:
        EventNotFoundError: It was.
    """
    if batch.answers in ledger.hidden:
        raise EventNotFoundError(session_id, f"position {batch.answers} to answer: a rewind took it back")


def identify_batch(
    session_id: str, batch: AppendBatch, existing: Sequence[EventRow], view: LogView, last_seq: int
) -> Identified:
    """Find out which rows of a batch are new, stored already, or edits.

    Args:
        session_id: For error messages.
        batch: The rows to append.
        existing: Every stored row that shares an ident or an event id with one of them.
        view: Where these stand.
        last_seq: The newest position.

    Raises:
        EventConflictError: An id stands with another message.
        CorruptRowError: An id stands with a message that cannot be read.
        EventNotFoundError: `replaces_only` is set and nothing stands to be replaced.
    """
    known = [(row, view.standing(row)) for row in sorted(existing)]
    placed: list[EventRow] = []
    fresh: list[EventRow] = []
    edits: list[Edit] = []
    for row in batch.rows:
        found = None if batch.moves else _stored_twin(session_id, row, known, batch)
        if found is not None:
            placed.append(found)
            continue
        current = _current_revision(row, known)
        if current is None and batch.replaces_only:
            raise EventNotFoundError(session_id, f"message {row.ident!r} to replace")
        seq = last_seq + len(fresh) + 1
        new = numbered(row, seq, (old for old, _ in known if old.ident == row.ident), current)
        if batch.moves:
            new = new._replace(branch=row.branch)
        if current is not None:
            edits.append(Edit(seq, current.seq, new.place))
            known = [(old, Standing.SUPERSEDED if old is current else stand) for old, stand in known]
        # Messages of one batch may repeat or edit each other.
        known.append((new, Standing.LIVE))
        fresh.append(new)
        placed.append(new)
    return Identified(tuple(placed), tuple(fresh), tuple(edits))


def _is_gone(old: EventRow, standing: Standing, new: EventRow) -> bool:
    """Whether an id may be appended anew. A failed run that is tried again finds what it stored itself."""
    if standing is Standing.FAILED:
        return old.invocation_id != new.invocation_id
    return standing is Standing.REWOUND


def _stored_twin(
    session_id: str, row: EventRow, known: Sequence[tuple[EventRow, Standing]], batch: AppendBatch
) -> EventRow | None:
    """The stored row that this append repeats, if any."""
    named = [old for old, stand in known if old.id == row.id and not _is_gone(old, stand, row)]
    message = [old for old, stand in known if old.ident == row.ident and not _is_gone(old, stand, row)]
    if not named and not message:
        return None
    current = _current_revision(row, known)
    # The current revision first: an append that repeats it is answered with it.
    unreadable: list[CorruptRowError] = []

    def repeats(old: EventRow) -> bool:
        try:
            return batch.same(session_id, old, row)
        except CorruptRowError as error:
            unreadable.append(error)
            return False

    for old in (*([current] if current is not None else []), *reversed(named)):
        if repeats(old):
            return old
    if named:
        # Whether it is another message nobody can tell where the one that is stored cannot be read.
        if not unreadable:
            raise EventConflictError(session_id, row.id)
        unreadable[0].event_id = row.id
        raise unreadable[0]
    return None


def _current_revision(row: EventRow, known: Sequence[tuple[EventRow, Standing]]) -> EventRow | None:
    """The event that holds the message now."""
    for old, stand in reversed(known):
        if old.ident == row.ident and stand is not Standing.SUPERSEDED and not _is_gone(old, stand, row):
            return old
    return None
