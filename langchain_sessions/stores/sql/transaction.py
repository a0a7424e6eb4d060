"""How an operation speaks to a database: prepared statements on a driver connection, without an ORM between.

Statements are built with SQLAlchemy Core and compiled once per dialect; then the driver gets text and positional
values. Measured per SQLite append: driver alone 10 µs, this path 32 µs, Core per call 91 µs, ORM about 200 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import BindParameter, Dialect, bindparam

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ClauseElement
    from sqlalchemy.types import TypeEngine

    from langchain_sessions.stores.sql.schema import Tables

Values = Mapping[str, Any]


def param(name: str, type_: TypeEngine[Any] | None = None) -> BindParameter[Any]:
    """A value that a statement is given when it runs."""
    return bindparam(name, type_=type_, required=False)


class Prepared:
    """One statement, compiled: its text and the order of its values."""

    __slots__ = ("_fixed", "_pick", "names", "text")

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        """Compile the statement for positional values."""
        compiled: Any = cast("Any", statement).compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
        self.text = str(compiled)
        names: list[str] = compiled.positiontup or []
        self.names = tuple(names)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._pick: Callable[[Values], Any] | None = itemgetter(*self.names) if len(self.names) > 1 else None

    def bind(self, values: Values) -> tuple[Any, ...]:
        """The values in the order of the text; literals of the statement are filled in."""
        if self._fixed:
            values = {**self._fixed, **values}
        if self._pick is not None:
            picked: tuple[Any, ...] = self._pick(values)
            return picked
        return tuple(values[name] for name in self.names)


class StatementCache:
    """Statements of one store by name or shape. Bounded by the shapes that the code can make."""

    def __init__(self, dialect: Dialect, tables: Tables) -> None:
        """Compile for a dialect with positional values."""
        self.dialect = dialect
        self.tables = tables
        self._known: dict[Hashable, Prepared] = {}

    def get(self, shape: Hashable, build: Callable[[], ClauseElement]) -> Prepared:
        """The statement of this shape, built on first use."""
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = Prepared(build(), self.dialect)
        return known


class Transaction:
    """One transaction as an operation sees it."""

    __slots__ = ("_connection", "_cursor", "cache")

    def __init__(self, connection: Any, cache: StatementCache) -> None:
        """Speak over a driver connection, synchronous or adapted."""
        self._connection = connection
        self._cursor = connection.cursor()
        self.cache = cache

    @property
    def tables(self) -> Tables:
        """The tables that operations work on."""
        return self.cache.tables

    @property
    def flavour(self) -> str:
        """The kind of database: `sqlite`, `postgresql` or `mysql` (MariaDB included)."""
        name = self.cache.dialect.name
        return "mysql" if name == "mariadb" else name

    def prepare(self, shape: Hashable, build: Callable[[], ClauseElement]) -> Prepared:
        """The statement of this shape, compiled on first use."""
        return self.cache.get(shape, build)

    def rows(self, statement: Prepared, values: Values) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        self._cursor.execute(statement.text, statement.bind(values))
        found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def row(self, statement: Prepared, values: Values) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        self._cursor.execute(statement.text, statement.bind(values))
        found: tuple[Any, ...] | None = self._cursor.fetchone()
        return found

    def run(self, statement: Prepared, values: Values) -> int:
        """Run a statement; how many rows it changed."""
        self._cursor.execute(statement.text, statement.bind(values))
        return int(self._cursor.rowcount)

    def run_many(self, statement: Prepared, values: Sequence[Values]) -> None:
        """Run a statement for each of several sets of values."""
        if len(values) == 1:
            self._cursor.execute(statement.text, statement.bind(values[0]))
        elif values:
            self._cursor.executemany(statement.text, [statement.bind(item) for item in values])

    def insert_tuples(self, statement: Prepared, values: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows whose values are in the statement's order already."""
        if len(values) == 1:
            self._cursor.execute(statement.text, values[0])
        elif values:
            self._cursor.executemany(statement.text, values)

    @property
    def last_id(self) -> int:
        """What the driver reports as the last generated id."""
        return int(self._cursor.lastrowid)

    def script(self, text: str) -> None:
        """Run one statement without values, such as a DDL statement or BEGIN."""
        self._cursor.execute(text)

    def ask(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query in the dialect's own words, such as a question to its catalogue."""
        self._cursor.execute(text, values)
        found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def once(self, statement: ClauseElement) -> list[tuple[Any, ...]]:
        """Compile and run a query that is too rare to keep."""
        return self.rows(Prepared(statement, self.cache.dialect), {})

    def change(self, statement: ClauseElement) -> int:
        """Compile and run a change that is too rare to keep; how many rows it changed."""
        return self.run(Prepared(statement, self.cache.dialect), {})

    def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()
