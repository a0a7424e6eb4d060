"""The life of sessions: created, opened, listed, changed, ended and forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import (
    ACTIVITY_GRAIN,
    EventRow,
    Owner,
    SessionKey,
    SessionRow,
    merged_changes,
    moved,
    new_session_row,
)
from langchain_sessions._core.state import require_owner
from langchain_sessions.errors import SessionExistsError, SessionNotFoundError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import (
    Change,
    Partitions,
    event_rows,
    session_partition,
)
from langchain_sessions.stores._partitioned.heads import SessionHead, load_head
from langchain_sessions.stores._partitioned.shared_state import is_shared, write_owed
from langchain_sessions.stores._partitioned.shelves import drop_shelves_of
from langchain_sessions.stores._values import SessionDraft, SessionQuery, SessionSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_sessions.stores.engine import Listed

_PAGE = 50
_MOST_PLACES = 100_000


def create_session(at: Partitions, draft: SessionDraft) -> Flow[SessionRow]:
    """The contract's `create_session`."""
    lost = 0
    while True:
        found = yield from at.find(session_partition(draft.app, draft.id))
        if found is not None and not is_free(found, draft):
            raise SessionExistsError(draft.id)
        made = yield from _add(at, draft, found)
        if made is not None:
            return made
        lost += 1
        yield from at.race(lost, f"Session {draft.id!r}")


def open_session(at: Partitions, draft: SessionDraft) -> Flow[SessionRow]:
    """The contract's `open_session`."""
    lost = 0
    while True:
        found = yield from at.find(session_partition(draft.app, draft.id))
        # Also where it is expired: an id has one owner for as long as its head is there.
        if found is not None and found.stage == "live" and found.session.user_id != draft.user_id:
            raise SessionNotFoundError(draft.id)
        if found is not None and found.stage == "live" and not is_expired(found.session, draft.now):
            if found.owed:
                yield from write_owed(at, SessionKey(draft.app, draft.id, draft.user_id), draft.now)
            return found.session
        if found is not None and found.is_deleted and not draft.anew and found.until > draft.now:
            raise SessionNotFoundError(draft.id)
        if found is None or is_free(found, draft):
            made = yield from _add(at, draft, found)
            if made is not None:
                return made
        lost += 1
        yield from at.race(lost, f"Session {draft.id!r}")


def is_free(found: SessionHead, draft: SessionDraft) -> bool:
    """Whether a session may take the place of what was found under its id."""
    if found.stage == "live":
        return is_expired(found.session, draft.now) and found.session.user_id == draft.user_id
    return found.is_deleted or found.until <= draft.now


def new_head(at: Partitions, draft: SessionDraft, found: SessionHead | None) -> SessionHead:
    """The head of a new session in the place of what was found."""
    require_owner(draft.user_id, [draft.shared_delta])
    delta = draft.shared_delta
    return SessionHead(
        session=new_session_row(at.new_number(0 if found is None else found.skey), draft),
        version=0 if found is None else found.version,
        owed=((delta, draft.now),) if delta is not None and is_shared(delta) else (),
    )


def _add(at: Partitions, draft: SessionDraft, found: SessionHead | None) -> Flow[SessionRow | None]:
    """Create a session; None where somebody else was faster."""
    partition = session_partition(draft.app, draft.id)
    head = new_head(at, draft, found)
    if not (yield from at.commit(partition, head, {})):
        return None
    if found is not None:
        yield from ask(at.engine.remove_rows, partition, keys.prefix(head.skey))
        if found.stage != "gone":
            yield from drop_shelves_of(at, draft.app, found.session.user_id, [found.skey])
    if head.owed:
        yield from write_owed(at, SessionKey(draft.app, draft.id, draft.user_id), draft.now)
    return head.session


def find_session(at: Partitions, key: SessionKey, now: int) -> Flow[SessionRow | None]:
    """The contract's `find_session`."""
    found = yield from at.find_session(key, now)
    return None if found is None else found.session


