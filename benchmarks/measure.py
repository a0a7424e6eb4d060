"""How things are measured: the best of several rounds, beside a floor in the same run, and exact counts."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def microseconds(call: Callable[[], object], times: int, rounds: int = 5) -> float:
    """Median over rounds of the mean time of one call; the collector rests meanwhile."""
    found: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(times):
                call()
            found.append((time.perf_counter() - start) / times * 1e6)
    finally:
        gc.enable()
    return sorted(found)[len(found) // 2]


def interleaved(calls: dict[str, Callable[[], object]], times: int, rounds: int = 7) -> dict[str, float]:
    """The same for several calls, a round of each in turn, so that a noisy neighbour disturbs all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(microseconds(call, times, 1))
    return {name: sorted(values)[len(values) // 2] for name, values in found.items()}


@contextmanager
def memory_directory() -> Iterator[Path]:
    """A directory on a memory file system where there is one."""
    root = Path("/dev/shm")  # noqa: S108 - the memory file system of Linux
    path = Path(tempfile.mkdtemp(prefix="langchain-sessions-bench-", dir=root if root.is_dir() else None))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def count_fsyncs(code: str) -> int | None:
    """How many fsync calls a Python program makes between its two lines `BEGIN` and `END`; None without strace."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.NamedTemporaryFile("r", suffix=".trace") as trace:
        command = [strace, "-f", "-e", "trace=fsync,fdatasync,write", "-o", trace.name, sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        lines = trace.read().splitlines()
    marks = [at for at, line in enumerate(lines) if '"BEGIN\\n"' in line or '"END\\n"' in line]
    if done.returncode or len(marks) != 2:
        return None
    return sum("sync(" in line for line in lines[marks[0] : marks[1]])


class CountingProxy:
    """Forwards one TCP port and counts round trips: how often the client speaks after the server has answered."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.round_trips = 0
        self._last = "server"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for name, source, sink in (("client", client, server), ("server", server, client)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(name, source, sink), daemon=True).start()

    def _pump(self, name: str, source: socket.socket, sink: socket.socket) -> None:
        with closing(sink):
            while data := _receive(source):
                if name == "client" and self._last == "server":
                    self.round_trips += 1
                self._last = name
                sink.sendall(data)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def in_tree(tree: Path, what: str, directory: Path, *options: str, under: tuple[str, ...] = ()) -> str:
    """What the program of `benchmarks.operations` prints when it runs on another tree of the package.

    Args:
        tree: The folder that holds the package.
        what: What the program is to do.
        directory: Where its databases are.
        options: Further options of the program.
        under: The command that runs it, such as valgrind's.
    """
    program = str(Path(__file__).with_name("operations.py"))
    code = f"import sys, runpy; sys.argv = sys.argv[1:]; runpy.run_path({program!r}, run_name='__main__')"
    command = [*under, sys.executable, "-c", code, program, what, str(directory), *options]
    # Nothing of the environment reaches the program, so that hashes, paths and tracers are the same in every run.
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=directory)  # noqa: S603 - our own program
    if done.returncode:
        raise RuntimeError(f"{what} {' '.join(options)} on {tree} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def show(rows: list[tuple[str, ...]]) -> None:
    """Print a table; the first row is its head."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for at, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if at == 0:
            print("  ".join("-" * width for width in widths))
