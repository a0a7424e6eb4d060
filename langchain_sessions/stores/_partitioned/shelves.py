"""An owner's shelves, in a partition of their own: copies of the indexes of many sessions, read together.

No commit spans two partitions. So a session goes first and every shelf that holds it after that, before the deletion
returns; and whoever writes a shelf looks once more, after the commit, whether its sessions are still there. What a
process left that died in between, no search reads, since it asks the heads; the next one removes it.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from langchain_sessions._core.checkpoints import blanked_at
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import ROWS_AT_ONCE, Partitions, Rows
from langchain_sessions.stores._partitioned.heads import dump_json, load_head
from langchain_sessions.stores._values import StoredShelf
from langchain_sessions.stores.engine import Head, Partition, Range, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from langchain_sessions.stores._values import IndexQuery, ShelfChange


@dataclass(frozen=True, slots=True)
class Shelves:
    """What there is on the shelves of an owner.

    Attributes:
        version: The version of the head; 0 where there is none.
        made: Of each shelf by its number: how it was built, and how many slots it has.
        claims: Of each shelf, the sessions on it by their own keys, and up to where it holds each.
        rows: What else was asked for, by key.
    """

    version: int = 0
    made: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, "tuple[str, int]"])
    claims: Mapping[int, Mapping[int, int]] = field(default_factory=dict[int, "Mapping[int, int]"])
    rows: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def copies(self) -> set[tuple[int, int]]:
        """Which sessions there are copies of, each with the position up to where it goes."""
        return {copy for claims in self.claims.values() for copy in claims.items()}

    def holding(self, skeys: Iterable[int]) -> list[int]:
        """The shelves that hold one of these sessions, as it is or as it was."""
        wanted = frozenset(skeys)
        return [number for number, claims in self.claims.items() if not wanted.isdisjoint(claims)]

    def stored(self, held: Callable[[int], bool]) -> list[StoredShelf]:
        """The shelves, with the traits that the caller does not have."""
        found = self.rows
        return [
            StoredShelf(number, made, slots, b"" if held(number) else found.get(keys.at(number, keys.TRAITS), b""))
            for number, (made, slots) in sorted(self.made.items())
        ]

    def buckets(self) -> dict[int, dict[str, bytes]]:
        """What was asked of their terms."""
        found: dict[int, dict[str, bytes]] = {}
        for key, value in self.rows.items():
            number, part, *where = key.split("/")
            if part == keys.BUCKET:
                found.setdefault(int(number, 16), {})[bytes.fromhex(where[0]).decode()] = value
        return found


def shelves_partition(app: str, user_id: str | None) -> Partition:
    """Where the shelves of an owner are."""
    return Partition(app, "o", "" if user_id is None else keys.digest(user_id))


def asked_of(query: IndexQuery, number: int) -> list[Range]:
    """The rows of a shelf that a query asks for; those of its claims and traits apart."""
    found = [keys.exactly(keys.at(number, keys.BUCKET, bucket)) for bucket in query.buckets]
    starts = (keys.at(number, keys.BUCKET, beginning) for beginning in query.beginnings)
    # Behind every hexadecimal digit.
    return found + [Range(start, f"{start}g") for start in starts]


def read_shelves(
    at: Partitions, partition: Partition, asked: Callable[[int], Sequence[Range]] = lambda _: ()
) -> Flow[Shelves]:
    """The shelves of an owner as of one moment, and of each what is asked for besides."""
    head = (yield from ask(at.engine.read_heads, [partition]))[0]
    while True:
        found = _made(head)
        wanted: list[Range] = []
        for number in found:
            wanted += [keys.exactly(keys.at(number, keys.CLAIMS)), *asked(number)]
        rows: dict[str, bytes] = {}
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            some = yield from ask(at.engine.read_rows, partition, wanted[start : start + ROWS_AT_ONCE])
            rows.update((row.key, row.value) for each in some for row in each)
        again = (yield from ask(at.engine.read_heads, [partition]))[0] if wanted else head
        if (again is None) == (head is None) and (head is None or again is None or again.version == head.version):
            claims = {number: _claims(rows.get(keys.at(number, keys.CLAIMS), b"")) for number in found}
            return Shelves(0 if head is None else head.version, found, claims, rows)
        head = again


def read_whole(at: Partitions, partition: Partition, skey: int) -> Flow[Shelves]:
    """The shelves that are to hold a session, with all that is on them, as of one moment."""
    while True:
        known = yield from read_shelves(at, partition)
        mine = known.holding([skey])
        rows: dict[str, bytes] = {}
        for number in mine:
            rows.update((yield from _rows(at, partition, number)))
        again = (yield from ask(at.engine.read_heads, [partition]))[0]
        if not mine or (again is not None and again.version == known.version):
            return replace(
                known,
                made={number: known.made[number] for number in mine},
                claims={number: known.claims[number] for number in mine},
                rows=rows,
            )


def _made(head: Head | None) -> dict[int, tuple[str, int]]:
    return {} if head is None else {number: (made, slots) for number, made, slots in json.loads(head.body)}


def _claims(data: bytes) -> dict[int, int]:
    if not data:
        return {}
    numbers = array("Q", json.loads(data))
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def write_shelf(at: Partitions, change: ShelfChange) -> Flow[bool]:
    """The contract's `write_shelf`."""
    partition = shelves_partition(change.app, change.owner)
    if change.shelf is None and change.logs:
        yield from drop_shelves_of(at, change.app, change.owner, change.logs)
        return True
    if not (yield from _are_there(at, change)):
        return False

    def without(known: Shelves) -> Collection[int] | None:
        return change.replaced if set(change.replaced) <= set(known.made) else None

    if not (yield from _commit(at, partition, without, change)):
        return False
    if (yield from _are_there(at, change)):
        return True
    yield from drop_shelves_of(at, change.app, change.owner, change.logs)
    return False


