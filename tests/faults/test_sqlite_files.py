"""SQLite's own faults: a full disk, a file that is none of ours, a foreign lock, and what a deletion leaves behind."""

from __future__ import annotations

import os
import secrets
import sqlite3
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from sqlalchemy import URL, Text, select

from langchain_sessions import InvalidInputError, NewEvent, SessionService, StoreError, StoreUnavailableError
from langchain_sessions._core.rows import WORDED, EventRow
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from tests.faults.drills import FACES, Face, archive_some, assert_whole, checked_out, message, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Select


@pytest.fixture
def small_disk(scratch_directory: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    directory = scratch_directory / f"small_{secrets.token_hex(4)}"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:  # noqa: S603
        pytest.skip("only root can mount a small file system here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)  # noqa: S603, S607


@pytest.mark.parametrize("face", FACES)
def test_a_full_disk_is_said_and_survived(small_disk: Path, face: str) -> None:
    """K06."""
    service, call = SessionService(f"sqlite:///{small_disk}/chat.db"), Face(face)
    try:
        service.open("s")
        acknowledged = ["needle", *(f"small{number}" for number in range(300))]
        call(service, "append", "s", [HumanMessage(f"a {name} of hay", id=name) for name in acknowledged])
        acknowledged += _fill(call, service)
        assert [found.id for found in call(service, "messages", "s", last_n=1)] == acknowledged[-1:]
        assert call(service, "search", "needle", session_id="s").items[0].event.id == "needle"
        assert checked_out(service) == 0
        subprocess.run(["mount", "-o", "remount,size=12m", str(small_disk)], check=True)  # noqa: S603, S607
        call(service, "append", "s", message("room again"))
        assert assert_whole(service, "s") == [*acknowledged, "room again"]
    finally:
        call.close(service)
        service.close()


def _fill(call: Face, service: SessionService) -> list[str]:
    acknowledged: list[str] = []
    for number in range(1000):
        try:
            call(service, "append", "s", HumanMessage(secrets.token_hex(10_000), id=f"m{number}"))
        except StoreUnavailableError as error:
            assert "full" in str(error)  # noqa: PT017 - the loop ends here
            return acknowledged
        acknowledged.append(f"m{number}")
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("content", ["text", "header"])
def test_a_file_that_is_no_database_is_refused_and_not_touched(scratch_directory: Path, content: str) -> None:
    """K08."""
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    if content == "header":
        with opened(SessionService(f"sqlite:///{path}")) as (service,):
            service.open("s")
        path.write_bytes(b"SQLite format 4\0" + path.read_bytes()[16:])
    else:
        path.write_text("To be, or not to be.\n" * 500)
    before = path.read_bytes()
    with opened(SessionService(f"sqlite:///{path}")) as (service,):
        with pytest.raises(StoreError, match="not a usable SQLite database"):
            service.open("s")
        with pytest.raises(StoreError, match="not a usable SQLite database"):
            service.list_sessions()
    assert path.read_bytes() == before
    assert sorted(found.name for found in path.parent.glob(f"{path.name}*")) == [path.name]


@pytest.mark.parametrize("face", FACES)
def test_a_read_only_file_is_said_and_read(scratch_directory: Path, face: str) -> None:
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    with SessionService(f"sqlite:///{path}") as service:
        service.open("s")
        service.append("s", [HumanMessage(f"needle {number}") for number in range(300)])
    service, call = SessionService(f"sqlite:///file:{path}?mode=ro&uri=true"), Face(face)
    try:
        assert len(call(service, "messages", "s")) == 300
        assert call(service, "search", "needle", session_id="s").items
        for name, arguments in {"append": ("s", message("x")), "create": ("new",), "delete": ("s",)}.items():
            with pytest.raises(StoreUnavailableError, match="read-only"):
                call(service, name, *arguments)
    finally:
        call.close(service)
        service.close()


def test_a_path_that_cannot_be_opened_is_said(scratch_directory: Path) -> None:
    service = SessionService(f"sqlite:///{scratch_directory}/none/chat.db")
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        service.open("s")
    service.close()


@pytest.mark.parametrize("face", FACES)
def test_an_append_waits_for_a_foreign_lock(scratch_directory: Path, face: str) -> None:
    """K11."""
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    service, call = SessionService(f"sqlite:///{path}"), Face(face)
    service.open("s")
    foreign = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    foreign.execute("BEGIN IMMEDIATE")
    released = threading.Timer(3.0, lambda: foreign.execute("ROLLBACK"))
    began = time.monotonic()
    released.start()
    call(service, "append", "s", message("patient"))
    assert time.monotonic() - began > 2, "the lock was held"
    released.join()
    foreign.close()
    assert assert_whole(service, "s") == ["patient"]
    call.close(service)
    service.close()


def test_a_lock_that_is_never_released_is_named(scratch_directory: Path) -> None:
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    from sqlalchemy import create_engine  # noqa: PLC0415

    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.1})
    service = SessionService(engine)
    service.open("s")
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked by another process"):
        service.append("s", message("m"))
    foreign.execute("ROLLBACK")
    foreign.close()
    service.append("s", message("m"))
    assert checked_out(service) == 0
    engine.dispose()


