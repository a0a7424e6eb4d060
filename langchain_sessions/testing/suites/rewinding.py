"""Going back: what came later is hidden, state is what it was, and a rewind can be rewound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import ToolMessage

from langchain_sessions.errors import EventNotFoundError, InvalidInputError
from langchain_sessions.events import EventKind, NewEvent, Standing
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.suites.base import StoreSuite, ai, asks, human, numbered, seqs, standings, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService


class RewindSuite(StoreSuite):
    """`rewind` and `undo_rewind`."""

    def test_state_replays_exactly(self, ada: SessionService) -> None:
        """A17."""
        ada.create("s2", state={"tenant": "T", "n": 0, "gone": 1})
        ada.append("s2", human("m1"), state_delta={"n": 1, "gone": None})
        ada.append("s2", human("m2"), state_delta={"n": 2, "new": 3, "tenant": None})
        ada.rewind("s2", to_seq=1)
        assert ada.state("s2") == {"tenant": "T", "n": 1}
        ada.rewind("s2", to_seq=0)
        assert ada.state("s2") == {"tenant": "T", "n": 0, "gone": 1}
        assert ada.verify("s2") == []

    def test_state_at_any_position(self, ada: SessionService) -> None:
        """By whatever ways it was left and come back to; of one type stays of one type, and large values are values."""
        ada.create("s2", state={"first": 1})
        deltas: list[dict[str, Any]] = [
            {"a": 1},
            {"a": True, "first": None},
            {"large": "x" * 3_000},
            {"large": None, "a": 1.0, "b": [1, {"c": None}]},
            {"b": None, "late": "yes"},
        ]
        was = [ada.state("s2")]
        for delta in deltas:
            ada.append("s2", [], state_delta=delta)
            was.append(ada.state("s2"))
        for at in (4, 0, 5, 2, 8, 1, 3, 9, 5):
            ada.rewind("s2", to_seq=at)
            was.append(ada.state("s2"))
            assert repr(sorted(was[-1].items())) == repr(sorted(was[at].items()))
        for number in range(3):
            ada.append("s2", [], state_delta={"again": number, "a": 2})
            before = ada.state("s2")
            ada.rewind("s2", to_seq=number)
            ada.undo_rewind("s2")
            assert ada.state("s2") == before
            assert ada.verify("s2") == []

    def test_before_an_invocation(self, ada: SessionService) -> None:
        """A18: none of its messages is in the next prompt, all are still in the log."""
        ada.append("s1", numbered(2), invocation_id="inv-1")
        run = [human("ask"), asks("c1"), ToolMessage("found", tool_call_id="c1"), ai("answer")]
        ada.append("s1", run, invocation_id="inv-2")
        done = ada.rewind("s1", before_invocation="inv-2")
        assert (done.to_seq, done.seq) == (2, 7)
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        assert texts(ada.events("s1")) == ["m1", "m2", "ask", "", "found", "answer"]
        assert standings(ada.events("s1")) == [Standing.LIVE] * 2 + [Standing.REWOUND] * 4
        assert ada.events("s1")[-1].kind is EventKind.REWIND

    def test_a_rewind_of_a_rewind(self, ada: SessionService) -> None:
        """A19."""
        ada.append("s1", numbered(4), state_delta={"n": 1})
        ada.append("s1", [], state_delta={"n": 2})
        before = (texts(ada.messages("s1")), ada.state("s1"), ada.count("s1"), ada.context("s1").tokens)
        done = ada.rewind("s1", to_seq=2)
        ada.append("s1", human("meanwhile"), state_delta={"n": 9})
        ada.rewind("s1", to_seq=done.seq - 1)
        assert (texts(ada.messages("s1")), ada.state("s1"), ada.count("s1"), ada.context("s1").tokens) == before
        assert ada.verify("s1") == []

    def test_undoing(self, ada: SessionService) -> None:
        """A19: rewinds can be taken back one by one."""
        ada.append("s1", numbered(6))
        ada.rewind("s1", to_seq=4)
        ada.rewind("s1", to_seq=2)
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        ada.undo_rewind("s1")
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3", "m4"]
        ada.undo_rewind("s1")
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3", "m4", "m5", "m6"]
        assert ada.verify("s1") == []

    def test_nothing_to_undo(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2))
        with pytest.raises(EventNotFoundError):
            ada.undo_rewind("s1")
        assert ada.get("s1").version == 2

    def test_the_log_goes_on(self, ada: SessionService) -> None:
        ada.append("s1", numbered(4))
        ada.rewind("s1", to_seq=2)
        ada.append("s1", [human("other"), ai("way")])
        assert texts(ada.messages("s1")) == ["m1", "m2", "other", "way"]
        assert seqs(ada.events("s1")) == list(range(1, 8))
        counted = ada.count("s1")
        assert (counted.events, counted.turns) == (4, 2)

    def test_a_rewound_id_may_be_appended_anew(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2"), NewEvent(id="e3", message=human("m3"))])
        ada.rewind("s1", to_seq=1)
        again = ada.append("s1", [ai("other", "2"), NewEvent(id="e3", message=human("other too"))])
        assert texts(ada.messages("s1")) == ["m1", "other", "other too"]
        assert [event.id for event in again] == ["2", "e3"]
        ada.rewind("s1", to_seq=1)
        ada.append("s1", ai("m2", "2"))
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        assert ada.verify("s1") == []

    def test_a_rewound_edit_uncovers_the_old_text(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2")])
        ada.edit("s1", human("new", "1"))
        ada.rewind("s1", to_seq=2)
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        ada.undo_rewind("s1")
        assert texts(ada.messages("s1")) == ["new", "m2"]

    def test_editing_again_after_a_rewound_edit(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2")])
        ada.edit("s1", human("new", "1"))
        ada.rewind("s1", to_seq=2)
        ada.edit("s1", human("newer", "1"))
        assert texts(ada.messages("s1")) == ["newer", "m2"]
        ada.undo_rewind("s1")
        assert texts(ada.messages("s1")) == ["new", "m2"]
        assert ada.verify("s1") == []

    def test_shared_keys_stay_and_are_named(self, ada: SessionService) -> None:
        """§ A rewind names what it did not revert."""
        ada.append("s1", human("m1"), state_delta={"user:a": 1, "own": 1})
        ada.append("s1", human("m2"), state_delta={"user:a": 2, "app:b": 2, "own": 2})
        done = ada.rewind("s1", to_seq=1)
        assert done.kept_keys == ("app:b", "user:a")
        assert ada.state("s1") == {"own": 1, "user:a": 2, "app:b": 2}

    def test_to_the_present_hides_nothing(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2), state_delta={"a": 1})
        ada.rewind("s1", to_seq=2)
        assert (texts(ada.messages("s1")), ada.state("s1")) == (["m1", "m2"], {"a": 1})

    def test_places_that_do_not_exist(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2), invocation_id="run")
        places: list[dict[str, Any]] = [{"to_seq": 3}, {"before_invocation": "other"}]
        for place in places:
            with pytest.raises(EventNotFoundError):
                ada.rewind("s1", **place)
        nonsense: list[dict[str, Any]] = [
            {},
            {"to_seq": -1},
            {"to_seq": True},
            {"to_seq": 1, "before_invocation": "run"},
        ]
        for bad in nonsense:
            with pytest.raises(InvalidInputError):
                ada.rewind("s1", **bad)
        assert ada.get("s1").version == 2

    def test_an_invocation_that_was_rewound_is_gone(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2), invocation_id="run")
        ada.rewind("s1", before_invocation="run")
        with pytest.raises(EventNotFoundError):
            ada.rewind("s1", before_invocation="run")
        ada.append("s1", human("again"), invocation_id="run")
        assert ada.rewind("s1", before_invocation="run").to_seq == 3

    def test_an_ended_session_can_be_rewound(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2))
        ada.end("s1")
        ada.rewind("s1", to_seq=1)
        assert texts(ada.messages("s1")) == ["m1"]
        assert ada.get("s1").is_ended


class ForkSuite(StoreSuite):
    """A fork copies the log up to a position."""

    def test_a_fork_goes_its_own_way(self, ada: SessionService) -> None:
        ada.update("s1", title="Talk", metadata={"k": 1})
        ada.append("s1", [human("m1", "1"), ai("m2", "2")], state_delta={"n": 1, "user:u": 1})
        ada.append("s1", [human("m3", "3")], state_delta={"n": 2})
        fork = ada.fork("s1", at_seq=2, new_id="s2")
        assert (fork.id, fork.user_id, fork.title, fork.version) == ("s2", "ada", "Talk", 2)
        assert dict(fork.metadata) == {"k": 1, "forked_from": "s1"}
        ada.append("s2", [ai("other", "3")])
        assert texts(ada.messages("s2")) == ["m1", "m2", "other"]
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3"]
        assert (ada.state("s1")["n"], ada.state("s2")["n"]) == (2, 1)
        assert ada.verify("s2") == ada.verify("s1") == []

    def test_a_fork_stands_as_its_source_did(self, ada: SessionService) -> None:
        """Before a rewind, an edit and a compaction, and after them."""
        ada.append("s1", [human("m1", "1"), ai("m2"), human("m3"), ai("m4")], state_delta={"n": 1})
        ada.edit("s1", human("new", "1"))
        ada.rewind("s1", to_seq=3)
        base = ada.context("s1")
        archive(ada, "s1", [1, 2], base=base, summary=[NewEvent(message=ai("sum"))])
        ada.append("s1", human("tail"), branch="orch")
        wanted = {4: ["m1", "m2", "m3", "m4"], 5: ["new", "m2", "m3", "m4"], 6: ["m1", "m2", "m3"]}
        for at, expected in {**wanted, 8: ["sum", "m3"]}.items():
            fork = ada.fork("s1", at_seq=at)
            assert texts(ada.messages(fork.id)) == expected
            assert ada.count(fork.id).events == len(expected)
            assert ada.verify(fork.id) == []
        whole = ada.fork("s1")
        assert texts(ada.messages(whole.id, branch="orch")) == ["sum", "m3", "tail"]
        assert ada.count(whole.id, branch="orch") == ada.count("s1", branch="orch")

    def test_scoped_state_is_shared(self, ada: SessionService) -> None:
        ada.append("s1", [], state_delta={"user:u": 1, "app:a": 1})
        ada.append("s1", [], state_delta={"user:u": 2})
        fork = ada.fork("s1", at_seq=1)
        assert ada.state(fork.id) == {"user:u": 2, "app:a": 1}

    def test_bad_places(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2))
        with pytest.raises(EventNotFoundError):
            ada.fork("s1", at_seq=3)
        assert ada.fork("s1", at_seq=0).version == 0
        with pytest.raises(ValueError, match="taken"):
            ada.fork("s1", new_id="s1")
        assert len(ada.list_sessions().items) == 2
