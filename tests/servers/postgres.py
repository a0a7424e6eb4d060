"""A private PostgreSQL."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from typing import ClassVar

import psycopg

from tests.servers.machine import HOMEBREW_PREFIXES, find_program
from tests.servers.private import PrivateServer, ServerUnavailableError

FIRST_WITH_ICU_CLUSTERS = 15
PROGRAMS = ("initdb", "postgres")
RELAXED = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


class PrivatePostgres(PrivateServer):
    """PostgreSQL with UTF-8, and with an English collation where the build has ICU.

    The collation is on purpose not the byte order: what must compare exactly has to say so in its own DDL.
    """

    name: ClassVar[str] = "postgres"
    package: ClassVar[str] = "postgresql"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": ends connections, then writes everything
    users: ClassVar[tuple[str, ...]] = ("postgres",)

    @classmethod
    def installed(cls) -> bool:
        """Whether the server's programs are on this machine."""
        return all(_find(name) for name in PROGRAMS)

    @property
    def url(self) -> str:
        """A URL for the psycopg 3 driver, which serves sync and async engines alike."""
        return f"postgresql+psycopg://sessions:{self.password}@127.0.0.1:{self.port}/postgres"

    def _initialise(self, directory: Path) -> None:
        password_file = directory / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644)  # the directory itself is closed to others
        initdb = str(_program("initdb"))
        basic = [
            *(
                initdb,
                f"--pgdata={directory / 'data'}",
                "--username=sessions",
                f"--pwfile={password_file}",
            ),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
        ]
        try:
            if _major_version(initdb) < FIRST_WITH_ICU_CLUSTERS:
                self._run(basic)
            else:
                self._run([*basic, "--locale-provider=icu", "--icu-locale=en-US"])
        except ServerUnavailableError as error:
            if "ICU" not in str(error):
                raise
            self._run(basic)

    def _command(self, directory: Path) -> list[str]:
        settings = [
            *("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=300"),
            # In the data directory, so that a killed server leaves nothing in shared memory.
            "dynamic_shared_memory_type=mmap",
            *(() if self.durable else RELAXED),
        ]
        options = [part for setting in settings for part in ("-c", setting)]
        return [
            str(_program("postgres")),
            "-D",
            str(directory / "data"),
            "-p",
            str(self.port),
            *options,
        ]

    def _log_in(self) -> None:
        try:
            psycopg.connect(
                host="127.0.0.1",
                port=self.port,
                user="sessions",
                password=self.password,
                dbname="postgres",
                connect_timeout=5,
            ).close()
        except psycopg.OperationalError as error:
            raise ConnectionError from error


def _find(name: str) -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_of_folder, reverse=True)
    homebrew = [
        folder for prefix in HOMEBREW_PREFIXES for folder in sorted(prefix.glob("opt/postgresql@*/bin"), reverse=True)
    ]
    return find_program(name, [*debian, *homebrew])


def _program(name: str) -> Path:
    found = _find(name)
    if found is None:
        raise ServerUnavailableError(
            f"PostgreSQL's {name!r} was found neither on PATH nor in the places of Debian and Homebrew"
        )
    return found


def _version_of_folder(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _major_version(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"\) (\d+)", said.stdout)
    return int(version[1]) if version else 0
