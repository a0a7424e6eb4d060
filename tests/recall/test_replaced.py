"""What an edit replaced has no words in the index of a long text, and is found all the same by who asks for it."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState, StateGraph

from langchain_sessions import EventFilter, InMemoryStore, SearchSettings, SessionCheckpointSaver, SessionService
from langchain_sessions._log.indexing import indexer_of
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index import builder, indexing
from langchain_sessions._recall.index.shelving import Shelver
from langchain_sessions.errors import EventNotFoundError, StoreUnavailableError
from langchain_sessions.events import Standing
from tests.recall.test_shelves import shelved

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

TAKEN_BACK = EventFilter(standings=frozenset({Standing.SUPERSEDED, Standing.REWOUND}))


def draft(number: int) -> BaseMessage:
    return AIMessage(f"needle{number} " + "lorem ipsum dolor " * 80, id="draft")


def edited(view: SessionService, times: int, session_id: str = "s1") -> None:
    """A message that is edited, and indexed once at the end."""
    view.append(session_id, HumanMessage("write it", id="h"))
    view.append(session_id, draft(0))
    for number in range(1, times):
        view.edit(session_id, draft(number))
    view.reindex(session_id)


def said(view: SessionService, message: BaseMessage) -> None:
    """A message, or its next revision."""
    try:
        view.edit("s1", message)
    except EventNotFoundError:
        view.append("s1", message)


def found(view: SessionService, word: str, where: EventFilter | None = None, session_id: str | None = "s1") -> set[int]:
    page = view.search(word, session_id=session_id, where=where or EventFilter(), neighbours=0)
    return {hit.event.seq for hit in page if hit.why == "match"}


def words_of(view: SessionService, session_id: str = "s1") -> set[str]:
    """All that the index of a log holds."""
    log = log_of(view)
    indexer, key = indexer_of(log), log.key(session_id)
    progress = log.store.find_index(key, indexer.builder.fingerprint, log.now())
    read = log.store.load_chunks(key, progress, [number for number, *_ in progress.chunks], log.now()) or []
    packed = [bytes(data).decode("latin-1") for _, buckets in read for data in buckets.values()]
    return {word for data in packed for word in data.split("\n") if word.startswith("needle")}


def test_the_words_of_what_was_replaced_are_not_indexed(ada: SessionService) -> None:
    edited(ada, 6)
    assert words_of(ada) == {"needle5"}
    assert found(ada, "needle5") == {7}
    assert found(ada, "needle2") == set()
    assert ada.verify("s1") == []


def test_what_was_replaced_is_found_by_who_asks_for_it(ada: SessionService) -> None:
    edited(ada, 6)
    assert found(ada, "needle2", TAKEN_BACK) == {4}
    assert found(ada, "needle2", TAKEN_BACK) == {4}
    assert ada.verify("s1") == []
    assert found(ada, "needle2") == set()
    assert found(ada, "needle5") == {7}
    ada.edit("s1", draft(6))
    ada.append("s1", HumanMessage("thanks"))
    assert ada.reindex("s1") == 2
    assert ada.verify("s1") == []
    assert found(ada, "needle3", TAKEN_BACK) == {5}
    assert found(ada, "needle5", TAKEN_BACK) == {7}


def test_what_a_rewind_brings_back_is_found(ada: SessionService) -> None:
    edited(ada, 6)
    ada.rewind("s1", to_seq=4)
    assert found(ada, "needle2") == {4}
    assert found(ada, "needle5") == set()
    assert found(ada, "needle5", TAKEN_BACK) == {7}
    assert found(ada, "needle3", TAKEN_BACK) == {5}
    assert ada.verify("s1") == []


def test_a_store_that_cannot_write_finds_it_too(ada: SessionService) -> None:
    edited(ada, 6)
    ada.rewind("s1", to_seq=4)
    store: Any = log_of(ada).store

    def full(*_: object) -> bool:
        problem = "the disk is full"
        raise StoreUnavailableError(problem)

    async def afull(*_: object) -> bool:
        return full()

    store.write_index, store.awrite_index = full, afull
    try:
        for _ in range(2):
            assert found(ada, "needle2") == {4}
            assert found(ada, "needle5", TAKEN_BACK) == {7}
    finally:
        del store.write_index, store.awrite_index
    assert found(ada, "needle2") == {4}
    assert ada.verify("s1") == []


def test_what_no_chunk_could_hold_is_found_too(ada: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    edited(ada, 6)
    monkeypatch.setattr(indexing, "_MOST_PASSAGES_MERGED", 10)
    assert found(ada, "needle2", TAKEN_BACK) == {4}
    assert words_of(ada) == {"needle5"}
    ada.rewind("s1", to_seq=4)
    assert found(ada, "needle2") == {4}
    assert words_of(ada) == {"needle2", "needle5"}
    assert found(ada, "needle2") == {4}


def test_among_many_sessions_it_is_found_too(service: SessionService) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", [HumanMessage(f"word{number} kettle"), AIMessage("blue", name="bob")])
    ada.open("edited")
    edited(ada, 5, "edited")
    for _ in range(2):
        assert found(ada, "needle4", session_id=None) == {6}
        assert found(ada, "needle1", session_id=None) == set()
        assert found(ada, "needle1", TAKEN_BACK, session_id=None) == {3}
    ada.rewind("edited", to_seq=3)
    assert found(ada, "needle1", session_id=None) == {3}
    assert found(ada, "kettle", session_id=None)
    service.reindex()
    assert ada.verify("edited") == []


def test_what_was_overwritten_is_in_no_index(ada: SessionService) -> None:
    edited(ada, 4)
    assert found(ada, "needle1", TAKEN_BACK) == {3}
    ada.blank("s1", superseded=True)
    assert found(ada, "needle1", TAKEN_BACK) == set()
    assert found(ada, "needle3") == {5}
    ada.reindex("s1")
    assert ada.verify("s1") == []
    assert words_of(ada) <= {"needle3"}


@pytest.mark.backends("memory", "sqlite")
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_are_found_as_if_all_was_indexed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two services of the same history, of which one leaves out whatever was replaced, find the same."""
    chance = random.Random(seed)  # noqa: S311 - reproducible
    services = [SessionService(InMemoryStore(), search=SearchSettings(scanned=4)).as_user("ada") for _ in range(2)]
    for view in services:
        view.open("s1")

    def both(what: Callable[[SessionService], object]) -> list[object]:
        answers: list[object] = []
        for limit, view in zip((0, 1 << 40), services, strict=True):
            monkeypatch.setattr(builder, "_LONG", limit)
            answers.append(what(view))
        return answers

    for step in range(60):
        kind, word = chance.random(), chance.randrange(9)
        message = HumanMessage(f"word{word} of step{step}", id=f"m{chance.randrange(12)}")
        last = services[0].get("s1").version
        target = chance.randrange(last + 1)
        if kind < 0.7:
            both(partial(said, message=message))
        elif kind < 0.75:
            both(partial(SessionService.rewind, session_id="s1", to_seq=target))
        elif kind < 0.8:
            both(lambda view: view.reindex("s1"))
        wheres = (EventFilter(), TAKEN_BACK, EventFilter(standings=frozenset({Standing.SUPERSEDED})))
        for where in wheres if kind > 0.6 else ():
            one, other = both(partial(found, word=f"word{word}", where=where))
            assert one == other
    assert both(lambda view: view.verify("s1")) == [[], []]


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_a_graph_that_goes_back_finds_what_it_went_back_to(service: SessionService) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda state: {})
    graph.set_entry_point("work")
    compiled = graph.compile(checkpointer=SessionCheckpointSaver(service))
    config: Any = {"configurable": {"thread_id": "s1", "user_id": "ada"}}
    ada = service.as_user("ada")
    said: list[list[BaseMessage]] = [[HumanMessage("write", id="h"), draft(number)] for number in range(5)]
    kept = [compiled.update_state(config, {"messages": messages}, as_node="work") for messages in said]
    ada.reindex("s1")
    assert words_of(ada) == {"needle4"}
    assert len(found(ada, "needle4")) == 1
    assert found(ada, "needle1") == set()
    assert len(found(ada, "needle1", TAKEN_BACK)) == 1
    compiled.update_state(kept[1], {"messages": [HumanMessage("thanks", id="t")]}, as_node="work")
    assert len(found(ada, "needle1")) == 1
    assert found(ada, "needle4") == set()
    assert len(found(ada, "needle4", TAKEN_BACK)) == 1
    assert ada.verify("s1") == []


