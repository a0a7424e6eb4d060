"""Statements that list many values are those that SQLAlchemy would have compiled for so many."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Dialect, Integer, MetaData, String, Table, bindparam, select
from sqlalchemy.dialects import mysql, postgresql, sqlite

from langchain_sessions._sql.driver.transaction import Prepared, param
from langchain_sessions._sql.index.searched_logs import Widened

THINGS = Table("things", MetaData(), Column("id", Integer), Column("name", String(9)))
_postgresql: Any = postgresql.dialect
DIALECTS: list[Dialect] = [sqlite.dialect(), mysql.dialect(), _postgresql(paramstyle="format")]


def _compiled(dialect: Dialect, wide: int) -> Prepared:
    listed = THINGS.c.id.in_(bindparam("k", [None] * wide, expanding=True))
    asked = select(THINGS.c.name).where(THINGS.c.name.in_([param("a")]), listed, THINGS.c.id > param("b"))
    return Prepared(asked, dialect)


def _values(size: int) -> dict[str, Any]:
    return {"a": "x", "b": 7, **{f"k_{at + 1}": at for at in range(size)}}


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("size", [1, 4, 512])
def test_a_widened_statement_is_the_compiled_one(dialect: Dialect, size: int) -> None:
    wide, widened = _compiled(dialect, size), Widened(_compiled(dialect, 1), "k", size)
    assert (widened.text, widened.names, widened.columns) == (wide.text, wide.names, wide.columns)
    assert widened.bind(_values(size)) == wide.bind(_values(size)) == ("x", *range(size), 7)


def test_places_by_number_are_numbered_on() -> None:
    widened = Widened(_compiled(_postgresql(paramstyle="numeric_dollar"), 1), "k", 4)
    sent = widened.bind(_values(4))
    places = [at for at in range(1, len(sent) + 1) if f"${at}" in widened.text]
    assert places == [1, 2, 3, 4, 5, 6]
    listed = widened.text.split("things.id IN (")[1].split(")")[0]
    assert [sent[int(each.strip().removeprefix("$").split(":")[0]) - 1] for each in listed.split(",")] == [0, 1, 2, 3]
