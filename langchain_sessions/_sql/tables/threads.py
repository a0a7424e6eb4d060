"""The tables of graph threads: checkpoints, pending writes, and what they have in common.

A checkpoint row refers to messages by their positions in the session's log; a body is stored there and nowhere
else. Nothing has a foreign key to a checkpoint, since writes may land before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Table,
    Update,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)

from langchain_sessions._core.edge import LONGEST
from langchain_sessions._sql.tables.types import (
    big_key,
    bytes_type,
    fixed_bytes,
    ident_type,
    only_where,
    quoted,
    session_table,
    text_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.sql.dml import Insert


@dataclass(frozen=True, slots=True)
class ThreadTables:
    """The tables of threads.

    Attributes:
        checkpoints: One row for each checkpoint. `cid` is its id as bytes that sort as ids do, likewise in `writes`.
            `runs` is its main message list as runs of log positions, `others` the positions that it mentions
            elsewhere, `outside` digests of values in `stored_values`. `origin` names its parent where that is a UUID,
            `parent` any other. `writes` are the first of its writes that were stored for good, where they fit.
        stored_values: Values too large for a checkpoint's row, by digest.
        writes: Writes of tasks that do not lie in the row of their checkpoint, those of one together. `cut` is 0, or
            the record of the rewind that put them out of sight.
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
            key("cid", fixed_bytes(LONGEST)),
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
        # Before what has no fixed length: PostgreSQL fills up to eight bytes before a number.
        Column("shape", BigInteger, nullable=False),
        Column("cid", fixed_bytes(LONGEST), primary_key=True),
        Column("parent", ident_type()),
        run_id,
        Column("runs", bytes_type()),
        Column("others", bytes_type()),
        Column("outside", bytes_type()),
        Column("body", bytes_type(), nullable=False),
        Column("origin", fixed_bytes(16)),
        Column("writes", bytes_type()),
        deflated=True,
    )
    named = run_id.is_not(None)
    Index(f"{prefix}checkpoints_run", run_id, info=only_where(named))
    return table


# -- writes that are stored for good -----------------------------------------------------------------------

_ZERO: ColumnElement[int] = literal_column("0")
_given = partial(bindparam, required=False)


def room_within(t: ThreadTables) -> list[ColumnElement[bool]]:
    """The criteria of the row of a checkpoint that takes its writes in: it is small, and none came before them."""
    w, c = t.writes, t.checkpoints.c
    lengths = [func.coalesce(func.length(c[name]), _ZERO) for name in ("runs", "others", "outside", "body")]
    taken = select(w.c.part).where(*_writes_of(w), w.c.cut == _ZERO).exists()
    small = sum(lengths[1:], lengths[0]) <= _given("w_room", type_=Integer())
    return [*_writes_of(t.checkpoints), c.writes.is_(None), small, ~taken]


def writes_within(t: ThreadTables) -> Update:
    """Puts writes into the row of their checkpoint."""
    return (
        update(t.checkpoints).where(*room_within(t)).values(writes=_given("w_body", type_=t.checkpoints.c.writes.type))
    )


def inserting_writes(
    t: ThreadTables,
    sessions: Table,
    *,
    before: Update | None = None,
    unless: Sequence[ColumnElement[bool]] | None = None,
) -> Insert:
    """Puts writes behind others, where a statement before changed nothing, or no checkpoint meets some criteria."""
    w, c, s = t.writes, t.checkpoints.c, sessions.c
    part: Any = select(func.coalesce(func.max(w.c.part) + 1, _ZERO)).where(*_writes_of(w), w.c.cut == _ZERO)
    ns, cid, refs, body = (
        _given(f"w_{name}", type_=w.c[name].type).label(quoted(name)) for name in ("ns", "cid", "refs", "body")
    )
    place = (ns, cid, _ZERO.label(quoted("cut")), part.scalar_subquery().label(quoted("part")))
    source = select(s.skey, *place, refs, body).where(s.skey == _given("k_skey"))
    names = [column.name for column in w.c]
    if unless is not None:
        source = source.where(~select(c.skey).where(*unless).exists())
    if before is None:
        return insert(w).from_select(names, source)
    done = before.returning(c.skey).cte("done")
    return insert(w).from_select(names, source.where(~select(done.c.skey).exists())).add_cte(done)


def _writes_of(table: Table) -> list[ColumnElement[bool]]:
    return [table.c.skey == _given("k_skey"), table.c.ns == _given("w_ns"), table.c.cid == _given("w_cid")]
