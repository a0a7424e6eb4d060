"""What databases refuse, in the library's words, by the codes that the modules of their drivers find in an error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import exc as sa_exc

from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._sql.driver.damage import is_damaged
from langchain_sessions._sql.driver.drivers import special_of
from langchain_sessions.errors import (
    CorruptRowError,
    InvalidInputError,
    SchemaError,
    SchemaMissingError,
    StoreError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Dialect
    from sqlalchemy.engine import URL

    from langchain_sessions._sql.driver.connecting import Engines
    from langchain_sessions._sql.driver.runner import Work
    from langchain_sessions._sql.driver.transaction import Transaction

T = TypeVar("T")
# PostgreSQL: serialisation failure, deadlock. MySQL and MariaDB: deadlock, and a record that changed since it was read.
_LOST_RACES = ("40001", "40P01")
_MYSQL_RACES = (1213, 1020)
_TOO_LARGE = (1153, 8025, "54000")
"""MariaDB and MySQL: a packet that is larger than `max_allowed_packet`; TiDB: an entry; PostgreSQL: a limit."""
_MOST_BYTES = 10**9
"""Beyond that no supported database takes a value, and each says so in ways of its own."""
# No server that is set up sensibly takes less, so what is smaller did not die of its size.
_SMALLEST_LIMIT = 1 << 20
# Classes of SQLSTATE: connection exceptions, interventions of the operator, and resources that ran out.
_UNREACHABLE = ("08", "57P", "53")
# Invalid authorisation in SQLSTATEs; access denied to a schema, for a user, and by a plugin in MySQL's numbers.
_REFUSED_LOGINS = ("28000", "28P01", 1044, 1045, 1698)
# A command on a table, on a column, and what takes a privilege of the server.
_MYSQL_RIGHTS = (1142, 1143, 1227)
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_CANNOT_BE_REACHED = "The database cannot be reached."
_START_IT = "start it, or correct host and port of the URL"
# How drivers, and Python for them, begin to say that they do not know an option, or not such a value of it.
_MISTAKEN = ("bad value", "could not convert", "invalid", "unexpected keyword")
_UNKNOWN = "The database could not do it; see the cause."
_UNREADABLE_ROW = "Something stored that this call needs cannot be read; other sessions can."


def _column_missing() -> StoreError:
    return SchemaError("The tables of the database are not those of this release: a column is missing.")


def _locked() -> StoreError:
    return StoreUnavailableError("The database is locked by another process; try again.")


def _waited() -> StoreError:
    # Not run again: whoever holds it that long has forgotten it, or needs longer than anybody would wait.
    return StoreUnavailableError(
        "What this call needs was locked by another transaction for longer than lock_timeout; nothing was written. End "
        "that transaction (pg_blocking_pids and pg_terminate_backend on PostgreSQL, SHOW PROCESSLIST and KILL on "
        "MariaDB), or give SessionService a longer lock_timeout; then try again."
    )


def _not_allowed() -> StoreError:
    return StoreError(
        "The account of the database may not do this; nothing was written. Grant it SELECT, INSERT, UPDATE and DELETE "
        "on the session tables; to create or migrate them it has to own them, or another account does."
    )


def _full() -> StoreError:
    return StoreUnavailableError("The disk of the database is full; nothing was written.")


def _read_only() -> StoreError:
    return StoreUnavailableError("The database is read-only; nothing was written.")


def _read_only_file() -> StoreError:
    return StoreUnavailableError(
        "The database is read-only: its file, its folder or the disk; nothing was written. To read what is there, give "
        "sqlite:///file:/path/chat.db?mode=ro&immutable=1&uri=true"
    )


def _not_opened() -> StoreError:
    return StoreUnavailableError(
        "The database file cannot be opened. Its folder has to exist, and this process to be allowed to write there."
    )


def _disk_failed() -> StoreError:
    return StoreUnavailableError("The disk of the database failed, or a limit of it was reached.")


def _no_database() -> StoreError:
    return StoreError("The file is not a usable SQLite database; it was not touched.")


_BY_CODE: dict[Any, Callable[[], StoreError]] = {
    **dict.fromkeys(("42P01", 1146), SchemaMissingError),
    **dict.fromkeys(("42703", 1054), _column_missing),
    **dict.fromkeys(("55P03", 1205), _waited),
    **dict.fromkeys(("42501", *_MYSQL_RIGHTS), _not_allowed),
    **dict.fromkeys(("53100", 1021, 1114), _full),
    **dict.fromkeys(("25006", 1290), _read_only),
}
_BY_WORDS: dict[str, Callable[[], StoreError]] = {
    "no such table": SchemaMissingError,
    "no such column": _column_missing,
    "has no column": _column_missing,
    "locked": _locked,
    "busy": _locked,
    "is full": _full,
    "readonly database": _read_only_file,
    "unable to open database file": _not_opened,
    "disk i/o error": _disk_failed,
    "not a database": _no_database,
    "malformed": _no_database,
    "corrupt": _no_database,
}
"""What SQLite says, which has no codes that every Python version hands on."""


class UniqueViolationError(StoreError):
    """A row with that key exists already. Internal: operations turn it into an answer."""

    def __init__(self) -> None:
        """Say what a caller would need to know, if one ever saw it."""
        super().__init__("The database refused a row whose key exists; nothing was written.")


class LostRaceError(Exception):
    """The database took the transaction back in favour of another; it is run again."""


class DeadConnectionError(Exception):
    """The connection turned out to be dead before it could be known that the operation happened."""

    sent_bytes = 0
    """How large the statement was that it died of, or with."""


def too_large(sent_bytes: int) -> InvalidInputError:
    """What is to be stored is larger than the database takes: repeating it would not help."""
    megabytes = f"{sent_bytes / 1e6:.1f} MB are" if sent_bytes else "it is"
    limit = "max_allowed_packet of MariaDB and MySQL; 1 GB elsewhere"
    return InvalidInputError(
        "message", f"{megabytes} more than the server takes at once ({limit}); nothing was written"
    )


def fitting(work: Work[T], error: Exception) -> Work[T]:
    """Some work that is tried again: MariaDB hangs up on what is too large for it, so it is asked what it takes.

    Raises:
        InvalidInputError: Less than was sent (raised by the work).
    """
    sent_bytes = error.sent_bytes if isinstance(error, DeadConnectionError) else 0
    if sent_bytes < _SMALLEST_LIMIT:
        return work
    operation, given, named = work

    def run(tx: Transaction, *args: Any, **kwargs: Any) -> T:
        if tx.flavour == "mysql" and sent_bytes >= tx.ask("SELECT @@max_allowed_packet")[0][0]:
            raise too_large(sent_bytes)
        return operation(tx, *args, **kwargs)

    return run, given, named


class PassedInError(Exception):
    """What a function that the caller passed in has raised: it is told as it is, not as a row that cannot be read."""

    def __init__(self, error: Exception) -> None:
        """Carry the error out of the operation."""
        super().__init__()
        self.error = error


class Failures:
    """What the drivers of some engines raise."""

    def __init__(self, engines: Engines) -> None:
        """Know the drivers of these engines."""
        self._engines = engines

    def told(self, error: Exception, transaction: Transaction | None, *, alive: bool) -> Exception:
        """`translated`, of an error in a transaction that came as far as this."""
        read = [] if transaction is None else transaction.read
        sent_bytes = 0 if transaction is None else transaction.sent_bytes

        def damaged() -> bool:
            return transaction is not None and is_damaged(read, transaction.tables)

        found = self.translated(error, alive=alive, is_damaged=damaged, sent_bytes=sent_bytes)
        if isinstance(found, DeadConnectionError):
            found.sent_bytes = sent_bytes
        return found

    def translated(
        self,
        error: Exception,
        *,
        alive: bool = True,
        is_damaged: Callable[[], bool] | None = None,
        sent_bytes: int = 0,
    ) -> Exception:
        """The library's error for a driver's, or the internal one that says what to do."""
        driver: Any = error.orig if isinstance(error, sa_exc.DBAPIError) and error.orig is not None else error
        dialect = self._dialect_of(driver)
        dbapi: Any = dialect.dbapi
        if isinstance(error, sa_exc.TimeoutError):
            return StoreUnavailableError("No connection became free in time.")
        if not isinstance(driver, (dbapi.Error, OSError)):
            # Over a broken connection drivers trip over themselves in ways of their own.
            if not alive:
                return DeadConnectionError()
            # It tripped over what it read, or over a mistake of its own.
            damaged = isinstance(error, UNREADABLE) and is_damaged is not None and is_damaged()
            return CorruptRowError(_UNREADABLE_ROW) if damaged else error
        code = _code_of(dialect, driver)
        if code in _TOO_LARGE or "too big" in str(driver).lower() or sent_bytes >= _MOST_BYTES:
            return too_large(sent_bytes)
        # The tables have no other constraints than keys and NOT NULL, and what is written is never NULL where it may
        # not be.
        if isinstance(driver, dbapi.IntegrityError) and alive:
            return UniqueViolationError()
        if code in _LOST_RACES or code in _MYSQL_RACES:
            return LostRaceError()
        if not alive or dialect.is_disconnect(driver, None, None):  # type: ignore[arg-type]
            return DeadConnectionError()
        return _store_error(code, driver, dbapi)

    def connecting(self, error: Exception) -> Exception:
        """The same for what a driver raised when it was to open a connection."""
        refused = refused_option(self._engines.url, error)
        if refused is not None:
            return refused
        if isinstance(error, (TypeError, ValueError)):
            return StoreUnavailableError(f"{self._place()} could not be opened by its driver; see the cause.")
        translated = self.translated(error)
        # What the error says precisely stands; only the two general sentences gain by the address.
        if type(translated) is not StoreUnavailableError or str(translated) not in (_UNKNOWN, _CANNOT_BE_REACHED):
            return translated
        driver: Any = getattr(error, "orig", None) or error
        if (
            _code_of(self._dialect_of(driver), driver) in _REFUSED_LOGINS
            or "authentication failed" in str(driver).lower()
        ):
            return StoreUnavailableError(f"{self._place()} refused the user or the password of the URL.")
        return StoreUnavailableError(f"{self._place()} cannot be reached; {_START_IT}, and see the cause.")

    def _place(self) -> str:
        """Where the database is, as its URL says: host and port, never who logs in."""
        url, dialect = self._engines.url, self._engines.dialect
        if not url.host:
            return "The database"
        return f"The database at {url.host}:{url.port or _PORTS.get(dialect.name, 0)}"

    def _dialect_of(self, driver: Any) -> Dialect:
        """The dialect of the driver that raised: on MariaDB each face has a driver with errors of its own."""
        if self._engines.async_ is not None:
            other: Any = self._engines.async_.dialect
            if isinstance(driver, other.dbapi.Error):
                return cast("Dialect", other)
        return self._engines.dialect


def refused_option(url: URL, error: Exception) -> InvalidInputError | None:
    """What to say where an option of the URL is at fault, by its name; None where something else is."""
    # Of what was given every driver repeats something, so that an error which names no option is about another thing.
    told = str(getattr(error, "orig", None) or error).replace('"', "'")
    if not any(words in told.lower() for words in _MISTAKEN):
        return None
    for name, given in url.query.items():
        values = (given,) if isinstance(given, str) else given
        if re.search(rf"\b{re.escape(name)}\b", told) or any(f"'{each}'" in told for each in values):
            return InvalidInputError("database", f"the driver does not take the option {name!r} as the URL has it")
    return None


def _code_of(dialect: Dialect, error: Any) -> Any:
    """What the database says went wrong: an SQLSTATE or a number; None from SQLite, which says it in words."""
    special = special_of(dialect)
    return None if special is None else special.code_of(error)


def _store_error(code: Any, driver: Any, dbapi: Any) -> StoreError:
    if code in _BY_CODE:
        return _BY_CODE[code]()
    if isinstance(code, str) and code.startswith(_UNREACHABLE):
        return StoreUnavailableError(_CANNOT_BE_REACHED)
    text = str(driver).lower()
    for words, problem in _BY_WORDS.items():
        if words in text:
            return problem()
    if isinstance(driver, (dbapi.OperationalError, OSError)):
        return StoreUnavailableError(_UNKNOWN)
    return StoreError("The database refused the operation; see the cause.")


def bytes_in(value: Any) -> int:
    """How large the values of a statement are, about."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_in, value))
    return len(value) if isinstance(value, (bytes, bytearray, memoryview)) else 8
