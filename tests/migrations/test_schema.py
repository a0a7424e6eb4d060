"""The tables: as SQL text, under prefixes, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from langchain_sessions import InvalidInputError, SessionService
from langchain_sessions._sql.tables.schema import build_tables, schema_sql
from langchain_sessions.errors import UnsupportedDatabaseError
from tests.faults.drills import assert_whole, make_service, message, opened
from tests.servers.databases import connection, tables

if TYPE_CHECKING:
    from collections.abc import Callable

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")


@on_databases
@pytest.mark.parametrize("prefix", ["", "Other_"])
def test_the_schema_as_text_runs_as_it_is(backend: str, fresh_database: Callable[[], str], prefix: str) -> None:
    url = fresh_database()
    flavour = {"sqlite": "sqlite", "postgres": "postgresql", "mariadb": "mariadb"}[backend]
    with connection(url) as conn:
        for statement in schema_sql(flavour, prefix).split(";\n"):
            if statement.strip():
                conn.execute(text(statement))
    with opened(SessionService(url, table_prefix=prefix, create_schema=False)) as (service,):
        service.open("s")
        service.append("s", message("m"))
        assert assert_whole(service, "s") == ["m"]
        service.create_schema()
    with connection(url) as conn:
        assert sorted(tables(conn)) == sorted(build_tables(prefix).metadata.tables)


@on_databases
def test_services_with_other_prefixes_do_not_meet(fresh_database: Callable[[], str]) -> None:
    url = fresh_database()
    first, second = make_service(url, table_prefix="a_"), make_service(url, table_prefix="b_")
    with opened(first, second):
        first.open("s")
        first.append("s", message("m"), state_delta={"app:k": 1})
        second.open("s")
        assert second.messages("s") == []
        assert second.state("s") == {}
        assert second.delete("s")
        assert assert_whole(first, "s") == ["m"]


@pytest.mark.parametrize("prefix", ["a-b", "x" * 31, "1a", "a;DROP TABLE x", "é", "a b", "a\n"])
def test_a_prefix_that_is_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInputError, match="table_prefix"):
        SessionService("sqlite://", table_prefix=prefix)
    with pytest.raises(InvalidInputError, match="table_prefix"):
        schema_sql("sqlite", prefix)


def test_the_schema_of_an_unknown_database_is_refused() -> None:
    with pytest.raises(UnsupportedDatabaseError, match="'oracle'"):
        schema_sql("oracle")
    assert "CREATE TABLE" in schema_sql("mysql")
