"""Removing sessions: those that are named, a user's, those whose time is over.

No commit takes rows away with a head. So a session is marked as going first, which is the moment from which nobody
reads it; then its rows go, and then the mark. A process may die in between: what is marked stands in the lists of its
owner and of what is due, so whoever removes it, its user, or what is expired finds it and goes on from there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import Owner, SessionKey, new_session_row
from langchain_sessions.stores._erasing import UserRemoved
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Partitions, is_there, name_of, session_partition
from langchain_sessions.stores._partitioned.heads import SessionHead, dump_head, load_head
from langchain_sessions.stores._partitioned.sessions import listed_heads
from langchain_sessions.stores._partitioned.shared_state import forget_user
from langchain_sessions.stores._partitioned.shelves import drop_shelves_of
from langchain_sessions.stores._values import SessionDraft

if TYPE_CHECKING:
    from langchain_sessions.stores.engine import Listed, Partition

_PAGE = 50


def delete_session(at: Partitions, key: SessionKey, now: int, tombstone_until: int) -> Flow[bool]:
    """The contract's `delete_session`."""
    partition, lost = name_of(key), 0
    while True:
        found = yield from at.find(partition)
        if found is None or not key.admits(found.session.user_id):
            return False
        if found.stage == "going":
            yield from _clear(at, partition, found, again=True)
        if not is_there(found, key, now):
            return False
        if (yield from _bury(at, partition, found, tombstone_until)):
            return True
        lost += 1
        yield from at.race(lost, f"Session {key.id!r}")


def _bury(at: Partitions, partition: Partition, found: SessionHead, until: int) -> Flow[bool]:
    """Put a tombstone in the place of a session; False where it changed meanwhile."""
    row = found.session
    draft = SessionDraft(app=partition.app, id=row.id, user_id=row.user_id, now=row.activity)
    going = SessionHead(session=new_session_row(found.skey, draft), version=found.version, stage="going", until=until)
    if not (yield from at.commit(partition, going, {})):
        return False
    yield from _clear(at, partition, replace(going, version=found.version + 1), again=found.stage != "live")
    return True


def _clear(at: Partitions, partition: Partition, going: SessionHead, *, again: bool) -> Flow[None]:
    """Take away what a session had that is going; again, where that was begun before."""
    yield from ask(at.engine.remove_rows, partition, keys.prefix(going.skey + 1))
    yield from drop_shelves_of(at, partition.app, going.session.user_id, [going.skey], again=again)
    # Nothing of the session is left in its tombstone, not even its id.
    blank = new_session_row(going.skey, SessionDraft(app=partition.app, id="", user_id=None, now=0))
    stone = replace(going, session=blank, stage="gone")
    yield from at.repeat(partition, going.version, dump_head(stone, ""), {})


def delete_user(at: Partitions, app: str, user_id: str, now: int, tombstone_until: int) -> Flow[UserRemoved]:
    """The contract's `delete_user`."""
    del now
    total = events = 0
    for head in (yield from listed_heads(at, app, user_id)):
        partition = session_partition(app, head.session.id)
        # Whether it is expired makes no difference here, so the time is one at which nothing is.
        key = SessionKey(app, head.session.id, user_id)
        if head.stage == "making":
            yield from _bury(at, partition, head, head.session.activity)
        elif (yield from delete_session(at, key, -1, tombstone_until)):
            total, events = total + 1, events + head.session.last_seq
    yield from _sweep(at, app, user_id)
    return UserRemoved(total, events, (yield from forget_user(at, app, user_id)))


def _sweep(at: Partitions, app: str, user_id: str) -> Flow[None]:
    """Give up what was written for sessions of a user whose creation was cut short: entries of lists without a head."""
    after: tuple[int, int] | None = None
    while True:
        entries = yield from ask(at.engine.list_heads, app, user_id, after, _PAGE)
        heads = yield from ask(at.engine.read_heads, [entry.partition for entry in entries])
        for entry, head in zip(entries, heads, strict=True):
            if head is None:
                yield from ask(at.engine.remove_rows, entry.partition, "")
        if len(entries) < _PAGE:
            return
        after = entries[-1].place


def purge_expired(at: Partitions, app: str, owner: Owner, now: int, limit: int) -> Flow[int]:
    """The contract's `purge_expired`."""
    total = 0
    after: Listed | None = None
    key = SessionKey(app, "", owner)
    while True:
        entries = yield from ask(at.engine.list_due, app, now, after, _PAGE)
        heads = yield from ask(at.engine.read_heads, [entry.partition for entry in entries])
        for entry, head in zip(entries, heads, strict=True):
            found = None if head is None else load_head(head)
            if found is None:
                continue
            if found.stage == "going":
                yield from _clear(at, entry.partition, found, again=True)
            elif found.stage == "gone" and found.until <= now:
                yield from at.repeat(entry.partition, found.version, None, {})
            elif found.stage == "making" and found.until <= now:
                yield from _forget(at, entry.partition, found)
            elif total < limit and is_expired(found.session, now) and key.admits(found.session.user_id):
                total += yield from _forget(at, entry.partition, found)
        if len(entries) < _PAGE:
            return total
        after = entries[-1]


def _forget(at: Partitions, partition: Partition, found: SessionHead) -> Flow[bool]:
    """Remove a partition; False where somebody changed it meanwhile."""
    if not (yield from _bury(at, partition, found, 0)):
        return False
    # Marked as going, cleared, and now the tombstone.
    yield from at.repeat(partition, found.version + 2, None, {})
    return True
