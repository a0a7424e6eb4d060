"""The tables of graph threads: checkpoints, pending writes, and what they have in common.

A checkpoint row refers to messages by their positions in the session's log; a body is stored there and nowhere
else. Nothing has a foreign key to a checkpoint, since writes may land before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, Column, Index, MetaData, Table

from langchain_sessions._sql.tables.types import (
    big_key,
    bytes_type,
    fixed_bytes,
    ident_type,
    only_where,
    session_table,
    text_type,
)


@dataclass(frozen=True, slots=True)
class ThreadTables:
    """The tables of threads.

    Attributes:
        checkpoints: One row for each checkpoint. `runs` is its main message list as runs of log positions,
            `others` the positions that it mentions elsewhere, `outside` digests of values in `stored_values`.
        stored_values: Values too large for a checkpoint's row, by digest.
        writes: Writes of tasks, those of one checkpoint together. `cut` is 0, or the record of the rewind that put
            them out of sight.
        staged: Writes that wait for the checkpoint which takes their messages over. A row is used again and again:
            PostgreSQL then finds the room for a new version in the page of the old one, and nothing piles up.
        namespaces: Names of namespaces by their digest; the root is 0 and has no row.
        shapes: Names of channels and nodes that many checkpoints share, by digest.
    """

    checkpoints: Table
    stored_values: Table
    writes: Table
    staged: Table
    namespaces: Table
    shapes: Table


def build_thread_tables(metadata: MetaData, prefix: str) -> ThreadTables:
    """The tables of threads under a name prefix."""
    key: Any = partial(Column, primary_key=True, autoincrement=False)
    return ThreadTables(
        checkpoints=_checkpoints(metadata, prefix),
        stored_values=session_table(
            metadata,
            f"{prefix}checkpoint_values",
            key("skey", big_key()),
            key("digest", fixed_bytes(16)),
            Column("data", bytes_type(), nullable=False),
            large=True,
        ),
        writes=session_table(
            metadata,
            f"{prefix}checkpoint_writes",
            key("skey", big_key()),
            key("ns", BigInteger),
            key("cid", ident_type()),
            key("cut", BigInteger),
            key("part", BigInteger),
            Column("refs", bytes_type()),
            Column("body", bytes_type(), nullable=False),
        ),
        staged=session_table(
            metadata,
            f"{prefix}checkpoint_staged",
            key("skey", big_key()),
            key("n", BigInteger),
            Column("body", bytes_type()),
        ),
        namespaces=session_table(
            metadata,
            f"{prefix}checkpoint_namespaces",
            key("skey", big_key()),
            key("ns", BigInteger),
            Column("name", text_type(), nullable=False),
        ),
        shapes=session_table(
            metadata,
            f"{prefix}checkpoint_shapes",
            key("skey", big_key()),
            key("shape", BigInteger),
            Column("body", bytes_type(), nullable=False),
        ),
    )


def _checkpoints(metadata: MetaData, prefix: str) -> Table:
    # A column of its own, since `delete_for_runs` finds threads by it; all else of the metadata is in the body.
    run_id = Column("run_id", ident_type())
    table = session_table(
        metadata,
        f"{prefix}checkpoints",
        Column("skey", big_key(), primary_key=True, autoincrement=False),
        Column("ns", BigInteger, primary_key=True, autoincrement=False),
        Column("cid", ident_type(), primary_key=True),
        Column("parent", ident_type()),
        run_id,
        Column("shape", BigInteger, nullable=False),
        Column("runs", bytes_type()),
        Column("others", bytes_type()),
        Column("outside", bytes_type()),
        Column("body", bytes_type(), nullable=False),
    )
    named = run_id.is_not(None)
    Index(f"{prefix}checkpoints_run", run_id, info=only_where(named))
    return table
