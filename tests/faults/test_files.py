"""The file engine's own faults: torn tails, lost files, a full disk, a folder that is read-only or somebody else's."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import (
    CorruptRowError,
    InvalidInputError,
    SchemaMissingError,
    SchemaVersionError,
    SessionService,
    StoreUnavailableError,
)
from langchain_sessions.stores._files import folder as files
from tests.faults.drills import assert_whole, message
from tests.faults.processes import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def root(scratch_directory: Path) -> Path:
    return scratch_directory / f"files_{secrets.token_hex(6)}"


@pytest.fixture
def service(root: Path) -> SessionService:
    return SessionService(root.as_uri())


def session_folder(root: Path) -> Path:
    """The one folder of a session."""
    [head] = root.glob("*/*/s-*/head.jsonl")
    return head.parent


def log_file(root: Path) -> Path:
    [log] = session_folder(root).glob("rows-*.jsonl")
    return log


# -- what people see ---------------------------------------------------------------------------------------


def test_a_log_can_be_read_and_searched_by_people(service: SessionService, root: Path) -> None:
    service.open("s")
    service.append("s", HumanMessage("Grüße aus 東京, „quoted“\nsecond line", id="m"))
    lines = [json.loads(line) for line in log_file(root).read_text(encoding="utf-8").splitlines()]
    assert sum("json" in line for line in lines) >= 1
    found = subprocess.run(["grep", "-rl", "東京", str(root)], capture_output=True, text=True, check=True)  # noqa: S603, S607
    assert found.stdout.splitlines() == [str(log_file(root))]
    head = [json.loads(line) for line in (session_folder(root) / "head.jsonl").read_text().splitlines()]
    assert head[1]["session"]["id"] == "s"


NAMES = [
    "../../up",
    "..",
    "/etc/passwd",
    "C:\\x",
    "con",
    "a\nb",
    "Zoe\u0301",
    "Zo\u00e9",
    "ZO\u00c9",
    "x" * 255,
    "\u65e5" * 255,
]


def test_ids_are_never_paths(root: Path) -> None:
    """Traversal, names of devices, names that differ by case or normalisation, and the longest ones."""
    for app in ("../app", "App", "app"):
        service = SessionService(root.as_uri(), app=app)
        for name in NAMES:
            view = service.as_user(name)
            view.create(name)
            view.append(name, HumanMessage(f"of {name} in {app}"), state_delta={"user:k": name})
        for name in NAMES:
            view = service.as_user(name)
            assert [found.text for found in view.messages(name)] == [f"of {name} in {app}"]
            assert [session.id for session in view.list_sessions().items] == [name]
            assert view.state(name) == {"user:k": name}
    parts = {part for path in root.rglob("*") for part in path.relative_to(root).parts}
    assert all(part.isascii() and part == part.lower() and len(part) < 64 for part in parts)
    assert [path.name for path in root.parent.glob("*up*")] == []


# -- what a crash leaves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b'{"key":"', b"\0" * 4096, b'{"empty":["x"]}\n', b"\xff\n\n{"])
def test_a_torn_tail_goes_with_the_next_append(service: SessionService, root: Path, torn: bytes) -> None:
    service.open("s")
    service.append("s", message("one"))
    with log_file(root).open("ab") as file:
        file.write(torn)
    (session_folder(root) / "head.jsonl.new").write_bytes(b"half a he")
    again = SessionService(root.as_uri())
    assert assert_whole(again, "s") == ["one"]
    again.append("s", message("two"))
    assert assert_whole(again, "s") == ["one", "two"]
    head = json.loads((session_folder(root) / "head.jsonl").read_text().splitlines()[0])
    assert log_file(root).stat().st_size == head["size"]


def test_a_log_that_is_too_short_is_told_and_not_written_over(service: SessionService, root: Path) -> None:
    service.open("s")
    service.append("s", [message(f"{number}") for number in range(5)])
    os.truncate(log_file(root), log_file(root).stat().st_size - 10)
    service.open("other")
    for call in (lambda: service.messages("s"), lambda: service.append("s", message("x"))):
        with pytest.raises(CorruptRowError, match=r"cannot be read|shorter|log"):
            call()
    service.append("other", message("fine"))


@pytest.mark.parametrize("harm", ["line", "head", "missing"])
def test_damage_in_the_middle_is_told_by_what_it_is(service: SessionService, root: Path, harm: str) -> None:
    service.open("s")
    service.append("s", [message(f"{number}") for number in range(5)])
    target = session_folder(root) / "head.jsonl" if harm == "head" else log_file(root)
    if harm == "missing":
        target.unlink()
    else:
        data = target.read_bytes()
        target.write_bytes(b"#" * 40 + data[40:])
    with pytest.raises(CorruptRowError) as told:
        service.messages("s")
    assert "human" not in str(told.value)


def test_lost_lists_are_made_again(service: SessionService, root: Path) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
    before = [session.id for session in ada.list_sessions().items]
    for lists in root.glob("*/lists"):
        shutil.rmtree(lists)
    assert [session.id for session in SessionService(root.as_uri()).as_user("ada").list_sessions().items] == before
    for lists in root.glob("*/lists"):
        shutil.rmtree(lists)
    ada.delete("s3")
    ada.create("new")
    assert {session.id for session in ada.list_sessions().items} == {*before, "new"} - {"s3"}


def test_a_deleted_session_leaves_nothing_that_was_said(service: SessionService, root: Path) -> None:
    service.open("s")
    service.append("s", [HumanMessage(f"needle {number} " + "x" * 500) for number in range(200)])
    assert service.search("needle", session_id="s").items
    service.delete("s")
    assert subprocess.run(["grep", "-r", "needle", str(root)], check=False, capture_output=True).returncode == 1  # noqa: S603, S607
    service.create("s")
    assert service.messages("s") == []


# -- cost --------------------------------------------------------------------------------------------------


def test_what_an_append_reads_and_writes_does_not_grow_with_the_log(
    service: SessionService, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of the files that a process which knows nothing of a log maps or reads, and that it writes."""
    service.open("s")
    sizes: list[int] = []
    for size in (200, 3000):
        first = service.get("s").version
        for start in range(first, size, 100):
            service.append("s", [HumanMessage(f"{number} " + "x" * 200) for number in range(start, start + 100)])
        read = 0
        original = files._tail

        def counted(folder: Path, state: files.State, original: Callable[..., bytes] = original) -> bytes:
            nonlocal read
            read = max(read, state.size - state.tail)
            return original(folder, state)

        with monkeypatch.context() as patch:
            patch.setattr(files, "_tail", counted)
            before = log_file(root).stat().st_size
            SessionService(root.as_uri(), search=False).append("s", HumanMessage("y" * 200))
            assert log_file(root).stat().st_size - before < 1000
        sizes.append(read)
    assert max(sizes) < 100_000
    assert (session_folder(root) / "head.jsonl").stat().st_size < 3000
    assert len([*session_folder(root).iterdir()]) < 20
    assert service.verify("s") == []
    assert len(service.messages("s", last_n=20)) == 20


