"""Statements on a psycopg connection of the library's own, below psycopg's cursors.

A statement that comes back is prepared by its text, whatever the types of its values, and is then given to libpq as it
is: psycopg's cursors would look up each time how to write each value, and whether the statement is prepared. What is
said a few times only, and values of other types than the tables have, go through a cursor of psycopg's.
"""

from __future__ import annotations

import secrets
from itertools import compress
from typing import TYPE_CHECKING, Any

from psycopg import generators
from psycopg.adapt import Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.rows import tuple_row

from langchain_sessions._sql.driver.failures import LostRaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sqlalchemy import Dialect

    from langchain_sessions._sql.driver.transaction import Queued

_TEXT, _BINARY = int(Format.TEXT), int(Format.BINARY)
_GOOD = (int(ExecStatus.TUPLES_OK), int(ExecStatus.COMMAND_OK))
_ABORTED, _IDLE = int(ExecStatus.PIPELINE_ABORTED), int(TransactionStatus.IDLE)
_MOST_PREPARED = 100
"""Statements on each connection: the server keeps the plans of each."""
_MOST_COUNTED = 500
_GONE, _OUTDATED = "26000", "0A000"
"""SQLSTATEs of a prepared statement that is gone, or whose rows have other columns since the tables were altered."""
_MOST_SMALL = 1_000
_SMALL = tuple([b"%d" % number for number in range(_MOST_SMALL)])
_NO_NUMBER = object()
_Given = tuple["list[bytes | None]", "list[int] | None"]


class _Plan:
    """A statement that a connection knows by a name, once it was prepared, and how its rows are read."""

    __slots__ = ("_has_loaders", "_rows", "name", "text")

    def __init__(self, text: str, connection: Any) -> None:
        self.name = b""
        self.text = text.encode()
        self._rows = Transformer(connection)
        self._has_loaders = False

    def one(self, result: Any) -> Any:
        """The first row of an answer, or None."""
        return self._reading(result).load_row(0, tuple) if result.ntuples else None

    def all(self, result: Any) -> list[Any]:
        """The rows of an answer."""
        rows: list[Any] = self._reading(result).load_rows(0, result.ntuples, tuple)
        return rows

    def let_go(self) -> None:
        """Hold no answer."""
        self._rows.set_pgresult(None, set_loaders=False)

    def _reading(self, result: Any) -> Any:
        self._rows.set_pgresult(result, set_loaders=not self._has_loaders)
        self._has_loaders = True
        return self._rows


