"""An owner's copy of many small indexes: the same hits as from each log by itself, and gone with what it copies."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventFilter, InMemoryStore, NewEvent, SearchSettings, SessionService
from langchain_sessions._core.flow import drive
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index.ranking_traits import ChunkTraits, EventTraits
from langchain_sessions._recall.index.shelves import GAP, OpenShelf, ShelfTraits, ShelvedLog, stale_copies
from langchain_sessions._sql.driver.transaction import Transaction
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from langchain_sessions.stores._partitioned.shelves import read_shelves, shelves_partition
from langchain_sessions.stores._partitioned.store import PartitionMethods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions.stores._values import IndexQuery, IndexRead


on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
everywhere = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
WORDS = [f"{start}{end}" for start in ("kettle", "pass", "blue", "drawer", "li") for end in ("", "s", "port", "ing")]
QUERIES = (
    "kettle",
    "passport drawer",
    "blue OR li*",
    '"blue kettle"',
    "what about my passport",
    "nothing -kettle",
    "7",
)


def speech(chance: random.Random, number: int) -> NewEvent:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 9))) + f" {number % 40}" + chance.choice((".", "?"))
    said = (HumanMessage if number % 2 else AIMessage)(text, id=f"m{number}")
    return NewEvent(message=said, timestamp=datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(hours=number))


def hits(view: SessionService, query: str, **options: object) -> list[tuple[str, int, float]]:
    page = view.search(query, limit=60, **options)  # type: ignore[arg-type]
    return [(hit.event.session_id, hit.event.seq, round(hit.score, 9)) for hit in page]


class WithoutShelves(InMemoryStore):
    """Reads every log by itself."""

    def load_index(self, query: IndexQuery) -> IndexRead:
        return super().load_index(replace(query, most_apart=None))


def shelved(service: SessionService) -> list[tuple[int, ...]]:
    """Key of a session, shelf and how far it is there, of all copies of ada's that the store keeps."""
    store = log_of(service).store
    if isinstance(store, PartitionMethods):
        kept = drive(read_shelves(store.partitions, shelves_partition(log_of(service).app, "ada")))
        return [(skey, number, seq) for number, claims in kept.claims.items() for skey, seq in claims.items()]
    assert isinstance(store, SqlStore)

    def found(tx: Transaction) -> list[tuple[int, ...]]:
        logs = tx.tables.recall.shelf_logs
        return tx.once(logs.select())

    return store._runner.run(TransactionKind.READ, found)


@pytest.fixture
def pair(service: SessionService) -> Iterator[tuple[SessionService, SessionService]]:
    """Ada's view on a store, and beside it one of which every log is read by itself."""
    with SessionService(WithoutShelves()) as beside:
        yield service.as_user("ada"), beside.as_user("ada")


@everywhere
def test_shelves_answer_as_the_logs_themselves(
    service: SessionService, pair: tuple[SessionService, SessionService]
) -> None:
    chance = random.Random(4)  # noqa: S311 - reproducible
    for number in range(32):
        said = [speech(chance, 10 * number + each) for each in range(chance.randint(1, 8))]
        for view in pair:
            view.open(f"s{number}")
            view.append(f"s{number}", said, invocation_id=f"run{number}")
    for view in pair:
        view.rewind("s3", before_invocation="run3")
        view.edit("s5", AIMessage("the kettle is an urn", id="m50"))
    kept, plain = pair
    assert shelved(service) == []
    for query in QUERIES:
        assert hits(kept, query) == hits(plain, query), query
    assert len({row[0] for row in shelved(service)}) == 32
    for view in pair:
        view.append("s9", [speech(random.Random(8), 400), speech(random.Random(9), 401)])  # noqa: S311 - the same
        view.delete("s20")
        view.open("late")
        view.append("late", speech(random.Random(7), 500))  # noqa: S311 - the same
    for query in QUERIES:
        assert hits(kept, query) == hits(plain, query), query
    for where in (
        EventFilter(roles=frozenset({"user"})),
        EventFilter(authors=frozenset({"ada"})),
        EventFilter(keyword="kettle"),
    ):
        assert hits(kept, "kettle passport", where=where) == hits(plain, "kettle passport", where=where)
    assert hits(kept, "kettle", order="time") == hits(plain, "kettle", order="time")


