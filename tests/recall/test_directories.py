"""Directories of a long log's index: what they save is reading, and what is found is the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import ANY_BRANCH, EventFilter, InMemoryStore, SearchSettings, SessionService
from langchain_sessions._core.flow import drive
from langchain_sessions._log.indexing import indexer_of
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index import chunks, directories, indexing
from langchain_sessions._recall.index.directories import FIRST, due_directory, is_directory
from langchain_sessions._recall.index.ranking_traits import ChunkTraits
from langchain_sessions._recall.rank.first_look import FirstLook
from langchain_sessions._recall.rank.ranked import RankedSearch
from tests.recall.embedders import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._recall.index.directories import ChunkWithWords
    from langchain_sessions.search import SearchPage
    from langchain_sessions.stores._values import IndexProgress, IndexQuery, IndexRead

WORDS = [f"{start}{end}" for start in ("kettle", "boat", "rain", "lamp", "über") for end in ("", "s", "ing", "er")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 32 events, and a directory for every three of them."""
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", 32)
    monkeypatch.setattr(indexing, "LARGEST_CHUNK", 32)
    monkeypatch.setattr(directories, "TOGETHER", 3)
    monkeypatch.setattr(directories, "_UNSETTLED", 2)
    monkeypatch.setattr(directories, "_MOST_TERMS", 8)


def said(chance: random.Random, number: int) -> HumanMessage | AIMessage:
    words = " ".join(chance.choices(WORDS, weights=range(1, len(WORDS) + 1), k=6))
    text = f"topic{number} often {words}."
    if number % 50 == 0:
        text = "\n\n".join([text, *(f"{word} " * 300 for word in chance.sample(WORDS, 3))])
    return (HumanMessage, AIMessage)[number % 2](text, id=f"m{number}", name="Ada" if number % 4 == 0 else None)


@pytest.fixture
def long(ada: SessionService) -> SessionService:
    chance = random.Random(7)  # noqa: S311 - reproducible
    ada.append("s1", [said(chance, number) for number in range(400)])
    ada.reindex("s1")
    return ada


def progress(ada: SessionService) -> IndexProgress:
    log = log_of(ada)
    return log.store.find_index(log.key("s1"), indexer_of(log).builder.fingerprint, log.now())


def found(page: SearchPage) -> list[Any]:
    hits = [(hit.event.seq, hit.score, hit.text, dict(hit.parts), hit.highlights) for hit in page]
    return [hits, page.total, page.is_total_exact, page.is_relaxed, page.nearest]


QUERIES = [
    *(
        "topic7",
        "topic200 topic390",
        "kettle",
        "often",
        "often kettles topic3",
        "rain boating",
        "über lamp",
        "adoption",
    ),
    *(
        '"often rain"',
        "often AND kettle",
        "often -boat",
        "boat*",
        "Ada rain",
        "topicx",
        "often topicx",
        "kettled often",
    ),
]