# -- disks and folders -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(scratch_directory: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    directory = scratch_directory / f"small_{secrets.token_hex(4)}"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:  # noqa: S603
        pytest.skip("only root can mount a small file system here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)  # noqa: S603, S607


def test_a_full_disk_is_said_and_survived(small_disk: Path) -> None:
    service = SessionService((small_disk / "chat").as_uri())
    service.open("s")
    acknowledged: list[str] = []

    def fill() -> None:
        for number in range(1000):
            service.append("s", HumanMessage(secrets.token_hex(10_000), id=f"m{number}"))
            acknowledged.append(f"m{number}")

    with pytest.raises(StoreUnavailableError, match="full; nothing was written"):
        fill()
    assert len(acknowledged) > 10
    assert assert_whole(service, "s") == acknowledged
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)  # noqa: S603, S607
    service.append("s", message("room again"))
    assert assert_whole(service, "s") == [*acknowledged, "room again"]


def test_a_read_only_folder_is_said_and_read(small_disk: Path) -> None:
    with SessionService((small_disk / "chat").as_uri()) as service:
        service.open("s")
        service.append("s", [HumanMessage(f"needle {number}") for number in range(100)])
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)  # noqa: S603, S607
    service = SessionService((small_disk / "chat").as_uri())
    assert len(service.messages("s")) == 100
    assert [session.id for session in service.list_sessions().items] == ["s"]
    refused: list[Callable[[], Any]] = [
        lambda: service.append("s", message("x")),
        lambda: service.create("new"),
        lambda: service.delete("s"),
    ]
    for call in refused:
        with pytest.raises(StoreUnavailableError, match="read-only"):
            call()


