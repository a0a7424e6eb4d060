"""The pictures of the README and the docs, drawn from what was measured: ``python -m benchmarks.figures``.

Each is drawn twice, wide and for a telephone, and says for itself how it looks in the dark. Plain SVG: text stays text,
and the same figures give the same bytes.
"""

from __future__ import annotations

import itertools
import json
import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
NARROW = 360
_LIGHT = {
    "card": "#ffffff",
    "edge": "#d0d7de",
    "ink": "#1f2328",
    "dim": "#57606a",
    "grid": "#e4e8ec",
    "blue": "#0969da",
    "blue-soft": "#dbeafe",
    "red": "#cf222e",
    "red-soft": "#fde8e9",
    "green": "#1a7f37",
    "green-soft": "#e2f6e6",
    "gold": "#9a6700",
    "gold-soft": "#fff4d0",
    "grey": "#6e7781",
    "grey-soft": "#eef1f4",
}
_DARK = {
    "card": "#161b22",
    "edge": "#30363d",
    "ink": "#f0f6fc",
    "dim": "#9ea7b3",
    "grid": "#2a313a",
    "blue": "#58a6ff",
    "blue-soft": "#12294a",
    "red": "#ff7b72",
    "red-soft": "#3c1618",
    "green": "#56d364",
    "green-soft": "#12301c",
    "gold": "#e3b341",
    "gold-soft": "#372b0e",
    "grey": "#9ea7b3",
    "grey-soft": "#262d36",
}


