"""Removing sessions: those that are named, a user's, those whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.rows import Owner, SessionKey, new_session_row
from langchain_sessions.stores._erasing import UserRemoved
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Partitions, name_of
from langchain_sessions.stores._partitioned.forms import SessionHead, load_head
from langchain_sessions.stores._partitioned.sessions import all_heads
from langchain_sessions.stores._partitioned.shared_state import forget_user
from langchain_sessions.stores._partitioned.shelves import drop_shelves_of
from langchain_sessions.stores._values import SessionDraft

if TYPE_CHECKING:
    from langchain_sessions.stores.engine import Head, Listed, Partition

_PAGE = 50


def delete_session(at: Partitions, key: SessionKey, now: int, tombstone_until: int) -> Flow[bool]:
    """The contract's `delete_session`."""
    lost = 0
    while True:
        found = yield from at.find_session(key, now)
        if found is None:
            return False
        if (yield from _bury(at, name_of(key), found, tombstone_until)):
            return True
        lost += 1
        yield from at.race(lost, f"Session {key.id!r}")


def _bury(at: Partitions, partition: Partition, found: SessionHead, until: int) -> Flow[bool]:
    """Put a tombstone in the place of a session; False where it changed meanwhile."""
    # Nothing of the session is left in its tombstone, not even its id.
    blank = new_session_row(found.skey, SessionDraft(app=partition.app, id="", user_id=None, now=0))
    stone = SessionHead(session=blank, version=found.version, stage="gone", until=until)
    if not (yield from at.commit(partition, stone, {})):
        return False
    yield from ask(at.engine.remove_rows, partition, keys.prefix(found.skey + 1))
    yield from drop_shelves_of(at, partition.app, found.session.user_id, [found.skey])
    return True


def delete_user(at: Partitions, app: str, user_id: str, now: int, tombstone_until: int) -> Flow[UserRemoved]:
    """The contract's `delete_user`."""
    del now
    total = events = 0
    for head in (yield from all_heads(at, app, user_id)):
        # Whether it is expired makes no difference here, so the time is one at which nothing is.
        key = SessionKey(app, head.session.id, user_id)
        if (yield from delete_session(at, key, -1, tombstone_until)):
            total, events = total + 1, events + head.session.last_seq
    return UserRemoved(total, events, (yield from forget_user(at, app, user_id)))


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
            if found is None or head is None:
                continue
            if found.stage != "live":
                if found.until <= now:
                    yield from _forget(at, entry.partition, head)
            elif total < limit and is_expired(found.session, now) and key.admits(found.session.user_id):
                total += yield from _forget(at, entry.partition, head)
        if len(entries) < _PAGE:
            return total
        after = entries[-1]


def _forget(at: Partitions, partition: Partition, head: Head) -> Flow[bool]:
    """Remove a partition; False where somebody changed it meanwhile."""
    found = load_head(head)
    done = yield from at.repeat(partition, head.version, None, {})
    if done:
        yield from ask(at.engine.remove_rows, partition, keys.prefix(found.skey + 1))
        if found.stage == "live":
            yield from drop_shelves_of(at, partition.app, found.session.user_id, [found.skey])
    return done