def test_a_refused_value_leaves_no_lock(scratch_directory: Path) -> None:
    """M02."""
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    with opened(SessionService(f"sqlite:///{path}")) as (service,):
        service.open("s")
        for value in (object(), {1}, len, b"x", 1j, threading.Lock()):
            with pytest.raises(InvalidInputError, match="metadata"):
                service.append("s", message("m"), metadata={"k": value})
            other = sqlite3.connect(path, timeout=0, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            other.close()
        assert service.get("s").version == 0


TRACE = "Zanzibar-quartz"


@pytest.mark.parametrize("engine", ["own", "given"])
@pytest.mark.parametrize("face", FACES)
def test_no_byte_of_a_deleted_session_is_left(scratch_directory: Path, face: str, engine: str) -> None:
    """X10."""
    from sqlalchemy import create_engine  # noqa: PLC0415

    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    given = create_engine(f"sqlite:///{path}")
    service, call = SessionService(f"sqlite:///{path}" if engine == "own" else given), Face(face)
    ada = service.as_user("ada")
    ada.create("gone", title=f"{TRACE} title", metadata={"m": TRACE}, state={"s": TRACE})
    ada.create("kept")
    for number in range(40):
        long = f"{TRACE} {number} " * (400 if number % 10 == 0 else 1)
        events = [NewEvent(message=HumanMessage(long)), NewEvent(message=AIMessage(f"yes {TRACE}"), author=TRACE)]
        call(ada, "append", "gone", events, metadata={TRACE: number}, state_delta={"s": f"{TRACE}{number}"})
        call(ada, "append", "kept", message(f"k{number}"))
    assert archive_some(ada, "gone")
    assert _bytes_of(path)
    call(ada, "rewind", "gone", to_seq=30)
    call(ada, "edit", "kept", HumanMessage("other", id="k1"))
    assert call(ada, "delete", "gone")
    assert _bytes_of(path) == []
    call(ada, "append", "kept", message("later"))
    assert len(assert_whole(ada, "kept")) == 41
    call.close(service)
    service.close()
    assert _bytes_of(path) == []
    given.dispose()


@pytest.mark.parametrize("face", FACES)
def test_what_is_zeroed_of_a_blanked_event_and_says_no_word_is_written_back(tmp_path: Path, face: str) -> None:
    """Whoever gives an event a text column that says who or where must not find it empty afterwards."""
    store, call = SqlStore(f"sqlite:///{tmp_path}/chat.db"), Face(face)
    apart = [store.tables.events.c[name] for name in EventRow._fields if name not in WORDED]
    for name in ("branch", "author", "invocation_id"):
        store.tables.events.c[name].type = Text()  # no bound, so that zeroes are written over it
    service = SessionService(store)
    service.create("s")
    said = [HumanMessage(f"{TRACE} {number}", id=f"m{number}") for number in range(3)]
    call(service, "append", "s", said, author="ada", branch="root.worker", invocation_id="r1")
    call(service, "append", "s", NewEvent(message=HumanMessage(TRACE), id="e4"), author="grace")
    asked = select(*apart).order_by(store.tables.events.c.seq)
    before = _answers(store, asked)
    call(service, "blank", "s", "m1")
    call(service, "blank", "s", "e4")
    assert _answers(store, asked)[: len(before)] == before
    texts = _answers(store, select(store.tables.events.c.text))
    assert sum(TRACE in (text or "") for (text,) in texts) == len(before) - 2
    call.close(service)
    service.close()


def _answers(store: SqlStore, statement: Select[Any]) -> list[tuple[Any, ...]]:
    return store.run(TransactionKind.READ, lambda tx: [tuple(row) for row in tx.once(statement)])


def _bytes_of(path: Path) -> list[str]:
    """The files of a database that hold the secret, in whichever form."""
    forms = (TRACE.encode(), TRACE.lower().encode())
    files = [found for found in path.parent.glob(f"{path.name}*") if any(form in found.read_bytes() for form in forms)]
    return [found.name for found in files]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_file_that_goes_while_it_is_open_takes_nothing_more(scratch_directory: Path, face: str, how: str) -> None:
    """SQLite would go on writing to what nobody can open any more, and say that all is well."""
    path, other = (scratch_directory / f"{secrets.token_hex(4)}.db" for _ in range(2))
    call = Face(face)
    with opened(SessionService(f"sqlite:///{path}"), SessionService(f"sqlite:///{other}")) as (service, second):
        for each in (service, second):
            each.open("s")
            call(each, "append", "s", HumanMessage("before"))
        second.close()
        if how == "deleted":
            path.unlink()
        elif how == "moved":
            path.rename(path.with_suffix(".old"))
        else:
            other.replace(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match=f"{path} was deleted or replaced"):
                call(service, "append", "s", HumanMessage("into nowhere"))
        if how == "moved":
            path.with_suffix(".old").rename(path)
            call(service, "append", "s", HumanMessage("after"))
            assert [found.text for found in call(service, "messages", "s")] == ["before", "after"]
        call.close(service, second)


def test_reads_make_no_new_file_in_place_of_one_that_went(scratch_directory: Path) -> None:
    """SQLite drops the log that lies beside an empty file, and with it what was acknowledged."""
    path = scratch_directory / f"{secrets.token_hex(4)}.db"
    away = path.with_suffix(".old")
    with opened(SessionService(f"sqlite:///{path}")) as (service,):
        service.open("s")
        service.append("s", HumanMessage("before"))
        path.rename(away)
        store = log_of(service).store

        def read_twice(tx: Any) -> None:
            del tx
            store.run(TransactionKind.READ, lambda inner: inner.ask("SELECT 1"))  # type: ignore[attr-defined]

        for _ in range(3):
            with suppress(StoreUnavailableError):
                store.run(TransactionKind.READ, read_twice)  # type: ignore[attr-defined]
        assert not path.exists()
        away.rename(path)
        service.append("s", HumanMessage("after"))
        assert [found.text for found in service.messages("s")] == ["before", "after"]


@pytest.mark.parametrize("name", [b"caf\xe9.db", "gr\u00fc\u00df.db".encode()])
def test_a_file_may_have_any_name(scratch_directory: Path, name: bytes) -> None:
    url = URL.create("sqlite", database=os.fsdecode(os.path.join(os.fsencode(scratch_directory), name)))  # noqa: PTH118
    with opened(SessionService(url)) as (service,):
        service.open("s")
        service.append("s", HumanMessage("hello"))
        assert [found.text for found in service.messages("s")] == ["hello"]


def test_a_file_system_of_sqlites_own_has_no_paths() -> None:
    with opened(SessionService("sqlite:///file:/shared-by-one-test?vfs=memdb&uri=true")) as (service,):
        service.open("s")
        service.append("s", HumanMessage("hello"))
        assert [found.text for found in service.messages("s")] == ["hello"]
