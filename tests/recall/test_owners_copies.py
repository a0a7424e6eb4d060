"""Shelves over an engine that keeps sessions apart: nothing of a session outlives it there, whoever dies or races."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._core.flow import drive
from langchain_sessions._log.log import log_of
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores._partitioned import removing
from langchain_sessions.stores._partitioned.shelves import read_shelves, shelves_partition
from langchain_sessions.stores._partitioned.store import PartitionedStore, PartitionMethods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from langchain_sessions._core.flow import Flow
    from langchain_sessions.stores.engine import Head, Partition, Range, Row

kept_apart = pytest.mark.backends("memory", "files")


def fill(view: SessionService, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        view.open(f"s{number}")
        view.append(f"s{number}", HumanMessage(f"secret{number} kettle"))


def copied(service: SessionService) -> int:
    """How many copies of ada's sessions there are."""
    store = log_of(service).store
    assert isinstance(store, PartitionMethods)
    kept = drive(read_shelves(store.partitions, shelves_partition(log_of(service).app, "ada")))
    return sum(map(len, kept.claims.values()))


@kept_apart
def test_what_a_process_left_that_died_in_a_deletion_is_not_found_and_goes(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = service.as_user("ada")
    fill(ada, 30)
    ada.search("kettle")
    assert copied(service) == 30

    def died(*_: object, **__: object) -> Flow[None]:
        yield from ()

    with monkeypatch.context() as patch:
        patch.setattr(removing, "drop_shelves_of", died)
        ada.delete("s17")
    assert copied(service) == 30
    assert ada.search("secret17").items == ()
    assert copied(service) == 0
    assert ada.search("secret18").items[0].event.session_id == "s18"
    assert copied(service) == 29


@kept_apart
def test_blanking_takes_the_shelf_along(service: SessionService) -> None:
    ada = service.as_user("ada")
    fill(ada, 30)
    ada.search("kettle")
    ada.append("s3", HumanMessage("hidden", id="m1"))
    ada.search("kettle")
    ada.blank("s3", seqs=[1])
    assert copied(service) == 0
    assert ada.search("secret3").items == ()


@kept_apart
def test_what_differs_from_the_log_is_told_and_made_anew(service: SessionService) -> None:
    ada = service.as_user("ada")
    fill(ada, 30)
    ada.search("kettle")
    assert ada.verify("s3") == []
    store, search = log_of(service).store, log_of(service).search
    assert isinstance(store, PartitionMethods)
    assert search is not None
    partition = shelves_partition(log_of(service).app, "ada")
    kept = drive(read_shelves(store.partitions, partition))
    head = store.engine.read_heads([partition])[0]
    assert head is not None
    wrong = {f"{number:016x}/f": b"x" for number in kept.made}
    assert store.engine.commit(partition, head.version, head._replace(version=head.version + 1), wrong)
    search.index_builder._caches.clear()
    assert ada.verify("s3") == ["a shelf with a copy of the log cannot be read"]
    service.reindex()
    assert ada.verify("s3") == []
    assert ada.search("secret3").items[0].event.session_id == "s3"


class _Watched(MemoryEngine):
    """Counts reads of rows, and does something before the first shelf is written."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.before: list[object] = []

    def read_rows(self, partition: Partition, ranges: Sequence[Range]) -> list[list[Row]]:
        self.reads += 1
        return super().read_rows(partition, ranges)

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        if partition.kind == "o" and self.before:
            call = self.before.pop()
            call()  # type: ignore[operator]
        return super().commit(partition, expected, head, rows)


def test_a_session_that_goes_while_its_shelf_is_written_leaves_nothing() -> None:
    engine = _Watched()
    with SessionService(PartitionedStore(engine)) as service:
        ada = service.as_user("ada")
        fill(ada, 30)
        engine.before.append(lambda: ada.delete("s17"))
        assert ada.search("secret17").items == ()
        assert engine.before == []
        assert ada.search("secret18").items[0].event.session_id == "s18"
        assert not any(b"secret17" in value for kept in engine._kept.values() for value in kept.rows.values())


def test_a_page_reads_as_often_whatever_the_number_of_sessions() -> None:
    engine = _Watched()
    counts: list[int] = []
    with SessionService(PartitionedStore(engine)) as service:
        ada = service.as_user("ada")
        for start in (0, 40):
            fill(ada, 40, start)
            ada.search("kettle", limit=5)
            engine.reads = 0
            ada.search("kettle", limit=5)
            counts.append(engine.reads)
    assert counts[0] == counts[1]


def test_no_byte_of_a_deleted_session_is_left_in_a_folder(scratch_directory: Path) -> None:
    with SessionService(f"file://{scratch_directory}/kept") as service:
        ada = service.as_user("ada")
        fill(ada, 30)
        ada.search("kettle")
        assert copied(service) == 30
        ada.delete("s17")
        assert copied(service) == 0
        for path in (scratch_directory / "kept").rglob("*"):
            assert not path.is_file() or b"secret17" not in path.read_bytes(), path


def test_stores_in_memory_forget_shelves_of_a_user_who_is_deleted() -> None:
    with SessionService(InMemoryStore()) as service:
        fill(service.as_user("ada"), 30)
        service.as_user("ada").search("kettle")
        assert copied(service) == 30
        service.delete_user("ada")
        assert copied(service) == 0
