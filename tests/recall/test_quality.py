"""On long chats with an assistant the library finds no less than a bare FTS5 table, as the benchmark compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.assistant_chats import assistant_chats
from benchmarks.recall import FLOOR, engines, is_below
from benchmarks.recall_engines import Entries
from benchmarks.recall_scores import JUDGED, mean, measure
from langchain_sessions._recall.text.terms import TermMaker

if TYPE_CHECKING:
    from benchmarks.recall_sets import QuestionSet


@pytest.fixture(scope="module")
def chats() -> QuestionSet:
    return assistant_chats()


def test_the_chats_are_long_and_their_evidence_is_said(chats: QuestionSet) -> None:
    assert chats.questions >= 200
    assert len({question.text for each in chats.conversations for question in each.questions}) > 190
    for conversation in chats.conversations:
        assert {said.message.type for said in conversation.said} == {"human", "ai", "tool"}
        for question in conversation.questions:
            assert question.evidence
            assert max(question.evidence) < question.as_of == len(conversation.said)
    lengths = [len(str(said.message.content)) for each in chats.conversations for said in each.said]
    assert sum(length > 2000 for length in lengths) > len(lengths) / 3


def test_the_chats_are_the_same_each_time(chats: QuestionSet) -> None:
    assert [said.message.content for each in chats.conversations for said in each.said] == [
        said.message.content for each in assistant_chats().conversations for said in each.said
    ]


def test_the_library_finds_no_less_than_a_bare_table(chats: QuestionSet) -> None:
    maker = TermMaker()
    found = engines(Entries(maker), maker)
    ours, floor = measure(chats, found["this library"]), measure(chats, found[FLOOR])
    assert not is_below(ours, floor)
    assert mean(each.share(JUDGED) for each in ours) > 90
