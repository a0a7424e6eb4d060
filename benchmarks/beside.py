"""Ours beside what a user would pick instead, in one run: ``make bench``, and ``make bench-full`` for longer sessions.

Histories, savers, and the driver alone; interleaved, with the CPU of this process and what it gave the kernel. Written
to docs/figures/beside.json, drawn from there, and told as tables in docs/performance.md.

    python -m tests.servers run -- python -m benchmarks.beside
    python -m benchmarks.beside --only loads --out somewhere     what is not measured is taken over from there
    python -m benchmarks.beside --only lists --sessions 1000000
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import beside_loads as loads
from benchmarks import beside_logs as logs
from benchmarks import beside_threads as threads
from benchmarks.figures import FIGURES, draw
from benchmarks.kernel_counts import KernelCounts, begin_again
from tests.servers import databases
from tests.servers.environment import server_url

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = FIGURES.parent / "performance.md"
PARTS = ("logs", "threads", "loads", "lists")
LENGTHS = {False: (20, 100, 1_000, 10_000), True: (20, 100, 1_000, 10_000, 100_000)}
TURNS = {False: (10, 50, 150), True: (10, 50, 150, 300, 600, 1_000)}
_PACKAGES = (
    *("langchain-core", "langgraph", "sqlalchemy", "psycopg", "langchain-community", "langchain-postgres"),
    *("openai-agents", "google-adk", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"),
    *("langgraph-checkpoint-redis", "langgraph-checkpoint-mongodb"),
)
BEGIN, END = "<!-- begin: beside -->", "<!-- end: beside -->"


def environment() -> dict[str, str]:
    """What the figures depend on."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "cores": str(os.cpu_count())}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@contextlib.contextmanager
def _database(name: str) -> Iterator[str | None]:
    server = server_url("postgres")
    if server is None:
        yield None
        return
    own = databases.create_database(server, f"beside_{name}")
    try:
        yield own
    finally:
        databases.drop_database(own)


def measure_logs(folder: Path, *, full: bool) -> list[dict[str, Any]]:
    """Histories by length."""
    kernel = KernelCounts()
    with logs.on_sqlite(folder) as histories:
        gc.freeze()  # what so many libraries brought along is nobody's cost
        found = logs.measure("SQLite", histories, LENGTHS[full], kernel)
    with _database("logs") as url:
        if url is not None:
            with logs.on_postgres(url) as histories:
                gc.freeze()
                found += logs.measure("PostgreSQL", histories, LENGTHS[full], kernel)
    return [each._asdict() for each in found]


def measure_threads(
    folder: Path, *, full: bool, redis: str | None = None, mongodb: str | None = None
) -> list[dict[str, Any]]:
    """Savers by length."""
    with contextlib.ExitStack() as stack:
        server = {}
        for name in ("ours", "theirsFalse", "theirsTrue"):
            url = stack.enter_context(_database(f"threads_{name.lower()}"))
            if url is not None:
                server[name] = url
        graphs = stack.enter_context(threads.savers(folder, server, redis, mongodb))
        gc.freeze()
        return [each._asdict() for each in threads.measure(graphs, TURNS[full], KernelCounts())]


def measure_loads(folder: Path, *, full: bool) -> list[dict[str, Any]]:
    """Ours under load."""
    appends = 8_000 if full else 2_048
    found = [*loads.cold_starts(folder, 9 if full else 4), *loads.cold_reads(folder)]
    found += loads.threads_on_sqlite(folder, appends)
    found += loads.bulk(f"sqlite:///{folder / 'bulk.db'}", "SQLite", "≤ 15")
    with _database("loads") as url:
        if url is not None:
            found += loads.bulk(url, "PostgreSQL", "≤ 20")
            for tasks in (8, 64, 512):
                found += loads.tasks_on_postgres(url, tasks, appends)
            for indexed in (True, False):
                found += loads.writers_on_postgres(url, appends, indexed=indexed)
    return [each._asdict() for each in found]


# -- what is told ----------------------------------------------------------------------------------------------


def tables(found: dict[str, Any]) -> str:
    """The figures as Markdown; in each row the least is bold, whosever it is."""
    parts = [_told_of(found), _log_tables(found.get("logs", [])), _thread_table(found.get("threads", []))]
    parts.append(_load_table([*found.get("loads", []), *found.get("lists", [])]))
    return "\n\n".join(part for part in parts if part)


