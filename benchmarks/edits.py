"""What a small change of a large value costs, exactly: ``python -m benchmarks.edits``.

A graph keeps a large value of some shape and changes a little of it in each step. Beside the bytes that changed stand
the rows and bytes of the values that a step stored, by what the database takes more, and what was written, per step:

    python -m tests.servers run -- python -m benchmarks.edits --steps 40 --json edits.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from sqlalchemy import create_engine
from sqlalchemy import text as sql

from benchmarks.checkpointer_graphs import CONFIG, OFFICIAL, OURS, Contender, size, sqlite_url
from benchmarks.measure import memory_directory, show
from benchmarks.workload_graphs import noise, one_node, text
from benchmarks.workloads import SERVERS, written_so_far
from tests.servers.databases import create_database, drop_database

Words = Callable[[int, random.Random], str]
Change = tuple[Any, int]


class Shape(NamedTuple):
    """A large value, and how a step changes it.

    Attributes:
        name: What it is.
        made: The first value.
        changed: The next value, and how many bytes of it are new.
    """

    name: str
    made: Callable[[random.Random, Words], Any]
    changed: Callable[[Any, random.Random, Words], Change]


def _files(draw: random.Random, words: Words) -> Any:
    return {f"src/file_{number}.py": _lines(draw, words, 20_000) for number in range(50)}


def _lines(draw: random.Random, words: Words, length: int) -> str:
    return "".join(f"{words(59, draw)}\n" for _ in range(length // 60))


def _one_file(value: Any, draw: random.Random, words: Words) -> Change:
    new = _lines(draw, words, 20_000)
    return {**value, f"src/file_{draw.randrange(50)}.py": new}, len(new)


def _one_line(value: Any, draw: random.Random, words: Words) -> Change:
    name, new = f"src/file_{draw.randrange(50)}.py", words(59, draw)
    lines = value[name].splitlines()
    lines[draw.randrange(len(lines))] = new
    return {**value, name: "\n".join(lines) + "\n"}, len(new)


def _documents(draw: random.Random, words: Words) -> Any:
    return [Document(words(1_000, draw), metadata={"source": str(number)}) for number in range(200)]


def _one_document(value: Any, draw: random.Random, words: Words) -> Change:
    return [*value, Document(words(1_000, draw), metadata={"source": str(len(value))})], 1_000


def _four_documents(value: Any, draw: random.Random, words: Words) -> Change:
    new = [Document(words(1_000, draw), metadata={"source": f"{len(value)}-{number}"}) for number in range(4)]
    return [*value, *new], 4_000


def _records(draw: random.Random, words: Words) -> Any:
    return {f"r{number}": _record(draw, words, number) for number in range(1_000)}


def _record(draw: random.Random, words: Words, number: int) -> Any:
    return {"id": number, "name": words(40, draw), "note": words(160, draw), "score": draw.random()}


def _one_record(value: Any, draw: random.Random, words: Words) -> Change:
    number = draw.randrange(1_000)
    return {**value, f"r{number}": _record(draw, words, number)}, 209


def _frame(draw: random.Random, words: Words) -> Any:
    del words
    return np.random.default_rng(draw.randrange(1 << 30)).normal(size=(2_000, 8))


def _more_rows(value: Any, draw: random.Random, words: Words) -> Change:
    del words
    return np.vstack([value, np.random.default_rng(draw.randrange(1 << 30)).normal(size=(20, 8))]), 20 * 8 * 8


def _table(draw: random.Random, words: Words) -> Any:
    return [[number, words(24, draw), draw.random(), draw.random()] for number in range(2_000)]


def _table_rows(value: Any, draw: random.Random, words: Words) -> Change:
    new = [[len(value) + number, words(24, draw), draw.random(), draw.random()] for number in range(20)]
    return [*value, *new], 20 * (3 + 24 + 8 + 8)


def _text(draw: random.Random, words: Words) -> Any:
    return words(200_000, draw)


def _a_word(value: Any, draw: random.Random, words: Words) -> Change:
    at = len(value) // 2 + draw.randrange(-1_000, 1_000)
    return value[:at] + words(12, draw) + value[at + 10 :], 12


def _a_passage(value: Any, draw: random.Random, words: Words) -> Change:
    at = len(value) // 2 + draw.randrange(-5_000, 5_000)
    return value[:at] + words(2_000, draw) + value[at + 1_500 :], 2_000


SHAPES = (
    Shape("files, one of 50 new (20 KB)", _files, _one_file),
    Shape("files, one line of 60", _files, _one_line),
    Shape("documents, one of 1 KB added", _documents, _one_document),
    Shape("documents, four of 1 KB added", _documents, _four_documents),
    Shape("records, one of 200 B in 1 000", _records, _one_record),
    Shape("table, 20 rows of 43 B added", _table, _table_rows),
    Shape("array, 20 rows of 64 B added", _frame, _more_rows),
    Shape("text of 200 KB, 12 B in the middle", _text, _a_word),
    Shape("text of 200 KB, 2 KB in the middle", _text, _a_passage),
)


class Figures(NamedTuple):
    """What a step cost.

    Attributes:
        changed: How many bytes it changed.
        rows: How many rows of values it stored; None for another saver.
        values: The bytes in them.
        stored: What the database takes more.
        written: What was written.
    """

    changed: float
    rows: float | None
    values: float | None
    stored: float
    written: float


def _values(url: str) -> tuple[int, int]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(sql("SELECT count(*), coalesce(sum(length(data)), 0) FROM checkpoint_values")).one()
    engine.dispose()
    return int(found[0]), int(found[1])


def follow(contender: Contender, url: str, shape: Shape, words: Words, steps: int) -> Figures:
    """A graph of some steps, each a call of its own."""
    draw, sizes = random.Random(5), list[int]()

    def work(state: Any) -> Any:
        if "value" not in state:
            return {"value": shape.made(draw, words)}
        value, changed = shape.changed(state["value"], draw, words)
        sizes.append(changed)
        return {"value": value}

    is_ours = contender is OURS
    with contender.open(url) as saver:
        graph = one_node({"value": Any, "turn": int}, work).compile(checkpointer=saver)
        for turn in range(3):
            graph.invoke({"turn": turn}, CONFIG)
        sizes.clear()
        stored, written, values = size(url), written_so_far(url), _values(url) if is_ours else (0, 0)
        for turn in range(steps):
            graph.invoke({"turn": 3 + turn}, CONFIG)
        after, more, held = size(url), written_so_far(url), _values(url) if is_ours else (0, 0)
    return Figures(
        sum(sizes) / steps,
        (held[0] - values[0]) / steps if is_ours else None,
        (held[1] - values[1]) / steps if is_ours else None,
        (after - stored) / steps,
        (more - written) / steps,
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--words", action="store_true", help="text of a vocabulary, and not noise")
    parser.add_argument("--peers", action="store_true", help="LangGraph's own savers too")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    asked = parser.parse_args()
    words = text if asked.words else noise
    rows: list[dict[str, Any]] = []
    with memory_directory() as directory:
        count = iter(range(10_000))
        fresh: dict[str, Callable[[], str]] = {"sqlite": lambda: sqlite_url(directory, f"e{next(count)}")}
        for backend, variable in SERVERS.items():
            server = os.environ.get(variable)
            if server:
                fresh[backend] = lambda server=server: create_database(server, "bench")  # type: ignore[misc]
        for backend, make in fresh.items():
            for shape in (each for each in SHAPES if asked.only in each.name):
                for contender in (OURS, OFFICIAL[backend]) if asked.peers else (OURS,):
                    url = make()
                    found = follow(contender, url, shape, words, asked.steps)
                    rows.append({"shape": shape.name, "backend": backend, "saver": contender.name, **found._asdict()})
                    if backend != "sqlite":
                        drop_database(url)
    head = (
        "shape",
        "database",
        "saver",
        "changed",
        "rows",
        "in values",
        "stored",
        "written",
        "x in values",
        "x stored",
    )
    show([head, *map(_line, rows)])
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    changed, values = row["changed"], row["values"]
    return (
        row["shape"],
        row["backend"],
        row["saver"],
        f"{changed:,.0f}",
        "-" if row["rows"] is None else f"{row['rows']:.1f}",
        "-" if values is None else f"{values:,.0f}",
        f"{row['stored']:,.0f}",
        f"{row['written']:,.0f}",
        "-" if values is None else f"{values / changed:.2f}",
        f"{row['stored'] / changed:.2f}",
    )


if __name__ == "__main__":
    main()
