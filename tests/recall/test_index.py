"""The index behind the log: packing, merging, catching up beside others, and leaving nothing behind."""

from __future__ import annotations

import random
import threading
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import SearchSettings, SessionService
from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.flow import drive
from langchain_sessions._core.rows import SUMMARY, SYNTHETIC, EventRow
from langchain_sessions._log.indexing import indexer_of
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index import indexing
from langchain_sessions._recall.index.buckets import Bucket, bucket_of, is_dense, pack_bucket, split_occurrences
from langchain_sessions._recall.index.builder import IndexBuilder
from langchain_sessions._recall.index.chunks import LARGEST_CHUNK, ChunkSize, OpenChunk, PackedEvents, chunks_to_merge
from langchain_sessions._recall.index.columns import narrowed
from langchain_sessions._recall.index.open_postings import OpenPostings
from langchain_sessions._recall.index.ranking_traits import ChunkTraits, EventTraits
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from langchain_sessions.stores._values import EventSlice

WORDS = st.sampled_from(
    ["passport", "pass", "past", "kettle", "北京", "北", "京", "straße", "42", "tool:find", "Ǆ", "क"]
)
COUNTS = st.dictionaries(WORDS, st.integers(1, 600), max_size=6)
PASSAGES = st.lists(st.tuples(st.integers(0, 100_000), COUNTS), min_size=1, max_size=3)
Events = list[tuple[EventTraits, list[tuple[int, dict[str, int]]]]]
FACTS = st.builds(
    EventTraits,
    seq=st.just(0),
    at=st.integers(-(2**40), 2**55),
    kind=st.integers(1, 7),
    lengths=st.just((0,)),
    flags=st.integers(0, 15),
    author=st.none() | st.text(max_size=5),
    branch=st.none() | st.sampled_from(["orch", "orch.sub"]),
)


def chunk_of(events: Events, first: int) -> OpenChunk:
    chunk = OpenChunk()
    add_to(chunk, events, first)
    return chunk


def add_to(chunk: OpenChunk, events: Events, first: int) -> None:
    for number, (traits, passages) in enumerate(events):
        lengths = tuple(length for length, _ in passages)
        terms = [Counter(counts).elements() for _, counts in passages]
        chunk.add(traits._replace(seq=first + 2 * number, lengths=lengths), terms)


Read = tuple[list[EventTraits], dict[str, list[tuple[int, int]]], dict[str, dict[int, int]]]


def read(chunk: OpenChunk) -> Read:
    """A chunk as it comes back from a database."""
    packed = chunk.postings.pack()
    part = PackedEvents(ChunkTraits.unpack(ChunkTraits.of(chunk.traits).pack()), chunk.terms, packed)
    found = {term: found for term in part.vocabulary() if (found := part.find(term)) is not None}
    terms = {term: list(each.pairs()) for term, each in found.items()}
    return list(part.traits.events()), terms, {term: dict(each.passages()) for term, each in found.items()}


EVENTS = st.tuples(FACTS, PASSAGES)


