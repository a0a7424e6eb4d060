"""Decisions that every store takes alike: where a row goes, what it replaces, what a compaction covers.

Pure functions of rows; a store reads what they ask for and writes what they return.
"""

from __future__ import annotations

import json
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import Cover, Edit, LogView, encode_cover
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import Counters, EventRow, InvocationRow, Mark, SessionRow
from langchain_sessions._core.state import split_delta
from langchain_sessions.errors import EventConflictError, EventNotFoundError, InvalidInputError, StaleSessionError
from langchain_sessions.events import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions.stores.values import AppendBatch, ArchivePlan, SessionDraft

MARK_KINDS = {r.REWIND: "rewind", r.COMPACTION: "compaction"}
_STANDINGS = {1: Standing.OPEN, 3: Standing.FAILED, 4: Standing.INTERRUPTED}


class Placed(NamedTuple):
    """A batch after its identities were settled."""

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


def place_batch(
    session_id: str, batch: AppendBatch, existing: Sequence[EventRow], view: LogView, last_seq: int
) -> Placed:
    """Settle which rows of a batch are new, stored already, or edits.

    Args:
        session_id: For error messages.
        batch: The rows to append.
        existing: Every stored row that shares an ident or an event id with one of them.
        view: Where these stand.
        last_seq: The newest position.

    Raises:
        EventConflictError: An id stands with another message.
        EventNotFoundError: `replaces_only` is set and nothing stands to be replaced.
    """
    known = [(row, view.standing(row)) for row in sorted(existing)]
    placed: list[EventRow] = []
    fresh: list[EventRow] = []
    edits: list[Edit] = []
    for row in batch.rows:
        found = _stored_twin(session_id, row, known, batch)
        if found is not None:
            placed.append(found)
            continue
        current = _current_revision(row, known)
        if current is None and batch.replaces_only:
            raise EventNotFoundError(session_id, f"message {row.ident!r} to replace")
        seq = last_seq + len(fresh) + 1
        new = numbered(row, seq, (old for old, _ in known if old.ident == row.ident), current)
        if current is not None:
            edits.append(Edit(seq, current.seq, new.place))
            known = [(old, Standing.SUPERSEDED if old is current else stand) for old, stand in known]
        known.append((new, Standing.LIVE))
        fresh.append(new)
        placed.append(new)
    return Placed(tuple(placed), tuple(fresh), tuple(edits))


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
    for old in (*([current] if current is not None else []), *reversed(named)):
        if batch.same(old, row):
            return old
    if named:
        raise EventConflictError(session_id, row.id)
    return None


def _current_revision(row: EventRow, known: Sequence[tuple[EventRow, Standing]]) -> EventRow | None:
    """The event that holds the message now."""
    for old, stand in reversed(known):
        if old.ident == row.ident and stand is not Standing.SUPERSEDED and not _is_gone(old, stand, row):
            return old
    return None


def numbered(
    row: EventRow, seq: int, revisions: Iterable[EventRow], current: EventRow | None, *, is_rooted: bool = False
) -> EventRow:
    """A new event in its place: behind all others, or in that of the revision before it.

    Args:
        row: The event.
        seq: Its position.
        revisions: Every stored event of the same message.
        current: The one that it replaces, if any.
        is_rooted: Whether a thread's root list replaces it.
    """
    rev = max((old.rev for old in revisions), default=-1) + 1
    if current is None:
        # An id that a rewind freed keeps its name: only an edit is named by its revision.
        return row._replace(seq=seq, rev=rev)
    mark = [current.seq, current.place, 1] if is_rooted else [current.seq, current.place]
    return row._replace(
        seq=seq,
        rev=rev,
        flags=row.flags | r.EDIT,
        position=current.place,
        branch=current.branch,
        extra=with_extra(row.extra, "mark", mark),
    )


def with_extra(extra: str | None, key: str, value: object) -> str:
    """The `extra` document with one more entry."""
    document = json.loads(extra) if extra else {}
    document[key] = value
    return json.dumps(document, separators=(",", ":"))


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


def open_invocations(rows: Iterable[InvocationRow], idle_before: int) -> dict[str, Standing]:
    """The standing that each invocation gives its events; one left open for too long has failed."""
    found: dict[str, Standing] = {}
    for row in rows:
        standing = _STANDINGS.get(row.status)
        if standing is Standing.OPEN and row.updated_at < idle_before:
            standing = Standing.FAILED
        if standing is not None:
            found[row.id] = standing
    return found


def tally(rows: Iterable[EventRow]) -> dict[str | None, Counters]:
    """What rows add to the counters of each scope."""
    counted: dict[str | None, Counters] = {}
    for row in rows:
        if row.kind >= r.FIRST_RECORD:
            continue
        scope = row.scope
        turn = 1 if row.flags & r.TURN else 0
        was = counted.get(scope)
        if was is None:
            counted[scope] = Counters(1, turn, row.tokens)
        else:
            counted[scope] = Counters(was.events + 1, was.turns + turn, was.tokens + row.tokens)
    return counted


_COUNTED = (Standing.LIVE, Standing.INTERRUPTED, Standing.OPEN)


def count_scope(rows: Iterable[EventRow], view: LogView, scope: str | None) -> Counters:
    """The counters of one scope, from its rows. Running invocations count; failed ones do not."""
    live = (row for row in rows if row.scope == scope and view.standing(row) in _COUNTED)
    return tally(live).get(scope, Counters())


