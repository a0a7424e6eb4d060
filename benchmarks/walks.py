"""Which way a call takes through the package, beside another tree: ``python -m benchmarks.walks --against ../before``.

For one call each: the functions of the package that are entered (a generator counts each time it goes on), how many
of them are different, how many modules they stand in, how often the way moves from one module to another, and how
many modules it comes back to. Followed on the calling thread, on SQLite, after the same call was done once before.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import in_tree
from benchmarks.operations import Way

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parents[1]
TITLES = {
    "append": "`append` of a message",
    "messages": "`messages` of 5",
    "first turn": "first turn of `wrap(model)` in a session, a summary begun beside it",
    "turn": "its next turn, likewise",
    "put_writes": "`put_writes`",
    "put": "`put`",
    "get_tuple": "`get_tuple`",
    "search": "`search` of 61 events",
}
FIGURES = ("calls", "functions", "modules", "moves", "again")
HEADS = ("calls", "functions", "modules", "moves between modules", "modules entered more than once")


def modules_passed(call: Callable[[], object]) -> set[str]:
    """The modules of the package that a call enters on its thread, as paths below the package."""
    return set(Way(call).path)


def ways(tree: Path) -> dict[str, dict[str, Any]]:
    """The ways of the usual calls through a tree of the package."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, dict[str, Any]] = json.loads(in_tree(tree, "ways", Path(folder)))
    return found


def table(found: list[dict[str, dict[str, Any]]]) -> list[str]:
    """A Markdown table; of two trees the figures of both."""
    lines = [f"| way | {' | '.join(HEADS)} |", "|---" * (len(HEADS) + 1) + "|"]
    for name, title in TITLES.items():
        cells = [" → ".join(_figure(way[name][figure]) for way in found) for figure in FIGURES]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _figure(value: int | list[str]) -> str:
    return f"{len(value) if isinstance(value, list) else value:,}".replace(",", " ")


def main() -> None:
    """Print the table, and the modules of one way if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=HERE, help="the tree to look at; by default this one")
    parser.add_argument("--against", type=Path, help="another tree, whose figures come first")
    parser.add_argument("--modules", choices=TITLES, help="name the modules of one way, in the tree to look at")
    given = parser.parse_args()
    found = [ways(path.resolve()) for path in (given.against, given.tree) if path is not None]
    print("\n".join(table(found)))
    if given.modules is not None:
        print("\n".join(["", given.modules, *found[-1][given.modules]["modules"]]))


if __name__ == "__main__":
    main()
