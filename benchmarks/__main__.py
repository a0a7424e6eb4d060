"""Runs every benchmark: ``make bench-full``. Each is a module with a `main`; one that cannot run says why."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = ("log", "checkpointer", "compaction", "surface", "tokens", "recall_speed")


def run(names: tuple[str, ...]) -> None:
    """Run benchmarks by name."""
    for name in names:
        print(f"\n== {name} " + "=" * (90 - len(name)), flush=True)
        try:
            module = importlib.import_module(f"benchmarks.{name}")
        except ModuleNotFoundError as error:
            print(f"skipped: {error}")
            continue
        module.main()


if __name__ == "__main__":
    names = tuple(sys.argv[1:]) or BENCHMARKS
    del sys.argv[1:]  # a benchmark reads its own options there
    run(names)