def tries(view: SessionService, word: str) -> int:
    """How often a search of all sessions tries to put logs on shelves."""
    with patch.object(Shelver, "shelve", autospec=True, side_effect=Shelver.shelve) as shelve:
        found(view, word, session_id=None)
    return shelve.call_count


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_logs_without_the_words_of_what_was_replaced_go_on_shelves(service: SessionService) -> None:
    ada = service.as_user("ada")
    for number in range(26):
        ada.open(f"e{number}")
        edited(ada, 3, f"e{number}")
    assert tries(ada, "needle2") == 1
    assert len(shelved(service)) == 26
    assert tries(ada, "needle2") == 0
    assert len(found(ada, "needle2", session_id=None)) == 1
    assert ada.search("needle2").total == 26
    assert ada.search("needle1").total == 0
    assert ada.search("needle1", where=TAKEN_BACK).total == 26
    assert [ada.verify(f"e{number}") for number in range(3)] == [[], [], []]
    ada.rewind("e1", to_seq=3)
    assert {hit.event.session_id for hit in ada.search("needle1")} == {"e1"}
    assert ada.search("needle2").total == 25
    service.reindex()
    assert ada.verify("e1") == []


def drafts(service: SessionService, session_id: str, text: Callable[[int], BaseMessage]) -> tuple[Any, list[Any]]:
    """A graph that makes a message anew several times, and where it was each time."""
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda state: {})
    graph.set_entry_point("work")
    compiled = graph.compile(checkpointer=SessionCheckpointSaver(service))
    config: Any = {"configurable": {"thread_id": session_id, "user_id": "ada"}}
    said = [[HumanMessage("write", id="h"), text(number)] for number in range(3)]
    return compiled, [compiled.update_state(config, {"messages": messages}, as_node="work") for messages in said]


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_what_a_graph_may_go_back_to_is_not_tried_again(service: SessionService) -> None:
    ada = service.as_user("ada")
    graphs = [drafts(service, f"g{number}", draft) for number in range(26)]
    for number in range(26):
        ada.reindex(f"g{number}")
    ada.open("plain")
    ada.append("plain", HumanMessage("needle2 is plain"))
    assert tries(ada, "needle2") == 1
    assert tries(ada, "needle2") == 0
    assert ada.search("needle2").total == 27
    version = ada.get("g25").version
    compiled, kept = graphs[-1]
    compiled.update_state(kept[1], {"messages": []}, as_node="work")
    assert ada.get("g25").version == version
    assert {hit.event.session_id for hit in ada.search("needle1")} == {"g25"}
    assert ada.search("needle2").total == 26


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_what_a_graph_replaced_counts_as_little_in_the_index_as_behind_it(service: SessionService) -> None:
    def scores() -> list[tuple[int, float]]:
        page = ada.search("kettle drawer", session_id="s1")
        return [(hit.event.seq, round(hit.score, 9)) for hit in page]

    ada = service.as_user("ada")
    compiled, kept = drafts(service, "s1", lambda number: AIMessage(f"The kettle is blue, {number}.", id="draft"))
    ada.append("s1", [HumanMessage("And the drawer?"), AIMessage("It is empty.")])
    behind = scores()
    assert [seq for seq, _ in behind]
    ada.reindex("s1")
    assert scores() == behind
    compiled.update_state(kept[1], {"messages": [HumanMessage("And the lid of the kettle?")]}, as_node="work")
    behind = scores()
    ada.reindex("s1")
    assert scores() == behind