def _are_there(at: Partitions, change: ShelfChange) -> Flow[bool]:
    """Whether all sessions of a shelf are there, with nothing blanked since it was read."""
    asked = [(skey, at.places.get(skey)) for skey in change.logs]
    if any(partition is None for _, partition in asked):
        return False
    heads = yield from ask(at.engine.read_heads, [partition for _, partition in asked if partition is not None])
    for (skey, _), raw in zip(asked, heads, strict=True):
        head = None if raw is None else load_head(raw)
        if head is None or head.skey != skey or head.stage != "live" or head.session.user_id != change.owner:
            return False
        if blanked_at(head.session) > change.logs[skey]:
            return False
    return True


def drop_shelves_of(
    at: Partitions, app: str, user_id: str | None, skeys: Iterable[int], *, again: bool = False
) -> Flow[None]:
    """Remove every shelf that holds one of these sessions; again, where that was begun and may have been cut short."""
    wanted, partition = list(skeys), shelves_partition(app, user_id)
    yield from _commit(at, partition, lambda known: known.holding(wanted), again=again)


def _commit(
    at: Partitions,
    partition: Partition,
    without: Callable[[Shelves], Collection[int] | None],
    change: ShelfChange | None = None,
    *,
    again: bool = False,
) -> Flow[bool]:
    """Remove shelves, and add one; False, and nothing is changed, where `without` says that it cannot be."""
    lost = 0
    while True:
        known = yield from read_shelves(at, partition)
        shelf = None if change is None else change.shelf
        gone = without(known)
        if shelf is not None and shelf.number in known.made:
            return True  # written by a commit of which nobody could say so
        if gone is None:
            return False
        if not gone and shelf is None and not (again and known.version):
            return True
        made = {number: each for number, each in known.made.items() if number not in gone}
        rows: Rows = {}
        for number in gone:
            rows.update((row.key, None) for row in (yield from _rows(at, partition, number)))
        if shelf is not None and change is not None:
            made[shelf.number] = (shelf.fingerprint, shelf.slots)
            rows |= _written(shelf, change)
        head = Head(known.version + 1, dump_json([[number, *each] for number, each in made.items()]))
        if (yield from at.repeat(partition, known.version, head, rows)):
            if gone or again:
                yield from ask(at.engine.remove_rows, partition, "")
            if not made:
                # Nothing of a user is left where no shelf is.
                yield from at.repeat(partition, head.version, None, {})
            return True
        lost += 1
        yield from at.race(lost, "A shelf")


def _written(shelf: StoredShelf, change: ShelfChange) -> Rows:
    numbers = [number for each in change.logs.items() for number in each]
    rows: Rows = {
        keys.at(shelf.number, keys.CLAIMS): dump_json(numbers),
        keys.at(shelf.number, keys.TRAITS): bytes(shelf.traits),
    }
    rows.update((keys.at(shelf.number, keys.BUCKET, bucket), bytes(data)) for bucket, data in change.buckets.items())
    return rows


def _rows(at: Partitions, partition: Partition, number: int) -> Flow[list[Row]]:
    """All rows of a shelf."""
    found: list[Row] = []
    low, high = keys.prefix(number), keys.prefix(number + 1)
    while True:
        some = (yield from ask(at.engine.read_rows, partition, [Range(low, high, ROWS_AT_ONCE)]))[0]
        found += some
        if len(some) < ROWS_AT_ONCE:
            return found
        low = f"{some[-1].key}!"


def load_shelves(at: Partitions, partition: Partition, numbers: Iterable[int]) -> Flow[dict[int, dict[str, bytes]]]:
    """All terms of some shelves."""
    found: dict[int, dict[str, bytes]] = {}
    for number in numbers:
        rows = yield from _rows(at, partition, number)
        found[number] = Shelves(rows={row.key: row.value for row in rows}).buckets().get(number, {})
    return found