class Drawing:
    """A card with things on it, in colours that have names."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """An empty card."""
        self.width = width
        self.height = height
        self._title = title
        self._parts: list[str] = []

    def text(self, x: float, y: float, said: str, size: float, colour: str = "ink", **how: str) -> None:
        """Words; `anchor` and `weight` as in SVG."""
        more = "".join(f' {_ATTRIBUTES[name]}="{value}"' for name, value in how.items())
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}"'
        self._parts.append(f'<text {place} class="{colour}"{more}>{escape(said)}</text>')

    def box(self, x: float, y: float, width: float, height: float, colour: str | None) -> None:
        """A rounded box; without a colour it is a place where nothing is."""
        look = 'class="none"' if colour is None else f'class="box {colour}"'
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" {look}/>')

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, *, dots: bool = False, dashed: bool = False
    ) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self._parts.append(f'<polyline points="{path}" class="line {colour}"{dash}/>')
        for x, y in points if dots else ():
            self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot {colour}"/>')

    def rule(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """A line of a grid."""
        self._parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" class="rule"/>')

    def __str__(self) -> str:
        """The picture."""
        space = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
        return "\n".join(
            (
                f'<svg {space} role="img" font-family="{_FONTS}">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{_look(_LIGHT)}@media (prefers-color-scheme: dark){{{_look(_DARK)}}}</style>",
                f'<rect x=".5" y=".5" width="{self.width - 1}" height="{self.height - 1}" rx="10" class="card"/>',
                *self._parts,
                "</svg>\n",
            )
        )


_FONTS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
_ATTRIBUTES = {"anchor": "text-anchor", "weight": "font-weight"}


def _look(colours: dict[str, str]) -> str:
    """The style sheet of some colours."""
    rules = [
        f".card{{fill:{colours['card']};stroke:{colours['edge']}}}",
        f".none{{fill:none;stroke:{colours['edge']};stroke-dasharray:3 3}}",
        f".rule{{stroke:{colours['grid']}}}",
        ".line{fill:none;stroke-width:2}",
    ]
    rules += [f"text.{name}{{fill:{colours[name]}}}" for name in ("ink", "dim")]
    for name in ("blue", "red", "green", "gold", "grey"):
        full = colours[name]
        rules.append(f"text.{name},.dot.{name}{{fill:{full}}}.line.{name}{{stroke:{full}}}")
        rules.append(f".box.{name}{{fill:{colours[f'{name}-soft']};stroke:{full}}}")
    return "".join(rules)


# -- the log and its views -------------------------------------------------------------------------------------

_LOG = (
    ("ada", "grey"),
    ("bot", "grey"),
    ("ada", "grey"),
    ("bot", "grey"),
    ("compacted", "gold"),
    ("summary", "green"),
    ("ada", "red"),
    ("rewind", "gold"),
    ("ada", "blue"),
    ("bot", "blue"),
)
_VIEWS = (
    ("context", "what the model sees", "a summary in the place of what it covers", (6, 9, 10)),
    ("recall", "what a search finds", "compacted or not", (1, 2, 3, 4, 6, 9, 10)),
    ("state", "what the application keeps", "deltas of what stands", (2, 4, 10)),
    ("checkpoint", "what LangGraph resumes from", "ranges of positions: 1 to 4, 9 to 10", (1, 2, 3, 4, 9, 10)),
    ("audit", "what people check", "everything", range(1, 11)),
)
_MEANINGS = (
    ("live", "blue"),
    ("archived by a compaction", "grey"),
    ("hidden by a rewind", "red"),
    ("made by a compaction", "green"),
    ("records", "gold"),
)


def views(*, narrow: bool) -> Drawing:
    """One log of ten events, and what each kind of memory shows of it."""
    title = "One log of ten events, and five views of it: context, recall, state, checkpoint, audit"
    drawing = Drawing(NARROW, 436, title) if narrow else Drawing(880, 412, title)
    left, small = (14, 11) if narrow else (24, 12.5)
    step = (drawing.width - 2 * left + 5) / len(_LOG)
    drawing.text(left, 32, "One log: in order, never changed" if narrow else _HEAD, 15 if narrow else 17, weight="600")
    for at, (who, colour) in enumerate(_LOG):
        x, middle = left + at * step, left + at * step + (step - 5) / 2
        drawing.box(x, 46, step - 5, 30 if narrow else 48, colour)
        drawing.text(middle, 66, str(at + 1), 13, colour, anchor="middle", weight="600")
        if not narrow:
            drawing.text(middle, 84, who, 12, colour, anchor="middle")
    y = 102 if narrow else 122
    for name, what, how, shown in _VIEWS:
        drawing.text(left, y, name, small + 1.5, weight="600")
        said = what if narrow else f"{what} · {how}"
        drawing.text(left + (84 if narrow else 98), y, said, small, "dim")
        for at, (_, colour) in enumerate(_LOG):
            drawing.box(left + at * step, y + 7, step - 5, 20, colour if at + 1 in shown else None)
            if at + 1 in shown:
                x = left + at * step + (step - 5) / 2
                drawing.text(x, y + 21, str(at + 1), 11.5, colour, anchor="middle")
        y += 52
    _legend(drawing, left, y + (2 if narrow else 4), small, per_row=2 if narrow else 5)
    return drawing


_HEAD = "One log: what happened, in order, never changed"


def _legend(drawing: Drawing, left: float, y: float, size: float, *, per_row: int) -> None:
    x = left
    for at, (meaning, colour) in enumerate(_MEANINGS):
        if at and not at % per_row:
            x, y = left, y + 22
        drawing.box(x, y - 10, 13, 13, colour)
        drawing.text(x + 19, y + 1, meaning, size, "dim")
        x += 172 if per_row == 2 else 44 + 6.9 * len(meaning)


# -- plots -----------------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """Numbers along a side, logarithmic or even: from the first mark or lower to the last or higher."""

    low: float
    high: float
    marks: dict[float, str]
    is_log: bool

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Panel(NamedTuple):
    """A plot on a card."""

    drawing: Drawing
    x: float
    y: float
    width: float
    height: float
    across: Axis
    up: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a value lies on the card."""
        return self.x + self.across.place(x) * self.width, self.y + self.height * (1 - self.up.place(y))

    def frame(self, title: str, below: str) -> None:
        """What stands around the lines."""
        left, foot = self.x - 48, self.y + self.height
        self.drawing.text(left, self.y - 18, title, 15, weight="600")
        for value, said in self.up.marks.items():
            _, y = self.at(self.across.low, value)
            self.drawing.rule(self.x, y, self.x + self.width, y)
            self.drawing.text(self.x - 8, y + 4, said, 12, "dim", anchor="end")
        for value, said in self.across.marks.items():
            x, _ = self.at(value, self.up.low)
            self.drawing.rule(x, self.y, x, foot)
            self.drawing.text(x, foot + 17, said, 12, "dim", anchor="middle")
        self.drawing.text(self.x + self.width, foot + 35, below, 12, "dim", anchor="end")

    def line(self, values: Iterable[tuple[float, float]], colour: str, **how: Any) -> None:
        """A line of values."""
        self.drawing.line([self.at(x, y) for x, y in values], colour, **how)

    def name(self, x: float, y: float, said: str, colour: str, *, above: float = 9, anchor: str = "end") -> None:
        """What a line is, beside a place on it."""
        on_x, on_y = self.at(x, y)
        self.drawing.text(on_x, on_y - above, said, 12.5, colour, anchor=anchor, weight="600")


