"""What calls cost, in counts, beside what is recorded: ``make gates``. What grew by more than 3 % fails, by name.

Instructions are counted by callgrind, what reaches the kernel (bytes, fsyncs, packets) by a small library that stands
before the C library's functions, statements and functions of Python by hooks, the memory that a call holds at its peak
by tracemalloc. Each figure is that of a clean process, warm, with the checkpoints of SQLite's log in it; neighbours on
the machine do not disturb it.

    python -m benchmarks.gates                      beside the recorded values of gates.json
    python -m benchmarks.gates --against ../before  and beside another tree, measured in the same run
    python -m benchmarks.gates --record             take over what became less
    python -m benchmarks.gates --record --decision 17   and what became more, which docs/decisions/0017-….md names

Instructions, functions and memory depend on the versions of Python and of what is installed. Where those are not the
recorded ones, the package as it was when they were recorded is measured in the same run, and says what they should be.
With `--install` valgrind is installed where it can be.
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.instructions import parts_of, start_instructions
from benchmarks.measure import in_tree, show
from benchmarks.operations import GATED, OPERATIONS, PACKAGE, SERVED
from tests.servers import databases, packages
from tests.servers.environment import server_url

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parents[1]
RECORDED = Path(__file__).with_name("gates.json")
DECISIONS = HERE / "docs" / "decisions"
TOLERANCE = 1.03
BOUND = ("instructions", "functions", "bytes written", "bytes held")
"""What depends on the versions of what is installed."""
_STEADY = 64
"""Of fewer times it depends on how a checkpoint of the log falls what is written."""
_NEEDED = {"valgrind": "valgrind", "cc": "gcc"}
_DISTRIBUTIONS = ("langchain-core", "langgraph", "pydantic", "sqlalchemy", "psycopg")
_ONE_AT_A_TIME = threading.Lock()
COUNTING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
long counted_bytes, counted_fsyncs, counted_sends;
#define NEXT(name) static __typeof__(name) *next; if (!next) next = dlsym(RTLD_NEXT, #name)
ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write); counted_bytes += size; return next(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    NEXT(pwrite); counted_bytes += size; return next(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    NEXT(pwrite64); counted_bytes += size; return next(fd, data, size, at); }
int fsync(int fd) { NEXT(fsync); counted_fsyncs++; return next(fd); }
int fdatasync(int fd) { NEXT(fdatasync); counted_fsyncs++; return next(fd); }
ssize_t send(int fd, const void *data, size_t size, int flags) {
    NEXT(send); counted_sends++; return next(fd, data, size, flags); }
"""


def environment() -> dict[str, str]:
    """The versions that instructions depend on."""
    named = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "machine": platform.machine()}
    return named | {name: metadata.version(name) for name in _DISTRIBUTIONS}


def measure_all(trees: Sequence[Path]) -> list[dict[str, float]]:
    """Every gate's figure on each tree, side by side: a count does not change where the machine has other work."""
    with ThreadPoolExecutor(len(trees)) as pool:
        return list(pool.map(measure, trees))


