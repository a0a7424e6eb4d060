"""What a database goes on keeping of rows that were removed, and the statements that clear it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._sql.tables.schema import flavour_dialect
from langchain_sessions.stores._erasing import BACKUPS, Remainder

if TYPE_CHECKING:
    from langchain_sessions._sql.tables.schema import Tables

_PAGES = "copies of rows in the unused part of pages that were split, until the file is written anew"


def remainders_of(flavour: str, tables: Tables) -> tuple[Remainder, ...]:
    """What a database keeps: `sqlite`, `postgresql`, `mysql` or `mariadb`."""
    quote = flavour_dialect(flavour).identifier_preparer.quote
    named = [quote(str(table.name)) for table in tables.metadata.sorted_tables if table is not tables.versions]

    def each(statement: str) -> tuple[str, ...]:
        return tuple(statement.format(name) for name in named)

    if flavour == "sqlite":
        samples = Remainder("samples of keys in sqlite_stat4, where ANALYZE was run", ("ANALYZE",))
        return (Remainder(_PAGES, ("VACUUM",)), samples, BACKUPS)
    if flavour == "postgresql":
        return (
            Remainder("dead rows, until autovacuum was there, and their bytes after it", each("VACUUM FULL {}")),
            Remainder("samples of columns in pg_statistic, until the next ANALYZE", each("ANALYZE {}")),
            Remainder(
                "the write-ahead log and its archive, as long as they are kept",
                ("CHECKPOINT", "SELECT pg_switch_wal()"),
            ),
            Remainder("the server's log, where log_statement or log_min_duration_statement is set"),
            BACKUPS,
        )
    anew = "ANALYZE TABLE {} PERSISTENT FOR ALL" if flavour == "mariadb" else "ANALYZE TABLE {}"
    return (
        Remainder("dead rows, until purge was there, and their bytes after it", each("OPTIMIZE TABLE {}")),
        Remainder("samples of columns in the server's statistics, where they were made", each(anew)),
        Remainder("binary logs, as long as they are kept", ("FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW()")),
        Remainder("the general and the slow log, where they are on", ("FLUSH GENERAL LOGS", "FLUSH SLOW LOGS")),
        BACKUPS,
    )