def tally_change(
    before: Iterable[EventRow], view_before: LogView, after: Iterable[EventRow], view_after: LogView
) -> dict[str | None, Counters]:
    """How the counters change when some rows stood in one way before and stand in another after; only what does."""
    old = tally(row for row in before if view_before.standing(row) in _COUNTED)
    new = tally(row for row in after if view_after.standing(row) in _COUNTED)
    nothing = Counters()
    changes = {scope: Counters(*map(sub, new.get(scope, nothing), old.get(scope, nothing))) for scope in {**old, **new}}
    return {scope: change for scope, change in changes.items() if change != nothing}


def new_session_row(skey: int, draft: SessionDraft) -> SessionRow:
    """The row of a session that was just created."""
    return SessionRow(
        skey=skey,
        app=draft.app,
        id=draft.id,
        user_id=draft.user_id,
        title=draft.title,
        metadata=draft.metadata,
        initial_state=draft.state,
        state=draft.state,
        created_at=draft.now,
        updated_at=draft.now,
        activity=draft.now,
        expires_at=draft.expires_at,
        renewal=draft.renewal,
        renewal_grain=draft.renewal_grain,
        ended_at=None,
        last_seq=0,
        live_events=0,
        live_turns=0,
        live_tokens=0,
        aliased=0,
        ledger=None,
        head_id=None,
        head_runs=None,
    )


def require_owner(user_id: str | None, deltas: Iterable[str | None]) -> None:
    """Refuse `user:` state where nobody owns the session.

    Raises:
        InvalidInputError: A delta has such a key.
    """
    if user_id is None and any(delta is not None and split_delta(delta).user for delta in deltas):
        raise InvalidInputError("state_delta", "user: keys need a session that has a user")


def undone_target(session_id: str, marks: Iterable[Mark], hidden: SeqSet) -> int:
    """Where to go back to in order to undo the newest rewind that stands and that is not an undoing itself.

    Raises:
        EventNotFoundError: There is none.
    """
    rewinds = {mark.seq: int(mark.data) for mark in marks if mark.kind == "rewind"}
    # Whoever goes back to just before a rewind undoes it; undoing again reaches the one before.
    found = [seq for seq, target in rewinds.items() if seq not in hidden and target + 1 not in rewinds]
    if not found:
        raise EventNotFoundError(session_id, "rewind to undo")
    return max(found) - 1


class Archived(NamedTuple):
    """A compaction ready to be written."""

    cover: Cover
    rows: tuple[EventRow, ...]


def settle_archive(
    plan: ArchivePlan, near: Sequence[EventRow], view: LogView, old_covers: Sequence[list[int]]
) -> Archived | None:
    """Turn a plan into rows, or None when its range was touched since it was made.

    Args:
        plan: The plan.
        near: At least every row of the scope that is not archived already, up to the last covered position.
        view: Where they stand now.
        old_covers: Runs that the compaction in force covers.
    """
    old = view.ledger.covers.get(plan.scope)
    covered = [row for row in near if row.seq in plan.covered]
    if (old.record if old else 0) != plan.base_record or len(covered) != len(plan.covered) or not covered:
        return None
    valid = (Standing.LIVE, Standing.INTERRUPTED)
    if any(row.scope != plan.scope or view.standing(row) not in valid for row in covered):
        return None
    first = min(row.place for row in covered)
    upto, top = max(row.place for row in covered), max(row.seq for row in covered)
    carried: tuple[int, ...] = ()
    if old is not None:
        first, upto, top = min(first, old.first), max(upto, old.upto), max(top, old.top)
        carried = old.summaries
    at = view.last_seq + 1
    new = tuple(range(at + 1, at + 1 + len(plan.summaries)))
    holes = _left_out(plan, near, view, upto)
    cover = Cover(plan.scope, at, first, upto, top, holes, new or carried, plan.record.at)
    total = plan.covered | SeqSet(tuple((low, high) for low, high in old_covers))
    extra = with_extra(with_extra(plan.record.extra, "covers", total.runs), "mark", encode_cover(cover))
    rows = [plan.record._replace(seq=at, branch=plan.scope, extra=extra)]
    for seq, summary in zip(new, plan.summaries, strict=True):
        named = with_extra(summary.extra, "covers", total.runs)
        flags = summary.flags | r.SUMMARY | r.SYNTHETIC
        rows.append(summary._replace(seq=seq, position=first, flags=flags, branch=plan.scope, extra=named))
    return Archived(cover, tuple(rows))


def _left_out(plan: ArchivePlan, near: Sequence[EventRow], view: LogView, upto: int) -> SeqSet:
    """What of the range is not covered: its events, and those that their edits superseded.

    The latter come back when the edit is rewound, and must not be taken for archived then.
    """
    old = view.ledger.covers.get(plan.scope)
    covered = {row.place for row in near if row.seq in plan.covered}
    found: list[int] = []
    for row in near:
        mine = row.scope == plan.scope and row.kind < r.FIRST_RECORD and not row.flags & r.SUMMARY
        if not mine or row.place > upto or row.place in covered or (old is not None and old.covers(row)):
            continue
        if view.standing(row) not in (Standing.REWOUND, Standing.ARCHIVED):
            found.append(row.seq)
    return SeqSet.of(found)


def covers_of(row: EventRow | None) -> list[list[int]]:
    """The runs that a compaction record or a summary names."""
    if row is None or row.extra is None:
        return []
    found: list[list[int]] = json.loads(row.extra).get("covers", [])
    return found


def merge_scoped(values: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Scoped state after some changes; None deletes."""
    merged = {**values, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def merged_changes(session: SessionRow, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that an update sets; the keys of `metadata` are merged into the stored ones, None deletes."""
    values = dict(changes)
    if "metadata" in values:
        merged = {**json.loads(session.metadata), **json.loads(values["metadata"])}
        kept = {key: value for key, value in merged.items() if value is not None}
        values["metadata"] = json.dumps(kept, separators=(",", ":"))
    return values
