"""Partitions in Cassandra: head and rows in one of its partitions, set by one conditional batch, which is the append.

Cassandra completes a batch whose answer got lost when somebody asks at SERIAL; before that a reader at QUORUM may see
the head without the rows. So rows are read only behind a head whose batch is known to be complete: because it was
written here, or because SERIAL was asked once.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from langchain_sessions import errors
from langchain_sessions._core.edge import require
from langchain_sessions._core.flow import Flow, ask, drive, faces
from langchain_sessions.stores._cassandra.link import Link
from langchain_sessions.stores._cassandra.statements import VERSION, schema
from langchain_sessions.stores._erasing import Remainder, of_cassandra
from langchain_sessions.stores._wide import lists, pieces, shelves
from langchain_sessions.stores._wide.work import NAME, NAMES, Do, Known
from langchain_sessions.stores.engine import Head, Listed, Partition, PartitionEngine, Range, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.rows import Owner


_MOST_BYTES: Final = 8_000_000
"""What one batch may hold: half of what Cassandra takes as it is delivered."""
# Heads that are remembered, to spare a read before a commit; without one it is read.
_MOST_KNOWN: Final = 20_000
_AT_ONCE: Final = 64
_TRIES: Final = 4
_PREFIX: Final = re.compile(r"\A[A-Za-z0-9_]{0,30}\Z")
_SLOWER: Final = 4
"""A conditional batch takes as long as several statements of other databases, so races are spread wider."""


class CassandraEngine(PartitionEngine):
    """Keeps partitions in a keyspace.

    Args:
        database: A URL `cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1`, or a `Session` of the
            driver that has a keyspace; one that is given stays open.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use.
    """

    is_async: ClassVar[bool] = True

    def __init__(self, database: Any, *, table_prefix: str = "", create_schema: bool | None = None) -> None:
        """Nothing is opened yet."""
        require(_PREFIX.match(table_prefix), "table_prefix", "use at most 30 letters, digits and underscores")
        self._link = Link(database, table_prefix)
        self._prefix = table_prefix
        self._creates = bool(create_schema)
        self._is_ready = False
        self._known: dict[Partition, Known] = {}
        self._noted: set[tuple[str, str, int]] = set()

    def create_schema(self) -> None:
        """Create the tables that are missing."""
        try:
            drive(self._open())
        except errors.SchemaMissingError:
            for statement in schema(self._link.session().keyspace, self._prefix):
                self._link.execute(statement)

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        return of_cassandra(self._link.session().keyspace)

    def close(self) -> None:
        """Close the session, unless it was given."""
        self._is_ready = False
        self._link.close()

    # -- statements ----------------------------------------------------------------------------------------

    def _ready(self) -> Flow[None]:
        if self._is_ready:
            return
        try:
            yield from self._open()
        except errors.SchemaMissingError:
            if not self._creates:
                raise
            yield from ask(self.create_schema)
            yield from self._open()

    def _open(self) -> Flow[None]:
        """Prepare the statements, and look whether the tables are those of this release."""
        yield from ask(self._link.prepare)
        found = (yield from ask(self._link.send, [Do("version", ())]))[0]
        if not found:
            raise errors.SchemaMissingError
        if int(found[0][0]) > VERSION:
            raise errors.SchemaVersionError(int(found[0][0]), VERSION)
        self._is_ready = True

    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        """Run statements beside each other; the rows of each."""
        yield from self._ready()
        found: list[list[Any]] = []
        for start in range(0, len(work), _AT_ONCE):
            found += yield from self._insist(work[start : start + _AT_ONCE], serial=serial)
        return found

    def _insist(self, work: Sequence[Do], *, serial: bool) -> Flow[list[list[Any]]]:
        """Every statement may be repeated, and a node that died takes some time to be known as dead."""
        for attempt in range(1, _TRIES):
            try:
                return (yield from ask(self._link.send, work, serial=serial))
            except errors.StoreUnavailableError:
                yield from ask(self.pause, 0.02 * 4**attempt)
        return (yield from ask(self._link.send, work, serial=serial))

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        """Run statements on one partition as one."""
        yield from self._ready()
        return (yield from ask(self._link.batch, work))

    # -- reading -------------------------------------------------------------------------------------------

    def _note(self, partition: Partition, known: Known) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[partition] = known

    def forget(self, partition: Partition) -> None:
        """Look at a head anew when it is asked for."""
        self._known.pop(partition, None)

    def read_serially(self, partition: Partition) -> Flow[Known]:
        """The head as SERIAL has it: a commit that was under way is complete now, or will never be."""
        found = yield from self.run([Do("head", (*partition,))], serial=True)
        known = Known.of(found[0])._replace(is_certain=True)
        self._note(partition, known)
        return known

    def _read_heads(self, partitions: Sequence[Partition]) -> Flow[list[Head | None]]:
        """The heads at QUORUM; whether they are certain is looked at when rows are read."""
        found = yield from self.run([Do("head", (*partition,)) for partition in partitions])
        heads: list[Head | None] = []
        for partition, rows in zip(partitions, found, strict=True):
            known, before = Known.of(rows), self._known.get(partition)
            is_certain = before is not None and before.stamp == known.stamp and before.is_certain
            self._note(partition, known._replace(is_certain=is_certain))
            heads.append(known.head)
        return heads

    read_heads, aread_heads = faces(_read_heads)

    def _read_rows(self, partition: Partition, ranges: Sequence[Range]) -> Flow[list[list[Row]]]:
        if not ranges:
            return []
        known = self._known.get(partition)
        if known is None or not known.is_certain:
            known = yield from self.read_serially(partition)
        found = yield from shelves.read(self, partition, known, ranges)
        return (yield from pieces.joined(self, partition, found))

    read_rows, aread_rows = faces(_read_rows)

    # -- writing -------------------------------------------------------------------------------------------

    def _commit(
        self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]
    ) -> Flow[bool]:
        known = self._known.get(partition)
        if known is None or known.version != expected:
            yield from self._read_heads([partition])
            known = self._known[partition]
        if known.version != expected:
            return False
        if head is None:
            return known.head is None or (yield from self._remove(partition, known))
        rows = yield from pieces.cut(self, partition, rows)
        size = len(head.body) + sum(len(key) + len(value or b"") for key, value in rows.items())
        if size > _MOST_BYTES:
            raise errors.InvalidInputError("messages", f"take {size} bytes; Cassandra takes {_MOST_BYTES} at once")
        stamp = secrets.token_bytes(NAME) + b"".join(known.names[: NAMES - 1])
        after = Known(head, stamp, known.weight + shelves.weight_of(rows), known.moved, known.shelved, is_certain=True)
        yield from self.run(lists.entering(self._noted, partition, known.head, head))
        values = (lists.life(head), head.version, head.body, head.owner, head.listed, head.due, stamp, after.weight)
        work = [Do("set_head", (*values, *partition, known.stamp))]
        work += [shelves.write(partition, known, key, value) for key, value in rows.items()]
        if not (yield from self._decide(partition, work, known, stamp[:NAME])):
            return False
        if self._known.get(partition) is known:
            self._note(partition, after)
        yield from self.run(lists.leaving(partition, known.head, head))
        if after.weight - after.moved > shelves.MOST:
            yield from shelves.seal(self, partition)
        return True

    commit, acommit = faces(_commit)

    def _decide(self, partition: Partition, work: Sequence[Do], known: Known, mine: bytes | None) -> Flow[bool]:
        """Run a conditional batch. Where its answer is lost, ask what became of it.

        Raises:
            StoreUnavailableError: Too few nodes are there to say.
            CommitUnknownError: Too many others followed to say.
        """
        try:
            answer = (yield from self.together(work))[0]
        except errors.StoreUnavailableError:
            self.forget(partition)
            now = yield from self.read_serially(partition)
        else:
            if answer[0]:
                return True
            self.forget(partition)
            # A batch that a node tried twice is refused for what it has written itself.
            now = Known(stamp=answer[-1] if isinstance(answer[-1], bytes) else None)
            return mine in now.names
        if mine in now.names:
            return True
        if len(now.names) < NAMES or not {*known.names[:1]}.isdisjoint(now.names):
            return False  # all names since are there
        raise errors.CommitUnknownError("Whether a commit happened is not known: many others wrote since.")

    def _remove(self, partition: Partition, known: Known) -> Flow[bool]:
        """Remove a head, then the rows that were written before it was."""
        written = (yield from self.run([Do("newest_write", (*partition,))], serial=True))[0]
        if not (yield from self._decide(partition, [Do("drop_head", (*partition, known.stamp))], known, None)):
            return False
        self.forget(partition)
        work = [Do("drop_rows", (row[0], *partition, shelves.LAST)) for row in written if row[0]]
        yield from self.run([*lists.leaving(partition, known.head, None), *work])
        yield from shelves.remove(self, partition, shelves.LAST)
        return True

    def _remove_rows(self, partition: Partition, below: str) -> Flow[None]:
        # Keys are never used twice, so the time may be later than any clock's.
        yield from self.run([Do("drop_rows", (shelves.late(), *partition, below))])
        yield from shelves.remove(self, partition, below)

    remove_rows, aremove_rows = faces(_remove_rows)

    def _list_heads(self, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> Flow[list[Listed]]:
        return (yield from lists.list_heads(self, app, owner, after, limit))

    list_heads, alist_heads = faces(_list_heads)

    def _list_due(self, app: str, before: int, after: Listed | None, limit: int) -> Flow[list[Listed]]:
        return (yield from lists.list_due(self, app, before, after, limit))

    list_due, alist_due = faces(_list_due)

    def pause(self, /, seconds: float) -> None:
        """Wait after a lost race."""
        time.sleep(seconds * _SLOWER)

    async def apause(self, /, seconds: float) -> None:
        """Async `pause`."""
        await asyncio.sleep(seconds * _SLOWER)
