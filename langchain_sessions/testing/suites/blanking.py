"""Overwriting what was said: nothing of it is left, and everything else stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions.errors import EventNotFoundError, InvalidInputError, SessionNotFoundError
from langchain_sessions.events import EventKind, NewEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.suites.base import StoreSuite, ai, human, seqs, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

MAIL = "my mail is ada.lovelace@example.org"


class BlankSuite(StoreSuite):
    """`blank`."""

    def test_blanking_overwrites_a_message_and_its_revisions(self, ada: SessionService) -> None:
        ada.append("s1", [human(MAIL, "a"), ai("noted", "b")])
        ada.edit("s1", human("my mail is hidden", "a"))
        done = ada.blank("s1", "a")
        assert (done.seq, done.seqs, done.summaries) == (4, (1, 3), ())
        events = ada.events("s1").items
        assert texts(events) == ["[blanked]", "noted", "[blanked]"]
        assert [event.is_blanked for event in events] == [True, False, True, False]
        assert [event.seq for event in events] == [1, 2, 3, 4]
        assert (events[3].kind, events[3].covers) == (EventKind.BLANK, ((1, 1), (3, 3)))
        assert events[0].standing is Standing.SUPERSEDED
        assert texts(ada.messages("s1")) == ["[blanked]", "noted"]
        assert ada.verify("s1") == []

    def test_blanking_only_what_was_superseded(self, ada: SessionService) -> None:
        ada.append("s1", [human(MAIL, "a"), human("kept", "b")])
        ada.edit("s1", human("my mail is [REDACTED]", "a"))
        assert ada.blank("s1", superseded=True).seqs == (1,)
        assert texts(ada.messages("s1")) == ["my mail is [REDACTED]", "kept"]
        again = ada.blank("s1", superseded=True)
        assert (again.seq, again.seqs) == (None, ())
        assert ada.blank("s1", "b", superseded=True).seqs == ()
        assert ada.get("s1").version == 4

    def test_blanking_leaves_nothing_to_find(self, ada: SessionService) -> None:
        ada.append("s1", [human(MAIL, "a"), ai("something else", "b")])
        assert 1 in [hit.event.seq for hit in ada.search("lovelace")]
        ada.reindex("s1")
        ada.blank("s1", "a")
        assert list(ada.search("lovelace")) == []
        assert list(ada.search("lovelace", session_id="s1")) == []
        assert ada.events("s1", EventFilter(keyword="lovelace")).items == ()
        assert 2 in [hit.event.seq for hit in ada.search("something")]
        assert ada.verify("s1") == []

    def test_blanking_keeps_calls_paired_and_counters_right(self, ada: SessionService) -> None:
        call = {"name": "mail", "args": {"to": MAIL}, "id": "c1", "type": "tool_call"}
        said = [
            human("write", "a"),
            AIMessage(MAIL, tool_calls=[call], id="b"),
            ToolMessage(MAIL, tool_call_id="c1", artifact=[MAIL], id="c"),
        ]
        ada.append("s1", [NewEvent(message=each, metadata={"note": MAIL}) for each in said])
        ada.blank("s1", seqs=(2, 3))
        written, answered = ada.messages("s1")[1:]
        assert isinstance(written, AIMessage)
        assert isinstance(answered, ToolMessage)
        assert written.tool_calls == [{**call, "args": {}}]
        assert (answered.tool_call_id, answered.artifact) == ("c1", None)
        assert MAIL not in repr([(event.message, event.metadata) for event in ada.events("s1")][1:])
        counted = ada.count("s1")
        assert counted.tokens == sum(event.tokens for event in ada.events("s1"))
        assert ada.verify("s1") == []

    def test_no_rewind_brings_back_what_was_blanked(self, ada: SessionService) -> None:
        ada.append("s1", [human(MAIL, "a"), ai("noted")])
        ada.blank("s1", "a")
        ada.append("s1", human("more"))
        ada.rewind("s1", to_seq=2)
        assert texts(ada.messages("s1")) == ["[blanked]", "noted"]
        fork = ada.fork("s1", at_seq=2)
        assert texts(ada.messages(fork.id)) == ["[blanked]", "noted"]
        assert ada.verify("s1") == ada.verify(fork.id) == []

    def test_blanking_names_the_summaries_that_were_made_of_it(self, ada: SessionService) -> None:
        ada.append("s1", [human(MAIL, "a"), ai("noted"), human("more"), ai("yes")])
        summed = [NewEvent(message=ai("her mail is known"))]
        assert archive(ada, "s1", (1, 2), base=ada.context("s1"), summary=summed)
        done = ada.blank("s1", "a")
        assert done.seqs == (1,)
        summary = [event.seq for event in ada.events("s1") if event.is_synthetic]
        assert done.summaries == tuple(summary)
        ada.blank("s1", seqs=done.summaries)
        assert "her mail" not in repr(ada.messages("s1"))
        assert ada.verify("s1") == []

    def test_blanking_is_allowed_on_an_ended_session(self, ada: SessionService) -> None:
        ada.append("s1", HumanMessage(MAIL))
        ada.end("s1")
        assert ada.blank("s1", seqs=[1]).seqs == (1,)

    def test_what_cannot_be_blanked_is_refused(self, ada: SessionService, grace: SessionService) -> None:
        ada.append("s1", human("hello", "a"))
        ada.end("s1")
        with pytest.raises(EventNotFoundError, match="nope"):
            ada.blank("s1", "nope")
        with pytest.raises(EventNotFoundError, match="position 9"):
            ada.blank("s1", seqs=[1, 9])
        with pytest.raises(InvalidInputError, match="record"):
            ada.blank("s1", seqs=[2])
        with pytest.raises(InvalidInputError, match="superseded"):
            ada.blank("s1")
        with pytest.raises(InvalidInputError, match="either"):
            ada.blank("s1", "a", seqs=[1])
        with pytest.raises(SessionNotFoundError):
            grace.blank("s1", "a")
        assert seqs(ada.events("s1")) == [1, 2]
        assert texts(ada.events("s1")) == ["hello"]
