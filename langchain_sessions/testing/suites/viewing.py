"""The context: branch visibility and tool calls that stay whole; turns and counters over it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import NewEvent
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.suites.base import StoreSuite, ai, asks, human, numbered, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

BRANCHES = [
    None,
    "orch",
    "orch.researcher",
    "orch.writer",
    "orch.researcher.deep",
    "orchestra",
    "Orch",
    "orc_",
    "orch%",
]


class BranchSuite(StoreSuite):
    """A viewer sees root, its ancestors and itself."""

    @pytest.fixture
    def branched(self, ada: SessionService) -> SessionService:
        """Ada's service with one message of every branch in `s1`."""
        for branch in BRANCHES:
            ada.append("s1", human(f"{branch}"), branch=branch)
        return ada

    def seen(self, service: SessionService, viewer: str | None) -> list[str]:
        """What a viewer sees, the same by both ways of reading."""
        found = texts(service.messages("s1", branch=viewer))
        assert texts(service.events("s1", EventFilter(branch=viewer))) == found
        return found

    def test_who_sees_what(self, branched: SessionService) -> None:
        """S19, S20: no sibling, no child, no look-alike on any backend."""
        assert self.seen(branched, None) == ["None"]
        assert self.seen(branched, "orch") == ["None", "orch"]
        assert self.seen(branched, "orch.researcher") == ["None", "orch", "orch.researcher"]
        assert self.seen(branched, "orchestra") == ["None", "orchestra"]
        assert self.seen(branched, "orch.researcher.deep.er") == [
            "None",
            "orch",
            "orch.researcher",
            "orch.researcher.deep",
        ]
        assert self.seen(branched, "teamXa") == ["None"]
        assert self.seen(branched, "orc_") == ["None", "orc_"]
        assert self.seen(branched, "Orch.sub") == ["None", "Orch"]

    def test_branches_count_for_themselves(self, branched: SessionService) -> None:
        """S7: root's turns are root's."""
        for branch in BRANCHES:
            counted = branched.count("s1", branch=branch)
            assert (counted.events, counted.turns) == (1, 1)
            assert len(branched.turns("s1", branch=branch)) == 1
        assert branched.count("s1", branch="nobody").events == 0

    def test_the_newest_n_of_a_viewer(self, branched: SessionService) -> None:
        assert texts(branched.messages("s1", branch="orch.researcher", last_n=2)) == ["orch", "orch.researcher"]

    @pytest.mark.parametrize("branch", ["", " ", "a..b", ".a", "a.", "x" * 256, "a\0b"])
    def test_bad_branches(self, ada: SessionService, branch: str) -> None:
        for call in (
            lambda: ada.append("s1", human("m1"), branch=branch),
            lambda: ada.messages("s1", branch=branch),
            lambda: ada.count("s1", branch=branch),
            lambda: ada.invocation("s1", branch=branch),
        ):
            with pytest.raises(InvalidInputError, match="branch"):
                call()
        assert ada.get("s1").version == 0