@given(st.lists(EVENTS, min_size=1, max_size=12), st.lists(EVENTS, max_size=12), st.integers(0, 12))
def test_chunks_come_back_as_they_went_and_merge_into_one(first: Events, second: Events, stored_too: int) -> None:
    whole = chunk_of(first + second, 5)
    traits, terms, by_passage = read(whole)
    expected: dict[str, dict[int, int]] = {}
    numbered: dict[str, dict[int, int]] = {}
    number = 0
    for index, (_, passages) in enumerate(first + second):
        for _, counts in passages:
            for term, count in counts.items():
                known = expected.setdefault(term, {})
                known[index] = min(known.get(index, 0) + min(count, 255), 255)
                numbered.setdefault(term, {})[number] = min(count, 255)
            number += 1
    assert terms == {term: list(found.items()) for term, found in expected.items()}
    several = any(len(passages) > 1 for _, passages in first + second)
    assert by_passage == (numbered if several else {term: {} for term in numbered})
    assert [(f.seq, f.kind, f.flags, f.author, f.branch) for f in traits] == [
        (f.seq, f.kind, f.flags, f.author, f.branch) for f in whole.traits
    ]
    assert [f.lengths for f in traits] == [tuple(min(n, 65_535) for n in f.lengths) for f in whole.traits]
    assert [f.at for f in traits] == [f.at // 1_000_000 * 1_000_000 for f in whole.traits]
    merged = OpenChunk()
    start = 5
    for part in (first, second[:stored_too]):
        stored = chunk_of(part, start)
        if part:
            merged.extend(ChunkTraits.of(stored.traits), stored.postings.pack().values())
        start += 2 * len(part)
    add_to(merged, second[stored_too:], start)
    assert read(merged) == (traits, terms, by_passage)


@given(st.integers(1, 200), st.data())
def test_occurrences_come_back(events: int, data: st.DataObject) -> None:
    indexes = sorted(data.draw(st.sets(st.integers(0, events - 1), min_size=1)))
    counts = data.draw(st.lists(st.integers(1, 255), min_size=len(indexes), max_size=len(indexes)))
    postings = OpenPostings()
    said = dict(zip(indexes, counts, strict=True))
    postings.add(["a" * said.get(at, 0) for at in range(events)])
    (bucket,) = postings.pack().values()
    ((_, packed),) = Bucket(bucket).items()
    assert is_dense(packed, events) == (len(said) > (events - 1) // 8)
    found = split_occurrences(packed, events)
    assert (list(found[0]), list(found[1])) == (indexes, counts)


def test_a_word_may_be_in_more_passages_than_two_bytes_count_bytes_of() -> None:
    postings = OpenPostings()
    passages = 22_000
    postings.add([["often"]] * passages)
    (bucket,) = postings.pack().values()
    stored = OpenPostings()
    stored.extend([bucket], passages)
    stored.add([(), ["often", "often"]])
    (again,) = stored.pack().values()
    assert Bucket(again).find("often") == b"\1" * passages + b"\0\2"


def test_a_term_that_was_frequent_and_is_no_more_is_packed_as_it_is_now() -> None:
    stored = OpenPostings()
    stored.add([["kettle"], ["kettle", "lid", "kettle"], ["kettle"]])
    merged, whole = OpenPostings(), OpenPostings()
    merged.extend(stored.pack().values(), 3)
    merged.add([["lid"]] * 80)
    merged.extend(stored.pack().values(), 3)
    whole.add([["kettle"], ["kettle", "lid", "kettle"], ["kettle"], *[["lid"]] * 80])
    whole.add([["kettle"], ["kettle", "lid", "kettle"], ["kettle"]])
    assert merged.pack() == whole.pack() == merged.pack()


def test_a_term_is_found_whole() -> None:
    postings = OpenPostings()
    postings.add([["past"], ["pastry", "pastry"], *((),) * 8])
    (data,) = postings.pack().values()
    bucket = Bucket(data)
    assert bucket.terms() == ["past", "pastry"]
    assert bucket.find("pas") is bucket.find("astry") is None
    assert {bucket_of(term) for term in ("pa", "past", "p")} == {"pa", "p"}
    assert bucket_of("北京") == "北"


def test_chunks_stay_few_and_are_seldom_rewritten() -> None:
    for step in (64, 200, 512):
        stored: list[ChunkSize] = []
        written = 0
        for _ in range(100_000 // step):
            merged = chunks_to_merge(stored, step, 12 * step)
            stored = stored[: len(stored) - len(merged)]
            size = step + sum(chunk.events for chunk in merged)
            assert size <= LARGEST_CHUNK
            stored.append(ChunkSize(len(stored), size, 12 * size))
            written += size
        assert len(stored) <= 60
        assert written / 100_000 < 8


def test_chunks_of_long_messages_hold_fewer() -> None:
    stored = [ChunkSize(0, 500, 300_000)]
    assert chunks_to_merge(stored, 512, 90_000) == stored
    assert chunks_to_merge(stored, 512, 150_000) == []


def forget(view: SessionService, words: list[str]) -> None:
    for word in words:
        view.append("s1", HumanMessage(f"the {word} is mine"))


@pytest.mark.parametrize("search", [True, False])
def test_after_delete_no_byte_is_left(scratch_directory: Path, *, search: bool) -> None:
    path = scratch_directory / f"forget-{search}.db"
    words = [f"xyzzy{n}plugh" for n in range(700)]
    with SessionService(f"sqlite:///{path}", search=search) as service:
        ada = service.as_user("ada")
        ada.open("s1")
        ada.open("s2")
        ada.append("s2", [HumanMessage(f"other {n}") for n in range(600)])
        forget(ada, words)
        if search:
            assert len(ada.search("xyzzy7plugh")) >= 1
        assert any(b"xyzzy7plugh" in part.read_bytes() for part in path.parent.glob(f"{path.name}*"))
        assert ada.delete("s1")
        for part in path.parent.glob(f"{path.name}*"):
            assert b"xyzzy" not in part.read_bytes(), part.name


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_nothing_of_a_deleted_session_stays_in_any_table(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"word{n} again") for n in range(600)])
    ada.search("word5")
    store: Any = log_of(ada).store
    tables = store.tables.of_session
    assert ada.delete("s1")
    left = store.run(TransactionKind.READ, lambda tx: [len(tx.once(table.select())) for table in tables])
    assert left == [0] * len(tables)


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_writers_and_searchers_share_one_index(ada: SessionService) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for step in range(6):
                ada.append("s1", [HumanMessage(f"kettle {number} {step} {n}") for n in range(60)])
                assert ada.search(f"kettle {number}", session_id="s1").items
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ada.get("s1").version == 3 * 6 * 60
    ada.reindex("s1")
    assert ada.verify("s1") == []


@pytest.mark.backends("sqlite")
def test_a_catch_up_that_meets_a_delete_leaves_nothing(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"word{n}") for n in range(300)])
    indexer = indexer_of(log_of(ada))
    store: Any = log_of(ada).store
    change: list[Any] = []
    original = store.write_index

    def late(*arguments: Any) -> bool:
        change.append(arguments)
        assert ada.delete("s1")
        ada.create("s1")
        return bool(original(*arguments))

    store.write_index = late
    try:
        ada.reindex("s1")
    finally:
        del store.write_index
    assert change
    place = store.find_index(log_of(ada).key("s1"), indexer.builder.fingerprint, log_of(ada).now())
    assert (place.indexed_to, place.chunks) == (0, ())


