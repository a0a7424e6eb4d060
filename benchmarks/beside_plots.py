"""Pictures of ours beside others: cost against length on logarithmic axes, drawn from what `beside` measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.figures import NARROW, Axis, Drawing, Panel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_COLOURS = {
    "ours": "blue",
    "SQLChatMessageHistory": "red",
    "openai-agents": "green",
    "google-adk": "gold",
    "langchain-postgres": "grey",
    "SqliteSaver": "red",
    "PostgresSaver": "red",
    "RedisSaver": "gold",
    "MongoDBSaver": "green",
    "nothing stored": "grey",
}
_STEPS = (1, 2, 5)
Line = tuple[str, str, bool, list[tuple[float, float]]]
"""What is drawn of one library: its name, colour, whether dashed, and its points."""


def _look(name: str) -> tuple[str, bool]:
    base, _, more = name.partition(", ")
    base, _, delta = base.partition(" + ")
    return ("green" if delta else _COLOURS.get(base, "grey")), more in ("async", "PostgreSQL")


def _said(value: float, unit: str) -> str:
    if unit == "µs":
        return f"{value / 1e6:g} s" if value >= 1e6 else f"{value / 1e3:g} ms" if value >= 1e3 else f"{value:g} µs"
    if unit == "ms":
        return f"{value / 1e3:g} s" if value >= 1e3 else f"{value:g} ms"
    if unit == "B":
        return f"{value / 1e6:g} MB" if value >= 1e6 else f"{value / 1e3:g} KB"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def _axis(values: Iterable[float], unit: str, *, tight: bool = False) -> Axis:
    """A logarithmic axis that holds all values, with marks at every power of ten, or finer where there are few."""
    known = sorted(value for value in values if value > 0)
    low, high = known[0] / (1 if tight else 1.4), known[-1] * (1 if tight else 1.4)
    tens = [10.0**power for power in range(-3, 9)]
    marks = [mark for mark in tens if low <= mark <= high]
    if len(marks) < 2:
        marks = [step * ten for ten in tens for step in _STEPS if low <= step * ten <= high]
    return Axis(low, high, {mark: _said(mark, unit) for mark in marks}, is_log=True)


def names_of(panels: Sequence[tuple[str, str, list[Line]]]) -> list[str]:
    """What is named below some plots."""
    return list(dict.fromkeys(line[0] for _, _, lines in panels for line in lines))


def _card(title: str, panels: Sequence[tuple[str, str, list[Line]]], below: str, *, narrow: bool) -> Drawing:
    """Plots beside each other, or below each other, over one legend."""
    count, height = len(panels), 200
    width = NARROW if narrow else 880
    each = width - 78 if narrow else (width - 24 - count * 66) / count
    names = list({name: (colour, dashed) for _, _, lines in panels for name, colour, dashed, _ in lines}.items())
    per_row = max(1, int((width - 40) / (36 + 6.6 * max(map(len, names_of(panels))))))
    foot = 24 + 22 * -(-len(names) // per_row)
    tall = (44 + count * (height + 84) if narrow else 52 + height + 54) + foot
    drawing = Drawing(width, tall, title)
    for at, (head, unit, lines) in enumerate(panels):
        x, y = (62, 44 + at * (height + 84)) if narrow else (66 + at * (each + 66), 52)
        points = [point for line in lines for point in line[3]]
        across = _axis((px for px, _ in points), "", tight=True)
        panel = Panel(drawing, x, y, each, height, across, _axis((py for _, py in points), unit))
        panel.frame(head, below)
        # Ours is drawn last, on top of others.
        for name, colour, dashed, values in sorted(lines, key=lambda line: line[0].startswith("ours")):
            del name
            panel.line(values, colour, dots=True, dashed=dashed)
    step = (width - 40) / per_row
    for at, (name, (colour, dashed)) in enumerate(names):
        x, y = 20 + at % per_row * step, tall - foot + 16 + at // per_row * 22
        drawing.line([(x, y - 4), (x + 18, y - 4)], colour, dashed=dashed)
        drawing.text(x + 24, y, name, 11 if narrow else 12, "dim")
    return drawing


def histories(found: dict[str, Any], where: str, *, narrow: bool) -> Drawing:
    """What a call on a history costs as its session grows."""
    rows = [row for row in found["logs"] if row["where"] == where]
    panels = []
    for what in ("append", "turn of four", "last 20"):
        lines: list[Line] = []
        for name in dict.fromkeys(row["name"] for row in rows):
            mine = [(row["length"], row["cpu_us"]) for row in rows if (row["what"], row["name"]) == (what, name)]
            lines.append((name, *_look(name), mine))
        panels.append((f"{what[0].upper()}{what[1:]}, CPU", "µs", lines))
    title = f"CPU of an append, a turn of four and the last 20 messages on {where} against the length of the session"
    return _card(title, panels, "messages in the session", narrow=narrow)


def savers(found: dict[str, Any], *, narrow: bool) -> Drawing:
    """What a turn of a chat costs with a saver as its thread grows."""
    rows = found["threads"]
    panels = []
    for head, unit, figure, kept in (
        ("CPU of a turn", "ms", "cpu_ms", ("none", "SQLite", "PostgreSQL", "Redis", "MongoDB")),
        ("Written to the disk per turn, SQLite", "B", "bytes_written", ("SQLite",)),
    ):
        lines: list[Line] = []
        for where, name in dict.fromkeys((row["where"], row["name"]) for row in rows if row["where"] in kept):
            mine = [(row["turns"], row[figure]) for row in rows if (row["where"], row["name"]) == (where, name)]
            full = name if where in ("none", "SQLite") else f"{name}, {where}"
            lines.append((full, *_look(full), mine))
        panels.append((head, unit, lines))
    title = (
        "CPU and bytes of a turn against the turns of its thread, ours beside LangGraph's savers with and without delta"
    )
    return _card(title, panels, "turns of the thread", narrow=narrow)


def all_of(found: dict[str, Any], *, narrow: bool) -> dict[str, Drawing]:
    """Every picture of a run, by name."""
    drawn: dict[str, Drawing] = {}
    for where in dict.fromkeys(row["where"] for row in found.get("logs", ())):
        drawn[f"beside-{where.lower()}"] = histories(found, where, narrow=narrow)
    if found.get("threads"):
        drawn["beside-savers"] = savers(found, narrow=narrow)
    return drawn
