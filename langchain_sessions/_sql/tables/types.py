"""Column types and tables that mean the same on every database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    INTEGER,
    TEXT,
    VARCHAR,
    BigInteger,
    Column,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.sql import quoted_name

from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

_MYSQL_BINARY = "utf8mb4_0900_bin"
_MARIADB_BINARY = "utf8mb4_nopad_bin"


def ident_type(length: int = 255) -> TypeEngine[str]:
    """A string that compares by code points: case, accents and trailing blanks count."""
    exact = partial(mysql.VARCHAR, length, charset="utf8mb4")
    return (
        String(length)
        .with_variant(VARCHAR(length, collation="C"), "postgresql")
        .with_variant(exact(collation=_MYSQL_BINARY), "mysql")
        .with_variant(exact(collation=_MARIADB_BINARY), "mariadb")
    )


def text_type() -> TypeEngine[str]:
    """Text of any length, in any script."""
    return (
        Text()
        .with_variant(TEXT(collation="C"), "postgresql")
        .with_variant(mysql.LONGTEXT(charset="utf8mb4", collation=_MYSQL_BINARY), "mysql")
        .with_variant(mysql.LONGTEXT(charset="utf8mb4", collation=_MARIADB_BINARY), "mariadb")
    )


def bytes_type() -> TypeEngine[bytes]:
    """Bytes of any length."""
    return LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")


def fixed_bytes(length: int) -> TypeEngine[bytes]:
    """Bytes of a known length, short enough for a key."""
    return LargeBinary(length).with_variant(mysql.VARBINARY(length), "mysql", "mariadb")


def big_key() -> TypeEngine[int]:
    """A session key."""
    return BigInteger().with_variant(INTEGER(), "sqlite")


def session_table(
    metadata: MetaData, name: str, *parts: Column[Any] | Index | UniqueConstraint, large: bool = False
) -> Table:
    """A table of rows that belong to sessions: clustered by its primary key where the engine can.

    Args:
        metadata: Of all tables.
        name: The table's name.
        *parts: Its columns and indexes.
        large: Whether its rows fill pages. SQLite then keeps them apart from the key: in a tree that is clustered,
            looking for one row reads the large ones on the way whole, and inner pages hold copies of some.
    """
    return Table(
        name,
        metadata,
        *parts,
        sqlite_with_rowid=large,
        mysql_engine="InnoDB",
        mysql_row_format="DYNAMIC",
        mysql_default_charset="utf8mb4",
        mariadb_engine="InnoDB",
        mariadb_row_format="DYNAMIC",
        mariadb_default_charset="utf8mb4",
    )


def quoted(name: str) -> quoted_name:
    """A name that is quoted whatever it is."""
    return quoted_name(name, quote=True)


def quote_names(metadata: MetaData) -> None:
    """Quote every name that statements are made of: what is a word of SQL differs between databases and releases."""
    for table in metadata.tables.values():
        for named in (table, *table.columns, *table.indexes, *table.constraints):
            if isinstance(named.name, str):
                named.name = quoted(named.name)


def as_bytes(value: Any) -> bytes:
    """What a column of bytes holds; some drivers return a view.

    Raises:
        CorruptRowError: It holds something else.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    problem = "A checkpoint cannot be read: text stands where bytes were written; other threads can."
    raise CorruptRowError(problem)