class Cursor:
    """What the transactions of a connection share. To them it is as a cursor of psycopg's.

    Args:
        driver: The connection of either face, as SQLAlchemy has it.
        dialect: Knows what is in it.
    """

    __slots__ = (
        "_connection",
        "_driver",
        "_inner",
        "_is_plain",
        "_made",
        "_names",
        "_plan",
        "_plans",
        "_result",
        "_used",
        "_wait",
    )

    def __init__(self, driver: Any, dialect: Dialect) -> None:
        """See the class."""
        inside: Any = dialect.get_driver_connection(driver)
        self._driver = driver
        self._connection = inside
        self._wait: Callable[[Any], Any] = self._await if dialect.is_async else driver.wait
        self._plans: dict[str, _Plan] = {}
        self._used: dict[str, int] = {}
        self._made = 0
        # Nobody else's: a pooler may pass what is said here on to a server's connection of which others say how
        # statements are called, and what is called alike would be run in the place of this.
        self._names = secrets.token_hex(8).encode()
        prepared: Any = getattr(inside, "_prepared", None)
        if hasattr(prepared, "_prepared_idx"):
            prepared._prepared_idx = secrets.randbits(62)  # noqa: SLF001 - psycopg has no other way to say it
        self._plan: _Plan | None = None
        self._result: Any = None
        self._inner: Any = None
        # Who has rows or texts made in ways of their own goes through psycopg.
        self._is_plain = inside.row_factory is tuple_row and inside.info.encoding == "utf-8"

    def execute(self, text: str, values: Sequence[Any] = ()) -> None:
        """Run a statement."""
        plan = self._plans.get(text) or self._counted(text)
        if plan is None or (given := _as_given(values)) is None:
            self._passed_on("execute", text, values)
            return
        connection = self._connection.pgconn
        if not plan.name:
            name = self._next_name()
            connection.send_prepare(name, plan.text)
            self._require(self._wait(generators.execute(connection))[-1])
            plan.name = name
        connection.send_query_prepared(plan.name, *given, _BINARY)
        self._result = result = self._wait(generators.execute(connection))[-1]
        if result.status not in _GOOD:
            self._require(result)
        self._plan = plan

    def executemany(self, text: str, values: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of many sets of values: psycopg does that in a pipeline of its own."""
        self._passed_on("executemany", text, values)

    def _passed_on(self, name: str, text: str, values: Any) -> None:
        """What is not ours to do is done by a cursor of psycopg's."""
        self._plan = self._result = None
        if self._inner is None:
            self._inner = self._driver.cursor()
        try:
            getattr(self._inner, name)(text, values)
        except InvalidSqlStatementName as error:
            self._prepare_no_more()
            raise LostRaceError from error

    def _prepare_no_more(self) -> None:
        """Say statements in full: a pooler may give each transaction another connection to the server."""
        self._plans.clear()
        self._connection.prepare_threshold = None

    def send(self, queue: Sequence[Queued]) -> bool:
        """Run several statements in one packet; False where psycopg has to see to a value of theirs."""
        given = [values for item in queue if (values := _as_given(item.values)) is not None]
        if len(given) < len(queue) or not self._is_plain:
            return False
        plans = [self._plans.get(item.text) or self._counted(item.text) for item in queue]
        connection = self._connection.pgconn
        fresh: list[str] = []
        try:
            connection.enter_pipeline_mode()
            are_answers: list[bool] = []
            for item, plan, values in zip(queue, plans, given, strict=True):
                if plan is None:
                    connection.send_query_params(item.text.encode(), values[0], None, values[1], _BINARY)
                else:
                    if not plan.name:
                        fresh.append(item.text)
                        plan.name = self._next_name()
                        connection.send_prepare(plan.name, plan.text)
                        are_answers.append(False)
                    connection.send_query_prepared(plan.name, *values, _BINARY)
                are_answers.append(True)
            connection.pipeline_sync()
            answers = self._wait(_all_answers(connection, len(are_answers)))
            connection.exit_pipeline_mode()
            self._require(*answers)
        except BaseException:
            for text in fresh:  # whether they were prepared is not known
                self._plans.pop(text, None)
            if connection.pipeline_status:
                connection.finish()  # half of it was sent, and nobody will read the answers
            raise
        found = compress(answers, are_answers)
        for item, plan, result in zip(queue, plans, found, strict=True):
            item.outcome.changed = int(result.command_tuples or 0)
            if result.nfields:
                reading = plan or _Plan("", self._connection)
                item.outcome.rows = reading.all(result)
                reading.let_go()
        return True

    def fetchone(self) -> Any:
        """The first row, or None."""
        return self._inner.fetchone() if self._plan is None else self._plan.one(self._result)

    def fetchall(self) -> Any:
        """All rows."""
        return self._inner.fetchall() if self._plan is None else self._plan.all(self._result)

    @property
    def rowcount(self) -> int:
        """How many rows were changed, or found."""
        return int(self._inner.rowcount if self._plan is None else self._result.command_tuples or 0)

    @property
    def description(self) -> Any:
        """None where there are no rows to fetch."""
        return self._inner.description if self._plan is None else self._result.nfields or None

    def close(self) -> None:
        """Let go what was read; what is prepared stays for the next transaction."""
        if self._plan is not None:
            self._plan.let_go()
            self._plan = self._result = None
        if self._inner is not None:
            inner, self._inner = self._inner, None
            inner.close()

    def rollback(self) -> None:
        """Undo what was begun. psycopg has the server forget then what was prepared, of which it knows a part."""
        was_idle = self._connection.pgconn.transaction_status == _IDLE
        self._driver.rollback()
        if not was_idle and self._plans:
            self._plans.clear()
            cursor = self._driver.cursor()
            cursor.execute("DEALLOCATE ALL")
            cursor.close()

    def _counted(self, text: str) -> _Plan | None:
        """The plan of a statement that comes back; None where it does not yet, or is not prepared here."""
        uses = self._used[text] = self._used.get(text, 0) + 1
        threshold = self._connection.prepare_threshold
        if type(threshold) is int and uses > threshold and len(self._plans) < _MOST_PREPARED and self._is_plain:
            plan = self._plans[text] = _Plan(text, self._connection)
            return plan
        if len(self._used) > _MOST_COUNTED:
            self._used.clear()
        return None

    def _next_name(self) -> bytes:
        self._made += 1
        return b"_langchain_sessions_%s_%d" % (self._names, self._made)

    def _require(self, *results: Any) -> None:
        """Raise what the server says went wrong."""
        for result in results:
            if result.status not in _GOOD and result.status != _ABORTED:
                error = error_from_result(result)
                if error.sqlstate == _GONE:
                    self._prepare_no_more()
                elif error.sqlstate == _OUTDATED:
                    self._plans.clear()
                else:
                    raise error
                raise LostRaceError from error

    def _await(self, running: Any) -> Any:
        return self._driver.run_async(lambda connection: connection.wait(running))


def _all_answers(connection: Any, expected: int) -> Generator[Any, Any, list[Any]]:
    """What is yielded and sent here is as psycopg's own generators have it; returned are the answers, in order."""
    yield from generators.send(connection)
    answers: list[Any] = []
    for _ in range(expected):
        answers += yield from generators.fetch_many(connection)
    yield from generators.fetch_many(connection)  # of the end itself
    return answers


def _as_given(values: Sequence[Any]) -> _Given | None:
    """Values as libpq takes them, and their formats; None where psycopg has to see to one of them."""
    given: list[bytes | None] = []
    add = given.append
    formats: list[int] | None = None
    number: Any = _NO_NUMBER
    digits = b""
    for value in values:
        if value is number:
            add(digits)  # the time of a call stands several times in most statements
            continue
        kind = type(value)
        if kind is str and "\0" not in value:
            add(value.encode())
        elif kind is int:
            if 0 <= value < _MOST_SMALL:
                add(_SMALL[value])
            else:
                number, digits = value, b"%d" % value
                add(digits)
        elif value is None:
            add(None)
        elif kind is bytes:
            if formats is None:
                formats = [_TEXT] * len(values)
            formats[len(given)] = _BINARY
            add(value)
        else:
            return None
    return given, formats
