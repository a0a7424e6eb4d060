"""What a statement is sent with each time is what changes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Column, Dialect, Integer, MetaData, Table, Text, bindparam, insert, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite

from langchain_sessions._sql.driver.transaction import Prepared, param

TABLE = Table("t", MetaData(), Column("n", Integer), Column("said", Text))
_postgresql: Any = postgresql.dialect
DIALECTS: list[Dialect] = [sqlite.dialect(), mysql.dialect(), _postgresql(paramstyle="format")]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_whole_numbers_stand_in_the_text(dialect: Dialect) -> None:
    t = TABLE.c
    there = select(t.n).where(t.n.in_([1, 3, 4]), t.n != 7, t.n < param("n")).cte("there")
    found = Prepared(select(there.c.n + 5).where(there.c.n > param("least")).limit(9).offset(2), dialect)
    assert found.names == ("n", "least")
    assert found.bind({"n": 8, "least": 6}) == (8, 6)
    assert all(f"{number}" in found.text for number in (1, 3, 4, 7, 5, 9, 2))
    # As SQLAlchemy's own `bindparam` has it, which wants a value when a statement is spelled out.
    moved = Prepared(update(TABLE).values(n=t.n + 12).where(t.said == bindparam("said")), dialect)
    assert moved.names == ("said",)
    assert "12" in moved.text
    put = Prepared(insert(TABLE).values(n=34, said=param("said")), dialect)
    assert put.names == ("said",)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_other_values_are_sent(dialect: Dialect) -> None:
    statement = Prepared(select(TABLE.c.n).where(TABLE.c.said == "it's 5"), dialect)
    assert "it's" not in statement.text
    assert statement.bind({}) == ("it's 5",)


@pytest.mark.parametrize("style", ["format", "numeric_dollar"])
def test_values_may_come_in_an_order_of_their_own(style: str) -> None:
    t = TABLE.c
    twice = select(t.n).where(t.n > param("n"), t.said == param("said"), t.n < param("n") + 1)
    statement = Prepared(twice, _postgresql(paramstyle=style), ("said", "other", "n"))
    sent = (8, "hi", 8) if style == "format" else (8, "hi")
    assert statement.bind(("hi", "not asked for", 8)) == sent