def measure(tree: Path) -> dict[str, float]:
    """Every gate's figure on a tree."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        asked = [option for name in GATED for option in ("--operation", name)]
        in_tree(tree, "prepare", directory, *asked)
        for each in directory.glob("*.db*"):
            shutil.copy(each, directory / f"{each.name}.prepared")
        counted = parts_of(tree, "count", directory, *asked)
        found |= {
            f"{name}: instructions": counted_in / OPERATIONS[name].times
            for name, counted_in in zip(GATED, counted, strict=True)
        }
        for each in directory.glob("*.db*"):
            if each.suffix != ".prepared":
                each.unlink()
        for each in directory.glob("*.prepared"):
            shutil.copy(each, each.with_suffix(""))
        found |= _kernel(tree, directory, asked)
        with _ONE_AT_A_TIME:
            found |= _server(tree, directory)
    started = start_instructions(tree)
    return found | {f"{part} in a cold process: instructions": count for part, count in started.items()}


def _kernel(tree: Path, directory: Path, asked: list[str]) -> dict[str, float]:
    source, library = directory / "counting.c", directory / "counting.so"
    source.write_text(COUNTING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)  # noqa: S603, S607 - as make does
    told = in_tree(
        tree, "counts", directory, *asked, "--counting", str(library), under=("env", f"LD_PRELOAD={library}")
    )
    return {
        f"{name}: {what}": count
        for name, each in json.loads(told).items()
        for what, count in each.items()
        if name != "floor" and (what != "bytes written" or OPERATIONS[name].times >= _STEADY)
    }


def _server(tree: Path, directory: Path) -> dict[str, float]:
    """Packets of a warm call on PostgreSQL, where one runs."""
    url = server_url("postgres")
    if url is None:
        print("no PostgreSQL: its gates are left out; make gates starts one", file=sys.stderr)
        return {}
    library = directory / "counting.so"
    found: dict[str, float] = {}
    for name in SERVED:
        own = databases.create_database(url, "gates")
        try:
            how = ("--operation", name, "--url", own)
            in_tree(tree, "prepare", directory, *how)
            under = ("env", f"LD_PRELOAD={library}")
            told = json.loads(in_tree(tree, "counts", directory, *how, "--counting", str(library), under=under))
            found[f"{name} on PostgreSQL: packets"] = told[name]["packets"]
        finally:
            databases.drop_database(own)
    return found


def grown(found: dict[str, float], allowed: dict[str, float]) -> list[str]:
    """The gates whose figure is more than 3 % above what is allowed."""
    return [name for name, count in found.items() if name in allowed and count > TOLERANCE * allowed[name]]


def unpack(commit: str, folder: Path) -> bool:
    """Lay out the package as it was at a commit; False where its history is not at hand."""
    git = ("git", "-c", "safe.directory=*", "-C", str(HERE), "archive", commit, PACKAGE)
    if shutil.which("git") is None:
        return False
    packed = subprocess.run(git, capture_output=True, check=False)  # noqa: S603 - our own arguments
    if packed.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


def committed() -> str:
    """The commit that this tree's package is at.

    Raises:
        SystemExit: It is at none.
    """
    git = ("git", "-C", str(HERE))
    status = subprocess.run([*git, "status", "--porcelain", PACKAGE], capture_output=True, text=True, check=True)  # noqa: S603 - our own arguments
    if status.stdout.strip():
        raise SystemExit(f"commit {PACKAGE} first: what is recorded is what others measure anew")
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)  # noqa: S603 - our own arguments
    return head.stdout.strip()


def record(found: dict[str, float], decision: int | None, commit: str) -> None:
    """Write what was found at a commit; what grew needs a decision that names it.

    Raises:
        SystemExit: Something grew and no decision names it.
    """
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"gates": {}}
    gates = {name: entry for name, entry in known["gates"].items() if name not in found}
    for name, count in found.items():
        was = known["gates"].get(name)
        if was is not None and count <= TOLERANCE * was["value"]:
            number = was["decision"]
        elif decision is not None and name in _decision(decision):
            number = decision
        else:
            raise SystemExit(f"{name} is new or grew: name it in a record of docs/decisions and give --decision NUMBER")
        gates[name] = {"value": round(count, 2), "decision": number}
    written = {"commit": commit, "environment": environment(), "gates": dict(sorted(gates.items()))}
    RECORDED.write_text(json.dumps(written, indent=1) + "\n")


def _decision(number: int) -> str:
    return next((path.read_text() for path in DECISIONS.glob(f"{number:04d}-*.md")), "")


def allowed(recorded: dict[str, float], anew: dict[str, float] | None) -> dict[str, float]:
    """What each gate allows: what was recorded, but with other versions what the recorded package takes with these.

    Args:
        recorded: The recorded values; None of them depends on versions where `anew` is given, whatever it is.
        anew: The figures of the recorded package, measured just now; empty where it is not at hand.
    """
    if anew is None:
        return recorded
    fixed = {name: value for name, value in recorded.items() if not name.endswith(BOUND)}
    return {**fixed, **{name: value for name, value in anew.items() if name.endswith(BOUND) and name in recorded}}


def _check(found: dict[str, float], recorded: dict[str, float], before: dict[str, float] | None) -> list[str]:
    failed = grown(found, recorded)
    if before is not None:
        raised = {name: value for name, value in recorded.items() if name in before}
        failed += [
            name for name in grown(found, before) if name not in raised or found[name] > TOLERANCE * raised[name]
        ]
    rows: list[tuple[str, ...]] = [("gate", "recorded", *(() if before is None else ("before",)), "now", "")]
    for name, count in found.items():
        cells = [f"{recorded[name]:,.1f}" if name in recorded else ""]
        cells += [] if before is None else [f"{before[name]:,.1f}" if name in before else ""]
        rows.append((name, *cells, f"{count:,.1f}", "GREW" if name in failed else ""))
    show(rows)
    return sorted(set(failed))


def main() -> None:
    """Measure, compare, and fail where something grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another tree, measured in the same run")
    parser.add_argument("--record", action="store_true", help="write what was found to gates.json")
    parser.add_argument("--decision", type=int, help="the number of the record that names what grew")
    parser.add_argument("--install", action="store_true", help="install valgrind where it is missing and can be")
    given = parser.parse_args()
    missing = [package for command, package in _NEEDED.items() if shutil.which(command) is None]
    if missing and given.install and packages.can_install():
        packages.install([*missing, "libc6-dev"])
    elif missing:
        raise SystemExit(
            f"{' and '.join(missing)} missing; on Debian or Ubuntu: apt-get install {' '.join(missing)} libc6-dev"
        )
    if given.record:
        record(measure(HERE), given.decision, committed())
        return
    known = json.loads(RECORDED.read_text())
    recorded = {name: entry["value"] for name, entry in known["gates"].items()}
    with tempfile.TemporaryDirectory() as folder:
        trees = [HERE, *([] if given.against is None else [given.against.resolve()])]
        is_other = known["environment"] != environment()
        has_base = is_other and unpack(known["commit"], Path(folder))
        found, *others = measure_all([*trees, *([Path(folder)] if has_base else [])])
    if is_other:
        print(f"recorded with other versions: {known['environment']}; here: {environment()}", file=sys.stderr)
        recorded = allowed(recorded, others.pop() if has_base else {})
        if not has_base:
            print(f"NOT COMPARED: instructions. Fetch {known['commit']}, or give --against.", file=sys.stderr)
    failed = _check(found, recorded, others[0] if others else None)
    if failed:
        raise SystemExit(f"grew by more than 3 %: {', '.join(failed)}")


if __name__ == "__main__":
    main()
