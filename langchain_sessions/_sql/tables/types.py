"""Column types and tables that mean the same on every database.

The dialects of databases that a process does not use are not imported: they are a fifth of what SQLAlchemy costs. What
only MySQL has is therefore written here by the names that its compiler visits, and options of one database are given
to tables and indexes when their DDL is written: SQLAlchemy imports the dialect whose option it sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    VARBINARY,
    VARCHAR,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.sql import quoted_name

from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement
    from sqlalchemy.types import TypeEngine

_MYSQL_BINARY = "utf8mb4_0900_bin"
_MARIADB_BINARY = "utf8mb4_nopad_bin"


class _MySQLString(String):
    """VARCHAR with a character set."""

    __visit_name__ = "VARCHAR"
    charset = "utf8mb4"


class _LongText(Text):
    """LONGTEXT with a character set."""

    __visit_name__ = "LONGTEXT"
    charset = "utf8mb4"


class _LongBlob(LargeBinary):
    """LONGBLOB."""

    __visit_name__ = "LONGBLOB"


def ident_type(length: int = 255) -> TypeEngine[str]:
    """A string that compares by code points: case, accents and trailing blanks count."""
    return (
        String(length)
        .with_variant(VARCHAR(length, collation="C"), "postgresql")
        .with_variant(_MySQLString(length, _MYSQL_BINARY), "mysql")
        .with_variant(_MySQLString(length, _MARIADB_BINARY), "mariadb")
    )


def text_type() -> TypeEngine[str]:
    """Text of any length, in any script."""
    return (
        Text()
        .with_variant(Text(collation="C"), "postgresql")
        .with_variant(_LongText(collation=_MYSQL_BINARY), "mysql")
        .with_variant(_LongText(collation=_MARIADB_BINARY), "mariadb")
    )


def bytes_type() -> TypeEngine[bytes]:
    """Bytes of any length."""
    return LargeBinary().with_variant(_LongBlob(), "mysql", "mariadb")


def fixed_bytes(length: int) -> TypeEngine[bytes]:
    """Bytes of a known length, short enough for a key."""
    return LargeBinary(length).with_variant(VARBINARY(length), "mysql", "mariadb")


def big_key() -> TypeEngine[int]:
    """A session key."""
    return BigInteger().with_variant(Integer(), "sqlite")


def session_table(
    metadata: MetaData,
    name: str,
    *parts: Column[Any] | Index | UniqueConstraint,
    large: bool = False,
    deflated: bool = False,
) -> Table:
    """A table of rows that belong to sessions: clustered by its primary key where the engine can.

    Args:
        metadata: Of all tables.
        name: The table's name.
        *parts: Its columns and indexes.
        large: Whether its rows fill pages. SQLite then keeps them apart from the key: in a tree that is clustered,
            looking for one row reads the large ones on the way whole, and inner pages hold copies of some.
        deflated: Whether MariaDB deflates its pages: most rows are written once, and hold words or repeat each other.
    """
    return Table(
        name,
        metadata,
        *parts,
        info=options_for(sqlite={"with_rowid": large}, mysql=INNODB, mariadb=_DEFLATED if deflated else INNODB),
    )


INNODB: Final = {"engine": "InnoDB", "row_format": "DYNAMIC", "default_charset": "utf8mb4"}
_DEFLATED: Final = {**INNODB, "row_format": "COMPRESSED", "key_block_size": "8"}
_OPTIONS: Final = "options"


def options_for(**options: Mapping[str, Any]) -> dict[str, Any]:
    """The `info` of a table or an index that has options on some databases."""
    return {_OPTIONS: options}


def only_where(criterion: ColumnElement[bool]) -> dict[str, Any]:
    """The `info` of an index that holds only some rows where the database can; MySQL's holds all."""
    return options_for(sqlite={"where": criterion}, postgresql={"where": criterion})


def apply_options(table: Table, flavour: str) -> None:
    """Give a table and its indexes their options on a database, whose dialect is imported by that."""
    parts: tuple[Any, ...] = (table, *table.indexes)
    for part in parts:
        for name, value in part.info.get(_OPTIONS, {}).get(flavour, {}).items():
            part.dialect_kwargs[f"{flavour}_{name}"] = value


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
    problem = "A row cannot be read: something else stands where bytes were written; other sessions can."
    raise CorruptRowError(problem)
