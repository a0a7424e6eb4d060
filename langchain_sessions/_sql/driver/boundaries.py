"""Where transactions begin and end on the connections of database servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions._sql.driver.transaction import Boundaries, SqliteBoundaries, Writer
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind

if TYPE_CHECKING:
    from langchain_sessions._sql.driver.transaction import Transaction

LONG = (TransactionKind.WRITE, TransactionKind.APPEND, TransactionKind.RELAXED)
"""Modes whose statements share a transaction that is begun and committed in so many words."""


class PostgresBoundaries(Boundaries):
    """PostgreSQL: autocommit, and BEGIN and COMMIT sent together with the statements beside them."""

    def borrow(self, driver: Any) -> Any:
        """Turn autocommit on."""
        was = driver.autocommit
        if not was:
            # psycopg would send a BEGIN of its own before the first statement, and wait for the answer.
            driver.autocommit = True
        return was

    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin where there may be several statements."""
        if kind in LONG:
            transaction.begin("SET LOCAL synchronous_commit TO off" if kind is TransactionKind.RELAXED else "")

    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Commit what was begun."""
        del driver
        if kind in LONG:
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


class MysqlBoundaries(Boundaries):
    """MySQL and MariaDB: on connections of the library's own as on PostgreSQL; a caller's may begin by themselves."""

    def begin(self, transaction: Transaction, kind: TransactionKind) -> None:
        """Begin, unless it only reads. A caller's engine may commit by itself after each statement."""
        if kind is TransactionKind.READ:
            return
        if self._owned:
            transaction.begin()
        else:
            transaction.script("BEGIN")

    def commit(self, driver: Any, transaction: Transaction, kind: TransactionKind) -> None:
        """Send what waits, and commit; on a caller's connection by the driver, which has begun for reads too."""
        if not self._owned:
            driver.commit()
        elif kind is TransactionKind.READ:
            transaction.flush()
        else:
            transaction.commit()


def boundaries_for(flavour: str, writer: Writer, *, owned: bool) -> Boundaries:
    """How transactions begin and end on a kind of database."""
    if flavour == "sqlite":
        return SqliteBoundaries(owned=owned, writer=writer)
    return PostgresBoundaries(owned=owned) if flavour == "postgresql" else MysqlBoundaries(owned=owned)
