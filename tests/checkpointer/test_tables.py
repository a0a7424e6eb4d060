"""Random conversations with arrays and tables in their state, as `test_model` plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pytest
from langgraph.graph import START, StateGraph

from tests.checkpointer.test_model import Scenario, Script, State, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langchain_sessions.service import SessionService

pd: Any = pytest.importorskip("pandas")
pytestmark = pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")


def stacked(before: Any, new: Any) -> Any:
    """A reducer of arrays: what is new stands below."""
    if before is None or not np.size(before):
        return new
    return before if new is None else np.vstack([before, np.atleast_2d(new)])


class Tables(State):
    """With what is worked with in notebooks: an array that a reducer adds to, and a table."""

    grid: Annotated[Any, stacked]
    table: Any


class TableScript(Script):
    """Its nodes give arrays and tables too, and change them in place."""

    def __call__(self, state: Any) -> dict[str, Any]:
        what, argument = self.steps[0]
        draw = np.random.default_rng(argument if isinstance(argument, int) else 0)
        before = state.get("table")
        if what == "grid":
            return {"grid": draw.normal(size=(draw.integers(1, 40), 3)).astype(draw.choice(["float64", "float32"]))}
        if what == "table":
            new = pd.DataFrame(
                {
                    "n": draw.integers(0, 9, 30),
                    "x": np.where(draw.random(30) < 0.2, np.nan, draw.random(30)),
                    "name": [draw.choice(["ada", "grace", "ünï"]) for _ in range(30)],
                    "at": pd.date_range("2026-01-01", periods=30, freq="h", tz="UTC"),
                }
            )
            return {"table": new if before is None else pd.concat([before, new], ignore_index=bool(argument % 2))}
        if what == "a cell in place":
            if before is not None:
                before.iloc[len(before) // 2, 0] = argument
            grid = state.get("grid")
            if grid is not None:
                grid.flat[0] = argument
            return {"table": before}
        if what == "apart":
            rows = {} if before is None else {f"group {key}": group for key, group in before.groupby("name")}
            return {"notes": [{"rows": rows, "sums": np.arange(argument)}]}
        return super().__call__(state)


def tables_over(saver: BaseCheckpointSaver[Any], script: Script) -> Any:
    builder: Any = StateGraph(Tables)
    builder.add_node("a", script)
    builder.add_node("b", lambda state: {"notes": ["b"]})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    return builder.compile(checkpointer=saver)


class TableScenario(Scenario):
    """With arrays and tables in the state."""

    kinds = ("reply", "note", "grid", "grid", "table", "table", "a cell in place", "apart")
    script = TableScript
    over = staticmethod(tables_over)


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("seed", range(8))
def test_histories_of_tables_are_alike(open_service: Callable[..., SessionService], seed: int) -> None:
    play(open_service(), seed, TableScenario)


@pytest.mark.parametrize("seed", range(20, 22))
def test_histories_of_tables_are_alike_on_every_database(
    open_service: Callable[..., SessionService], seed: int
) -> None:
    play(open_service(), seed, TableScenario)