@pytest.mark.parametrize("candidates", [300, 6])
def test_what_is_found_is_the_same(candidates: int, long: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = indexer_of(log_of(long)).builder
    # Of few candidates a common word is taken from the newest chunks alone.
    monkeypatch.setattr(builder, "settings", replace(builder.settings, candidates=candidates))
    long.edit("s1", HumanMessage("topic41 was edited", id="m40"))
    long.append("s1", [HumanMessage("topic9 once more", id="late")])
    long.rewind("s1", to_seq=400)
    assert [number for number, events, _ in progress(long).chunks if is_directory(number, events)]
    filters = [
        None,
        EventFilter(branch=ANY_BRANCH),
        EventFilter(authors=frozenset({"Ada"})),
        EventFilter(roles=frozenset({"ai"})),
    ]
    asked = [(query, filters[at // 2 % 4], 5 + 40 * (at % 2)) for at, query in enumerate(QUERIES * 2)]
    looked = [found(long.search(query, session_id="s1", where=where, limit=size)) for query, where, size in asked]
    monkeypatch.setattr(FirstLook, "ask", lambda _: iter(()))
    whole = [found(long.search(query, session_id="s1", where=where, limit=size)) for query, where, size in asked]
    for what, first, second in zip(asked, looked, whole, strict=True):
        assert first == second, what


def test_chunks_without_the_word_are_not_read(long: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...] | None] = []
    store: Any = log_of(long).store
    original = store.load_index

    def noted(query: IndexQuery) -> IndexRead:
        asked.append(query.of_chunks)
        read: IndexRead = original(query)
        return read

    long.search("lamp", session_id="s1")
    monkeypatch.setattr(store, "load_index", noted)
    assert long.search("topic100", session_id="s1").items[0].event.seq == 101
    first, second = asked
    assert first is not None
    assert second is not None
    known = progress(long).chunks
    assert {number for number in first if number >= FIRST} == {number for number, *_ in known if number >= FIRST}
    # The one that holds it and those beside.
    assert len(second) <= 3 < len(known)


def test_who_is_named_in_one_log_makes_nobody_read_all_of_it(
    ada: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada.append("s1", [HumanMessage(f"topic{number} of Ada", name="Ada") for number in range(400)])
    ada.reindex("s1")
    builder = indexer_of(log_of(ada)).builder
    # Of few candidates a common word, and the name is one, is taken from the newest chunks alone.
    monkeypatch.setattr(builder, "settings", replace(builder.settings, candidates=6))
    ada.search("lamp", session_id="s1")

    def read(*_: object, **__: object) -> None:
        pytest.fail("all of the index was read")

    monkeypatch.setattr(RankedSearch, "read", read)
    assert ada.search("what did Ada say of topic100", session_id="s1", limit=1).items[0].event.seq == 101


def test_what_was_written_anew_is_looked_through(long: SessionService) -> None:
    log = log_of(long)
    indexer, key = indexer_of(log), log.key("s1")
    before = found(long.search("topic100", session_id="s1"))
    number = progress(long).chunks[1][0]
    ((stored, _),) = log.store.load_chunks(key, progress(long), [number], log.now()) or []
    traits = ChunkTraits.unpack(stored.traits)
    rows = drive(indexer.rows_of(key, stored, traits))
    # Without the words of the first, which the directory still lists; a search that needs them brings them back.
    assert drive(indexer.with_words(key, stored, rows, {rows[0].seq})) is not None
    for _ in range(2):
        assert found(long.search("topic100", session_id="s1")) == before
        assert long.search(f"topic{rows[0].seq - 1}", session_id="s1").items[0].event.seq == rows[0].seq
    assert long.verify("s1") == []


def test_a_directory_is_compared_with_its_chunks(long: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert long.verify("s1") == []
    log = log_of(long)
    indexer, key = indexer_of(log), log.key("s1")
    drive(indexer.rebuild(key))
    assert long.verify("s1") == []
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "make_directory", lambda some, written: directories.make_directory(some[1:], written))
        drive(indexer.rebuild(key))
    # It lists less than it could, which is looked through.
    assert found(long.search("topic7", session_id="s1"))[1] > 0

    def wrong(some: Sequence[ChunkWithWords], written: int) -> ChunkWithWords:
        made, rows = directories.make_directory(some, written)
        return made, {name: data for name, data in rows.items() if not name.startswith("ra")}

    with monkeypatch.context() as patched:
        patched.setattr(indexing, "make_directory", wrong)
        drive(indexer.rebuild(key))
    assert any("directory" in line for line in long.verify("s1"))
    long.reindex("s1")
    assert long.verify("s1") == []


def test_who_appends_makes_one_at_most(long: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(long)
    indexer, key = indexer_of(log), log.key("s1")
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "due_directory", lambda _: ())
        drive(indexer.rebuild(key))
    listed = [sum(is_directory(number, events) for number, events, _ in progress(long).chunks)]
    for at in range(2):
        long.append("s1", [HumanMessage(f"topic{1000 + at} again")])
        drive(indexer.catch_up(key))
        listed.append(sum(is_directory(number, events) for number, events, _ in progress(long).chunks))
    assert listed == [0, 1, 2]
    assert long.search("topic77", session_id="s1").items[0].event.seq == 78
    long.reindex("s1")
    assert sum(is_directory(number, events) for number, events, _ in progress(long).chunks) > 2
    assert not due_directory([number for number, *_ in progress(long).chunks])


def go_on_as_older(ada: SessionService) -> None:
    """Index what waits as a release does that knows of no directories: behind the newest chunk, whatever it is."""
    log = log_of(ada)
    indexer, key = indexer_of(log), log.key("s1")
    while (known := progress(ada)).indexed_to < known.last_seq:
        entries, upto, _ = drive(indexer._next(key, known.indexed_to, known.last_seq, 512))
        change = drive(indexer._plan(key, known._replace(chunks=()), entries, upto))
        assert change is not None
        assert change.chunk is not None
        numbered = change.chunk._replace(number=known.chunks[-1][0] + 1)
        assert log.store.write_index(key, replace(change, progress=known, chunk=numbered), log.now())


def test_what_an_older_release_wrote_behind_directories_is_found(long: SessionService) -> None:
    log = log_of(long)
    long.append("s1", [HumanMessage(f"topic{number} zebra", id=f"m{number}") for number in range(1000, 1070)])
    go_on_as_older(long)
    mixed = progress(long)
    assert sum(number > FIRST and events > 0 for number, events, _ in mixed.chunks) == 3
    queries = [*QUERIES, "zebra topic1007", "topic1069"]
    sessions = ["s1", None]
    looked = [found(long.search(query, session_id=where)) for where in sessions for query in queries]
    assert long.verify("s1") == []
    assert progress(long) == mixed
    # The next that brings it up to date makes it anew, wholly.
    drive(indexer_of(log).catch_up_wholly(log.key("s1")))
    anew = progress(long)
    assert anew.indexed_to == anew.last_seq
    assert [number for number, events, _ in anew.chunks if events] == list(range(1, 1 + -(-470 // 32)))
    assert [number for number, events, _ in anew.chunks if not events] == [FIRST + at for at in (3, 6, 9, 12)]
    gone = {number for number, *_ in mixed.chunks} - {number for number, *_ in anew.chunks}
    assert gone
    assert log.store.load_chunks(log.key("s1"), anew, sorted(gone), log.now()) == []
    assert long.verify("s1") == []
    again = [found(long.search(query, session_id=where)) for where in sessions for query in queries]
    for what, first, second in zip(queries * 2, looked, again, strict=True):
        assert first == second, what


def test_a_judge_is_asked_once() -> None:
    asked: list[int] = []

    def judge(_: str, texts: list[str]) -> list[float]:
        asked.append(len(texts))
        return [float(-at) for at in range(len(texts))]

    ada = SessionService(InMemoryStore(), search=SearchSettings(embed=Words(), rerank=judge)).as_user("ada")
    ada.open("s1")
    ada.append("s1", [HumanMessage(f"topic{at} {'kitten' if at % 9 == 0 else 'boat'}") for at in range(400)])
    ada.reindex("s1")
    ada.embed_pending("s1")
    for _ in range(3):
        # No event says it: what is near in meaning is found, and what is written like it is looked for in all chunks.
        assert ada.search("feline", session_id="s1").items
        assert len(asked) == 1
        asked.clear()


def test_a_directory_is_made_for_what_is_settled() -> None:
    numbers: list[int] = []
    made: list[int] = []
    for number in range(1, 40):
        numbers.append(number)
        while due := due_directory(sorted(numbers)):
            assert len(due) == 3
            assert due[-1] <= number - 2
            made += due
            numbers.append(FIRST + due[-1])
    assert made == list(range(1, 37))
