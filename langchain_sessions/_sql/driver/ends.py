"""How a transaction begins and ends, database by database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from langchain_sessions._sql.driver.modes import LONG, Mode

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction

_NORMAL = 1


class Ends(ABC):
    """Both ends of a transaction on a driver connection."""

    def __init__(self, *, owned: bool) -> None:
        """End transactions on connections of the library's own, or (not `owned`) of the caller's."""
        self._owned = owned

    def borrow(self, driver: Any) -> Any:
        """Bring a connection into the mode that operations need; what to restore where it is the caller's."""
        del driver

    @abstractmethod
    def begin(self, transaction: Transaction, mode: Mode) -> None:
        """Begin, where the mode needs that to be said."""

    @abstractmethod
    def commit(self, driver: Any, transaction: Transaction, mode: Mode) -> None:
        """Send what waits, and commit."""

    def give_back(self, driver: Any, was: Any) -> bool:
        """Restore the mode of a caller's connection; whether the connection is still good."""
        del driver, was
        return True


class Writer:
    """The connection that a store keeps for writing to SQLite, which spares the pool's round; None until then.

    Attributes:
        connection: The driver's connection.
        was_flushing: The level of `synchronous` that it goes back to; 0 where it has it.
    """

    __slots__ = ("connection", "was_flushing")

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.connection: Any = None
        self.was_flushing = 0

    def release(self) -> Any:
        """Keep nothing any more; what was kept."""
        connection, self.connection = self.connection, None
        self.was_flushing = 0
        return connection


class SqliteEnds(Ends):
    """SQLite: what writes takes the lock at once, so that nothing can fail in the middle for want of it."""

    def __init__(self, *, owned: bool, writer: Writer) -> None:
        """Begin on any connection, knowing the one that is kept for writing."""
        super().__init__(owned=owned)
        self._writer = writer

    def borrow(self, driver: Any) -> Any:
        """What is deleted must not linger in the file, also where the engine is the caller's."""
        if not self._owned:
            driver.execute("PRAGMA secure_delete = ON")

    def begin(self, transaction: Transaction, mode: Mode) -> None:
        """Begin, unless it only reads."""
        if mode is not Mode.READ:
            if mode is Mode.RELAXED or self._writer.was_flushing:
                self._set_flushing(transaction, mode)
            transaction.script("BEGIN IMMEDIATE")

    def _set_flushing(self, transaction: Transaction, mode: Mode) -> None:
        """Whether the writing connection waits for the disk. Each transaction says so before it begins."""
        writer = self._writer
        if writer.connection is None or not transaction.uses(writer.connection):
            return  # a connection of the pool, which always waits
        if mode is not Mode.RELAXED:
            transaction.script(f"PRAGMA synchronous = {writer.was_flushing:d}")
            writer.was_flushing = 0
        elif not writer.was_flushing:
            level = int(transaction.ask("PRAGMA synchronous")[0][0])
            if level > _NORMAL:
                transaction.script(f"PRAGMA synchronous = {_NORMAL}")
                writer.was_flushing = level

    def commit(self, driver: Any, transaction: Transaction, mode: Mode) -> None:
        """Commit, unless it only read."""
        del driver
        if mode is not Mode.READ:
            transaction.script("COMMIT")


class PostgresEnds(Ends):
    """PostgreSQL: autocommit, and BEGIN and COMMIT sent together with the statements beside them."""

    def borrow(self, driver: Any) -> Any:
        """Turn autocommit on."""
        was = driver.autocommit
        if not was:
            driver.autocommit = True
        return was

    def begin(self, transaction: Transaction, mode: Mode) -> None:
        """Begin where there may be several statements."""
        if mode in LONG:
            transaction.begin("SET LOCAL synchronous_commit TO off" if mode is Mode.RELAXED else "")

    def commit(self, driver: Any, transaction: Transaction, mode: Mode) -> None:
        """Commit what was begun."""
        del driver
        if mode in LONG:
            transaction.commit()
        else:
            transaction.flush()

    def give_back(self, driver: Any, was: Any) -> bool:
        """Turn autocommit off again where the connection is the caller's."""
        if was is False and not self._owned:
            try:
                driver.autocommit = False
            except Exception:
                return False
        return True


class MysqlEnds(Ends):
    """MySQL and MariaDB: the driver begins by itself, and reads are ended too."""

    def begin(self, transaction: Transaction, mode: Mode) -> None:
        """A caller's engine may commit by itself after each statement."""
        if not self._owned and mode is not Mode.READ:
            transaction.script("BEGIN")

    def commit(self, driver: Any, transaction: Transaction, mode: Mode) -> None:
        """Commit by the driver."""
        del transaction, mode
        driver.commit()


def ends_for(flavour: str, writer: Writer, *, owned: bool) -> Ends:
    """How transactions begin and end on a kind of database."""
    if flavour == "sqlite":
        return SqliteEnds(owned=owned, writer=writer)
    return PostgresEnds(owned=owned) if flavour == "postgresql" else MysqlEnds(owned=owned)
