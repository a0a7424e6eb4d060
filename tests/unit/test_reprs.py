"""How values look at a prompt and in a notebook: short, and a text is never markup."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import (
    Compaction,
    EventFilter,
    InMemoryStore,
    NewEvent,
    SearchSettings,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    SqlStore,
    Standing,
    Summarize,
    SummaryAsFact,
    SummaryLimits,
    SummaryPrompts,
)

TABLES = ("context", "turn", "session", "event", "page", "empty", "hit", "found", "result")
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shown() -> dict[str, object]:
    sessions = SessionService(InMemoryStore())
    ada = sessions.as_user("ada")
    session = ada.create("s1", title="Lisbon")
    for n in range(3):
        ada.append(
            "s1", [HumanMessage(f"Where is my passport? {MARKUP} {'and so on ' * 40}"), AIMessage(f"Here, {n}.")]
        )
    return {
        "context": ada.context("s1"),
        "turn": ada.turns("s1")[0],
        "session": session,
        "event": ada.events("s1").items[0],
        "page": ada.events("s1", EventFilter(roles={"user"}, page_size=2)),
        "empty": ada.search("zebra", session_id="s1"),
        "hit": ada.search("passport", session_id="s1").items[0],
        "found": ada.search("passport", session_id="s1"),
        "result": ada.compact(
            "s1", Compaction(None, Summarize(FakeListChatModel(responses=["All found."]), keep_events=2))
        ),
    }


def others() -> dict[str, object]:
    """What else is printed, by what it looks like."""
    sessions = SessionService("sqlite:///chat.db")
    model = FakeListChatModel(responses=["Hello!"])
    return {
        "<SessionService over <SqlStore sqlite:///chat.db>>": sessions,
        "<SessionService app='a' of 'ada' over <InMemoryStore of MemoryEngine>>": SessionService(
            InMemoryStore(), app="a"
        ).as_user("ada"),
        "<SqlStore postgresql://ada:***@host/chat>": SqlStore("postgresql://ada:secret@host/chat"),
        "<SessionCheckpointSaver over <SessionService over <SqlStore sqlite:///chat.db>>>": SessionCheckpointSaver(
            sessions
        ),
        "<SessionChatMessageHistory of 's1'>": SessionChatMessageHistory("s1", sessions),
        "<Invocation 'r1' of 's1'>": sessions.invocation("s1", "r1"),
        "SessionMemoryAdvisor()": SessionMemoryAdvisor(sessions),
        "SessionMemoryMiddleware()": SessionMemoryMiddleware(sessions),
        "SummaryAsFact()": SummaryAsFact(),
        "EventFilter(roles={'ai', 'human'}, standings={Standing.LIVE}, last_n=3)": EventFilter(
            roles={"user", "assistant"}, standings={Standing.LIVE}, last_n=3
        ),
        "EventFilter()": EventFilter(),
        "NewEvent(author='ada')": NewEvent(author="ada"),
        "SearchSettings(candidates=50)": SearchSettings(candidates=50),
        "SummaryLimits(retries=2)": SummaryLimits(retries=2),
        "SummaryPrompts(system='Be brief.')": SummaryPrompts(system="Be brief."),
        "Summarize(SlidingWindow(max_events=10), overlap=2)": Summarize(model),
    }


@pytest.mark.parametrize(("shown", "value"), others().items(), ids=lambda value: type(value).__name__)
def test_what_is_printed_says_what_it_is(shown: str, value: object) -> None:
    assert repr(value) == shown


def test_a_wrapped_model_does_not_show_all_of_it() -> None:
    model = FakeListChatModel(responses=["Hello!"] * 100)
    assert len(repr(SessionMemoryAdvisor(SessionService(InMemoryStore())).wrap(model))) <= 100


@pytest.mark.parametrize("name", TABLES)
def test_a_value_is_short_at_a_prompt(shown: dict[str, object], name: str) -> None:
    lines = repr(shown[name]).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 160
    assert lines[0].startswith("<")


@pytest.mark.parametrize("name", TABLES)
def test_a_value_is_a_table_in_a_notebook(shown: dict[str, object], name: str) -> None:
    html = shown[name]._repr_html_()  # type: ignore[attr-defined]
    assert html.count("<tr>") == html.count("</tr>") >= 1
    assert "<script>" not in html
    assert len(html) <= 8000


def test_a_page_says_how_many_of_how_many(shown: dict[str, object]) -> None:
    assert repr(shown["found"]).startswith("<SearchPage 6 of 6:\n  <SearchHit ")
    assert repr(shown["empty"]) == "<SearchPage 0 of 0>"