def test_a_catch_up_does_not_follow_who_goes_on_appending(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"word{n}") for n in range(20)])
    log, looks = log_of(ada), 0
    indexer = indexer_of(log)

    def now() -> int:
        nonlocal looks
        looks += 1
        assert looks < 20, "it goes on as long as somebody appends"
        ada.append("s1", HumanMessage("and another"))
        return log.now()

    indexer.now = now
    added = drive(indexer.catch_up(log.key("s1")))
    assert 20 <= added < 20 + looks
    assert ada.reindex("s1") > 0
    assert ada.verify("s1") == []


@pytest.mark.backends("sqlite")
def test_appends_run_no_statement_for_the_index(ada: SessionService) -> None:
    store: Any = log_of(ada).store
    seen: Counter[str] = Counter()
    original = store.write_index
    store.write_index = lambda *arguments: seen.update(["write"]) or original(*arguments)
    looked = store.find_index
    store.find_index = lambda *arguments: seen.update(["look"]) or looked(*arguments)
    try:
        for n in range(511):
            ada.append("s1", HumanMessage(f"word {n}"))
        assert not seen
        ada.append("s1", HumanMessage("the 512th"))
        assert seen["write"] == 1
    finally:
        del store.write_index, store.find_index


def test_what_waits_is_indexed_in_one_step_and_read_in_parts(ada: SessionService) -> None:
    for start in range(0, 1500, 300):
        ada.append("s1", [HumanMessage(f"word{n} again") for n in range(start, start + 300)])
    log = log_of(ada)
    indexer, store = indexer_of(log), log.store
    key = log.key("s1")
    before = store.find_index(key, indexer.builder.fingerprint, log.now())
    drive(indexer.rebuild(key))
    after = store.find_index(key, indexer.builder.fingerprint, log.now())
    # One generation for the emptied index, one for the step.
    assert after.generation - before.generation == 2
    assert [events for _, events, _ in after.chunks] == [1500]
    asked: list[int] = []
    original = store.find_events

    def noted(*arguments: Any) -> EventSlice:
        asked.append(arguments[1].limit)
        return original(*arguments)

    watched: Any = store
    watched.find_events = noted
    try:
        drive(indexer.rebuild(key))
    finally:
        del watched.find_events
    assert len(asked) == 12
    assert max(asked) == 128
    assert ada.verify("s1") == []


