"""State that reaches beyond one session: a partition for each user and each app, a row for each key.

A session writes it after its own commit and before the append returns. What an append that was cut short left
unwritten, the session's head says; whoever opens or changes the session next writes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.state import require_owner, split_delta
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import Change, Partitions
from langchain_sessions.stores._partitioned.heads import dump_json
from langchain_sessions.stores._values import StateRows
from langchain_sessions.stores.engine import Head, Partition, Range

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._partitioned.heads import SessionHead


def _of_user(app: str, user_id: str) -> Partition:
    return Partition(app, "u", keys.digest(user_id))


def _of_app(app: str) -> Partition:
    return Partition(app, "a", "")


def write_owed(at: Partitions, key: SessionKey, now: int, own_deltas: Collection[str | None] = ()) -> Flow[None]:
    """Write the shared values that a session's events set and that may not be written yet.

    Those of `own_deltas` are this call's, which may be a repeat of one that was cut short.
    """
    head = yield from at.find_session(key, now)
    if head is None or not head.owed:
        return
    own: list[str] = []
    newest: int | None = None
    for delta, written_at in head.owed:
        found = yield from _write_shared(at, head.session.app, head.session.user_id, delta, written_at)
        if written_at == now or delta in own_deltas:
            own.append(delta)
            newest = newest if found is None else max(found, newest or found)
    # This call's own values are the last that were written: where another one's time is later, a clock is behind. All
    # of them are written again, in their order, at one time behind it.
    later = () if newest is None else tuple((delta, newest + 1) for delta in own)
    done = {*head.owed, *later}

    def decide(found: SessionHead) -> Flow[Change]:
        yield from ()
        # Others, to whom it is late, may have taken it off meanwhile: it is owed all the same.
        owed = (*(each for each in found.owed if each not in done), *later)
        if found.skey != head.skey or owed == found.owed:
            return Change(None)
        return Change(None, replace(found, owed=owed))

    yield from at.change(key, now, decide, is_repeatable=True)
    if later:
        yield from write_owed(at, key, now)


def is_shared(delta: str | None) -> bool:
    """Whether a delta reaches beyond its session."""
    split = split_delta(delta)
    return bool(split.user or split.app)


def _write_shared(
    at: Partitions, app: str, user_id: str | None, delta: str | None, now: int, *, is_late: bool = True
) -> Flow[int | None]:
    """Write the shared values of a delta: the last writer wins. The time of what was set later, if that kept some away.

    Where it is not late nothing was set since, whatever a clock says, and all of it is written.
    """
    split = split_delta(delta)
    places = [(_of_user(app, user_id), split.user)] if split.user and user_id is not None else []
    places += [(_of_app(app), split.app)] if split.app else []
    found: list[int] = []
    for place, changes in places:
        newest = yield from at.in_turn(place, _write(at, place, changes, now, is_late=is_late))
        if newest is not None:
            found.append(newest)
    return max(found, default=None)


def _write(
    at: Partitions, partition: Partition, changes: Mapping[str, str | None], now: int, *, is_late: bool
) -> Flow[int | None]:
    lost = 0
    while True:
        head = (yield from ask(at.engine.read_heads, [partition]))[0]
        skey = at.new_number() if head is None else json.loads(head.body)["number"]
        names = {keys.at(skey, keys.VALUE, name): name for name in changes}
        stored = yield from ask(at.engine.read_rows, partition, [keys.exactly(each) for each in names])
        # What an interrupted append left may be written late: it must not go over what was set since.
        newer = {row.key: time for rows in stored for row in rows if (time := json.loads(row.value)[2]) > now}
        newest = max(newer.values(), default=None)
        kept, stamp = (newer, now) if is_late or newest is None else ({}, newest + 1)
        # A key that was deleted stays as a row without a value, whose time keeps older values away.
        rows = {each: dump_json([name, changes[name], stamp]) for each, name in names.items() if each not in kept}
        made = Head(1 if head is None else head.version + 1, dump_json({"number": skey}))
        if not rows or (yield from at.repeat(partition, made.version - 1, made, rows)):
            return newest if kept else None
        lost += 1
        yield from at.race(lost, "Shared state")


def load_state(at: Partitions, key: SessionKey, now: int) -> Flow[StateRows]:
    """The contract's `load_state`."""
    session = (yield from at.require(key, now)).session
    shared = yield from load_shared(at, session.app, session.user_id)
    return shared._replace(session=session.state)


def load_shared(at: Partitions, app: str, user_id: str | None) -> Flow[StateRows]:
    """The contract's `load_shared`."""
    user: dict[str, str] = {}
    if user_id is not None:
        user = yield from _read(at, _of_user(app, user_id))
    return StateRows("{}", user, (yield from _read(at, _of_app(app))))


def change_shared(at: Partitions, app: str, user_id: str | None, delta: str, now: int) -> Flow[StateRows]:
    """The contract's `change_shared`."""
    require_owner(user_id, [delta])
    yield from _write_shared(at, app, user_id, delta, now, is_late=False)
    return (yield from load_shared(at, app, user_id))


def _read(at: Partitions, partition: Partition) -> Flow[dict[str, str]]:
    head = (yield from ask(at.engine.read_heads, [partition]))[0]
    if head is None:
        return {}
    start = keys.under(keys.at(json.loads(head.body)["number"], keys.VALUE))
    found = (yield from ask(at.engine.read_rows, partition, [Range(start.low, start.high)]))[0]
    return {name: value for name, value, _ in (json.loads(row.value) for row in found) if value is not None}


def forget_user(at: Partitions, app: str, user_id: str) -> Flow[int]:
    """Remove what is remembered of a user; how many keys."""
    partition = _of_user(app, user_id)
    lost = 0
    while True:
        head = (yield from ask(at.engine.read_heads, [partition]))[0]
        if head is None:
            return 0
        known = yield from _read(at, partition)
        # First a number that no row has: who is cut short leaves a head, by which the rows are found again.
        number = at.new_number(json.loads(head.body)["number"])
        fresh = Head(head.version + 1, dump_json({"number": number}))
        if (yield from at.repeat(partition, head.version, fresh, {})):
            yield from ask(at.engine.remove_rows, partition, keys.prefix(number))
            yield from at.repeat(partition, fresh.version, None, {})
            return len(known)
        lost += 1
        yield from at.race(lost, "Shared state")