def _panels(drawing: Drawing, *, narrow: bool, height: float) -> list[tuple[float, float, float, float]]:
    """Where two plots stand: beside each other, or one below the other."""
    if narrow:
        return [(62, 44 + at * (height + 96), NARROW - 62 - 16, height) for at in range(2)]
    width = (drawing.width - 3 * 72) / 2 + 20
    return [(72 + at * (width + 72), 52, width, height) for at in range(2)]


def growth(found: dict[str, list[dict[str, float]]], *, narrow: bool) -> Drawing:
    """What a thread takes as it grows, beside LangGraph's own savers."""
    drawing = Drawing(
        NARROW if narrow else 880,
        644 if narrow else 368,
        "Bytes stored per message and KB written per turn against the turns of a thread, ours beside SqliteSaver and "
        "PostgresSaver",
    )
    one, two = _panels(drawing, narrow=narrow, height=220 if narrow else 260)
    turns = Axis(1, 800, {1: "1", 10: "10", 100: "100", 600: "600"}, is_log=True)
    stored = Panel(
        drawing, *one, turns, Axis(700, 400_000, {10.0**n: f"{10 ** (n - 3)} KB" for n in (3, 4, 5)}, is_log=True)
    )
    written = Panel(drawing, *two, turns, Axis(40_000, 1_400_000, {1e5: "100 KB", 1e6: "1 MB"}, is_log=True))
    stored.frame("Stored, per message of 400 characters", "turns of the thread")
    written.frame("Written to the disk, per turn, SQLite", "turns of the thread")
    for name, points in found.items():
        how: dict[str, Any] = {"dots": True, "dashed": "PostgreSQL" in name}
        how["colour"] = "blue" if name.startswith("ours") else "red"
        stored.line([(point["turns"], point["bytes_per_message"]) for point in points], **how)
        if name.endswith("SQLite"):
            written.line([(point["turns"], point["written_per_turn"]) for point in points], **how)
    last = {name: points[-1] for name, points in found.items()}
    for panel, figure, above in ((stored, "bytes_per_message", -20), (written, "written_per_turn", 12)):
        ours, theirs = last["ours, SQLite"], last["SqliteSaver, SQLite"]
        panel.name(ours["turns"], ours[figure], "ours, SQLite", "blue", above=above)
        panel.name(theirs["turns"], theirs[figure], "SqliteSaver", "red")
    if "ours, PostgreSQL" in found:  # where a server was there
        first, end = found["ours, PostgreSQL"][0], last["PostgresSaver, PostgreSQL"]
        stored.name(1.2, first["bytes_per_message"], "ours, PostgreSQL", "blue", above=3, anchor="start")
        stored.name(end["turns"] / 2.7, end["bytes_per_message"], "PostgresSaver", "red", anchor="start")
    return drawing


