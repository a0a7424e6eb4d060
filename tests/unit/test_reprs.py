"""How values look at a prompt and in a notebook: short, and a text is never markup."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import Compaction, EventFilter, InMemoryStore, SessionService, Summarize

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


@pytest.mark.parametrize("name", ["session", "event", "page", "empty", "hit", "found", "result"])
def test_a_value_is_short_at_a_prompt(shown: dict[str, object], name: str) -> None:
    lines = repr(shown[name]).splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 160
    assert lines[0].startswith("<")


@pytest.mark.parametrize("name", ["session", "event", "page", "empty", "hit", "found", "result"])
def test_a_value_is_a_table_in_a_notebook(shown: dict[str, object], name: str) -> None:
    html = shown[name]._repr_html_()  # type: ignore[attr-defined]
    assert html.count("<tr>") == html.count("</tr>") >= 1
    assert "<script>" not in html
    assert len(html) <= 8000


def test_a_page_says_how_many_of_how_many(shown: dict[str, object]) -> None:
    assert repr(shown["found"]).startswith("<SearchPage 6 of 6:\n  <SearchHit ")
    assert repr(shown["empty"]) == "<SearchPage 0 of 0>"
