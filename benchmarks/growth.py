"""What a thread takes as it grows, ours beside LangGraph's own savers: ``python -m benchmarks.growth``.

The chat of `checkpointer_graphs`, turn by turn: the bytes that the database takes, per message, and the bytes that
SQLite's process hands to the kernel, per turn. Both are exact and need no quiet machine. Written to `docs/figures/` as
JSON, and drawn by `figures`.

    python -m tests.servers run -- python -m benchmarks.growth
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.checkpointer_graphs import OFFICIAL, OURS, Contender, graph_over, play, size, sqlite_url
from benchmarks.figures import FIGURES, draw
from benchmarks.measure import show
from tests.servers import databases
from tests.servers.environment import server_url

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTHS = (1, 2, 5, 10, 20, 50, 100, 150, 300, 600)
THEIRS = 150
"""How far a saver is followed that stores the whole list again at every step."""


class Point(NamedTuple):
    """A thread of some turns: what it takes per message, and what its last turns had the kernel write."""

    turns: int
    bytes_per_message: float
    written_per_turn: float


def follow(contender: Contender, url: str, upto: int) -> Iterator[Point]:
    """A thread as it grows."""
    done, written = 0, _written()
    with contender.open(url) as saver:
        graph = graph_over(saver)
        for turns in (length for length in LENGTHS if length <= upto):
            play(graph, turns - done)
            now = _written()
            yield Point(turns, size(url) / (2 * turns), (now - written) / (turns - done))
            done, written = turns, _written()


def _written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def measure(longest: int) -> dict[str, list[Point]]:
    """Every saver on its database."""
    found: dict[str, list[Point]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for contender in (OURS, OFFICIAL["sqlite"]):
            upto = longest if contender is OURS else min(THEIRS, longest)
            url = sqlite_url(Path(folder), contender.name)
            found[f"{contender.name}, SQLite"] = list(follow(contender, url, upto))
    server = server_url("postgres")
    for contender in (OURS, OFFICIAL["postgres"]) if server is not None else ():
        own = databases.create_database(str(server), "growth")
        try:
            upto = longest if contender is OURS else min(THEIRS, longest)
            found[f"{contender.name}, PostgreSQL"] = list(follow(contender, own, upto))
        finally:
            databases.drop_database(own)
    return found


def table(found: dict[str, list[Point]]) -> list[tuple[str, ...]]:
    """Bytes per message, a row for each saver."""
    rows: list[tuple[str, ...]] = [("bytes per message at so many turns", *map(str, LENGTHS))]
    for name, points in found.items():
        cells = [f"{point.bytes_per_message:,.0f}" for point in points]
        rows.append((name, *cells, *[""] * (len(LENGTHS) - len(cells))))
    return rows


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="turns of the longest thread")
    parser.add_argument("--out", type=Path, default=FIGURES, help="where figures are written")
    given = parser.parse_args()
    found = measure(given.longest)
    show(table(found))
    given.out.mkdir(parents=True, exist_ok=True)
    document = {name: [point._asdict() for point in points] for name, points in found.items()}
    (given.out / "growth.json").write_text(json.dumps(document, indent=1) + "\n")
    if given.out == FIGURES:
        draw()


if __name__ == "__main__":
    main()
