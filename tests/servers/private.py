"""The life of a private database server: prepared, started, stopped, killed, started again, removed."""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.servers.machine import descendants, free_port, is_alive, scratch_root, unprivileged_user

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

START_SECONDS = 60.0
STOP_SECONDS = 20.0
PORT_ATTEMPTS = 3

# Outlives us by a moment if we are killed without a chance to clean up: the end of its input is our end.
WATCHDOG = 'read -r _; kill -KILL "$1" 2>/dev/null; sleep 1; rm -rf "$2"'


class ServerUnavailableError(RuntimeError):
    """The server cannot run on this machine; the message says what is missing."""


class PrivateServer(ABC):
    """A database server of our own on a loopback port, with its data in a temporary directory.

    A context manager: entering starts it, leaving stops it and removes its data. It is also removed at interpreter
    exit, and by a watchdog when this process is killed.

    Args:
        durable: Sync every commit to disk, as production does. Off by default, for speed.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    users: ClassVar[tuple[str, ...]]

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.user = unprivileged_user(*self.users)
        self.password = secrets.token_hex(8)
        self.port = 0
        self._directory: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @classmethod
    @abstractmethod
    def installed(cls) -> bool:
        """Whether the server's programs are on this machine."""

    @property
    @abstractmethod
    def url(self) -> str:
        """A SQLAlchemy URL of an administrator who may create databases."""

    @abstractmethod
    def _initialise(self, directory: Path) -> None:
        """Create an empty cluster below `directory`."""

    @abstractmethod
    def _command(self, directory: Path) -> list[str]:
        """The server's command line, staying in the foreground on `self.port`."""

    @abstractmethod
    def _log_in(self) -> None:
        """Open and close one connection; raises `ConnectionError` while the server is not ready."""

    @property
    def directory(self) -> Path:
        """Where the data, the log and nothing else live."""
        if self._directory is None:
            raise RuntimeError(f"{self.name} was not started.")
        return self._directory

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running.")
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it accepts a login; the port stays the same over restarts.

        Raises:
            ServerUnavailableError: A program is missing, or the server would not start.
        """
        if self._process is not None:
            return
        if self._directory is not None:
            self._launch(self._directory)
            return
        self._directory = self._make_directory()
        atexit.register(self.close)
        self._initialise(self._directory)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self.port = free_port()
            try:
                self._launch(self._directory)
            except ServerUnavailableError:  # most likely somebody took the port first
                if attempt == PORT_ATTEMPTS:
                    raise
            else:
                return

    def stop(self) -> None:
        """Shut down in order, keeping the data; `start` brings the server back."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """SIGKILL the server with all its processes, as a power cut would; `start` recovers."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the server if it runs, then start it on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        atexit.unregister(self.close)
        self.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _make_directory(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix=f"langchain-sessions-{self.name}-", dir=scratch_root()))
        if self.user is not None:
            shutil.chown(directory, self.user)
        return directory

    def _run(self, command: list[str]) -> None:
        """Run a program to its end as the server's user; its output becomes the error's text."""
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self._environment(),
            user=self.user,
            group=self._group(),
            extra_groups=self._extra_groups(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip()
            program = Path(command[0]).name
            raise ServerUnavailableError(f"{program} failed with status {done.returncode}: {said[-2000:]}")

    def _launch(self, directory: Path) -> None:
        with (directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(directory),
                cwd=directory,
                env=self._environment(),
                user=self.user,
                group=self._group(),
                extra_groups=self._extra_groups(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests; the server goes when they are done
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "watchdog", str(self._process.pid), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self._log_in()
            except ConnectionError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (self.directory / "server.log").read_text(errors="replace").strip()
                    raise ServerUnavailableError(
                        f"{self.name} did not start on port {self.port}: {log[-2000:]}"
                    ) from error
                time.sleep(0.05)
            else:
                return

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._dismiss_watchdog()
        children = descendants(process.pid)
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            how = signal.SIGKILL
            process.kill()
            process.wait()
        if how is signal.SIGKILL:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            _wait_for_the_end_of(children)

    def _dismiss_watchdog(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.kill()
            watchdog.communicate()

    def _environment(self) -> dict[str, str]:
        # Nothing of the caller's: PGDATA, MYSQL_HOME or a locale would change the server under test. The directory for
        # temporary files is its own, for MariaDB clears away there what another server may still be using.
        own = str(self.directory)
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": own, "TMPDIR": own}

    def _group(self) -> int | None:
        return None if self.user is None else self.directory.stat().st_gid

    def _extra_groups(self) -> list[int] | None:
        return None if self.user is None else []


def _wait_for_the_end_of(processes: list[int]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while any(is_alive(pid) for pid in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
