"""How many instructions an operation takes, beside another tree of the package: ``python -m benchmarks.instructions``.

Counted by callgrind in a clean process per operation, warm, between two marks; every thread counts, the kernel does
not. Neighbours on the machine do not disturb it: a second run is within 1 %. Needs valgrind and a C compiler (Debian
and Ubuntu: ``apt-get install valgrind gcc libc6-dev``).

    python -m benchmarks.instructions --against ../before --json figures.json
    python -m benchmarks.instructions --only append --only search

Besides: ``from langchain_sessions import SessionService`` and a first append in a fresh process, and the CPU time of
both without callgrind, best of some runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import in_tree, show
from benchmarks.operations import OPERATIONS

HERE = Path(__file__).parents[1]
MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(void) { CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
START = ("import", "first append")
_RUNS = 7


def parts_of(tree: Path, what: str, directory: Path, *options: str) -> list[int]:
    """The instructions that a program takes between each two of its marks, in order."""
    source, library, out = (directory / name for name in ("marks.c", "marks.so", "callgrind.out"))
    source.write_text(MARKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)  # noqa: S603, S607 - as make does
    # What comes before the first mark runs without instruments, which is several times as fast.
    under = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}")
    in_tree(tree, what, directory, *options, "--marks", str(library), under=under)
    written = sorted(directory.glob(f"{out.name}.*"), key=lambda path: int(path.suffix[1:]))
    totals = (re.search(r"^totals: (\d+)", path.read_text(errors="replace"), re.MULTILINE) for path in written)
    return [int(total[1]) for total in totals if total is not None]


def instructions(tree: Path, name: str) -> float:
    """How many instructions an operation takes on a tree."""
    with tempfile.TemporaryDirectory() as folder:
        in_tree(tree, "prepare", Path(folder), "--operation", name)
        (counted,) = parts_of(tree, "count", Path(folder), "--operation", name)
    return counted / (OPERATIONS[name].times * OPERATIONS[name].of)


def start_instructions(tree: Path) -> dict[str, float]:
    """How many instructions the import takes, and then a first append."""
    with tempfile.TemporaryDirectory() as folder:
        parts = parts_of(tree, "start", Path(folder))
    return dict(zip(START, map(float, parts), strict=True))


def start_seconds(trees: list[Path]) -> dict[Path, dict[str, float]]:
    """The CPU seconds of both, the best of some runs; the trees in turn, so that noise reaches all alike."""
    runs: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    for _ in range(_RUNS):
        for tree in trees:
            with tempfile.TemporaryDirectory() as folder:
                runs[tree].append(json.loads(in_tree(tree, "start", Path(folder))))
    return {tree: {part: min(run[part] for run in found) for part in START} for tree, found in runs.items()}


def _count(value: float) -> str:
    return f"{value / 1e6:.2f} M" if value >= 1e7 else f"{value / 1e3:.1f} k"


def _change(values: list[float]) -> list[str]:
    """How much more the last of two trees takes than the first."""
    return [] if len(values) == 1 else [f"{(values[-1] / values[0] - 1) * 100:+.1f} %"]


def measure(trees: list[Path], names: list[str]) -> dict[str, list[float]]:
    """The figures of each tree, by operation."""
    found: dict[str, list[float]] = {}
    for name in names:
        print(f"counting {name} …", file=sys.stderr, flush=True)
        if name == "start":
            seconds = start_seconds(trees)  # first of all, since a tree's first import compiles it
            counted = [start_instructions(tree) for tree in trees]
            for part in START:
                found[part] = [each[part] for each in counted]
            for part in START:
                found[f"{part}, CPU seconds"] = [seconds[tree][part] for tree in trees]
        else:
            found[name] = [instructions(tree, name) for tree in trees]
    return found


def main() -> None:
    """Print the figures of this tree, beside those of another one if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=HERE, help="the tree to measure; by default this one")
    parser.add_argument("--against", type=Path, help="another tree, measured in the same run")
    parser.add_argument("--only", action="append", choices=[*OPERATIONS, "start"], help="may be repeated")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    if missing := [name for name in ("valgrind", "cc") if shutil.which(name) is None]:
        raise SystemExit(
            f"{' and '.join(missing)} missing; on Debian or Ubuntu: apt-get install valgrind gcc libc6-dev"
        )
    trees = [path.resolve() for path in (given.against, given.tree) if path is not None]
    found = measure(trees, given.only or [*OPERATIONS, "start"])
    heads = ["instructions"] if given.against is None else ["before", "now", "change"]
    rows = [("operation", *heads)]
    for name, values in found.items():
        title = OPERATIONS[name].title if name in OPERATIONS else name
        cells = [f"{value:.3f}" if name.endswith("seconds") else _count(value) for value in values]
        rows.append((title, *cells, *_change(values)))
    show(rows)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
