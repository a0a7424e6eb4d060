"""The tables: as SQL text, under prefixes, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from langchain_sessions import InvalidInputError, SessionService
from langchain_sessions._sql.tables.migrations import _deflates
from langchain_sessions._sql.tables.schema import build_tables, ddl_by_table, schema_sql
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


@pytest.mark.backends("mariadb")
def test_mariadb_deflates_what_is_written_once(fresh_database: Callable[[], str]) -> None:
    with opened(make_service(url := fresh_database())) as (service,):
        service.open("s")
    asked = "SELECT lower(row_format) FROM information_schema.tables WHERE table_schema = database()"
    with connection(url) as conn:
        for name, kept in (("events", "compressed"), ("checkpoints", "compressed"), ("sessions", "dynamic")):
            assert conn.scalars(text(f"{asked} AND table_name = :name"), {"name": name}).one() == kept


class Server:
    """Answers what a server is asked about itself."""

    def __init__(self, **variables: str) -> None:
        self.variables = variables

    def ask(self, query: str) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.variables.items() if f"'{name}'" in query]


def test_a_server_that_cannot_deflate_is_not_asked_to() -> None:
    usual = {"innodb_page_size": "16384", "innodb_file_per_table": "ON"}
    assert _deflates(Server(**usual))  # type: ignore[arg-type]
    assert _deflates(Server(**usual, innodb_read_only_compressed="OFF"))  # type: ignore[arg-type]
    for other in (
        {"innodb_page_size": "65536"},
        {"innodb_page_size": "4096"},
        {"innodb_file_per_table": "OFF"},
        {"innodb_read_only_compressed": "ON"},
    ):
        assert not _deflates(Server(**{**usual, **other}))  # type: ignore[arg-type]
    for _, statements in ddl_by_table("mariadb", build_tables(), deflates=False):
        assert not any("COMPRESSED" in each or "KEY_BLOCK_SIZE" in each for each in statements.values())


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