def prompts(found: dict[str, list[int]], *, narrow: bool) -> Drawing:
    """How long prompts get, with and without compaction."""
    whole, short = found.values()
    title = "Tokens of each prompt of a conversation, with and without compaction"
    drawing = Drawing(NARROW if narrow else 880, 330, title)
    ends = 16 if narrow else 32
    turns = Axis(0, len(whole), {n: str(n) for n in range(0, len(whole) + 1, 50)}, is_log=False)
    marks = {float(n): f"{n // 1000}k" if n else "0" for n in range(0, 20_001, 5_000)}
    up = Axis(0, max(whole) * 1.05, marks, is_log=False)
    panel = Panel(drawing, 62, 52, drawing.width - 62 - ends, 220, turns, up)
    panel.frame("Tokens of each prompt", "turns of the conversation")
    panel.line(enumerate(whole, 1), "red")
    panel.line(enumerate(short, 1), "blue")
    panel.name(len(whole) * 0.78, whole[int(len(whole) * 0.78)], "everything that was said", "red", above=12)
    said = "compacted above 4 000" if narrow else next(name for name in found if name != "everything")
    panel.name(len(whole), max(short), said, "blue", above=12)
    return drawing


def files(found: dict[str, list[float]], *, narrow: bool) -> Drawing:
    """What the steps of a deep agent take that change one of its files, beside LangGraph's own savers."""
    drawing = Drawing(
        NARROW if narrow else 880,
        644 if narrow else 368,
        "KB that a thread takes more by its turns, each of which changes one of 50 files of 20 KB, ours beside "
        "SqliteSaver and PostgresSaver, with and without delta channels",
    )
    turns = Axis(0, 20, {1: "1", 5: "5", 10: "10", 20: "20"}, is_log=False)
    marks = {10.0: "10 KB", 100.0: "100 KB", 1e3: "1 MB", 1e4: "10 MB"}
    panels = _panels(drawing, narrow=narrow, height=220 if narrow else 260)
    databases = (("sqlite", "SQLite", "SqliteSaver"), ("postgres", "PostgreSQL", "PostgresSaver"))
    for place, (database, title, saver) in zip(panels, databases, strict=True):
        panel = Panel(drawing, *place, turns, Axis(6, 100_000, marks, is_log=True))
        panel.frame(f"Stored since the first turn, {title}", "turns")
        named = (("ours", "blue", -20), (saver, "red", 9), (f"{saver}, delta", "gold", 9))
        for name, colour, above in named:
            sums = [*itertools.accumulate(found[f"{name} ({database})"])]
            panel.line(enumerate(sums, 1), colour)
            panel.name(20, sums[-1], name, colour, above=above)
    return drawing


def all_of_them() -> dict[str, str]:
    """Every picture by the name of its file."""
    from benchmarks.beside_plots import all_of  # noqa: PLC0415 - it draws with what is here

    grown = json.loads((FIGURES / "growth.json").read_text())
    asked = json.loads((FIGURES / "prompts.json").read_text())
    beside = json.loads((FIGURES / "beside.json").read_text())
    kept = json.loads((FIGURES / "files.json").read_text())
    drawn: dict[str, str] = {}
    for end, narrow in (("", False), ("-narrow", True)):
        drawn[f"views{end}.svg"] = str(views(narrow=narrow))
        drawn[f"growth{end}.svg"] = str(growth(grown, narrow=narrow))
        drawn[f"prompts{end}.svg"] = str(prompts(asked, narrow=narrow))
        drawn |= {f"{name}{end}.svg": str(each) for name, each in all_of(beside, narrow=narrow).items()}
        drawn[f"files{end}.svg"] = str(files(kept, narrow=narrow))
    return drawn


def draw() -> None:
    """Draw all of them anew."""
    for name, picture in all_of_them().items():
        (FIGURES / name).write_text(picture)


if __name__ == "__main__":
    draw()
