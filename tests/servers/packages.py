"""Install the servers from Debian's packages, where that is possible and asked for."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICY = Path("/usr/sbin/policy-rc.d")
FORBID_STARTS = "#!/bin/sh\nexit 101\n"


def can_install() -> bool:
    """Whether we are root on a system with apt-get."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: Sequence[str]) -> None:
    """Install Debian packages without questions and without starting their services.

    Raises:
        subprocess.CalledProcessError: apt-get failed; what it said is on the terminal.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        for command in (
            ["update", "-q"],
            ["install", "-y", "-q", "--no-install-recommends", *packages],
        ):
            subprocess.run(  # the names are our own
                ["apt-get", *command],  # noqa: S607
                env=environment,
                stdin=subprocess.DEVNULL,
                check=True,
            )


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keep the packages from starting their servers; a policy that is already there stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(FORBID_STARTS)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
