"""Removals whose process dies at any step: whoever asks again finds what is left and removes it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import PartitionedStore, SessionService
from langchain_sessions.stores._files import disk, folder
from langchain_sessions.stores._files.engine import FilesEngine
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores._wide import shelves
from tests.contract.wide import Database, DictEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores._wide.work import Do
    from langchain_sessions.stores.engine import Head, Partition, PartitionEngine

NEEDLE, REMEMBERED = "quokka", "wombat"
SESSIONS = 20


class Killed(BaseException):
    """The process is gone: nothing of it cleans up."""


class Steps:
    """Counts what changes something, and dies before one of them."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.taken = 0

    def take(self) -> None:
        self.taken += 1
        if self.left is not None:
            if not self.left:
                raise Killed
            self.left -= 1


class MortalMemory(MemoryEngine):
    """Dies between two calls of the engine."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        self._steps.take()
        return super().commit(partition, expected, head, rows)

    def remove_rows(self, partition: Partition, below: str) -> None:
        self._steps.take()
        super().remove_rows(partition, below)

    def left(self) -> str:
        return repr(self._kept)


class MortalWide(DictEngine):
    """Dies between two statements."""

    def __init__(self, steps: Steps, database: Database) -> None:
        super().__init__(database)
        self._steps = steps

    def run(self, work: Sequence[Do], *, serial: bool = False) -> Flow[list[list[Any]]]:
        found: list[list[Any]] = []
        for do in work:
            if do.name.startswith(("drop", "add", "set", "enter", "leave")):
                self._steps.take()
            found += yield from super().run([do], serial=serial)
        return found

    def together(self, work: Sequence[Do]) -> Flow[list[Any]]:
        self._steps.take()
        return (yield from super().together(work))

    def left(self) -> str:
        standing = {
            where: (columns.get("", "value"), columns.values("\0", "\U0010ffff"))
            for where, columns in self.database.rows.items()
        }
        return repr(standing)


class MortalFiles(FilesEngine):
    """Dies between two changes of files."""

    def left(self) -> str:
        found = [path for path in self._root.rglob("*") if path.is_file()]
        return "".join(f"{path.name}: {path.read_text(errors='replace')}" for path in found)


@pytest.fixture
def steps() -> Steps:
    return Steps()


Removal = Callable[[SessionService], None]
Made = Callable[[], Any]
"""Makes an engine on what is there, as another process would."""


@pytest.fixture(params=["memory", "files", "wide"])
def copies(
    request: pytest.FixtureRequest, scratch_directory: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Made]:
    """Fills an engine once; each call copies what is there, for one process to die in and another to go on."""
    if request.param == "files":
        for module in (disk, folder):
            for name in ("sync", "write_whole"):
                monkeypatch.setattr(module, name, _stepping(steps, getattr(module, name)))
        monkeypatch.setattr(Path, "unlink", _stepping(steps, Path.unlink))
        root = scratch_directory / f"cut_{secrets.token_hex(6)}"
        fill(MortalFiles(root.as_uri()))
        numbers = iter(range(10_000))

        def of_files() -> Made:
            copy = root.with_name(f"{root.name}_{next(numbers)}")
            shutil.copytree(root, copy)
            return lambda: MortalFiles(copy.as_uri())

        return of_files
    if request.param == "wide":
        monkeypatch.setattr(shelves, "MOST", 20 * 512)
        monkeypatch.setattr(shelves, "KEPT", 5 * 512)
        first = MortalWide(steps, Database())
        fill(first)

        def of_tables() -> Made:
            database = Database(deepcopy(first.database.rows), deepcopy(first.database.lists))
            return lambda: MortalWide(steps, database)

        return of_tables
    kept = MortalMemory(steps)
    fill(kept)

    def of_memory() -> Made:
        copy = MortalMemory(steps)
        copy._kept = deepcopy(kept._kept)
        return lambda: copy

    return of_memory


def _stepping(steps: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    def stepping(*args: Any, **kwargs: Any) -> object:
        steps.take()
        return call(*args, **kwargs)

    return stepping


def fill(engine: PartitionEngine) -> None:
    """Sessions of ada, copies of their indexes, and what is remembered of her; grace has another word."""
    service = SessionService(PartitionedStore(engine))
    ada = service.as_user("ada")
    for number in range(SESSIONS):
        ada.create(f"s{number}", title=NEEDLE, time_to_live=timedelta(days=1))
        ada.append(f"s{number}", [HumanMessage(f"{NEEDLE} {each} " * 3) for each in range(2 if number else 30)])
    ada.append("s1", HumanMessage("x"), state_delta={"user:k": REMEMBERED, "k": NEEDLE})
    assert len(ada.search(NEEDLE)) > 5
    service.as_user("grace").create("hers")
    service.as_user("grace").append("hers", HumanMessage("kettle"))


def later() -> datetime:
    """When all that expires has expired."""
    return datetime.now(timezone.utc) + timedelta(days=2)


def delete_each(service: SessionService) -> None:
    for number in range(SESSIONS):
        service.as_user("ada").delete(f"s{number}")


def copy_and_delete(service: SessionService) -> None:
    service.as_user("ada").fork("s0", new_id="copy")
    service.delete_user("ada")


def delete(service: SessionService) -> None:
    service.delete_user("ada")


def purge(service: SessionService) -> None:
    service.purge_expired()


@pytest.mark.parametrize(
    ("begun", "ended"),
    [(delete_each, delete_each), (delete, delete), (purge, purge), (copy_and_delete, delete)],
    ids=["sessions one by one", "a user", "what is expired", "a user with a copy under way"],
)
def test_a_removal_that_is_cut_short_is_completed_by_the_next(
    copies: Callable[[], Made], steps: Steps, begun: Removal, ended: Removal
) -> None:
    options: dict[str, Any] = {"clock": later} if ended is purge else {}
    words = (NEEDLE, REMEMBERED) if ended is delete else (NEEDLE,)

    def whole(made: Made, remove: Removal) -> None:
        remove(SessionService(PartitionedStore(made()), **options))
        left = made().left()
        assert [word for word in words if word in left] == []
        assert "kettle" in left

    steps.taken = 0
    whole(copies(), begun)
    many = steps.taken
    assert many > 20
    for number in sorted({*range(8), *range(8, many, 31), *range(many - 4, many)}):
        made = copies()
        steps.taken, steps.left = 0, number
        with pytest.raises(Killed):
            begun(SessionService(PartitionedStore(made()), **options))
        steps.left = None
        whole(made, ended)
