"""Long messages are ranked and shown by their passages."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions._recall.text.passages import LENGTH, MOST_PASSAGES, split_passages

if TYPE_CHECKING:
    from langchain_sessions import SessionService

PROSE = "Grace spoke of other things for a while. " * 12 + "\n\n"


@given(st.text(alphabet='ab .,\n\u3002{}"', max_size=4000))
def test_passages_are_the_whole_text_in_order(text: str) -> None:
    found = split_passages(text * 3)
    assert found[0][0] == 0
    assert found[-1][1] == len(text * 3)
    assert all(one[1] == other[0] and one[0] < one[1] for one, other in pairwise(found))
    assert len(found) <= MOST_PASSAGES


@pytest.mark.parametrize("text", ["x" * 5_000_000, "word " * 300_000, "\u6c49" * 1_000_000, "\n" * 1_000_000])
def test_a_text_of_megabytes_is_cut_in_no_time(text: str) -> None:
    started = time.process_time()
    assert 1 < len(split_passages(text)) <= MOST_PASSAGES
    assert time.process_time() - started < 2.0


def test_a_short_text_is_one_passage() -> None:
    assert split_passages("") == [(0, 0)]
    assert split_passages("a" * LENGTH) == [(0, LENGTH)]


def test_a_cut_falls_where_a_reader_pauses() -> None:
    heading = "# A title\nbegins a part."
    text = f"{PROSE}{heading} {PROSE}```python\nx = 1\n```\n{PROSE * 3}"
    starts = [text[start:end] for start, end in split_passages(text)]
    assert any(each.startswith("# A title") for each in starts)
    assert any(each.startswith("```python") for each in starts)
    members = json.dumps([{"name": f"item {n}", "note": "some words about it"} for n in range(100)])
    cuts = [members[start:end].rstrip() for start, end in split_passages(members)]
    assert all(each.endswith(("},", "}]", ",")) for each in cuts)


def test_a_hit_shows_the_passage_that_was_found(service: SessionService) -> None:
    service.open("s1")
    answer = f"{PROSE * 10}The zebra crossing is closed until Monday.\n\n{PROSE * 10}"
    service.append("s1", [HumanMessage("What is new?"), AIMessage(answer)])
    for query, mode in (("zebra crossing", "ranked"), ("zebra crossing", "literal"), ('"zebra crossing"', "ranked")):
        [hit] = [hit for hit in service.search(query, session_id="s1", mode=mode) if hit.why == "match"]  # type: ignore[arg-type]
        assert hit.event.message == AIMessage(answer, id=hit.event.message.id) if hit.event.message else False
        assert "zebra crossing is closed" in hit.text
        assert len(hit.text) <= 2 * LENGTH
        assert next(hit.text[start:end] for start, end in hit.highlights).startswith("zebra")


def test_the_result_of_a_tool_is_found_in_the_middle(service: SessionService) -> None:
    service.open("s1")
    rows = [{"order": f"A-{n}", "status": "shipped", "town": f"town{n}"} for n in range(400)]
    call = {"name": "orders", "args": {}, "id": "1"}
    service.append(
        "s1", [AIMessage("", tool_calls=[call]), ToolMessage(json.dumps(rows), tool_call_id="1", name="orders")]
    )
    hit = service.search("town222", session_id="s1").items[0]
    assert '"town222"' in hit.text
    assert len(hit.text) <= 2 * LENGTH


def test_neighbours_are_told_from_what_was_found(service: SessionService) -> None:
    service.open("s1")
    said = [f"message {n} about nothing" for n in range(9)]
    said[4] = "there is a zebra in the garden"
    service.append("s1", [HumanMessage(text) for text in said])
    found = service.search("zebra", session_id="s1")
    assert found.items[0].event.seq == 5
    assert [hit.event.seq for hit in found if hit.why == "match"] == [5]
    assert [event.seq for event in found.items[0].before] == [4] or found.items[0].before


def test_a_line_of_megabytes_without_a_blank_is_indexed(service: SessionService) -> None:
    service.open("s1")
    service.append("s1", [HumanMessage("a" * 5_000_000), HumanMessage("," * 1_000_000 + "zebra")])
    started = time.process_time()
    service.reindex()
    [hit] = [hit for hit in service.search("zebra", session_id="s1") if hit.why == "match"]
    assert "zebra" in hit.text
    assert time.process_time() - started < 20.0


_PAUSES = [
    r"\n(?=#{1,6} |```\w)",
    r"(?<=\n```)\n",
    r"\n[^\S\n]*\n",
    r"\n",
    r"(?<=[.!?])\s|[\u3002\uff01\uff1f]",
    r"[}\]],|,[^\S\n]*(?=\")",
    r"[,;:]\s|[\uff0c\uff1b\u3001]",
    r"\s",
]
_BITS = [
    *("a", "word", "\n", "\n\n", " ", ", ", ". ", "! ", '},"x"', '],  "', "\n```\n", "\n## x", "\n```py", "\u3002"),
    *("\uff0c", "\t", "\n \n", "; ", ": ", "x" * 300, ",\n", "\r\n", "\x85", "\u2028", "?\n"),
]


def _cut_by_all(text: str, start: int, length: int) -> int:
    """Where a passage ends when every pause that is in reach is looked at, one kind after the other."""
    high = start + length
    low = max(start + int(0.4 * length), high - 2000)
    for number, pause in enumerate(_PAUSES):
        for first in (max(low, high - 200), low) if number >= 4 else (low,):
            ends = [match.end() for match in re.compile(pause).finditer(text, first, high)]
            if ends and ends[-1] > start:
                return ends[-1]
    return high


def test_a_cut_falls_where_it_does_when_all_pauses_are_looked_at() -> None:
    # Where passages of stored texts begin is stored nowhere: it must not change.
    draw = Random(3)  # noqa: S311 - nothing secret
    for _ in range(150):
        some = draw.sample(_BITS, draw.choice((3, 8, len(_BITS))))
        text = "".join(draw.choices(some, k=900))[: draw.randrange(1_000, 9_000)]
        for start, end in split_passages(text)[:-1]:
            assert end == _cut_by_all(text, start, LENGTH)