@everywhere
def test_a_shelf_goes_with_any_of_its_logs(service: SessionService) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", HumanMessage(f"secret{number} kettle"))
    assert [hit.event.session_id for hit in ada.search("secret17", neighbours=0)] == ["s17"]
    assert len(shelved(service)) == 30
    ada.delete("s17")
    assert shelved(service) == []
    assert ada.search("secret17").items == ()
    assert [hit.event.session_id for hit in ada.search("secret18", neighbours=0)] == ["s18"]
    assert len(shelved(service)) == 29
    assert service.delete_user("ada") == 29
    assert shelved(service) == []


@everywhere
def test_sessions_in_which_nothing_was_said_may_be_many(service: SessionService) -> None:
    view = service.as_user("ada")
    for number in range(50):
        view.create(f"s{number}")
    assert [view.search("passport").items for _ in range(2)] == [(), ()]
    for number in range(0, 50, 7):
        view.append(f"s{number}", HumanMessage("my passport is blue"))
    assert [len(view.search("passport").items) for _ in range(2)] == [8, 8]
    assert view.verify("s1") == view.verify("s7") == []
    view.delete("s7")
    assert len(view.search("passport").items) == 7


@everywhere
def test_reindexing_puts_small_logs_on_shelves_once(service: SessionService) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", [HumanMessage("kettle"), AIMessage("blue")])
    assert service.reindex() == 60
    assert len(shelved(service)) == 30
    first = shelved(service)
    assert service.reindex() == 0
    assert shelved(service) == first
    assert ada.reindex("s3") == 2


@everywhere
def test_others_have_shelves_of_their_own(service: SessionService) -> None:
    for owner in ("ada", "grace", None):
        view = service.as_user(owner)
        for number in range(26):
            view.open(f"{owner}-{number}")
            view.append(f"{owner}-{number}", HumanMessage(f"kettle of {owner}"))
    for owner in ("ada", "grace", None):
        found = {hit.event.session_id for hit in service.as_user(owner).search("kettle", limit=100)}
        assert found == {f"{owner}-{number}" for number in range(26)}
    assert len(service.search("kettle", whole_app=True, limit=100).items) == 78


@on_databases
def test_shelves_of_another_language_are_made_anew(
    service: SessionService, database_url: str, table_prefix: str
) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", HumanMessage(f"der Kessel {number} ist blau"))
    ada.search("Kessel")
    first = {row[1] for row in shelved(service)}
    german = SearchSettings(language="german")
    with SessionService(database_url, table_prefix=table_prefix, search=german) as other:
        assert len(other.as_user("ada").search("Kessel", limit=50).items) == 30
    assert first.isdisjoint(row[1] for row in shelved(service))


@on_databases
def test_a_page_costs_as_many_statements_whatever_the_number_of_sessions(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, sent = service.as_user("ada"), list[str]()
    execute, send = Transaction._execute, Transaction.flush

    def counted(self: Transaction, text: str, values: tuple[object, ...], outcome: object) -> None:
        sent.append(text)
        execute(self, text, values, outcome)  # type: ignore[arg-type]

    def flushed(self: Transaction) -> None:
        if len(self._queue) > 1:
            sent.append("together")
        send(self)

    counts: list[int] = []
    for upto in (30, 60):
        for number in range(upto - 30, upto):
            ada.open(f"s{number}")
            ada.append(f"s{number}", HumanMessage(f"kettle {number} number"))
        ada.search("kettle", limit=5)
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "_execute", counted)
            patch.setattr(Transaction, "flush", flushed)
            sent.clear()
            ada.search("kettle", limit=5)
            counts.append(len(sent))
            if len(sent) and "together" in sent:
                assert sent == ["together", "together"]
    assert counts[0] == counts[1]


