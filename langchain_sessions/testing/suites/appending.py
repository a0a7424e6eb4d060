"""The log: order, identity of events and messages, edits, versions, and batches that are all or nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessageChunk

from langchain_sessions.errors import (
    EventConflictError,
    EventNotFoundError,
    InvalidInputError,
    SessionNotFoundError,
    StaleSessionError,
)
from langchain_sessions.events import EventKind, NewEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.suites.base import StoreSuite, ai, human, numbered, seqs, snapshot, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService
    from langchain_sessions.testing.faces import SettableClock


class OrderSuite(StoreSuite):
    """Positions are 1, 2, 3 … without a gap, and nothing but they is an order."""

    def test_positions_are_dense_and_returned(self, ada: SessionService) -> None:
        first = ada.append("s1", numbered(3))
        second = ada.append("s1", human("m4"))
        assert seqs(first) + seqs(second) == [1, 2, 3, 4]
        assert ada.get("s1").version == 4
        assert texts(ada.events("s1")) == ["m1", "m2", "m3", "m4"]

    def test_equal_instants_keep_the_order_of_appends(self, ada: SessionService) -> None:
        """A2, T01."""
        for start in range(0, 200, 50):
            ada.append("s1", numbered(50, start + 1))
        assert texts(ada.events("s1")) == [f"m{n}" for n in range(1, 201)]
        assert len({event.timestamp for event in ada.events("s1")}) == 1

    def test_a_clock_that_steps_back_changes_no_order(self, ada: SessionService, clock: SettableClock) -> None:
        """A10: clocks are data."""
        ada.append("s1", human("m1"))
        clock.moment -= timedelta(hours=3)
        ada.append("s1", ai("m2"))
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        assert texts(ada.events("s1", EventFilter(last_n=1))) == ["m2"]

    def test_the_newest_come_back_oldest_first(self, ada: SessionService) -> None:
        """A3."""
        ada.append("s1", numbered(6))
        assert texts(ada.events("s1", EventFilter(last_n=2))) == ["m5", "m6"]
        assert texts(ada.messages("s1", last_n=2)) == ["m5", "m6"]

    def test_what_is_returned_is_what_is_read(self, ada: SessionService) -> None:
        given = ada.append(
            "s1", [human("m1"), ai("m2")], author="Ada", branch="orch", invocation_id="run", metadata={"k": [1]}
        )
        assert given == list(ada.events("s1"))
        assert [event.timestamp for event in given] == [ada.get("s1").updated_at] * 2

    def test_an_empty_append_changes_nothing(self, ada: SessionService) -> None:
        before = snapshot(ada, "s1")
        assert ada.append("s1", []) == []
        assert snapshot(ada, "s1") == before

    def test_streaming_chunks_are_never_stored(self, ada: SessionService) -> None:
        """A14."""
        partial = NewEvent(message=AIMessageChunk(content="he"), state_delta={"a": 1}, partial=True)
        assert ada.append("s1", partial) == []
        assert ada.get("s1").version == 0
        assert ada.state("s1") == {}

    def test_a_session_must_exist(self, ada: SessionService) -> None:
        for append in ([], [human("m1")]):
            with pytest.raises(SessionNotFoundError):
                ada.append("nowhere", append)


class IdentitySuite(StoreSuite):
    """An event id names an append, a message id a message."""

    def test_a_message_id_is_stored_once(self, ada: SessionService) -> None:
        """A11, S15: same id, same message: nothing changes, the stored event comes back."""
        [stored] = ada.append("s1", human("m1", "h1"))
        before = snapshot(ada, "s1")
        assert ada.append("s1", human("m1", "h1")) == [stored]
        assert snapshot(ada, "s1") == before

    def test_an_event_id_is_stored_once(self, ada: SessionService) -> None:
        """A11, S15."""
        [stored] = ada.append("s1", NewEvent(id="e1", message=human("m1")))
        assert ada.append("s1", NewEvent(id="e1", message=human("m1"))) == [stored]
        assert ada.get("s1").version == 1
        assert stored.id == "e1"

    def test_author_branch_and_metadata_are_not_compared(self, ada: SessionService) -> None:
        [stored] = ada.append("s1", human("m1", "h1"), author="Ada", metadata={"a": 1})
        assert ada.append("s1", human("m1", "h1"), author="saver", branch="orch") == [stored]

    @pytest.mark.parametrize("message_id", [None, "h1"])
    def test_another_body_under_one_event_id_is_a_conflict(self, ada: SessionService, message_id: str | None) -> None:
        """A12, C04: the library's own error, and the first content stays."""
        ada.append("s1", NewEvent(id="e1", message=human("m1", message_id)))
        before = snapshot(ada, "s1")
        with pytest.raises(EventConflictError, match="e1"):
            ada.append("s1", NewEvent(id="e1", message=human("other", message_id)))
        with pytest.raises(EventConflictError):
            ada.append("s1", [human("new"), NewEvent(id="e1", message=ai("m1", message_id))])
        assert snapshot(ada, "s1") == before

    def test_one_message_under_two_event_ids_is_one_event(self, ada: SessionService) -> None:
        [first] = ada.append("s1", NewEvent(id="e1", message=human("m1", "h1")))
        assert ada.append("s1", NewEvent(id="e2", message=human("m1", "h1"))) == [first]
        assert ada.get("s1").version == 1

    def test_one_id_in_two_sessions_is_two_events(self, ada: SessionService) -> None:
        """S15: an id is unique in its session, not beyond."""
        ada.create("s2")
        for session_id in ("s1", "s2"):
            ada.append(session_id, [human("m1", "h1"), NewEvent(id="e1", message=ai("m2"))])
        assert texts(ada.messages("s1")) == texts(ada.messages("s2")) == ["m1", "m2"]

    def test_a_word_said_twice_is_two_events(self, ada: SessionService) -> None:
        """S17: "yes" in two runs, and without any run."""
        for run in ("run-1", "run-2"):
            ada.append("s1", human("yes"), invocation_id=run)
        ada.append("s1", human("yes"))
        ada.append("s1", [human("yes"), human("yes")])
        assert texts(ada.messages("s1")) == ["yes"] * 5

    def test_a_retry_of_one_run_stores_nothing_twice(self, ada: SessionService) -> None:
        """S17."""
        stored = ada.append("s1", [human("yes"), ai("sure")], invocation_id="run-1")
        assert ada.append("s1", [human("yes"), ai("sure")], invocation_id="run-1") == stored
        assert texts(ada.events("s1")) == ["yes", "sure"]

    def test_a_batch_may_repeat_and_go_on(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2")])
        again = ada.append("s1", [human("m1", "1"), ai("m2", "2"), human("m3", "3")])
        assert seqs(again) == [1, 2, 3]
        assert ada.get("s1").version == 3

    def test_a_batch_may_hold_one_message_twice(self, ada: SessionService) -> None:
        stored = ada.append("s1", [human("m1", "1"), human("m1", "1")])
        assert seqs(stored) == [1, 1]
        assert ada.get("s1").version == 1

    def test_ids_differ_by_every_character(self, ada: SessionService) -> None:
        """Look-alike ids are different, whatever the server's default collation."""
        ids = ["id", "ID", "id ", "íd", "i\u0307d", "ıd", "İD", "id\u200b", "ｉｄ", "іd", "id%", "id_", "ss", "ß"]
        for name in ids:
            ada.append("s1", human(f"text of {name}", name))
        assert [event.id for event in ada.events("s1")] == ids
        for name in ids:
            ada.append("s1", human(f"text of {name}", name))
        assert ada.get("s1").version == len(ids)

    @pytest.mark.parametrize("message_id", ["x" * 5000, "a\0b", "half \ud83d", "lots 🦜 " * 60, ""])
    def test_odd_message_ids_come_back(self, ada: SessionService, message_id: str) -> None:
        """S16: whatever a provider calls its message."""
        stored = ada.append("s1", [human("m1", message_id), ai("m2")])
        assert ada.append("s1", human("m1", message_id)) == stored[:1]
        assert [message.id for message in ada.messages("s1")] == [message_id, None]

    def test_ids_that_share_a_long_beginning_differ(self, ada: SessionService) -> None:
        """S16: ids are not cut."""
        ids = ["call-" * 80 + str(at) for at in range(20)]
        ada.append("s1", [human(name[-8:], name) for name in ids])
        assert [message.id for message in ada.messages("s1")] == ids

    def test_a_caller_may_change_what_it_gave_and_got(self, ada: SessionService) -> None:
        """M09."""
        message, metadata = human("m1", "1"), {"list": [1]}
        [given] = ada.append("s1", message, metadata=metadata)
        message.content = "changed"
        metadata["list"].append(2)
        assert given.message is not None
        given.message.content = "changed too"
        got: Any = ada.events("s1")[0]
        got.message.content, got.metadata["list"][0] = "changed by a reader", 9
        [stored] = ada.events("s1")
        assert (texts([stored]), dict(stored.metadata)) == (["m1"], {"list": [1]})


class EditSuite(StoreSuite):
    """A message has one current event; an edit supersedes and takes its place."""

    def test_an_edit_takes_the_place(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2"), human("m3", "3")])
        edited = ada.edit("s1", ai("better", "2"), author="Ada")
        assert texts(ada.messages("s1")) == ["m1", "better", "m3"]
        assert (edited.seq, edited.position, edited.revision, edited.author) == (4, 2, 1, "Ada")
        old = ada.events("s1")[1]
        assert (old.standing, old.superseded_by) == (Standing.SUPERSEDED, 4)
        assert texts(ada.events("s1")) == ["m1", "m2", "m3", "better"]
        assert ada.verify("s1") == []

    def test_edits_of_an_edit(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2")])
        for text in ("a", "b", "c"):
            ada.edit("s1", human(text, "1"))
        assert texts(ada.messages("s1")) == ["c", "m2"]
        assert ada.count("s1").events == 2
        assert [event.standing for event in ada.events("s1")].count(Standing.SUPERSEDED) == 3

    def test_an_append_of_a_changed_message_is_an_edit(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2", "2")])
        [edited] = ada.append("s1", NewEvent(id="another", message=human("new", "1")))
        assert (edited.position, texts(ada.messages("s1"))) == (1, ["new", "m2"])

    def test_an_edit_to_the_same_changes_nothing(self, ada: SessionService) -> None:
        [stored] = ada.append("s1", human("m1", "1"))
        assert ada.edit("s1", human("m1", "1")) == stored
        assert ada.get("s1").version == 1

    def test_only_what_stands_is_edited(self, ada: SessionService) -> None:
        ada.append("s1", human("m1", "1"))
        before = snapshot(ada, "s1")
        with pytest.raises(EventNotFoundError):
            ada.edit("s1", human("new", "2"))
        with pytest.raises(InvalidInputError, match="message"):
            ada.edit("s1", human("new"))
        assert snapshot(ada, "s1") == before
        ada.rewind("s1", to_seq=0)
        with pytest.raises(EventNotFoundError):
            ada.edit("s1", human("new", "1"))

    def test_an_edit_keeps_the_branch(self, ada: SessionService) -> None:
        ada.append("s1", human("m1", "1"), branch="orch")
        ada.edit("s1", human("new", "1"))
        assert texts(ada.messages("s1")) == []
        assert texts(ada.messages("s1", branch="orch")) == ["new"]
        assert ada.count("s1", branch="orch").events == 1

    def test_counters_follow_an_edit(self, ada: SessionService) -> None:
        ada.append("s1", [human("short", "1"), ai("m2")])
        before = ada.count("s1")
        ada.edit("s1", human("a much longer text than before", "1"))
        after = ada.count("s1")
        assert (after.events, after.turns) == (before.events, before.turns)
        assert after.tokens == ada.context("s1").tokens > before.tokens


class VersionSuite(StoreSuite):
    """`expected_version`, and all or nothing."""

    def test_a_stale_writer_is_told(self, ada: SessionService) -> None:
        """A9."""
        ada.append("s1", numbered(5), expected_version=0)
        ada.append("s1", human("m6"))
        before = snapshot(ada, "s1")
        with pytest.raises(StaleSessionError) as caught:
            ada.append("s1", human("late"), expected_version=5)
        assert (caught.value.expected, caught.value.actual) == (5, 6)
        with pytest.raises(StaleSessionError):
            ada.append("s1", [], state_delta={"a": 1}, expected_version=5)
        assert snapshot(ada, "s1") == before
        ada.append("s1", human("m7"), expected_version=6)
        assert ada.get("s1").version == 7

    def test_every_change_of_the_log_moves_the_version(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2")])
        versions = [ada.get("s1").version]
        steps = (
            lambda: ada.append("s1", [], state_delta={"a": 1}),
            lambda: ada.edit("s1", human("new", "1")),
            lambda: ada.rewind("s1", to_seq=2),
            lambda: ada.undo_rewind("s1"),
            lambda: ada.end("s1"),
            lambda: ada.reopen("s1"),
        )
        for step in steps:
            step()
            versions.append(ada.get("s1").version)
        assert versions == list(range(2, 9))
        assert seqs(ada.events("s1")) == list(range(1, 9))

    def test_a_bad_item_stores_none_of_a_batch(self, ada: SessionService) -> None:
        """S40."""
        ada.append("s1", numbered(2))
        before = snapshot(ada, "s1")
        bad: list[Any] = [human("a"), human("b"), NewEvent(message=ai("c"), metadata={"x": {1, 2}})]
        with pytest.raises(InvalidInputError, match="metadata"):
            ada.append("s1", bad)
        with pytest.raises(InvalidInputError, match="messages"):
            ada.append("s1", [human("a"), "not a message"])  # type: ignore[list-item]
        assert snapshot(ada, "s1") == before
        ada.append("s1", human("m3"))
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3"]

    def test_many_at_once(self, ada: SessionService) -> None:
        ada.append("s1", numbered(450))
        ada.append("s1", [human(f"x{n}", f"x{n}") for n in range(450)])
        assert seqs(ada.append("s1", [human(f"x{n}", f"x{n}") for n in range(450)])) == list(range(451, 901))
        ada.append("s1", numbered(70, 901), branch="orch", invocation_id="run")
        assert ada.get("s1").version == 970
        assert (ada.count("s1").events, ada.count("s1", branch="orch").events) == (900, 70)
        assert ada.verify("s1") == []

    def test_records_have_no_message(self, ada: SessionService) -> None:
        ada.append("s1", [], state_delta={"a": 1})
        ada.append("s1", human("m2"))
        ada.rewind("s1", to_seq=1)
        kinds = [event.kind for event in ada.events("s1")]
        assert kinds == [EventKind.STATE, EventKind.MESSAGE, EventKind.REWIND]
        assert [event.message is None for event in ada.events("s1")] == [True, False, True]
        assert texts(ada.messages("s1")) == []
