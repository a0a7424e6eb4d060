"""How an operation speaks to a database: transactions from their begin to their end, prepared statements in between.

Statements are built with SQLAlchemy Core and compiled once per dialect; then the driver gets text and positional
values. Measured per SQLite append: driver alone 10 µs, this path 32 µs, Core per call 91 µs, ORM about 200 µs.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from sqlalchemy import BindParameter, Dialect, bindparam
from sqlalchemy.sql import visitors

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._sql.driver.failures import PassedInError, bytes_in
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.errors import SessionsError, StoreUnavailableError

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ClauseElement
    from sqlalchemy.types import TypeEngine

    from langchain_sessions._sql.driver.damage import Read
    from langchain_sessions._sql.driver.kept_connections import Writer
    from langchain_sessions._sql.tables.schema import Tables

P = ParamSpec("P")
T = TypeVar("T")
Values = Mapping[str, Any]
Row = tuple[Any, ...]
Given = Values | Row
Build = Callable[..., "ClauseElement"]


class Later:
    """The outcome of a statement that waits to be sent. Its rows are there once it was."""

    __slots__ = ("changed", "last_id", "rows")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.rows: list[Row] = []
        self.changed = 0
        """How many rows were changed, where statements are sent together."""
        self.last_id = 0
        """Likewise, the id that MySQL generated."""

    @property
    def row(self) -> Row | None:
        """The first row, or None."""
        return self.rows[0] if self.rows else None


class Queued(NamedTuple):
    """A statement that waits to be sent."""

    text: str
    values: Row
    outcome: Later


Send = Callable[[Any, Sequence[Queued]], None]


def param(name: str, type_: TypeEngine[Any] | None = None) -> BindParameter[Any]:
    """A value that a statement is given when it runs."""
    return bindparam(name, type_=type_, required=False)


def _spell_out(bound: BindParameter[Any]) -> None:
    """Write whole numbers that a statement is built with into its text, so that nothing is sent for them each time."""
    values = bound.value if bound.expanding else [bound.value]
    bound.literal_execute |= isinstance(values, list) and all(type(value) is int for value in values)
    bound.required = False  # spelling them out, SQLAlchemy would ask for all values


class Prepared:
    """One statement, compiled: its text and the order of its values."""

    __slots__ = ("bind", "columns", "fixed", "names", "text")

    def __init__(self, statement: ClauseElement, dialect: Dialect, order: Sequence[str] = ()) -> None:
        """Compile the statement for positional values, which it is given by name; or in an `order`, which is sooner."""
        visitors.traverse(statement, {}, {"bindparam": _spell_out})
        # Lists of values are written out into the text here: what is compiled once cannot grow when it runs.
        compiled: Any = cast("Any", statement).compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
        self.text = str(compiled)
        self.columns: tuple[str, ...] = tuple(getattr(statement, "exported_columns", {}).keys())
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self.fixed = fixed = {name: value for name, value in compiled.params.items() if value is not None}
        placed = itemgetter(*map(order.index, self.names)) if order else None
        self.bind: Callable[[Any], Row] = placed or binding(self.names, fixed)
        """The values in the order of the text; literals of the statement are filled in."""


def binding(names: tuple[str, ...], fixed: Values) -> Callable[[Values], Row]:
    """`Prepared.bind`: of most statements a function of C, since every statement of every call goes through it."""
    if len(names) > 1 and not fixed:
        return itemgetter(*names)
    return lambda values: tuple([values[name] if name in values else fixed[name] for name in names])


class StatementCache:
    """Statements of one store by name or shape. Bounded by the shapes that the code can make."""

    def __init__(self, dialect: Dialect, tables: Tables) -> None:
        """Compile for a dialect with positional values."""
        self.dialect = dialect
        # Both speak the same SQL here. Where they do not (collations of the DDL), the dialect's own name decides.
        self.flavour = "mysql" if dialect.name == "mariadb" else dialect.name
        self.tables = tables
        self.known: dict[Hashable, Prepared] = {}

    def add(self, shape: Hashable, statement: ClauseElement, order: Sequence[str] = ()) -> Prepared:
        """Keep the statement of this shape, compiled."""
        known = self.known[shape] = Prepared(statement, self.dialect, order)
        return known


_MAX_QUEUE = 256  # statements that wait hold their values in memory


class Transaction:
    """One transaction as an operation sees it; where a connection is kept, one after the other.

    Statements whose outcome nobody needs yet wait, where the driver can send several at once, until an answer is
    asked for or the transaction ends. They run in the order in which they were given.
    """

    __slots__ = (
        *("_cursor", "_is_shared", "_last_id", "_queue", "_read", "_send", "_sent"),
        *("blob", "cache", "connection", "execute", "flavour", "pipelines", "tables"),
    )

    def __init__(self, connection: Any, cache: StatementCache, send: Send | None = None, cursor: Any = None) -> None:
        """Speak over a driver connection by its `cursor`, or by a new one; `send` sends several statements at once."""
        self.connection = connection
        self._is_shared = cursor is not None
        self._cursor = connection.cursor() if cursor is None else cursor
        self.execute: Callable[..., Any] = self._cursor.execute
        """The driver's, past what waits: where nothing can wait."""
        self._send = send
        self.pipelines = send is not None
        """Whether statements that wait are sent together: then one more costs no round trip."""
        self._queue: list[Queued] = []
        self._sent: Sequence[Any] = ()
        self._last_id: int | None = None
        self._read: list[tuple[tuple[str, ...], Later | Sequence[Row]]] = []
        self.cache = cache
        self.tables: Tables = cache.tables
        """The tables that operations work on."""
        self.flavour: str = cache.flavour
        """`sqlite`, `postgresql` or `mysql` (MariaDB included)."""
        # SQLite's driver looks for an adapter of bytes, as of None, which takes as long as the rest of a short row.
        self.blob: type[bytes | bytearray] = bytearray if cache.flavour == "sqlite" else bytes

    def prepare(self, shape: Hashable, build: Build, *args: Any) -> Prepared:
        """The statement of this shape, which is built of `args` and compiled on first use."""
        return self.cache.known.get(shape) or self.cache.add(shape, build(*args))

    def prepare_for(self, order: Sequence[str], shape: Hashable, build: Build, *args: Any) -> Prepared:
        """`prepare`, for values that are not given by their names but in an order."""
        return self.cache.known.get(shape) or self.cache.add(shape, build(*args), order)

    # -- now -----------------------------------------------------------------------------------------------

    def rows(self, statement: Prepared, values: Given) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        found = self.ask(statement.text, statement.bind(values))
        self._read.append((statement.columns, found))
        return found

    def row(self, statement: Prepared, values: Given) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        if self._queue:
            found = self.rows(statement, values)
            return found[0] if found else None
        self._sent = sent = statement.bind(values)
        self.execute(statement.text, sent)
        # To its end: what is read in part keeps SQLite's lock.
        found = self._cursor.fetchall()
        if not found:
            return None
        self._read.append((statement.columns, found))
        first: tuple[Any, ...] = found[0]
        return first

    def run(self, statement: Prepared, values: Given) -> int:
        """Run a statement; how many rows it changed."""
        if self._queue:
            outcome = self._wait(statement.text, statement.bind(values))
            self.flush()
            self._last_id = outcome.last_id
            return outcome.changed
        self._sent = sent = statement.bind(values)
        self.execute(statement.text, sent)
        self._last_id = None
        changed: int = self._cursor.rowcount
        return changed

    @property
    def last_id(self) -> int:
        """What the driver reports as the id that the last `run` generated."""
        return int(self._cursor.lastrowid) if self._last_id is None else self._last_id

    def script(self, text: str) -> None:
        """Run one statement without values, such as a DDL statement."""
        if self._queue:
            self.flush()
        self.execute(text)

    def ask(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query in the dialect's own words, such as a question to its catalogue."""
        if self._queue:
            outcome = self._wait(text, values)
            self.flush()
            return outcome.rows
        self._sent = values
        self.execute(text, values)
        return list(self._cursor.fetchall())  # some drivers answer with a tuple

    def once(self, statement: ClauseElement) -> list[tuple[Any, ...]]:
        """Compile and run a query that is too rare to keep."""
        return self.rows(Prepared(statement, self.cache.dialect), {})

    # -- later ---------------------------------------------------------------------------------------------

    def later(self, statement: Prepared, values: Values) -> Later:
        """Run a statement whose rows are needed after the next `flush`, or never."""
        outcome = self._wait(statement.text, statement.bind(values))
        if statement.columns:
            self._read.append((statement.columns, outcome))
        return outcome

    def run_many(self, statement: Prepared, values: Sequence[Values]) -> None:
        """Run a statement for each of several sets of values."""
        self.insert_tuples(statement, [statement.bind(item) for item in values])

    def insert_tuples(self, statement: Prepared, values: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows whose values are in the statement's order already."""
        if self._send is not None and len(values) <= _MAX_QUEUE:
            for item in values:
                self._wait(statement.text, item)
        elif len(values) == 1:
            self._sent = values[0]
            self.execute(statement.text, values[0])
        elif values:
            self.flush()
            self._sent = values
            self._cursor.executemany(statement.text, values)

    def change(self, statement: ClauseElement) -> None:
        """Compile and run a change that is too rare to keep."""
        self.later(Prepared(statement, self.cache.dialect), {})

    def begin(self, setting: str = "") -> None:
        """Begin a transaction, with a setting of its own if one is given."""
        self._wait("BEGIN", ())
        if setting:
            self._wait(setting, ())

    @property
    def read(self) -> list[Read]:
        """What was read so far, for who asks whether it can be what was written."""
        return [(names, found.rows if isinstance(found, Later) else found) for names, found in self._read]

    @property
    def sent_bytes(self) -> int:
        """How large the values of the last statement were, for who asks whether it was too large."""
        return bytes_in(self._sent)

    def commit(self) -> None:
        """Send what waits, and commit."""
        self._wait("COMMIT", ())
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if not self._queue:
            return
        queue, self._queue = self._queue, []
        if len(queue) > 1:
            assert self._send is not None
            self._sent = [item.values for item in queue]
            if not (self._is_shared and self._cursor.send(queue)):
                self._send(self.connection, queue)
        else:
            self._execute(*queue[0])
            queue[0].outcome.changed = int(self._cursor.rowcount)
            queue[0].outcome.last_id = int(getattr(self._cursor, "lastrowid", 0) or 0)

    def _wait(self, text: str, values: tuple[Any, ...]) -> Later:
        outcome = Later()
        if self._send is None:
            self._sent = values
            self.execute(text, values)
            if self._cursor.description is not None:
                outcome.rows = list(self._cursor.fetchall())
        else:
            self._queue.append(Queued(text, values, outcome))
            if len(self._queue) >= _MAX_QUEUE:
                self.flush()
        return outcome

    def _execute(self, text: str, values: tuple[Any, ...], outcome: Later) -> None:
        self._sent = values
        self.execute(text, values)
        if self._cursor.description is not None:
            outcome.rows = list(self._cursor.fetchall())

    def close(self) -> bool:
        """Close the cursor; whether its connection is still good. What waits is not sent."""
        self._queue.clear()
        try:
            self._cursor.close()
        except Exception:
            return False
        return True

    def let_go(self) -> bool:
        """Forget what was done, for the next transaction on the connection; whether that is still good."""
        self._read.clear()
        self._sent = ()
        return self.close() if self._is_shared else not self._queue

    def rollback(self) -> None:
        """Undo what was begun."""
        (self._cursor if self._is_shared else self.connection).rollback()

    def renew(self) -> None:
        """Speak on after an error, by a cursor that holds nothing of it."""
        if not self._is_shared:
            self._cursor = self.connection.cursor()
            self.execute = self._cursor.execute


_NORMAL = 1
# To find a member of an enumeration takes longer than a call.
_READ, _RELAXED = TransactionKind.READ, TransactionKind.RELAXED


class Boundaries(ABC):
    """Where a transaction begins and ends on a driver connection.

    Attributes:
        borrows: Whether a connection has to be brought into the kind that operations need; where not, nobody asks.
    """

    borrows = True

    def __init__(self, *, owned: bool) -> None:
        """End transactions on connections of the library's own, or (not `owned`) of the caller's."""
        self._owned = owned

    def borrow(self, driver: Any) -> Any:
        """Bring a connection into the kind that operations need; what to restore where it is the caller's."""
        del driver

    @abstractmethod
    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin, where the kind needs that to be said."""

    @abstractmethod
    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Send what waits, and commit."""

    def give_back(self, driver: Any, was: Any) -> bool:
        """Restore the kind of a caller's connection; whether the connection is still good."""
        del driver, was
        return True


def check_file(path: str, inode: int) -> None:
    """Refuse to write to a file that nobody could open any more: SQLite would go on and say that all is well.

    Raises:
        StoreUnavailableError: It was deleted, moved or replaced.
    """
    if not path:
        return
    try:
        is_there = os.stat(path).st_ino == inode  # noqa: PTH116 - once for each append
    except OSError:
        is_there = False
    if not is_there:
        problem = f"{path} was deleted or replaced while it was open. Nothing was written: open it by a new service."
        raise StoreUnavailableError(problem)


class SqliteBoundaries(Boundaries):
    """SQLite: what writes takes the lock at once, so that nothing can fail in the middle for want of it."""

    def __init__(self, *, owned: bool, writer: Writer) -> None:
        """Begin on any connection, knowing the one that is kept for writing."""
        super().__init__(owned=owned)
        self._writer = writer
        # Connections of the library's own have it from the start; those of a caller may come from anywhere, each time.
        self.borrows = not owned

    def borrow(self, driver: Any) -> Any:
        """What is deleted must not linger in the file, also where the engine is the caller's."""
        driver.execute("PRAGMA secure_delete = ON")

    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin, unless it only reads."""
        if kind is not _READ:
            if kind is _RELAXED or self._writer.was_flushing:
                self._set_flushing(transaction, kind)
            # A plain BEGIN would read first and then fail to become a writer, which no waiting helps against.
            transaction.execute("BEGIN IMMEDIATE")

    def _set_flushing(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Whether the writing connection waits for the disk. Each transaction says so before it begins."""
        # The pragma counts for a connection, and it is refused inside a transaction.
        writer = self._writer
        if transaction is not writer.kept:
            return  # a connection of the pool, which always waits
        if kind is not _RELAXED:
            transaction.script(f"PRAGMA synchronous = {writer.was_flushing:d}")
            writer.was_flushing = 0
        elif not writer.was_flushing:
            level = int(transaction.ask("PRAGMA synchronous")[0][0])
            # Who asked for less durability than that keeps what was asked for.
            if level > _NORMAL:
                transaction.script(f"PRAGMA synchronous = {_NORMAL}")
                writer.was_flushing = level

    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Commit, unless it only read."""
        del driver
        if kind is not _READ:
            transaction.execute("COMMIT")


def call_passed_in(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what the caller passed in.

    Raises:
        PassedInError: It raised something that would be taken for a trace of what was read.
    """
    try:
        return function(*args, **kwargs)
    except SessionsError:
        raise
    except UNREADABLE as error:
        raise PassedInError(error) from error
