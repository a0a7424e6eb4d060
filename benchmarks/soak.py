"""Hours of random use, part by part: `make soak`, or `python -m benchmarks.soak kills look-alikes` beside servers.

- `machine`: the state machine of the contract, many times longer, on every store;
- `tampering`: every column, every bomb, every method;
- `kills`: processes that append, archive, chat, run graphs and prune, killed after at least one acknowledgement each;
- `look-alikes`: users, sessions and applications whose names look alike, in random use of one database;
- `boundaries`: every operation, failing at every statement and commit, by every kind of fault;
- `crowds`: many threads, processes and cancellations at once;
- `cassandra`: three nodes that are started here, killed, hung and emptied, random use of them, a million sessions.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.servers import cassandra

PARTS = {
    "machine": ("tests/contract/test_machine.py",),
    "tampering": ("tests/faults/test_tampering.py",),
    "kills": (
        "tests/faults/test_kill.py",
        "tests/checkpointer/test_crashes.py",
        "tests/checkpointer/test_killed_pieces.py",
    ),
    "look-alikes": ("tests/faults/test_look_alikes.py",),
    "boundaries": ("tests/faults/test_statement_boundaries.py",),
    "crowds": ("tests/concurrency",),
    "cassandra": ("tests/engines",),
}


class Counts:
    """Adds up what tests count, by backend, and shows it at the end."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test counted until it ended; whether it ended well stands above."""
        if report.when == "call":
            backend = next((str(value) for name, value in report.user_properties if name == "backend"), "")
            for name, value in report.user_properties:
                if name.startswith("counted: ") and isinstance(value, int):
                    self._counts[backend, name.removeprefix("counted: ")] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A line for each count of each backend."""
        terminalreporter.section("counted")
        for (backend, what), times in sorted(self._counts.items()):
            terminalreporter.write_line(f"{backend or 'all':10}{times:>10,} {what}")


def main() -> int:
    """Run the parts that were asked for, with what they do as many times as asked for."""
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(sys.modules[__name__]), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--times", type=int, default=100, help="how many times the ordinary run's examples")
    parser.add_argument("--kills", type=int, default=2_000, help="how many processes are killed on each database")
    parser.add_argument("--operations", type=int, default=100_000, help="of look-alike users on each database")
    parser.add_argument("--backends", help="comma-separated, as of the tests; all that are there by default")
    parser.add_argument("--heads", type=int, default=1_000_000, help="of sessions that are filled into Cassandra")
    parser.add_argument("--workers", type=int, default=0, help="processes that share the work")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if "cassandra" in (given.parts or PARTS) and not os.environ.get(cassandra.URL):
        again = [sys.executable, "-m", "benchmarks.soak", *sys.argv[1:]]
        beside = [sys.executable, "-m", "tests.servers.cassandra", "--install", "--", *again]
        return subprocess.run(beside, check=False).returncode  # noqa: S603 - what was asked for, beside nodes
    os.environ["LANGCHAIN_SESSIONS_SOAK"] = str(given.times)
    os.environ["LANGCHAIN_SESSIONS_DRAWS"] = "soak"
    os.environ["LANGCHAIN_SESSIONS_KILLS"] = str(given.kills)
    os.environ["LANGCHAIN_SESSIONS_OPERATIONS"] = str(given.operations)
    os.environ["LANGCHAIN_SESSIONS_EVENTS"] = "100000"
    os.environ["LANGCHAIN_SESSIONS_HEADS"] = str(given.heads)
    paths = [path for part in given.parts or PARTS for path in PARTS[part]]
    # Everything in these files, what is marked as soak too; a part may take hours.
    options = ["-q", "-m", "soak or not soak", "--timeout", "0", "-p", "no:cacheprovider", "--durations", "0", "-vv"]
    if given.backends:
        options += ["--backends", given.backends]
    return int(pytest.main([*paths, *options, "-n", str(given.workers)], plugins=[Counts()]))


if __name__ == "__main__":
    sys.exit(main())