@pytest.mark.backends("sqlite")
def test_what_moved_is_found_by_a_sum(
    service: SessionService, pair: tuple[SessionService, SessionService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("langchain_sessions._sql.index.shelves._MANY", 30)
    monkeypatch.setattr("langchain_sessions._sql.index.shelves._NEWEST", 3)
    chance = random.Random(7)  # noqa: S311 - reproducible

    def append(name: str, count: int = 1) -> None:
        said = [speech(chance, chance.randrange(999)) for _ in range(count)]
        for view in pair:
            view.open(name)
            view.append(name, said)

    def told(query: str = "kettle") -> str:
        asked: list[str] = []
        with monkeypatch.context() as patched:
            wait = Transaction._wait

            def noted(tx: Transaction, text: str, values: tuple[object, ...]) -> object:
                asked.append(text)
                return wait(tx, text, values)

            patched.setattr(Transaction, "_wait", noted)
            mine = hits(pair[0], query)
        assert mine == hits(pair[1], query)
        return " ".join(asked)

    for number in range(32):
        append(f"s{number}", chance.randint(2, 6))
    assert service.reindex()
    hits(pair[0], "kettle")  # the shelf is known from now on
    assert "NOT (EXISTS" not in told()
    append("s31")
    append("later", 3)
    assert "NOT (EXISTS" not in told()
    append("s3")  # not of the newest: all are compared
    assert "NOT (EXISTS" in told()
    for view in pair:
        view.delete("s9")
    told()
    hits(pair[0], "kettle")
    store = log_of(service).store
    assert isinstance(store, SqlStore)
    rows = store.tables.sessions
    over = rows.update().where(rows.c.id.in_(["s31", "s5"])).values(expires_at=1)
    store._runner.run(TransactionKind.WRITE, lambda tx: tx.once(over))
    pair[1].delete("s31")
    pair[1].delete("s5")
    told()
    # What expired and was met once is looked at along with the newest.
    append("s3")
    told()
    assert "NOT (EXISTS" not in told()


@on_databases
def test_a_shelf_that_cannot_be_read_is_made_anew(service: SessionService, caplog: pytest.LogCaptureFixture) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", HumanMessage(f"kettle {number}"))
    expected = hits(ada, "kettle")
    store = log_of(service).store
    assert isinstance(store, SqlStore)

    def harm(tx: Transaction) -> None:
        terms = tx.tables.recall.shelf_terms
        tx.change(terms.update().values(data=b"x"))

    store._runner.run(TransactionKind.WRITE, harm)
    log = log_of(service)
    assert log.search is not None
    log.search.index_builder._caches.clear()
    with caplog.at_level(logging.ERROR, "langchain_sessions"):
        assert hits(ada, "kettle") == expected
        assert hits(ada, "kettle") == expected
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "made anew" in caplog.text


def test_a_shelf_is_packed_and_read_back() -> None:
    shelf = OpenShelf()
    for number, size in enumerate((3, 1, 2), 1):
        first = shelf.begin()
        for at in range(size):
            traits = EventTraits(at + 1, 10**15 + at, 1, (2,), 0, "ada" if at else None, None)
            shelf.chunk.add(traits, ({"kettle": 1, f"w{number}": 2},))
        shelf.end(ShelvedLog(number, f"s{number}", size, first, size, size, 2 * size, number == 2), ["ada"])
    known = ShelfTraits.unpack(shelf.traits().pack())
    assert [log.first for log in known.logs] == [0, 8, 14]
    assert all(not log.first % 2 for log in known.logs)
    assert known.is_taken == b"".join(
        b"\xff" * log.slots + bytes(end - log.first - log.slots)
        for log, end in zip(known.logs, (8, 14, 16), strict=True)
    )
    assert (known.events, known.terms, set(known.names)) == (6, 12, {"ada"})
    assert [known.log_at(slot).id for slot in (0, 2, 8, 14, 15)] == ["s1", "s1", "s2", "s3", "s3"]
    assert [log.is_unsure for log in known.logs] == [False, True, False]
    assert shelf.slots == 16
    assert GAP < 8 - 3
    newer = ShelfTraits([known.logs[1]._replace(last_seq=9)], (), ChunkTraits.of(shelf.chunk.traits))
    assert stale_copies([(7, known), (8, newer)]) == {7: {2}}