class PairingSuite(StoreSuite):
    """An orphan result or an unanswered call of a finished turn never reaches a prompt."""

    def test_an_open_call_of_the_running_turn_stays(self, ada: SessionService) -> None:
        """S5, A24."""
        ada.append("s1", [human("ask"), asks("c1", "c2"), ToolMessage("one", tool_call_id="c1")])
        shown = ada.messages("s1")
        assert [message.type for message in shown] == ["human", "ai", "tool"]
        assert isinstance(shown[1], AIMessage)
        assert [call["id"] for call in shown[1].tool_calls] == ["c1", "c2"]

    def test_an_unanswered_call_of_an_older_turn_is_left_out(self, ada: SessionService) -> None:
        """A25, L10: the log is not rewritten."""
        ada.append("s1", [human("ask"), asks("c1"), asks("c2", text="let me see"), human("next")])
        shown = ada.messages("s1")
        assert texts(shown) == ["ask", "let me see", "next"]
        assert isinstance(shown[1], AIMessage)
        assert shown[1].tool_calls == []
        stored = ada.events("s1")[1].message
        assert isinstance(stored, AIMessage)
        assert stored.tool_calls[0]["id"] == "c1"

    def test_an_orphan_result_is_dropped(self, ada: SessionService, caplog: pytest.LogCaptureFixture) -> None:
        """A26, L11: with a warning."""
        ada.append("s1", [human("ask"), ToolMessage("who asked?", tool_call_id="c0"), ai("m3")])
        with caplog.at_level(logging.WARNING):
            assert texts(ada.messages("s1")) == ["ask", "m3"]
        assert "without a call" in caplog.text
        assert "who asked?" not in caplog.text

    def test_results_follow_their_call(self, ada: SessionService) -> None:
        """A result that was logged late moves up to its call."""
        ada.append("s1", [human("ask"), asks("c1", "c2"), ToolMessage("one", tool_call_id="c1"), human("wait")])
        ada.append("s1", [ToolMessage("two", tool_call_id="c2"), ai("done")])
        assert texts(ada.messages("s1")) == ["ask", "", "one", "two", "wait", "done"]

    def test_an_id_used_twice(self, ada: SessionService) -> None:
        """L12: both results are sent."""
        for n in ("one", "two"):
            ada.append("s1", [human(f"ask {n}"), asks("c1"), ToolMessage(n, tool_call_id="c1"), ai("ok")])
        assert texts(ada.messages("s1")) == ["ask one", "", "one", "ok", "ask two", "", "two", "ok"]

    def test_a_window_does_not_split_a_pair(self, ada: SessionService) -> None:
        """S31, A35: at most n are loaded, pairs are kept or dropped whole."""
        ada.append("s1", [human("ask"), asks("c1"), ToolMessage("one", tool_call_id="c1"), ai("done")])
        assert texts(ada.messages("s1", last_n=2)) == ["done"]
        assert texts(ada.messages("s1", last_n=3)) == ["", "one", "done"]

    def test_a_failed_result_is_shown(self, ada: SessionService) -> None:
        """A38."""
        failed = ToolMessage("boom", tool_call_id="c1", status="error")
        ada.append("s1", [human("ask"), asks("c1"), failed])
        shown = ada.messages("s1")[-1]
        assert isinstance(shown, ToolMessage)
        assert shown.status == "error"


class ContextSuite(StoreSuite):
    """What `context`, `turns` and `count` say of the same log."""

    def test_one_view(self, ada: SessionService) -> None:
        ada.append("s1", [SystemMessage("be kind"), *numbered(4)])
        ada.append("s1", [], state_delta={"a": 1})
        context = ada.context("s1")
        assert list(context.messages) == ada.messages("s1") == [event.message for event in context.events]
        assert context.tokens == sum(event.tokens for event in context.events)
        assert (context.version, context.branch, len(context)) == (6, None, 5)
        counted = ada.count("s1")
        assert counted == (5, 2, context.tokens)
        session = ada.get("s1")
        assert (session.message_count, session.turn_count, session.token_count) == counted

    def test_turns(self, ada: SessionService) -> None:
        """S8: what precedes the first question is a preamble."""
        ada.append("s1", [SystemMessage("be kind"), *numbered(3)])
        preamble, first, second = ada.turns("s1")
        assert (preamble.is_preamble, texts(preamble)) == (True, ["be kind"])
        assert (texts(first), texts(second), second.first_seq) == (["m1", "m2"], ["m3"], 4)

    def test_synthetic_questions_start_no_turn(self, ada: SessionService) -> None:
        """S7."""
        ada.append("s1", [human("m1"), NewEvent(message=human("made"), synthetic=True), ai("m3")])
        assert len(ada.turns("s1")) == ada.count("s1").turns == 1

    def test_an_empty_session(self, ada: SessionService) -> None:
        assert (ada.messages("s1"), ada.turns("s1"), ada.count("s1")) == ([], [], (0, 0, 0))
        assert ada.context("s1").version == 0

    @pytest.mark.parametrize("last_n", [0, -1, True, 1.5])
    def test_bad_windows(self, ada: SessionService, last_n: int) -> None:
        for call in (ada.messages, ada.context):
            with pytest.raises(InvalidInputError, match="last_n"):
                call("s1", last_n=last_n)
