"""What every test may ask for: the backends, fresh databases on them, and how a run tells which of them took part."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import Phase, settings

from langchain_sessions.stores import _engines_by_url
from tests.servers import cassandra, databases
from tests.servers.environment import absence_reason, server_url
from tests.servers.machine import scratch_root
from tests.servers.tally import BACKENDS, ENGINES, BackendTally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.register_assert_rewrite("langchain_sessions.testing")
# What is drawn in `make test` and CI is the same each time, so that nobody's clone is red by a draw that nobody else
# sees; and a failure is told as it was drawn, since shrinking it runs into the limit of a test. `make soak` draws anew,
# and what it finds becomes an example.
_DRAWN = (Phase.explicit, Phase.generate, Phase.target)
settings.register_profile("default", deadline=None, max_examples=40, derandomize=True, phases=_DRAWN)
settings.register_profile("ci", settings.get_profile("default"), max_examples=100, print_blob=True)
settings.register_profile("soak", deadline=None, max_examples=1000, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("LANGCHAIN_SESSIONS_DRAWS") or ("ci" if os.environ.get("CI") else "default"))

MEMORY_URL = "memory://"
_engines_by_url.ENGINES["apart"] = _engines_by_url.EnginePlace("tests.servers.apart", "ApartEngine")


class _Errors(logging.Handler):
    """Keeps what recall logs as an error: its index could not move behind an append that succeeded."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


_ERRORS = _Errors()
logging.getLogger("langchain_sessions._recall").addHandler(_ERRORS)


@pytest.fixture(autouse=True)
def no_hidden_errors() -> Iterator[None]:
    """No test passes over an error that the library only logged."""
    _ERRORS.messages.clear()
    yield
    assert not _ERRORS.messages


