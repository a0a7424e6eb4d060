"""Pages follow each other: nothing twice, nothing skipped, and alike whether an event is in the index or after it."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import (
    EventFilter,
    InMemoryStore,
    NewEvent,
    SearchSettings,
    SessionService,
    create_conversation_search_tool,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._recall.request import SearchMode

WORDS = ["kettle", "red", "blue", "pan", "drawer", "passport", "lisbon", "train", "shelter", "rain"]
BRANCHES = (None, None, "orch", "orch.writer", "orchestra")


def talk(seed: int, size: int = 60) -> list[NewEvent]:
    """Short messages of few words, by two people on several branches."""
    chance = random.Random(seed)  # noqa: S311 - reproducible
    return [
        NewEvent(
            message=HumanMessage(" ".join(chance.choices(WORDS, k=chance.randrange(4)))),
            author=chance.choice(("Grace", "Lin")),
            branch=chance.choice(BRANCHES),
        )
        for _ in range(size)
    ]


@pytest.fixture(params=[5, 300])
def few(request: pytest.FixtureRequest, backend: str, database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """A service that ranks so many events in full before it looks further."""
    database = InMemoryStore() if backend == "memory" else database_url
    settings = SearchSettings(candidates=request.param)
    with SessionService(database, table_prefix=table_prefix, create_schema=True, search=settings) as service:
        yield service


def paged(view: SessionService, query: str, **options: Any) -> list[list[tuple[str, int]]]:
    """The places on each page: by cursor, then by number."""
    by_cursor: list[tuple[str, int]] = []
    by_number: list[tuple[str, int]] = []
    number = 0
    page = view.search(query, limit=3, **options)
    while True:
        by_cursor += [(hit.event.session_id, hit.event.seq) for hit in page]
        if page.next_cursor is None:
            break
        page = view.search(query, limit=3, cursor=page.next_cursor, **options)
    while found := view.search(query, limit=3, page=number, **options).items:
        number += 1
        by_number += [(hit.event.session_id, hit.event.seq) for hit in found]
    return [by_cursor, by_number]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("kettle", EventFilter()),
        ("kettle -red", EventFilter()),
        ("kettle red pan", EventFilter(authors=frozenset({"Grace"}))),
        ("kettle OR pan rain", EventFilter(branch="orch")),
        ('"red kettle" pan', EventFilter()),
    ],
)
def test_pages_by_cursor_and_by_number_are_the_same(few: SessionService, query: str, where: EventFilter) -> None:
    ada = few.as_user("ada")
    for number in range(3):
        ada.open(f"s{number}")
        ada.append(f"s{number}", talk(number))
    by_cursor, by_number = paged(ada, query, where=where)
    assert len(set(by_cursor)) == len(by_cursor) > 3
    assert by_number == by_cursor


def test_a_cut_choice_says_that_there_may_be_more(few: SessionService) -> None:
    ada = few.as_user("ada")
    for number in range(6):
        ada.open(f"s{number}")
        ada.append(f"s{number}", [HumanMessage("kettle"), HumanMessage("")])
    page = ada.search("kettle", limit=2)
    assert page.is_total_exact == (page.total == 12)
    (found, _) = paged(ada, "kettle")
    assert {place for place in found if place[1] == 1} == {(f"s{number}", 1) for number in range(6)}


def test_what_a_filter_refuses_beside_a_phrase_costs_no_hit(few: SessionService) -> None:
    ada = few.as_user("ada")
    ada.open("s1")
    ada.append("s1", [NewEvent(message=HumanMessage("blue and a drawer"), author="Lin") for _ in range(200)])
    ada.append("s1", NewEvent(message=HumanMessage("the blue drawer"), author="Grace"))
    ada.append("s1", [NewEvent(message=HumanMessage("drawer, not blue"), author="Grace") for _ in range(200)])
    where = EventFilter(authors=frozenset({"Grace"}))
    assert [hit.event.seq for hit in ada.search('"blue drawer"', session_id="s1", where=where)] == [201]


@pytest.mark.parametrize("branch", [None, "orch"])
def test_what_is_indexed_ranks_as_what_is_not(ada: SessionService, branch: str | None) -> None:
    ada.append("s1", talk(7))
    where = EventFilter(branch=branch)
    queries = ("kettle", "red pan rain", "Grace kettle")
    before = [[(hit.event.seq, hit.score) for hit in ada.search(query, where=where, limit=60)] for query in queries]
    ada.reindex()
    after = [[(hit.event.seq, hit.score) for hit in ada.search(query, where=where, limit=60)] for query in queries]
    assert before == after


@pytest.mark.parametrize("indexed", [False, True])
def test_what_another_branch_says_makes_no_hit_of_what_stands_beside_it(ada: SessionService, *, indexed: bool) -> None:
    said = [("orch.writer", "zzsecret"), (None, "lunch"), ("orch.writer", "zzsecret"), (None, "lunch")]
    ada.append("s1", [NewEvent(message=HumanMessage(text), branch=branch) for branch, text in said])
    if indexed:
        ada.reindex()
    assert len(ada.search("zzsecret", session_id="s1", where=EventFilter(branch=None))) == 0
    assert len(ada.search("zzsecret", session_id="s1")) == 4


def test_pages_of_the_tool_hold_nothing_twice(few: SessionService) -> None:
    ada = few.as_user("ada")
    ada.open("s1")
    ada.append("s1", talk(3))
    tool = create_conversation_search_tool(few, page_size=4)
    config: Any = {"configurable": {"session_id": "s1", "user_id": "ada"}}
    seen: list[int] = []
    for page in range(30):
        answer = tool.invoke({"query": "kettle -red", "page": page}, config)
        if not answer.startswith("{"):
            break
        seen += [result["position"] for result in json.loads(answer)["results"]]
    assert len(seen) == len(set(seen)) > 8


@pytest.mark.parametrize("mode", ["ranked", "literal"])
def test_reasoning_is_found_wherever_a_provider_puts_it(ada: SessionService, mode: SearchMode) -> None:
    hidden = AIMessage("Done.", additional_kwargs={"reasoning_content": "the lighthouse keeper"})
    block = AIMessage([{"type": "reasoning", "reasoning": "a lighthouse at night"}, {"type": "text", "text": "Yes."}])
    ada.append("s1", [hidden, block])
    assert len(ada.search("lighthouse", session_id="s1", mode=mode)) == 2
