"""What rows.py spells out of a column, for the sake of speed, agrees with its lists and with the table."""

from __future__ import annotations

from typing import Any

from langchain_sessions._core.rows import PLAIN, SAID, SELDOM, EventRow, held_by, light_row, plain_rows
from langchain_sessions._core.view import PlainRows, said_values
from langchain_sessions._sql.tables.schema import build_tables

EMPTY = EventRow(7, "m1", 0, None, None, 1, 16, 5, 3, None, None, None, None, None, None, None, None)


def test_a_plain_row_has_its_values_in_their_columns_and_nothing_else() -> None:
    given = {name: object() for name in PLAIN}
    (row,) = plain_rows([tuple(given.values())])
    assert isinstance(row, EventRow)
    assert row._asdict() == {**dict.fromkeys((*SELDOM, "folded")), "rev": 0, **given}


def test_rows_that_are_made_when_asked_for_are_the_same() -> None:
    values = [tuple(f"{name} {at}" for name in PLAIN) for at in range(5)]
    made, later = plain_rows(values), PlainRows(values)
    assert [*later] == made
    assert [later[at] for at in range(-5, 5)] == [made[at] for at in range(-5, 5)]
    assert [*later[1:4]] == made[1:4]
    assert [*later[::-2]] == made[::-2]
    assert (len(later), later.runs) == (5, [row.invocation_id for row in made])
    assert [*said_values(later)] == [*said_values(made)] == [value[: len(SAID)] for value in values]


def test_rows_of_what_was_said_are_the_same_but_for_what_was_not_read() -> None:
    values = [tuple(f"{name} {at}" for name in PLAIN) for at in range(3)]
    whole, said = PlainRows(values), PlainRows([value[: len(SAID)] for value in values])
    assert [*said] == [row._replace(at=0, tokens=0) for row in whole]
    assert (said[1], said[-1]) == ([*said][1], [*said][2])
    assert [*said[1:]] == [*said][1:]
    assert said.runs == whole.runs
    assert [*said_values(said)] == [*said_values(whole)]
    assert [*said_values(PlainRows([]))] == [*PlainRows([])] == []


def test_a_light_row_is_the_row_without_bodies() -> None:
    row = EMPTY._replace(author="ada", text="hello", body="{}")
    assert light_row(row[:12]) == row._replace(text=None, body=None)


def test_each_column_that_may_hold_nothing_makes_another_statement() -> None:
    columns = build_tables("").events.c
    may = [name for name in EventRow._fields if columns[name].nullable]
    shapes = [held_by(EMPTY), *(held_by(_with(name, "1")) for name in may)]
    assert len(set(shapes)) == len(may) + 1
    assert {held_by(_with(name, 9)) for name in EventRow._fields if name not in may} == {held_by(EMPTY)}


def _with(name: str, value: object) -> EventRow:
    changed: dict[str, Any] = {name: value}
    return EMPTY._replace(**changed)
