"""What this process has given the kernel so far, where the library of `gates` stands before the C library."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gates import COUNTING

_NAMES = ("counted_bytes", "counted_fsyncs", "counted_sends")
_LIBRARY = "BENCHMARKS_COUNTING"


def begin_again() -> None:
    """Start this program anew with the library before the C library; nothing without a compiler."""
    if _LIBRARY in os.environ or shutil.which("cc") is None:
        return
    folder = Path(tempfile.mkdtemp(prefix="langchain-sessions-counting-"))
    source, library = folder / "counting.c", folder / "counting.so"
    source.write_text(COUNTING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)  # noqa: S603, S607 - as make does
    environment = {**os.environ, "LD_PRELOAD": str(library), _LIBRARY: str(library)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - this program


class KernelCounts:
    """Bytes written, fsyncs and packets of this process; all zero where nothing counts them."""

    def __init__(self) -> None:
        """Find the library that was loaded first of all."""
        path = os.environ.get(_LIBRARY)
        library = None if path is None else ctypes.CDLL(path)
        self._counts = [] if library is None else [ctypes.c_long.in_dll(library, name) for name in _NAMES]

    def read(self) -> tuple[int, int, int]:
        """Bytes, fsyncs and packets so far."""
        if not self._counts:
            return 0, 0, 0
        written, fsyncs, packets = (count.value for count in self._counts)
        return written, fsyncs, packets