def test_a_step_that_long_texts_end_does_not_make_the_next_ones_small(
    ada: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 1200, 300):
        ada.append("s1", [HumanMessage("\n\n".join([f"word{n} again. " * 60] * 3)) for n in range(start, start + 300)])
    log = log_of(ada)
    indexer, asked = indexer_of(log), list[int]()
    monkeypatch.setattr(indexing, "MOST_PASSAGES_HELD", 100)
    watched: Any = log.store
    original = watched.find_events

    def noted(*arguments: Any) -> EventSlice:
        asked.append(arguments[1].limit)
        return cast("EventSlice", original(*arguments))

    watched.find_events = noted
    try:
        drive(indexer.rebuild(log.key("s1")))
    finally:
        del watched.find_events
    # A step ends after some 34 messages of three passages, and takes a read or two.
    assert min(asked[:-2]) > 20
    assert len(asked) < 80
    assert ada.verify("s1") == []


def test_random_logs_compare_with_their_index(ada: SessionService) -> None:
    chance = random.Random(3)  # noqa: S311 - reproducible
    for _ in range(12):
        ada.append(
            "s1",
            [
                HumanMessage(f"word{chance.randrange(90)} " * chance.randrange(9))
                for _ in range(chance.randrange(1, 90))
            ],
        )
        if chance.random() < 0.5:
            ada.search(f"word{chance.randrange(90)}", session_id="s1")
    assert ada.verify("s1") == []


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("The kettle is blue.", id="m1"),
        AIMessage("Ada: noted — it's 5'8 tall"),
        SystemMessage(" \n"),
        HumanMessage("x" + "QUJD1" * 60 + " kettle"),
        HumanMessage("named", name="ada"),
        AIMessage("", tool_calls=[{"name": "find_kettle", "args": {"colour": "blue"}, "id": "c1"}]),
        ToolMessage("one kettle", tool_call_id="c1", name="find_kettle"),
        ChatMessage(content="said", role="grace"),
        HumanMessage([{"type": "text", "text": "blocks of kettles"}]),
    ],
    ids=lambda message: type(message).__name__,
)
@pytest.mark.parametrize("flags", [0, SYNTHETIC, SUMMARY])
def test_a_plain_row_is_indexed_as_its_message_would_be(message: BaseMessage, flags: int) -> None:
    codec, builder = MessageCodec(), IndexBuilder(SearchSettings())
    kind, own, ident, text, folded, body = codec.encode(message)
    row = EventRow(
        3, ident or "e3", 0, None, None, kind, own | flags, 10**15, 9, None, "ada", None, None, text, folded, body, None
    )
    assert builder.stored_entry("s1", row, codec) == builder.entry(row, codec.decode("s1", row))


@pytest.mark.parametrize("size", [1, 100, 200])
def test_a_term_is_found_in_a_bucket_of_any_size(size: int) -> None:
    terms = [f"word{number}" for number in range(1_000)]
    packed = [bytes([number % 251]) * (1 + number % size) * 3 for number in range(1_000)]
    data = pack_bucket(terms, narrowed(array("I", map(len, packed))), b"".join(packed))
    assert (len(data) > 1 << 17) == (size > 1)
    assert [Bucket(data).find(term) for term in terms] == packed
    assert Bucket(data).find("word") is None


def test_verifying_goes_through_a_bucket_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(bucket: Bucket, term: str) -> bytes | None:
        raise AssertionError(term)

    with SessionService("sqlite://") as service:
        ada = service.as_user("ada")
        ada.open("s1")
        ada.append("s1", [HumanMessage(f"kettle{number} kettles{number} {number}") for number in range(40)])
        ada.reindex("s1")
        monkeypatch.setattr(Bucket, "find", never)
        assert ada.verify("s1") == []