TALLY = pytest.StashKey[BackendTally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("backends")
    group.addoption(
        "--backends",
        help=f"comma-separated, of {','.join(BACKENDS)}; all that are available by default. With one alone, only its "
        "own tests run: what brings a store of its own would pass for a success of the one that was named",
    )
    group.addoption("--require-backends", action="store_true", help="fail unless tests ran on all backends")


def pytest_configure(config: pytest.Config) -> None:
    asked = _asked(config)
    absent = {name: _absence(name) for name in (*BACKENDS, *(name for name in ENGINES if name in asked))}
    if unknown := set(asked) - set(absent):
        raise pytest.UsageError(f"unknown backends {sorted(unknown)}; there are {', '.join((*BACKENDS, *ENGINES))}")
    required = BACKENDS if config.getoption("--require-backends") else asked if config.getoption("--backends") else ()
    for name in required:
        if reason := absent[name] or ("" if name in asked else "it is not among --backends"):
            raise pytest.UsageError(f"{name} was asked for but cannot run: {reason}")
    reasons = {name: reason if name in asked else "not asked for" for name, reason in absent.items()}
    tally = BackendTally(reasons, required=required, version_of=_version)
    config.stash[TALLY] = tally
    if not hasattr(config, "workerinput"):  # the controller alone hears about all tests
        config.pluginmanager.register(tally, "backend-tally")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" not in metafunc.fixturenames:
        return
    wanted = {*BACKENDS, *ENGINES}
    for marker in metafunc.definition.iter_markers("backends"):
        wanted &= set(marker.args)
    tally = metafunc.config.stash[TALLY]
    names = [pytest.param(name) for name in tally.running if name in wanted]
    # Where none of the wanted can run, the test is shown as skipped and says why.
    skipped = [pytest.param(name, marks=pytest.mark.skip(tally.absences[name])) for name in BACKENDS if name in wanted]
    # The widest scope, so that stores of any scope may depend on it; pytest then groups the tests by backend.
    metafunc.parametrize("backend", names or skipped, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others: list[pytest.Item] = []
    asked = _asked(config)
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and "backend" in call.params:
            item.user_properties.append(("backend", call.params["backend"]))
        if call is None or call.params.get("backend") not in asked:
            others.append(item)
    if len(asked) == 1:
        config.hook.pytest_deselected(items=others)
        left = set(others)
        items[:] = [item for item in items if item not in left]


def _asked(config: pytest.Config) -> tuple[str, ...]:
    """The backends that a run is about."""
    given = config.getoption("--backends")
    return tuple(name for name in given.split(",") if name) if given else BACKENDS


def _absence(backend: str) -> str:
    """Why a backend cannot run, or nothing."""
    if backend in ENGINES:
        return "" if os.environ.get(cassandra.URL) else "python -m tests.servers.cassandra -- pytest starts it"
    return absence_reason(backend) if backend in {"postgres", "mariadb"} and server_url(backend) is None else ""


def _version(backend: str) -> str:
    if backend == "sqlite":
        return sqlite3.sqlite_version
    if backend in ENGINES:
        return f"{cassandra.RELEASE}, three nodes"
    url = server_url(backend)
    return databases.server_version(url) if url else ""


class Databases:
    """Creates databases on demand and removes them all at the end."""

    def __init__(self, directory: Path, label: str, stack: ExitStack) -> None:
        self._directory = directory
        self._label = label
        self._stack = stack
        self._shared: dict[str, str] = {}

    def create(self, backend: str, stack: ExitStack | None = None) -> str:
        """An empty database, removed when `stack` (else the run) ends."""
        if backend == "memory":
            return MEMORY_URL
        if backend == "files":
            return (self._directory / f"files_{secrets.token_hex(6)}").as_uri()
        if backend in ENGINES:
            return f"apart:{secrets.token_hex(6)}"
        if backend == "sqlite":
            return f"sqlite:///{self._directory / secrets.token_hex(6)}.db"
        url = server_url(backend)
        if url is None:
            pytest.fail(absence_reason(backend))
        created = databases.create_database(url, self._label)
        (stack or self._stack).callback(databases.drop_database, created)
        return created

    def shared(self, backend: str) -> str:
        """The server's one database of this run, created at first use; a new file or folder costs nothing."""
        if backend in {"memory", "files", "sqlite", *ENGINES}:
            return self.create(backend)
        if backend not in self._shared:
            self._shared[backend] = self.create(backend)
        return self._shared[backend]


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    """One of "memory", "files", "sqlite", "postgres", "mariadb": the test runs once on each."""
    name: str = request.param
    return name


class Counted(Protocol):
    """Counts what a long test did, for the table at the end of a soak."""

    def __call__(self, what: str, times: int) -> None:
        """Count something."""


@pytest.fixture
def counted(record_property: Callable[[str, object], None]) -> Counted:
    """Counts what this test did; `benchmarks.soak` adds it up by backend."""
    return lambda what, times: record_property(f"counted: {what}", times)


@pytest.fixture(scope="session")
def scratch_directory() -> Iterator[Path]:
    """A directory for the whole run, in memory where the machine has room."""
    directory = Path(tempfile.mkdtemp(prefix="langchain-sessions-tests-", dir=scratch_root()))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def all_databases(scratch_directory: Path) -> Iterator[Databases]:
    """The databases of this run (of this worker, when several run in parallel)."""
    with ExitStack() as stack:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        yield Databases(scratch_directory, f"test_{worker}", stack)


@pytest.fixture
def database_url(backend: str, all_databases: Databases) -> str:
    """A SQLAlchemy URL for `backend`; ``memory://`` for memory, ``file://`` for files.

    On SQLite an empty file of the test's own. On a server a database that all tests of this worker share: pair it with
    `table_prefix`, or ask for `fresh_database_url`.
    """
    return all_databases.shared(backend)


@pytest.fixture
def table_prefix(backend: str, all_databases: Databases) -> Iterator[str]:
    """A prefix for table names that no other test uses; its tables are dropped afterwards."""
    prefix = f"t{secrets.token_hex(4)}_"
    yield prefix
    if backend in {"postgres", "mariadb"}:
        databases.drop_tables(all_databases.shared(backend), prefix)


@pytest.fixture
def fresh_database(backend: str, all_databases: Databases) -> Iterator[Callable[[], str]]:
    """Creates an empty database at each call; all are dropped after the test."""
    with ExitStack() as stack:
        yield lambda: all_databases.create(backend, stack)


@pytest.fixture
def fresh_database_url(fresh_database: Callable[[], str]) -> str:
    """An empty database of the test's own: about 50 ms on a server."""
    return fresh_database()
