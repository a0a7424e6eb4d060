"""A private MariaDB."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import ClassVar

import pymysql

from tests.servers.machine import HOMEBREW_PREFIXES, find_program
from tests.servers.private import PrivateServer, ServerUnavailableError

PROGRAMS = ("mariadb-install-db", "mariadbd")
RELAXED = ("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
DURABLE = ("--innodb-flush-log-at-trx-commit=1",)


class PrivateMariaDB(PrivateServer):
    """MariaDB with the unfriendliest of the common defaults.

    ``utf8mb4_general_ci`` takes upper for lower case, accented for plain letters and trailing blanks for nothing: what
    must compare exactly has to say so in its own DDL.
    """

    name: ClassVar[str] = "mariadb"
    package: ClassVar[str] = "mariadb-server"
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    users: ClassVar[tuple[str, ...]] = ("mysql",)

    @classmethod
    def installed(cls) -> bool:
        """Whether the server's programs are on this machine."""
        return all(_find(name) for name in PROGRAMS)

    @property
    def url(self) -> str:
        """A URL for pymysql."""
        return f"mysql+pymysql://sessions:{self.password}@127.0.0.1:{self.port}/sessions"

    def _initialise(self, directory: Path) -> None:
        account = f"'sessions'@'127.0.0.1' IDENTIFIED BY '{self.password}'"
        init_file = directory / "init.sql"
        init_file.write_text(
            f"CREATE DATABASE IF NOT EXISTS sessions;\nGRANT ALL ON *.* TO {account} WITH GRANT OPTION;\n"
        )
        init_file.chmod(0o644)  # the directory itself is closed to others
        self._run(
            [
                *(
                    str(_program("mariadb-install-db")),
                    "--no-defaults",
                    f"--datadir={directory / 'data'}",
                ),
                *(
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--skip-name-resolve",
                ),
            ]
        )

    def _command(self, directory: Path) -> list[str]:
        return [
            *(str(_program("mariadbd")), "--no-defaults", f"--datadir={directory / 'data'}"),
            *(
                f"--port={self.port}",
                "--bind-address=127.0.0.1",
                f"--socket={directory / 'socket'}",
            ),
            *(
                f"--pid-file={directory / 'pid'}",
                f"--init-file={directory / 'init.sql'}",
                "--skip-name-resolve",
            ),
            *("--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"),
            "--max-connections=300",
            "--innodb-use-native-aio=0",  # containers often have no AIO contexts left
            *(DURABLE if self.durable else RELAXED),
        ]

    def _log_in(self) -> None:
        try:
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user="sessions",
                password=self.password,
                database="sessions",
                connect_timeout=5,
            ).close()
        except pymysql.err.OperationalError as error:
            raise ConnectionError from error


def _find(name: str) -> Path | None:
    homebrew = [
        folder
        for prefix in HOMEBREW_PREFIXES
        for pattern in ("opt/mariadb/bin", "opt/mariadb@*/bin")
        for folder in sorted(prefix.glob(pattern), reverse=True)
    ]
    return find_program(name, [Path("/usr/sbin"), Path("/usr/bin"), *homebrew])


def _program(name: str) -> Path:
    found = _find(name)
    if found is None:
        raise ServerUnavailableError(
            f"MariaDB's {name!r} was found neither on PATH nor in the places of Debian and Homebrew"
        )
    return found
