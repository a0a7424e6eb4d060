"""A pytest plugin that counts the tests of each backend and says at the end which of them ran."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

BACKENDS = ("memory", "files", "sqlite", "postgres", "mariadb")
ENGINES = ("cassandra",)
"""What takes part only where it is asked for: `make test-engines` does."""


class BackendTally:
    """Counts what ran where; a required backend without a single test fails the run.

    Args:
        absences: For each backend the reason why it does not take part; empty when it does.
        required: The backends that must have run.
        version_of: The version of a backend's engine, empty when it has none.
    """

    def __init__(
        self,
        absences: Mapping[str, str],
        *,
        required: Collection[str],
        version_of: Callable[[str], str],
    ) -> None:
        self.absences = absences
        self._required = required
        self._version_of = version_of
        self._ran: Counter[str] = Counter()

    @property
    def running(self) -> list[str]:
        """The backends that take part."""
        return [name for name, reason in self.absences.items() if not reason]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that was called; one that was skipped is no proof of anything."""
        if report.when == "call" and not report.skipped:
            self._ran.update(str(value) for name, value in report.user_properties if name == "backend")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a run that would pass without having run on every required backend."""
        passed = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
        if passed and not session.config.option.collectonly and self._missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name each backend with the number of its tests or the reason of its absence."""
        if terminalreporter.config.option.collectonly:
            return
        terminalreporter.section("backends")
        for name in self.absences:
            terminalreporter.write_line(self._line(name), red=name in self._missing())

    def _missing(self) -> list[str]:
        return [name for name in self._required if not self._ran[name]]

    def _line(self, name: str) -> str:
        if self._ran[name]:
            version = self._version_of(name)
            return f"{name} ran{f' ({version})' if version else ''}: {self._ran[name]} tests"
        reason = self.absences[name] or "no test asked for it"
        return f"{name} did NOT run: {reason}"
