"""Reading partitions and changing them: what every operation is made of."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langchain_sessions._core.expiry import is_expired
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.ledger import marks_of
from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions.errors import CommitUnknownError, CorruptRowError, SessionNotFoundError, StoreUnavailableError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.heads import SessionHead, dump_event, dump_head, load_event, load_head
from langchain_sessions.stores._partitioned.turns import Turns
from langchain_sessions.stores.engine import Partition, Range, Row

if TYPE_CHECKING:
    from langchain_sessions._core.ranges import SeqRange
    from langchain_sessions._core.rows import EventRow, SessionKey
    from langchain_sessions.stores.engine import Head, PartitionEngine

T = TypeVar("T")
# At four at once and pauses of 25 ms in the mean after them, some five seconds.
_MOST_RACES = 200
_PATIENT_RACES = 4
"""Races lost at once, before a writer waits a moment for the others."""
_LONGEST_PAUSE = 0.05
ROWS_AT_ONCE = 256
"""How many rows one read or one commit takes where it could take any number."""

Rows = dict[str, "bytes | None"]


class Change(NamedTuple):
    """What a decision comes to: an answer, and the head and the rows to commit; no head where nothing changes."""

    answer: Any
    head: SessionHead | None = None
    rows: Mapping[str, bytes | None] = {}


Decide = Callable[[SessionHead], Flow[Change]]
"""Made from a head that was just read. It may be made again from a newer one."""


class Partitions:
    """The partitions of an engine.

    Attributes:
        places: By their own keys, where the sessions are that were listed last.
    """

    def __init__(self, engine: PartitionEngine) -> None:
        """Use an engine."""
        self.engine = engine
        self._guard = new_lock()
        self._newest = 0
        self._turns = Turns()
        self.places: dict[int, Partition] = {}

    def new_number(self, after: int = 0) -> int:
        """A number for a partition that none has or had: the time, and ten random bits against other processes."""
        with self._guard:
            # 51 bits of microseconds and ten more fit 63 until the year 2255; a clock that goes back is made up for
            # below.
            made = time.time_ns() // 1000 << 10 | secrets.randbits(10)
            self._newest = max(made, self._newest + 1, after + 1)
            return self._newest

    # -- reading -------------------------------------------------------------------------------------------

    def find(self, partition: Partition) -> Flow[SessionHead | None]:
        """The head of a session's partition, whatever it says."""
        found = yield from ask(self.engine.read_heads, [partition])
        return None if found[0] is None else load_head(found[0])

    def find_session(self, key: SessionKey, now: int) -> Flow[SessionHead | None]:
        """The head of the session of a key; None where there is none for it."""
        found = yield from self.find(name_of(key))
        return found if found is not None and is_there(found, key, now) else None

    def require(self, key: SessionKey, now: int) -> Flow[SessionHead]:
        """`find_session`, or raise.

        Raises:
            SessionNotFoundError: There is none for this key.
        """
        found = yield from self.find_session(key, now)
        if found is None:
            raise SessionNotFoundError(key.id)
        return found

    def rows(self, head: SessionHead, ranges: Sequence[Range]) -> Flow[list[list[Row]]]:
        """Rows of a session, by range."""
        found: list[list[Row]] = []
        for start in range(0, len(ranges), ROWS_AT_ONCE):
            some = ranges[start : start + ROWS_AT_ONCE]
            found += yield from ask(self.engine.read_rows, partition_of(head), some)
        return found

    def all_rows(self, head: SessionHead, wanted: Range) -> Flow[list[Row]]:
        """All rows of a range, a part at a time."""
        found: list[Row] = []
        low = wanted.low
        while True:
            some = (yield from self.rows(head, [Range(low, wanted.high, ROWS_AT_ONCE)]))[0]
            found += some
            if len(some) < ROWS_AT_ONCE:
                return found
            # The least text behind a key that no key is: keys hold letters, digits and strokes.
            low = f"{some[-1].key}!"

    def events(self, head: SessionHead, runs: Iterable[SeqRange]) -> Flow[list[EventRow]]:
        """The events at some positions, in log order."""
        found = yield from self.rows(head, keys.in_runs(head.skey, keys.EVENT, runs))
        return [load_event(row.value) for rows in found for row in rows]

    def some_events(
        self, head: SessionHead, low: int, high: int, count: int, *, newest: bool = False
    ) -> Flow[list[EventRow]]:
        """The first events between two positions; or the last ones, from the end.

        Raises:
            SessionNotFoundError: The session was deleted meanwhile.
            CorruptRowError: The log has a gap.
        """
        wanted = keys.between(head.skey, keys.EVENT, low, high, count, newest=newest)
        found = (yield from self.rows(head, [wanted]))[0]
        if len(found) < min(count, high - low + 1):
            # Rows go after the head has: a deletion in between is no damage.
            again = yield from self.find(partition_of(head))
            if again is None or again.stage != "live" or again.skey != head.skey:
                raise SessionNotFoundError(head.session.id)
            raise CorruptRowError(f"The log of session {head.session.id!r} has a gap.")
        return [load_event(row.value) for row in found]

    # -- changing ------------------------------------------------------------------------------------------

    def commit(self, partition: Partition, head: SessionHead, rows: Mapping[str, bytes | None]) -> Flow[bool]:
        """Write a head in the place of the one that it was made from; False where that was replaced meanwhile.

        Raises:
            CommitUnknownError: Nobody can say any more whether it was written.
        """
        # Names this commit in the head that it writes, so that it can be recognised where the answer is lost.
        token = secrets.token_hex(4)
        try:
            return (yield from ask(self.engine.commit, partition, head.version, dump_head(head, token), rows))
        except CommitUnknownError:
            # The engine does not know: the head does, as long as not too many others followed.
            found = yield from self.find(partition)
            if found is not None and token in found.tokens:
                return True
            # More commits have followed than heads remember names of.
            if found is not None and found.version - head.version > len(found.tokens):
                raise
            return False

    def repeat(
        self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> Flow[bool]:
        """A commit that does no harm twice: where nobody knows whether it happened, it is as if it had not."""
        try:
            return (yield from ask(self.engine.commit, partition, expected, head, rows))
        except CommitUnknownError:
            return False

    def race(self, lost: int, what: str) -> Flow[None]:
        """Wait after a lost race, and give up after very many.

        Raises:
            StoreUnavailableError: Others keep winning.
        """
        if lost >= _MOST_RACES:
            raise StoreUnavailableError(f"{what} could not be written: other writers keep winning.")
        if lost >= _PATIENT_RACES:
            longest = min(_LONGEST_PAUSE, 0.001 * 2 ** min(lost - _PATIENT_RACES, 10))
            # Drawn, or writers that lost together would meet again together.
            yield from ask(self.engine.pause, random.uniform(0, longest))  # noqa: S311 - spreads writers

    def change(self, key: SessionKey, now: int, decide: Decide, *, is_repeatable: bool = False) -> Flow[Any]:
        """Change the session of a key, however many others do.

        Args:
            key: The session.
            now: The present.
            decide: What to write.
            is_repeatable: A decision that was written already comes to nothing: it may be made again where nobody
                can say whether it was.

        Raises:
            SessionNotFoundError: There is none for this key.
            CommitUnknownError: Nobody can say whether it was written, and it is not repeatable.
        """
        name = name_of(key)
        return (yield from self.in_turn(name, self._change(key, name, now, decide, is_repeatable=is_repeatable)))

    def in_turn(self, partition: Partition, work: Flow[T]) -> Flow[T]:
        """Do what ends with a commit, after those of this process that began before."""
        if not self.engine.waits:
            return (yield from work)
        has_turn = yield from ask(self._turns.take, partition)
        try:
            return (yield from work)
        finally:
            if has_turn:
                self._turns.leave(partition)

    def _change(self, key: SessionKey, name: Partition, now: int, decide: Decide, *, is_repeatable: bool) -> Flow[Any]:
        lost = 0
        while True:
            found = yield from self.require(key, now)
            change = yield from decide(found)
            try:
                if change.head is None or (yield from self.commit(name, change.head, change.rows)):
                    return change.answer
            except CommitUnknownError:
                if not is_repeatable:
                    raise
            lost += 1
            yield from self.race(lost, f"Session {key.id!r}")


def name_of(key: SessionKey) -> Partition:
    """The partition of the session of a key."""
    return session_partition(key.app, key.id)


def partition_of(head: SessionHead) -> Partition:
    """The partition that a head is of."""
    return session_partition(head.session.app, head.session.id)


def session_partition(app: str, session_id: str) -> Partition:
    """The partition of a session: nothing of the id can be read from its name, which outlives the session a while."""
    return Partition(app, "s", keys.digest(session_id))


def is_there(head: SessionHead, key: SessionKey, now: int) -> bool:
    """Whether a head is a session that this key reaches."""
    return head.stage == "live" and key.admits(head.session.user_id) and not is_expired(head.session, now)


def event_rows(skey: int, events: Iterable[EventRow]) -> Rows:
    """The rows of new events: themselves, under their names, and what their deltas and marks are found by."""
    events = list(events)
    rows: Rows = {}
    for event in events:
        rows[keys.at(skey, keys.EVENT, event.seq)] = dump_event(event)
        for name in {event.ident, event.id}:
            rows[f"{keys.at(skey, keys.NAME)}/{keys.digest(name)}/{event.seq:016x}"] = b""
        if event.delta is not None:
            rows[keys.at(skey, keys.DELTA, event.seq)] = event.delta.encode()
    for mark in marks_of(events):
        rows[keys.at(skey, keys.MARK, mark.seq)] = f"{mark.kind} {mark.data}".encode()
    return rows


def named(skey: int, names: Iterable[str], since: Mapping[str, int] = MappingProxyType({})) -> list[Range]:
    """The ranges of the positions of events by their names, of some from a position on."""
    found: list[Range] = []
    for name in sorted(names):
        wide = keys.under(f"{keys.at(skey, keys.NAME)}/{keys.digest(name)}")
        found.append(wide._replace(low=f"{wide.low}{since[name]:016x}") if name in since else wide)
    return found


def positions(found: Iterable[Iterable[Row]]) -> SeqSet:
    """The positions that `named` found."""
    return SeqSet.of(int(row.key.rpartition("/")[2], 16) for rows in found for row in rows)
