"""Runs of a model over a session: open, done, failed, interrupted."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from langchain_sessions.errors import InvalidInputError, SessionNotFoundError
from langchain_sessions.events import EventKind, InvocationStatus, NewEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.suites.base import MakeService, StoreSuite, ai, human, standings, texts

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from langchain_sessions.service import SessionService
    from langchain_sessions.testing.faces import SettableClock


class InvocationSuite(StoreSuite):
    """A context leaves out other runs that are open or failed."""

    def test_a_run_shows_when_it_is_done(self, ada: SessionService) -> None:
        with ada.invocation("s1") as run:
            run.append(human("question"))
            assert texts(ada.messages("s1")) == []
            assert texts(run.context().messages) == ["question"]
            run.append(ai("answer"))
        assert texts(ada.messages("s1")) == ["question", "answer"]
        assert {event.invocation_id for event in ada.events("s1")} == {run.id}
        assert ada.verify("s1") == []

    def test_two_tabs(self, ada: SessionService) -> None:
        """§ Two runs at once do not see each other's half turns."""
        with ada.invocation("s1") as one, ada.invocation("s1") as two:
            one.append(human("one"))
            two.append(human("two"))
            assert texts(one.context().messages) == ["one"]
            assert texts(two.context().messages) == ["two"]
            one.append(ai("answer one"))
        # Once both are done, the log keeps the order of what happened, and a view whole turns.
        assert texts(ada.events("s1")) == ["one", "two", "answer one"]
        assert texts(ada.messages("s1")) == ["one", "answer one", "two"]

    def test_two_tabs_at_once_read_one_after_the_other(self, ada: SessionService) -> None:
        """The log keeps the order of what happened, every view of it whole turns, where each began."""
        ada.append("s1", human("zero"))
        with ada.invocation("s1") as one, ada.invocation("s1") as two:
            one.append(human("one"))
            two.append(human("two"))
            one.append(ai("one!"))
            two.append(ai("two!"))
        told = ["zero", "one", "one!", "two", "two!"]
        context = ada.context("s1")
        assert texts(ada.messages("s1")) == texts(context.messages) == texts(context.events) == told
        assert [len(turn.events) for turn in ada.turns("s1")] == [1, 2, 2]
        assert texts(ada.events("s1", EventFilter.active())) == ["zero", "one", "two", "one!", "two!"]
        # A window is made of the newest, whatever run they belong to.
        assert texts(ada.messages("s1", last_n=3)) == ["two", "two!", "one!"]

    def test_a_failed_run_stays_out(self, ada: SessionService) -> None:
        """S34: the failed turn is marked and not replayed as unanswered."""
        with pytest.raises(RuntimeError), ada.invocation("s1") as run:  # noqa: PT012 - the block is the run
            run.append(human("question"), state_delta={"a": 1})
            raise RuntimeError
        assert texts(ada.messages("s1")) == []
        assert standings(ada.events("s1")) == [Standing.FAILED]
        assert ada.count("s1").events == 0
        assert texts(ada.events("s1", EventFilter(standings=frozenset({Standing.FAILED})))) == ["question"]

    def test_a_retry_of_a_failed_run(self, ada: SessionService) -> None:
        """S34: a retry does not duplicate."""
        with pytest.raises(RuntimeError), ada.invocation("s1", "run") as run:  # noqa: PT012 - the block is the run
            run.append(human("question"))
            raise RuntimeError
        with ada.invocation("s1", "run") as run:
            run.append([human("question"), ai("answer")])
        assert texts(ada.messages("s1")) == ["question", "answer"]
        assert ada.count("s1").events == 2
        assert ada.verify("s1") == []

    def test_a_cancelled_run_is_interrupted(self, ada: SessionService) -> None:
        """S35: what there is stays and is marked."""
        with pytest.raises(KeyboardInterrupt), ada.invocation("s1") as run:  # noqa: PT012 - the block is the run
            run.append([human("question"), ai("half")])
            raise KeyboardInterrupt
        assert texts(ada.messages("s1")) == ["question", "half"]
        assert standings(ada.events("s1")) == [Standing.INTERRUPTED] * 2

    def test_open_and_idle_counts_as_failed(self, ada: SessionService, clock: SettableClock) -> None:
        """§ kill -9 before the mark."""
        ada.append("s1", human("question"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
        assert standings(ada.events("s1")) == [Standing.OPEN]
        clock.advance(minutes=14)
        ada.append("s1", ai("still at it"), invocation_id="run")
        clock.advance(minutes=14)
        assert standings(ada.events("s1")) == [Standing.OPEN] * 2
        clock.advance(minutes=2)
        assert standings(ada.events("s1")) == [Standing.FAILED] * 2
        assert texts(ada.messages("s1")) == []
        ada.append("s1", ai("late"), invocation_id="run", invocation_status=InvocationStatus.DONE)
        assert texts(ada.messages("s1")) == ["question", "still at it", "late"]
        assert ada.verify("s1") == []

    def test_a_run_that_goes_on_after_all_counts_whole(self, ada: SessionService, clock: SettableClock) -> None:
        """It was idle for too long, but what it says then is counted like what it said before."""
        ada.append("s1", human("question"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
        clock.advance(minutes=16)
        ada.append("s1", ai("late"), invocation_id="run", state_delta={"k": 1})
        assert standings(ada.events("s1")) == [Standing.OPEN] * 2
        assert ada.count("s1").events == 2
        assert ada.verify("s1") == []

    def test_the_limit_is_the_services(
        self, ada: SessionService, make_service: MakeService, clock: SettableClock
    ) -> None:
        quick = make_service(invocation_timeout=timedelta(seconds=5)).as_user("ada")
        ada.append("s1", human("question"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
        clock.advance(seconds=6)
        assert standings(ada.events("s1")) == [Standing.OPEN]
        assert standings(quick.events("s1")) == [Standing.FAILED]

    def test_an_append_tells_where_its_events_stand(self, ada: SessionService) -> None:
        """What is appended to a run is told as it is read afterwards, whatever was said of the run, and in between."""
        for branch in (None, "writer"):
            for status in (None, *InvocationStatus):
                run = f"{branch} {status}"
                for at, now in enumerate((status, None, InvocationStatus.OPEN, None, InvocationStatus.DONE, None)):
                    several: list[BaseMessage | NewEvent] = [ai(f"a{at}"), NewEvent(state_delta={"n": 1})]
                    for given in ([human(f"q{at}")], several):
                        told = ada.append("s1", given, invocation_id=run, invocation_status=now, branch=branch)
                        assert told == list(ada.events("s1", EventFilter(after_seq=told[0].seq - 1)))
        assert ada.verify("s1") == []

    def test_every_status_reads_back(self, ada: SessionService) -> None:
        shown = {}
        for status in InvocationStatus:
            run = status.value
            ada.append("s1", human(run), invocation_id=run, invocation_status=status)
            shown[run] = standings(ada.events("s1", EventFilter(invocation_id=run)))
        assert shown == {
            "open": [Standing.OPEN],
            "done": [Standing.LIVE],
            "failed": [Standing.FAILED],
            "interrupted": [Standing.INTERRUPTED],
        }
        assert texts(ada.messages("s1")) == ["done", "interrupted"]
        assert texts(ada.messages("s1", invocation_id="open")) == ["open", "done", "interrupted"]
        assert texts(ada.messages("s1", invocation_id="failed")) == ["done", "failed", "interrupted"]
        assert ada.verify("s1") == []

    def test_marks_without_messages(self, ada: SessionService) -> None:
        ada.append("s1", human("m1"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
        [mark] = ada.append("s1", [], invocation_id="run", invocation_status=InvocationStatus.FAILED)
        assert (mark.kind, mark.message) == (EventKind.INVOCATION, None)
        assert texts(ada.messages("s1")) == []
        ada.append("s1", [], invocation_id="run", invocation_status=InvocationStatus.DONE)
        assert texts(ada.messages("s1")) == ["m1"]
        assert ada.count("s1").events == 1

    def test_temp_state_lives_in_the_run(self, ada: SessionService) -> None:
        """A15."""
        with ada.invocation("s1") as run:
            run.state["temp:step"] = 1
            run.state["n"] = 1
            run.append(human("m1"))
            run.state["temp:step"] = 2
            run.state["n"] = 2
            run.append(ai("m2"))
            assert run.state == {"temp:step": 2, "n": 2}
        deltas = [dict(event.state_delta) for event in ada.events("s1") if event.message is not None]
        assert deltas == [{"n": 1}, {"n": 2}]
        assert ada.state("s1") == {"n": 2}

    def test_state_changed_last_is_stored_at_the_end(self, ada: SessionService) -> None:
        with ada.invocation("s1") as run:
            run.append(human("m1"))
            run.state["n"] = 5
        assert ada.state("s1") == {"n": 5}
        assert texts(ada.messages("s1")) == ["m1"]

    def test_a_run_speaks_for_its_branch(self, ada: SessionService) -> None:
        """S21."""
        with ada.invocation("s1", branch="orch.writer", author="writer") as run:
            run.append([human("write"), ai("written")])
        events = [event for event in ada.events("s1") if event.message is not None]
        assert {(event.branch, event.author) for event in events} == {("orch.writer", "writer")}
        assert texts(ada.messages("s1", branch="orch.reader")) == []
        assert texts(ada.messages("s1", branch="orch.writer")) == ["write", "written"]

    def test_rewinding_an_open_run(self, ada: SessionService) -> None:
        ada.append("s1", human("m1"))
        ada.append("s1", human("open"), invocation_id="run", invocation_status=InvocationStatus.OPEN)
        ada.rewind("s1", before_invocation="run")
        assert texts(ada.messages("s1")) == ["m1"]
        assert ada.count("s1").events == 1
        assert ada.verify("s1") == []

    def test_a_run_of_a_question_begins_with_it(self, ada: SessionService) -> None:
        """What says how it got on before it was asked would leave the append and the reads of another mind."""
        for status in InvocationStatus:
            with pytest.raises(InvalidInputError, match="turn:q"):
                ada.append("s1", ai("m1"), invocation_id="turn:q", invocation_status=status)
        assert ada.get("s1").version == 0
        [asked] = ada.append("s1", human("question", "q"))
        assert asked.standing is Standing.LIVE
        ada.append("s1", [], invocation_id="turn:q", invocation_status=InvocationStatus.FAILED)
        assert texts(ada.messages("s1")) == []
        assert ada.verify("s1") == []

    def test_misuse(self, ada: SessionService) -> None:
        with pytest.raises(InvalidInputError, match="invocation_status"):
            ada.append("s1", human("m1"), invocation_status=InvocationStatus.OPEN)
        with pytest.raises(InvalidInputError, match="invocation_id"):
            ada.invocation("s1", " ")
        with pytest.raises(SessionNotFoundError), ada.invocation("nowhere") as run:
            run.append(human("m1"))
        assert ada.get("s1").version == 0