def list_sessions(at: Partitions, query: SessionQuery) -> Flow[SessionSlice]:
    """The contract's `list_sessions`.

    The list is ordered at a coarse grain, by `activity`, which `updated_at` follows within a minute. So a page is
    complete when what is read next was active a minute before its last session. Engines list from the newest on, so
    that a page before a session costs all that stands before it.
    """
    found: list[SessionRow] = []
    last, first = query.after, query.before
    # From a little above: the list is ordered by the minute, and `updated_at` is behind `activity` by up to one.
    mark = None if last is None else (last[0] + 1, 0)
    while True:
        entries = yield from ask(at.engine.list_heads, query.app, query.owner, mark, query.limit + _PAGE)
        for head in (yield from standing_heads(at, entries)):
            row = head.session
            if (
                head.stage == "live"
                and not is_expired(row, query.now)
                and (last is None or (row.updated_at, row.skey) < last)
                and (first is None or (row.updated_at, row.skey) > first)
            ):
                found.append(row)
        found.sort(key=lambda row: (row.updated_at, row.skey), reverse=True)
        if len(entries) < query.limit + _PAGE:
            break
        mark = entries[-1].place
        latest = mark[0] + ACTIVITY_GRAIN  # whatever is read next was touched before that
        if first is not None and latest <= first[0]:
            break
        if first is None and len(found) > query.limit and found[query.limit - 1].updated_at >= latest:
            break
    page = found[: query.limit] if first is None else found[-query.limit :]
    places = [(row.updated_at, row.skey) for row in page]
    return SessionSlice([row.heading for row in page], *query.neighbours(places, has_more=len(found) > query.limit))


def standing_heads(at: Partitions, entries: Iterable[Listed]) -> Flow[list[SessionHead]]:
    """The heads of the entries of a list; an entry that says where a head was before is passed over."""
    entries = list(entries)
    if not entries:
        return []
    heads = yield from ask(at.engine.read_heads, [entry.partition for entry in entries])
    both = zip(entries, heads, strict=True)
    # Lists are written before the head and cleared after it, so that an entry may be too many but never missing.
    return [load_head(head) for entry, head in both if head is not None and head.listed == entry.place]


def all_heads(at: Partitions, app: str, owner: Owner) -> Flow[list[SessionHead]]:
    """The heads of all sessions of an owner, expired ones included, in the order of their keys."""
    return [head for head in (yield from listed_heads(at, app, owner)) if head.stage == "live"]


def listed_heads(at: Partitions, app: str, owner: Owner) -> Flow[list[SessionHead]]:
    """Those of copies that are under way too, and of sessions that somebody began to remove."""
    found: list[SessionHead] = []
    mark: tuple[int, int] | None = None
    while True:
        entries = yield from ask(at.engine.list_heads, app, owner, mark, _PAGE * 4)
        found += yield from standing_heads(at, entries)
        if len(entries) < _PAGE * 4:
            # Of one that moved to the front meanwhile both entries may have been right when they were read.
            newest = {head.skey: head for head in sorted(found, key=lambda head: head.version)}
            if len(at.places) > _MOST_PLACES:
                at.places.clear()
            at.places.update((skey, session_partition(app, head.session.id)) for skey, head in newest.items())
            return [newest[skey] for skey in sorted(newest)]
        mark = entries[-1].place


def update_session(at: Partitions, key: SessionKey, changes: Mapping[str, Any], now: int) -> Flow[SessionRow]:
    """The contract's `update_session`."""

    def decide(head: SessionHead) -> Flow[Change]:
        yield from ()
        after = head.with_session(**{**moved(head.session, 0, now), **merged_changes(head.session, changes)})
        return Change(after.session, after)

    row: SessionRow = yield from at.change(key, now, decide)
    return row


def end_session(at: Partitions, key: SessionKey, record: EventRow, ended_at: int | None, now: int) -> Flow[SessionRow]:
    """The contract's `end_session`."""

    def decide(head: SessionHead) -> Flow[Change]:
        yield from ()
        if (head.session.ended_at is None) == (ended_at is None):
            return Change(head.session)
        rows = event_rows(head.skey, [record._replace(seq=head.session.last_seq + 1)])
        after = head.with_session(**moved(head.session, 1, now), ended_at=ended_at)
        return Change(after.session, after, rows)

    row: SessionRow = yield from at.change(key, now, decide)
    return row
