"""What a turn costs the disk, and the wire: fsyncs and bytes written on SQLite, round trips to a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from benchmarks.checkpointer_graphs import OFFICIAL, OURS, Contender, graph_over, play, sqlite_url
from benchmarks.measure import CountingProxy, count_fsyncs

if TYPE_CHECKING:
    from collections.abc import Callable

Row = tuple[str, ...]
TURNS, MORE = 200, 20


def disk(directory: Path) -> list[Row]:
    """Fsyncs and bytes of a turn at 200 turns, in the default durability."""
    rows: list[Row] = []
    for contender, goals in ((OURS, ("4", "60")), (OFFICIAL["sqlite"], ("", ""))):
        url = sqlite_url(directory, f"disk-{contender.name}")
        with contender.open(url) as saver:
            graph = graph_over(saver)
            play(graph, TURNS)
            before = _written()
            play(graph, MORE)
            written = (_written() - before) / MORE / 1024
        rows += [
            (f"fsyncs of a turn, {contender.name}", _fsyncs(contender, url), goals[0]),
            (f"KiB written by a turn, {contender.name}", f"{written:.0f}", goals[1]),
        ]
    return rows


def _written() -> int:
    """Bytes that this process has handed to the kernel for writing."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def _fsyncs(contender: Contender, url: str) -> str:
    name = "OURS" if contender is OURS else 'OFFICIAL["sqlite"]'
    code = f"""
import os
from benchmarks.checkpointer_graphs import OFFICIAL, OURS, graph_over, play
with {name}.open({url!r}) as saver:
    graph = graph_over(saver)
    play(graph, 2)
    os.write(1, b"BEGIN\\n")
    play(graph, {MORE})
    os.write(1, b"END\\n")
"""
    found = count_fsyncs(code)
    return "" if found is None else f"{found / MORE:.1f}"


def round_trips(backend: str, url: str, fresh: Callable[[str], str]) -> list[Row]:
    """How often a turn waits for the server, counted on the wire."""
    target = make_url(url)
    contenders = [OURS] + ([OFFICIAL[backend]] if backend in OFFICIAL else [])
    rows: list[Row] = []
    for contender in contenders:
        own = make_url(fresh(contender.name))
        proxy = CountingProxy(str(target.host), int(target.port or 0))
        through = own.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
        with contender.open(through) as saver:
            graph = graph_over(saver)
            play(graph, 10)
            before = proxy.round_trips
            play(graph, MORE)
            trips = (proxy.round_trips - before) / MORE
        proxy.close()
        goal = "8" if contender is OURS and backend == "postgres" else ""
        rows.append((f"round trips of a turn, {backend}, {contender.name}", f"{trips:.1f}", goal))
    return rows
