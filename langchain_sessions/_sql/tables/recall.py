"""The tables of the recall index. All of it lies under the session's key and is deleted with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table

from langchain_sessions._sql.tables.types import big_key, bytes_type, ident_type, session_table

TRAITS = ""
"""The bucket under which the traits of a chunk's events lie."""


@dataclass(frozen=True, slots=True)
class RecallTables:
    """The tables of recall.

    Attributes:
        logs: How far the index of each log goes.
        chunks: How much each chunk holds. Small rows: to find one, SQLite reads those that it passes whole.
        terms: The terms of each chunk, a row per bucket; under the empty name the traits of its events.
        embeddings: How far the vectors of each log go, and what made them.
        vectors: The vectors, a row per event; only where an embedder is used.
        shelves: Copies of the indexes of several logs of one owner, a small row each.
        shelf_logs: Which logs a shelf holds, and up to where. With any of them the shelf goes.
        shelf_terms: The terms of each shelf, as those of chunks.
    """

    logs: Table
    chunks: Table
    terms: Table
    embeddings: Table
    vectors: Table
    shelves: Table
    shelf_logs: Table
    shelf_terms: Table


def build_recall_tables(metadata: MetaData, prefix: str) -> RecallTables:
    """The tables of recall under a name prefix."""
    key: Any = partial(Column, primary_key=True, autoincrement=False)
    return RecallTables(
        logs=session_table(
            metadata,
            f"{prefix}recall_logs",
            key("skey", big_key()),
            Column("indexed_to", BigInteger, nullable=False),
            Column("fingerprint", ident_type(64), nullable=False),
            Column("generation", BigInteger, nullable=False),
        ),
        chunks=session_table(
            metadata,
            f"{prefix}recall_chunks",
            key("skey", big_key()),
            key("chunk", Integer),
            Column("last_seq", BigInteger, nullable=False),
            Column("events", Integer, nullable=False),
            Column("terms", BigInteger, nullable=False),
            Column("written", BigInteger, nullable=False),
        ),
        terms=session_table(
            metadata,
            f"{prefix}recall_terms",
            key("skey", big_key()),
            key("chunk", Integer),
            key("bucket", ident_type(8)),
            Column("data", bytes_type(), nullable=False),
            large=True,
        ),
        embeddings=session_table(
            metadata,
            f"{prefix}recall_embeddings",
            key("skey", big_key()),
            Column("embedded_to", BigInteger, nullable=False),
            Column("generation", Integer, nullable=False),
            Column("fingerprint", ident_type(128), nullable=False),
        ),
        vectors=session_table(
            metadata,
            f"{prefix}recall_vectors",
            key("skey", big_key()),
            key("generation", Integer),
            key("seq", BigInteger),
            Column("data", bytes_type(), nullable=False),
        ),
        **_shelf_tables(metadata, prefix),
    )


def _shelf_tables(metadata: MetaData, prefix: str) -> dict[str, Table]:
    """The tables that hold copies of several logs' indexes."""
    key: Any = partial(Column, primary_key=True, autoincrement=False)
    shelves = session_table(
        metadata,
        f"{prefix}recall_shelves",
        key("shelf", big_key()),
        Column("app", ident_type(), nullable=False),
        Column("user_id", ident_type()),
        Column("fingerprint", ident_type(64), nullable=False),
        Column("slots", Integer, nullable=False),
    )
    Index(f"{prefix}recall_shelves_by_user", shelves.c.app, shelves.c.user_id, shelves.c.shelf)
    shelf_logs = session_table(
        metadata,
        f"{prefix}recall_shelf_logs",
        key("skey", big_key()),
        key("shelf", big_key()),
        Column("last_seq", BigInteger, nullable=False),
    )
    Index(f"{prefix}recall_shelf_logs_by_shelf", shelf_logs.c.shelf)
    shelf_terms = session_table(
        metadata,
        f"{prefix}recall_shelf_terms",
        key("shelf", big_key()),
        key("bucket", ident_type(8)),
        Column("data", bytes_type(), nullable=False),
        large=True,
    )
    return {"shelves": shelves, "shelf_logs": shelf_logs, "shelf_terms": shelf_terms}
