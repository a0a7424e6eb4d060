"""Ids of checkpoints become bytes: whatever they are, threads are read back equal and in their order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from sqlalchemy import create_engine, insert, select, text

from langchain_sessions import SessionCheckpointSaver
from langchain_sessions._core.edge import unpacked_id
from langchain_sessions._sql.tables import rebuilding
from langchain_sessions._sql.tables.schema import build_tables, ddl_by_table
from langchain_sessions._sql.tables.types import as_bytes, ident_type
from langchain_sessions.errors import SchemaError
from tests.faults.drills import make_service, opened
from tests.servers.databases import connection, tables

if TYPE_CHECKING:
    from collections.abc import Callable

USUAL = "1f1e492a-f3e7-6551-8095-e7e9198e7017"
IDS = sorted([USUAL, USUAL.upper(), USUAL + "x", USUAL[:-1], USUAL.replace("-", ""), "1", "c 2", "é\U0001f388", "zz"])
FLAVOURS = {"sqlite": "sqlite", "postgres": "postgresql", "mariadb": "mariadb"}
PREFIX = "Old_"


def play(saver: SessionCheckpointSaver) -> None:
    """A checkpoint of each id, with writes that lie beside it and such that lie within."""
    for thread in ("one", "two"):
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        for number, name in enumerate(IDS):
            checkpoint: Any = {**empty_checkpoint(), "id": name, "channel_values": {"n": number}}
            checkpoint["channel_versions"] = {"n": number + 1}
            config = saver.put(config, checkpoint, {"source": "loop", "step": number, "parents": {}}, {"n": number + 1})
            writes = [(f"c{at}", random.Random(at).randbytes(100).hex()) for at in range(3 * number)]  # noqa: S311
            saver.put_writes(config, [("n", number), *writes], f"task {number}")


def seen(saver: SessionCheckpointSaver) -> list[Any]:
    """All of both threads."""
    threads: list[Any] = [{"configurable": {"thread_id": thread}} for thread in ("one", "two")]
    return [
        *[[*saver.list(thread)] for thread in threads],
        *[[*saver.list(thread, before={"configurable": {"checkpoint_id": USUAL}})] for thread in threads],
        *[saver.get_tuple(each.config) for thread in threads for each in saver.list(thread)],
    ]


def go_back(url: str, flavour: str) -> None:
    """Bring the tables to the schema of before, their rows with them."""
    now, before = build_tables(PREFIX), build_tables(PREFIX)
    engine = create_engine(url)
    for name in ("checkpoints", "writes"):
        new, old = (getattr(each.threads, name) for each in (now, before))
        old.c.cid.type = ident_type()
        statements = next(found for table, found in ddl_by_table(flavour, before) if table is old)
        with engine.begin() as conn:
            rows = [dict(row._mapping) for row in conn.execute(select(new))]
            assert len(rows) > len(IDS) / 2
            conn.execute(text(f"DROP TABLE {engine.dialect.identifier_preparer.quote_identifier(new.name)}"))
            for statement in statements.values():
                conn.execute(text(statement))
            conn.execute(insert(old), [{**row, "cid": unpacked_id(as_bytes(row["cid"]))} for row in rows])
    with engine.begin() as conn:
        conn.execute(before.versions.update().values(version=4))
    engine.dispose()


@pytest.mark.backends(*FLAVOURS)
def test_threads_are_read_back_equal(
    backend: str, fresh_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_database()
    with opened(make_service(url, table_prefix=PREFIX)) as (service,):
        play(saver := SessionCheckpointSaver(service))
        found = seen(saver)
    assert [each.config["configurable"]["checkpoint_id"] for each in found[0]] == IDS[::-1]
    go_back(url, FLAVOURS[backend])
    monkeypatch.setattr(rebuilding, "_PAGE", 4)
    with opened(make_service(url, table_prefix=PREFIX)) as (service,):
        saver = SessionCheckpointSaver(service)
        assert seen(saver) == found
        saver.delete_thread("two")
        assert [*saver.list({"configurable": {"thread_id": "one"}})] == found[0]
    with connection(url) as conn:
        assert sorted(tables(conn)) == sorted(build_tables(PREFIX).metadata.tables)


@pytest.mark.backends(*FLAVOURS)
def test_a_table_of_somebody_elses_stays_where_it_is(backend: str, fresh_database: Callable[[], str]) -> None:
    """A copy that somebody made by hand may have the name that a table is set aside by."""
    url = fresh_database()
    with opened(make_service(url, table_prefix=PREFIX)) as (service,):
        play(saver := SessionCheckpointSaver(service))
        found = seen(saver)
    go_back(url, FLAVOURS[backend])
    engine = create_engine(url)
    quoted = engine.dialect.identifier_preparer.quote_identifier
    with engine.begin() as conn:
        conn.execute(text(f"CREATE TABLE {quoted(PREFIX + 'checkpoints_old')} (cid int)"))
    with opened(make_service(url, table_prefix=PREFIX, create_schema=False)) as (service,):
        with pytest.raises(SchemaError, match="checkpoints_old"):
            service.create_schema()
        with engine.begin() as conn:
            conn.execute(text(f"ALTER TABLE {quoted(PREFIX + 'checkpoints_old')} RENAME TO {quoted('a_copy')}"))
        service.create_schema()
        assert seen(SessionCheckpointSaver(service)) == found
    with connection(url) as conn:
        assert "a_copy" in tables(conn)
    engine.dispose()
