"""What waits for the index is bounded in bytes, not only in events."""

from __future__ import annotations

import gc
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from langchain_core.messages import HumanMessage

from langchain_sessions._core.rows import EDIT, SessionKey
from langchain_sessions._log.log import Tally
from langchain_sessions._recall.index.chunks import OpenChunk
from langchain_sessions._recall.settings import MOST_BYTES

if TYPE_CHECKING:
    from langchain_sessions import SessionService

PAGE = "The committee spoke about the harbour, the tariffs and the weather of that week. "


def heavy(number: int, size: int = MOST_BYTES // 4) -> HumanMessage:
    return HumanMessage(PAGE * (size // len(PAGE)) + f"needle{number}")


def test_the_append_that_passes_the_bound_pays(ada: SessionService) -> None:
    for number in range(4):
        ada.append("s1", heavy(number))
    assert ada.reindex() == 4
    ada.open("s2")
    for number in range(5):
        ada.append("s2", heavy(number))
    assert ada.reindex() == 0
    assert ada.search("needle4", session_id="s2").items[0].event.seq == 5


def test_a_search_scans_no_megabytes_twice(ada: SessionService) -> None:
    for number in range(8):
        ada.append("s1", heavy(number))
    ada.search("needle1", session_id="s1")
    started = time.process_time()
    for number in range(8):
        [hit] = [hit for hit in ada.search(f"needle{number}", session_id="s1") if hit.why == "match"]
        assert hit.event.seq == number + 1
        assert hit.text.endswith(f"needle{number}")
    assert time.process_time() - started < 4.0


def test_a_log_that_is_heavy_as_it_is_found_is_indexed_once(ada: SessionService) -> None:
    ada.append("s1", [heavy(number, MOST_BYTES // 2) for number in range(3)])
    assert ada.search("needle2", session_id="s1").items
    assert ada.reindex() == 0


KEY = SessionKey("app", "s1", None)


def passes(tally: Tally, size: int, ident: str = "", *, is_due: bool = False) -> bool:
    row = SimpleNamespace(text="x" * size, body=None, ident=ident, flags=EDIT if ident else 0)
    return tally.passes(KEY, [row], is_due=is_due)  # type: ignore[list-item]


def test_the_tally_forgets_what_it_counted() -> None:
    tally = Tally()
    for _ in range(3):
        assert not passes(tally, MOST_BYTES // 2)
        assert not passes(tally, MOST_BYTES // 2)
        assert passes(tally, 2)
        assert not passes(tally, MOST_BYTES)
        assert passes(tally, 1, is_due=True)


def test_of_revisions_the_tally_counts_the_last() -> None:
    """The others are read, and have no words in the index."""
    tally = Tally()
    for _ in range(2):
        times = next(number for number in range(100) if passes(tally, MOST_BYTES // 2, "draft"))
        assert 10 <= times <= 20
    assert [passes(tally, MOST_BYTES // 2, ident) for ident in "abc"] == [False, False, True]


def test_the_tally_knows_some_revisions_of_a_log() -> None:
    tally = Tally()
    for number in range(2_000):
        assert not passes(tally, 10, f"run-{number}")
    assert len(tally._edited["app", "s1"]) <= 64
    # The one that is edited now is among them.
    assert not passes(tally, MOST_BYTES // 2, "draft")
    assert not passes(tally, MOST_BYTES // 2, "draft")


def test_a_page_of_megabytes_is_told_without_a_step_for_each_word(ada: SessionService) -> None:
    """Phrases and exclusions ask each candidate, and what stands beside a hit is shown with it."""
    for number in range(4):
        ada.append("s1", HumanMessage(PAGE * (MOST_BYTES // 3 // len(PAGE)) + f"needle{number} in the hay"))
    ada.append("s1", HumanMessage("漢字仮名" * (MOST_BYTES // 12)))
    ada.append("s1", HumanMessage("It was a zebra that I saw."))
    ada.search("needle1", session_id="s1")
    for query, found in (('"needle2 in"', 1), ('"hay the"', 0), ("harbour -needle3", 3), ("zebra", 4)):
        steps = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal steps
            steps += event == "call"

        sys.setprofile(count)
        try:
            page = ada.search(query, session_id="s1")
        finally:
            sys.setprofile(None)
        assert len(page.items) >= found
        assert steps < 100_000, query


def test_the_collector_rests_while_a_chunk_is_filled(ada: SessionService) -> None:
    """Lists are made for each word, and all of them stay."""
    rests: list[bool] = []
    add = OpenChunk.add

    def watched(chunk: OpenChunk, *args: Any) -> None:
        rests.append(not gc.isenabled())
        add(chunk, *args)

    ada.append("s1", [HumanMessage(f"needle{number}") for number in range(3)])
    with patch.object(OpenChunk, "add", watched):
        ada.reindex("s1")
    assert rests == [True] * 3
    assert gc.isenabled()