def test_a_folder_of_something_else_is_refused_and_not_touched(root: Path) -> None:
    root.mkdir()
    (root / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="holds other files"):
        SessionService(root.as_uri()).open("s")
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    with pytest.raises(StoreUnavailableError):
        SessionService((root / "notes.txt").as_uri()).open("s")


def test_a_folder_that_is_not_there_or_of_a_newer_release(root: Path) -> None:
    with pytest.raises(SchemaMissingError):
        SessionService(root.as_uri(), create_schema=False).get("s")
    assert not root.exists()
    SessionService(root.as_uri()).open("s")
    (root / "format.json").write_text('{"format": 2}')
    with pytest.raises(SchemaVersionError, match="2"):
        SessionService(root.as_uri()).open("s")
    (root / "format.json").write_text("half")
    with pytest.raises(CorruptRowError, match=r"format\.json"):
        SessionService(root.as_uri()).open("s")


def test_a_folder_that_is_moved_under_a_service_is_made_anew_and_whole(service: SessionService, root: Path) -> None:
    """What is made then is a folder of its own, that others can open; and nothing is mixed with what was moved."""
    service.create("s")
    service.append("s", message("one"))
    moved = root.rename(root.with_name(f"{root.name}_moved"))
    service.create("new")
    assert [session.id for session in SessionService(root.as_uri()).list_sessions().items] == ["new"]
    assert assert_whole(SessionService(moved.as_uri()), "s") == ["one"]


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "gone"), OSError(errno.ESTALE, "stale")])
@pytest.mark.parametrize("happens", [True, False])
def test_a_file_system_that_says_no_to_what_it_has_done(
    service: SessionService, root: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, *, happens: bool
) -> None:
    """As NFS does, which asks twice where an answer was lost."""
    service.create("s")
    service.append("s", message("one"))
    replace = Path.replace

    def lost(self: Path, target: Path) -> Path:
        if happens:
            replace(self, target)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lost)
        if happens:
            service.append("s", message("two"))
        else:
            with pytest.raises(StoreUnavailableError, match="see the cause"):
                service.append("s", message("two"))
    expected = ["one", "two"] if happens else ["one"]
    assert assert_whole(SessionService(root.as_uri()), "s") == expected
    service.append("s", message("three"))
    assert assert_whole(service, "s") == [*expected, "three"]


@pytest.mark.parametrize("url", ["file://", "file:///", "file://server/share", "file:///a%00b", "file:///a?mode=ro"])
def test_a_url_that_names_no_folder_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="file:///"):
        SessionService(url)


def test_one_folder_holds_what_prefixes_keep_apart(root: Path) -> None:
    first, second = (SessionService(root.as_uri(), table_prefix=prefix) for prefix in ("App_", "app_"))
    first.create("s")
    second.create("s")
    first.append("s", message("of the first"))
    assert second.messages("s") == []


def test_a_lock_that_is_never_released_is_named(
    service: SessionService, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.open("s")
    monkeypatch.setattr("langchain_sessions.stores._files.engine._LOCK_SECONDS", 0.2)
    listener, said = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=hold_all, args=(str(root / "locks"), said))
    process.start()
    try:
        assert listener.recv() == "held"
        with pytest.raises(StoreUnavailableError, match="locked by another process"):
            service.append("s", message("m"))
        assert service.messages("s") == []
    finally:
        process.kill()
        process.join()
    service.append("s", message("m"))
    assert assert_whole(service, "s") == ["m"]


def hold_all(folder: str, said: Any) -> None:
    """Hold every lock of a folder until the end."""
    from filelock import FileLock  # noqa: PLC0415 - in a process of its own

    with contextlib.ExitStack() as stack:
        for path in Path(folder).iterdir():
            stack.enter_context(FileLock(path))
        said.send("held")
        os.read(os.pipe()[0], 1)  # for ever
