"""What a page of hits reads of the log: what it shows, and of long texts no more than fill it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventFilter
from langchain_sessions._recall.rank import ranked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest

    from langchain_sessions import SessionService
    from langchain_sessions._core.ranges import SeqSet
    from langchain_sessions.search import SearchPage
    from langchain_sessions.stores._values import LogSlice, SearchedLogs


def _filled(ada: SessionService, said: list[str]) -> None:
    ada.append("s1", [(AIMessage if at % 2 else HumanMessage)(text, id=f"m{at}") for at, text in enumerate(said)])
    ada.reindex()


def _read(ada: SessionService, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The positions that are read from now on, call by call."""
    store: Any = ada._log.store
    asked: list[list[int]] = []
    load: Callable[[SearchedLogs, Mapping[str, SeqSet]], list[LogSlice]] = store.load_events

    def load_events(searched: SearchedLogs, places: Mapping[str, SeqSet]) -> list[LogSlice]:
        asked.append([seq for seqs in places.values() for seq in seqs])
        return load(searched, places)

    monkeypatch.setattr(store, "load_events", load_events, raising=False)
    return asked


def _beside(page: SearchPage) -> tuple[list[str], list[str]]:
    hit = page.items[0]
    return [str(each.message.content) for each in hit.before if each.message], [
        str(each.message.content) for each in hit.after if each.message
    ]


def test_the_neighbours_of_a_hit_are_read_and_no_more(ada: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    _filled(ada, [f"number {at} said" for at in range(9)] + ["the needle"] + [f"number {at} said" for at in range(9)])
    asked = _read(ada, monkeypatch)
    page = ada.search("needle", session_id="s1", limit=1, neighbours=1)
    assert _beside(page) == (["number 8 said"], ["number 0 said"])
    assert asked == [[9, 10, 11]]
    assert ada.search("needle", session_id="s1", limit=1, neighbours=0).items[0].before == ()
    assert asked[1:] == [[10]]


def test_a_neighbour_that_only_the_log_refuses_is_looked_for_further(ada: SessionService) -> None:
    _filled(ada, ["far", "a kite", "of no use", "a kite and the needle", "of no use", "nor this", "a kite last"])
    where = EventFilter(keyword="kite")
    assert _beside(ada.search("needle", session_id="s1", where=where)) == (["a kite"], ["a kite last"])


def test_a_neighbour_that_was_said_again_is_none(ada: SessionService) -> None:
    _filled(ada, ["first", "second", "third", "the needle", "fourth"])
    ada.edit("s1", HumanMessage("third, anew", id="m2"))
    assert _beside(ada.search("needle", session_id="s1", limit=1)) == (["second"], ["fourth"])


def test_of_long_texts_as_many_are_looked_through_as_fill_the_page(ada: SessionService) -> None:
    _filled(ada, [f"the blue drawer number {at} " + "drawer " * (at % 5) for at in range(60)])

    def pages(query: str) -> list[tuple[list[str], int | None, bool]]:
        found: list[tuple[list[str], int | None, bool]] = []
        cursor = None
        while True:
            page = ada.search(query, session_id="s1", limit=7, cursor=cursor)
            found.append(([hit.event.id for hit in page], page.total, page.is_total_exact))
            if (cursor := page.next_cursor) is None:
                return found

    for query in ('"blue drawer"', "blue AND drawer", "drawer -zebra"):
        whole = pages(query)
        with patch.object(ranked, "_MOST_LOOKED_THROUGH", 10):
            bounded = pages(query)
        assert [ids for ids, *_ in bounded] == [ids for ids, *_ in whole]
        assert whole[0][1:] == (60, True)
        assert not bounded[0][2]
        assert (bounded[0][1] or 60) < 60
        assert bounded[-1][1:] == whole[-1][1:]
