"""What this machine offers: where programs live, where data may go, which ports are free."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

MEMORY_FILE_SYSTEM = Path("/dev/shm")  # noqa: S108 - a mount point, only ever used through mkdtemp
ENOUGH_BYTES = 2 * 1024**3
"""Two servers and their logs fit well below this; a container's default of 64 MiB does not."""

HAS_PROC = Path("/proc/self/stat").exists()
HOMEBREW_PREFIXES = (Path("/opt/homebrew"), Path("/usr/local"), Path("/home/linuxbrew/.linuxbrew"))


def scratch_root() -> Path:
    """A directory for throw-away data: in memory where there is room, else the usual temporary directory."""
    root = MEMORY_FILE_SYSTEM
    if root.is_dir() and os.access(root, os.W_OK) and shutil.disk_usage(root).free > ENOUGH_BYTES:
        return root
    return Path(tempfile.gettempdir())


def find_program(name: str, folders: list[Path]) -> Path | None:
    """The program in the first of `folders` that has it, else wherever PATH finds it."""
    for folder in folders:
        candidate = folder / name
        if os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which(name)
    return Path(found) if found else None


def free_port() -> int:
    """A loopback port that was free a moment ago; whoever uses it must be ready to try another."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def unprivileged_user(*preferred: str) -> str | None:
    """The user a server should run as when we are root; None when we are not and it can run as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in (*preferred, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


def descendants(pid: int) -> list[int]:
    """The ids of the processes below `pid`, nearest first."""
    below: dict[int, list[int]] = {}
    for child, parent in _process_pairs():
        below.setdefault(parent, []).append(child)
    found = list(below.get(pid, []))
    for child in found:  # grows while it is walked
        found.extend(below.get(child, []))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected by its parent does not."""
    with contextlib.suppress(OSError):
        return _status(Path(f"/proc/{pid}"))[0] not in {"Z", "X"}
    if HAS_PROC:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _process_pairs() -> list[tuple[int, int]]:
    if not HAS_PROC:
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
        rows = (line.split() for line in listing.stdout.splitlines())
        return [(int(pid), int(parent)) for pid, parent in rows]
    pairs: list[tuple[int, int]] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process ended while we looked
            pairs.append((int(entry.name), int(_status(entry)[1])))
    return pairs


def _status(entry: Path) -> list[str]:
    """State, parent and what follows in a process's stat file."""
    # The name before them stands in parentheses and may hold anything, so the fields are counted from its end.
    return (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