def _told_of(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["environment"].items())
    return (
        f"One run of `{found['command']}`, {found['date']}: {versions}. The machine had other work (load"
        f" {found['load']}), so microseconds are to be read beside each other, not by themselves."
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _log_tables(rows: list[dict[str, Any]]) -> str:
    told = []
    for where in dict.fromkeys(row["where"] for row in rows):
        here = [row for row in rows if row["where"] == where]
        names = [*dict.fromkeys(row["name"] for row in here)]
        lines = [f"### Histories on {where}, µs of CPU per call", ""]
        lines += [_row(["call", "messages there", *names]), _row(["---"] * (len(names) + 2))]
        for what in logs.WHAT:
            for length in sorted({row["length"] for row in here}):
                by = {row["name"]: row for row in here if (row["what"], row["length"]) == (what, length)}
                lines.append(_row([what, f"{length:,}".replace(",", " "), *_cells(by, names, "cpu_us")]))
        lines += ["", f"What a call gives the kernel on {where}, in a session of 1 000 messages:", ""]
        figure = "bytes_written" if where == "SQLite" else "packets"
        lines += [_row(["call", "", *names]), _row(["---"] * (len(names) + 2))]
        for what in logs.WHAT[:2] if where == "SQLite" else logs.WHAT:
            by = {row["name"]: row for row in here if (row["what"], row["length"]) == (what, 1_000)}
            lines.append(_row([what, figure.replace("_", " "), *_cells(by, names, figure)]))
            if where == "SQLite":
                lines.append(_row(["", "fsyncs", *_cells(by, names, "fsyncs")]))
        told.append("\n".join(lines))
    return "\n\n".join(told)


def _cells(by: dict[str, dict[str, Any]], names: list[str], figure: str) -> list[str]:
    least = min((row[figure] for row in by.values()), default=0)
    told = []
    for name in names:
        if name not in by:
            told.append("")
            continue
        value = by[name][figure]
        said = f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"
        told.append(f"**{said}**" if value == least else said)
    return told


def _thread_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lengths = sorted({row["turns"] for row in rows})
    figures = (("cpu_ms", "ms CPU"), ("bytes_written", "KB written"), ("packets", "packets"))
    lines = ["### Savers, per turn of two messages of 400 characters", ""]
    lines += [_row(["saver", "", *(f"turn {length}" for length in lengths)]), _row(["---"] * (len(lengths) + 2))]
    for where, name in dict.fromkeys((row["where"], row["name"]) for row in rows):
        here = {row["turns"]: row for row in rows if (row["where"], row["name"]) == (where, name)}
        for figure, unit in figures:
            if figure == ("packets" if where == "SQLite" else "bytes_written") or (
                where == "none" and figure != "cpu_ms"
            ):
                continue
            scale = 1e3 if figure == "bytes_written" else 1
            cells = [f"{here[length][figure] / scale:.3g}" if length in here else "" for length in lengths]
            title = name if where == "none" or name.endswith("stored") else f"{name}, {where}"
            lines.append(_row([title if figure == "cpu_ms" else "", unit, *cells]))
    return "\n".join(lines)


def _load_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = ["### Under load", "", _row(["", "ours", "the driver alone", "×", "goal"]), _row(["---"] * 5)]
    for row in rows:
        ours, floor = row["ours"], row["floor"]
        said = [f"{each:,.0f}".replace(",", " ") if each >= 100 else f"{each:.3g}" for each in (ours, floor or 0)]
        beside = [said[1], f"{ours / floor:.2f}"] if floor else ["", ""]
        lines.append(_row([f"{row['what']}, {row['unit']}", said[0], *beside, row["goal"]]))
    return "\n".join(lines)


def write_page(found: dict[str, Any]) -> None:
    """Put the tables into the page, in the place of those of the run before."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{tables(found)}\n\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Measure, write, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="longer sessions and threads")
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated")
    parser.add_argument("--sessions", type=int, default=20_000, help="how many sessions the lists are taken of")
    parser.add_argument("--redis", help="URL of a server for its saver")
    parser.add_argument("--mongodb", help="URL of a server for its saver")
    parser.add_argument("--out", type=Path, default=FIGURES, help="where figures are written")
    given = parser.parse_args()
    begin_again()
    warnings.simplefilter("ignore")  # the libraries' own are theirs
    path = given.out / "beside.json"
    known: dict[str, Any] = json.loads(path.read_text()) if given.only and path.exists() else {}
    begin, load = time.monotonic(), f"{os.getloadavg()[0]:.1f}"
    with tempfile.TemporaryDirectory() as name:
        folder, full = Path(name), given.full
        for part in given.only or PARTS:
            print(f"{part} …", file=sys.stderr, flush=True)
            if part == "logs":
                known[part] = measure_logs(folder, full=full)
            elif part == "threads":
                known[part] = measure_threads(folder, full=full, redis=given.redis, mongodb=given.mongodb)
            elif part == "loads":
                known[part] = measure_loads(folder, full=full)
            else:
                asked = 1_000_000 if full else given.sessions
                known[part] = [each._asdict() for each in loads.lists(folder, asked)]
    known["environment"], known["date"] = environment(), time.strftime("%Y-%m-%d")
    if not given.only:
        known["command"] = "make bench-full" if full else "make bench"
        known["load"], known["seconds"] = load, round(time.monotonic() - begin)
    known.setdefault("command", "python -m benchmarks.beside")
    known.setdefault("load", load)
    given.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")
    print(tables(known))
    if given.out == FIGURES:
        write_page(known)
        draw()


if __name__ == "__main__":
    main()
