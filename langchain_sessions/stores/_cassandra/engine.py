"""Partitions in Cassandra: statements are prepared once, run at QUORUM and SERIAL, and repeated where they may be."""

from __future__ import annotations

import asyncio
import random
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from langchain_sessions import errors
from langchain_sessions._core.edge import require
from langchain_sessions._core.flow import Flow, ask, drive
from langchain_sessions.stores._cassandra.link import BusyError, Link
from langchain_sessions.stores._cassandra.remains import remains_of
from langchain_sessions.stores._cassandra.statements import VERSION, schema
from langchain_sessions.stores._wide.engine import WidePartitions
from langchain_sessions.stores._wide.work import Do

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_sessions.stores._erasing import Remainder

T = TypeVar("T")

_AT_ONCE: Final = 64
_TRIES: Final = 4
_PATIENCE: Final = 30
"""Seconds for which it is asked again where others are in the way: a node says so within a fraction of one."""
_LONGEST_PAUSE: Final = 0.05
_SPREADS: Final = 6
"""How often it is asked again for tables that are being made: some six seconds in all."""
_PREFIX: Final = re.compile(r"\A[A-Za-z0-9_]{0,30}\Z")
_SLOWER: Final = 4
"""A conditional batch takes as long as several statements of other databases, so races are spread wider."""


class CassandraEngine(WidePartitions):
    """Keeps partitions in a keyspace.

    Args:
        database: A URL `cassandra://user:password@host1,host2:9042/keyspace?datacenter=dc1`, or a `Session` of the
            driver that has a keyspace; one that is given stays open.
        table_prefix: Put before every table's name.
        create_schema: Create the tables on first use.
    """

    most_bytes: ClassVar[int] = 8_000_000
    """Half of what Cassandra takes as it is delivered."""

    def __init__(self, database: Any, *, table_prefix: str = "", create_schema: bool | None = None) -> None:
        """Nothing is opened yet."""
        super().__init__()
        require(_PREFIX.match(table_prefix), "table_prefix", "use at most 30 letters, digits and underscores")
        self._link = Link(database, table_prefix)
        self._prefix = table_prefix
        self._creates = bool(create_schema)
        self._is_ready = False

    def create_schema(self) -> None:
        """Create the tables that are missing."""
        try:
            drive(self._open())
        except errors.SchemaMissingError:
            for statement in schema(self._link.session().keyspace, self._prefix):
                drive(self._spread(partial(self._execute, statement)))

    @property
    def remainders(self) -> tuple[Remainder, ...]:
        return remains_of(self._link.session().keyspace)

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
            yield from self._spread(self._open)

    def _execute(self, statement: str) -> Flow[None]:
        yield from self._insist(lambda: ask(self._link.execute, statement), 2)

    def _spread(self, work: Callable[[], Flow[None]]) -> Flow[None]:
        """Do what needs tables that were just made: another node may not know of them yet."""
        for attempt in range(_SPREADS):
            try:
                return (yield from work())
            except errors.SchemaMissingError:
                yield from ask(self.pause, 0.1 * 2**attempt)
        return (yield from work())

    def _open(self) -> Flow[None]:
        """Prepare the statements, and look whether the tables are those of this release."""
        yield from self._insist(lambda: ask(self._link.prepare), 1)
        found = (yield from self._insist(lambda: ask(self._link.send, [Do("version", ())])))[0]
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
            some = work[start : start + _AT_ONCE]
            found += yield from self._insist(partial(self._send, some, serial=serial))
        return found

    def _send(self, work: Sequence[Do], *, serial: bool) -> Flow[list[list[Any]]]:
        return ask(self._link.send, work, serial=serial)

    def _insist(self, work: Callable[[], Flow[T]], tries: int = _TRIES) -> Flow[T]:
        """Do what may be repeated. A node that died is known as dead after a while; others in the way go on."""
        attempt, until = 1, time.monotonic() + _PATIENCE
        while True:
            try:
                return (yield from work())
            except errors.StoreUnavailableError as error:
                is_busy = isinstance(error, BusyError)
                if attempt >= tries and not (is_busy and time.monotonic() < until):
                    raise
            longest = _LONGEST_PAUSE if is_busy else 0.02 * 4**attempt
            # Drawn, or those that were in each other's way would meet again.
            yield from ask(self.pause, random.uniform(longest / 2, longest))  # noqa: S311 - spreads writers
            attempt += 1

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        """Run statements on one partition as one."""
        yield from self._ready()
        return (yield from ask(self._link.batch, work))

    def pause(self, /, seconds: float) -> None:
        """Wait after a lost race."""
        time.sleep(seconds * _SLOWER)

    async def apause(self, /, seconds: float) -> None:
        """Async `pause`."""
        await asyncio.sleep(seconds * _SLOWER)
