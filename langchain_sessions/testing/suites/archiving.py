"""Compaction's commit: a compare-and-set on its own range, and what stands after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.events import EventKind, NewEvent, SessionEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.suites.base import StoreSuite, ai, human, numbered, standings, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService


def summary(text: str) -> list[NewEvent]:
    """A shadow question and the summary as its answer."""
    return [NewEvent(message=human("so far?")), NewEvent(message=ai(text))]


class ArchiveSuite(StoreSuite):
    """`archive` moves events out of the context and keeps them in the log."""

    @pytest.fixture
    def long(self, ada: SessionService) -> SessionService:
        """Ada's service with `m1` … `m6` in `s1`."""
        ada.append("s1", numbered(6))
        return ada

    def archived(self, service: SessionService, first: int, last: int, text: str = "sum") -> list[SessionEvent]:
        """Archive what stands between two positions under a summary."""
        base = service.context("s1")
        covered = [event.seq for event in base.events if first <= event.seq <= last and not event.is_synthetic]
        done = archive(service, "s1", covered, base=base, summary=summary(text))
        assert done is not None
        return done

    def by_text(self, service: SessionService) -> dict[str, Standing]:
        """Where each message stands."""
        events = service.events("s1").items
        return dict(zip(texts(events), standings(events), strict=True))

    def test_the_summary_takes_the_place(self, long: SessionService) -> None:
        """S1, A21: the log is whole, the context is short."""
        done = self.archived(long, 1, 4)
        assert texts(long.messages("s1")) == ["so far?", "sum", "m5", "m6"]
        assert [event.kind for event in done] == [EventKind.COMPACTION, EventKind.MESSAGE, EventKind.MESSAGE]
        assert {event.position for event in done[1:]} == {1}
        assert all(event.covers == ((1, 4),) for event in done)
        assert all(event.is_synthetic for event in done[1:])
        events = long.events("s1")
        assert standings(events) == [Standing.ARCHIVED] * 4 + [Standing.LIVE] * 4
        assert {event.archived_by for event in events[:4]} == {done[0].seq}
        assert long.verify("s1") == []

    def test_archived_text_is_found(self, long: SessionService) -> None:
        """S1, X12: recall of what was archived, until deleted."""
        self.archived(long, 1, 4)
        assert texts(long.events("s1", EventFilter(keyword="M2"))) == ["m2"]
        assert texts(long.events("s1", EventFilter(keyword="m2", archived=False))) == []
        assert texts(long.events("s1", EventFilter(standings=frozenset({Standing.ARCHIVED})))) == [
            "m1",
            "m2",
            "m3",
            "m4",
        ]

    def test_counters_follow(self, long: SessionService) -> None:
        self.archived(long, 1, 4)
        counted, context = long.count("s1"), long.context("s1")
        assert (counted.events, counted.tokens) == (len(context.events), context.tokens)
        assert counted.turns == 1
        assert long.get("s1").message_count == 4

    def test_a_second_summary_replaces_the_first(self, long: SessionService) -> None:
        """S2, A23: both stay in the log, each names what it covers; one is in the prompt."""
        first = self.archived(long, 1, 2, "first")
        long.append("s1", numbered(2, 7))
        second = self.archived(long, 3, 4, "second")
        assert texts(long.messages("s1")) == ["so far?", "second", "m5", "m6", "m7", "m8"]
        assert first[-1].covers == ((1, 2),)
        assert second[-1].covers == ((1, 4),)
        made = [event for event in long.events("s1") if event.is_synthetic]
        assert standings(made) == [Standing.ARCHIVED] * 2 + [Standing.LIVE] * 2
        assert long.verify("s1") == []

    def test_appends_meanwhile_stay(self, long: SessionService) -> None:
        """S13, A28: they are live and behind the summary."""
        base = long.context("s1")
        long.append("s1", numbered(2, 7))
        assert archive(long, "s1", [1, 2, 3, 4], base=base, summary=summary("sum")) is not None
        assert texts(long.messages("s1")) == ["so far?", "sum", "m5", "m6", "m7", "m8"]
        assert long.verify("s1") == []

    def test_of_two_archivers_one_gets_through(self, long: SessionService) -> None:
        """S14, C06."""
        base = long.context("s1")
        outcomes = [archive(long, "s1", [1, 2], base=base, summary=summary(f"{n}")) for n in range(8)]
        assert [outcome is not None for outcome in outcomes] == [True] + [False] * 7
        assert texts(long.messages("s1"))[:2] == ["so far?", "0"]

    @pytest.mark.parametrize(
        "meanwhile",
        [
            lambda s: s.rewind("s1", to_seq=3),
            lambda s: s.edit("s1", human("new", "3")),
        ],
        ids=["rewind", "edit"],
    )
    def test_a_touched_range_is_not_archived(
        self, ada: SessionService, meanwhile: Callable[[SessionService], Any]
    ) -> None:
        """S11: the compare-and-set says no, and nothing was changed."""
        ada.append("s1", [human(f"m{n}", f"{n}") for n in range(1, 7)])
        base = ada.context("s1")
        meanwhile(ada)
        version, shown = ada.get("s1").version, texts(ada.messages("s1"))
        assert archive(ada, "s1", [1, 2, 3, 4], base=base, summary=summary("sum")) is None
        assert (ada.get("s1").version, texts(ada.messages("s1"))) == (version, shown)

    def test_a_rewind_beyond_the_range_does_not_matter(self, long: SessionService) -> None:
        base = long.context("s1")
        long.rewind("s1", to_seq=5)
        assert archive(long, "s1", [1, 2, 3, 4], base=base, summary=summary("sum")) is not None
        assert texts(long.messages("s1")) == ["so far?", "sum", "m5"]

    def test_a_rewind_into_the_range_restores_it(self, long: SessionService) -> None:
        """§ A compaction is in force iff none of its covered events is rewound."""
        self.archived(long, 1, 4)
        long.rewind("s1", to_seq=3)
        assert texts(long.messages("s1")) == ["m1", "m2", "m3"]
        counted = long.count("s1")
        assert (counted.events, counted.turns) == (3, 2)
        long.undo_rewind("s1")
        assert texts(long.messages("s1")) == ["so far?", "sum", "m5", "m6"]
        assert long.verify("s1") == []

    def test_a_rewind_behind_the_range_keeps_it(self, long: SessionService) -> None:
        self.archived(long, 1, 4)
        long.append("s1", human("m7"))
        long.rewind("s1", to_seq=5)
        assert texts(long.messages("s1")) == ["so far?", "sum", "m5"]
        assert long.verify("s1") == []

    def test_an_earlier_narrower_one_comes_back(self, long: SessionService) -> None:
        """§ Per scope the widest in force wins."""
        self.archived(long, 1, 2, "first")
        self.archived(long, 3, 4, "second")
        long.rewind("s1", to_seq=3)
        assert texts(long.messages("s1")) == ["so far?", "first", "m3"]
        long.undo_rewind("s1")
        assert texts(long.messages("s1")) == ["so far?", "second", "m5", "m6"]
        assert long.verify("s1") == []

    def test_without_a_summary(self, long: SessionService) -> None:
        """A window strategy archives and says nothing; a summary in force stays."""
        assert archive(long, "s1", [1, 2], base=long.context("s1")) is not None
        assert texts(long.messages("s1")) == ["m3", "m4", "m5", "m6"]
        self.archived(long, 3, 4)
        assert archive(long, "s1", [5], base=long.context("s1")) is not None
        assert texts(long.messages("s1")) == ["so far?", "sum", "m6"]
        assert long.verify("s1") == []

    def test_holes_stay_in_place(self, long: SessionService) -> None:
        """What is not covered stays where it stood, between summary and window."""
        base = long.context("s1")
        assert archive(long, "s1", [1, 2, 5], base=base, summary=summary("sum")) is not None
        assert texts(long.messages("s1")) == ["so far?", "sum", "m3", "m4", "m6"]
        assert archive(long, "s1", [3], base=long.context("s1"), summary=summary("more")) is not None
        assert texts(long.messages("s1")) == ["so far?", "more", "m4", "m6"]
        assert long.count("s1").events == 4
        assert long.verify("s1") == []

    def test_an_edit_of_what_is_archived(self, ada: SessionService) -> None:
        ada.append("s1", [human(f"m{n}", f"{n}") for n in range(1, 5)])
        self.archived(ada, 1, 2)
        ada.edit("s1", human("new", "1"))
        ada.edit("s1", human("newer", "4"))
        assert texts(ada.messages("s1")) == ["so far?", "sum", "m3", "newer"]
        assert ada.verify("s1") == []

    def test_an_edited_message_is_archived_with_its_place(self, ada: SessionService) -> None:
        ada.append("s1", [human(f"m{n}", f"{n}") for n in range(1, 5)])
        ada.edit("s1", human("new", "1"))
        base = ada.context("s1")
        assert texts(base.messages) == ["new", "m2", "m3", "m4"]
        assert archive(ada, "s1", [5, 2], base=base, summary=summary("sum")) is not None
        assert texts(ada.messages("s1")) == ["so far?", "sum", "m3", "m4"]
        ada.append("s1", human("m5"))
        assert texts(ada.messages("s1")) == ["so far?", "sum", "m3", "m4", "m5"]
        assert ada.verify("s1") == []

    def test_what_was_left_out_stays_left_out(self, ada: SessionService) -> None:
        """An edit of a hole is live, and so is its original when the edit is rewound."""
        ada.append("s1", [human("m1", "1"), ai("m2"), human("m3")])
        assert archive(ada, "s1", [2], base=ada.context("s1"), summary=[NewEvent(message=ai("sum"))]) is not None
        ada.edit("s1", human("new", "1"))
        assert texts(ada.messages("s1")) == ["new", "sum", "m3"]
        assert texts(ada.events("s1", EventFilter(standings=frozenset({Standing.ARCHIVED})))) == ["m2"]
        assert ada.count("s1").events == 3
        assert ada.verify("s1") == []

    def test_the_original_of_a_hole_comes_back(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2")])
        ada.edit("s1", human("new", "1"))
        assert archive(ada, "s1", [2], base=ada.context("s1"), summary=[NewEvent(message=ai("sum"))]) is not None
        assert texts(ada.messages("s1")) == ["new", "sum"]
        ada.rewind("s1", to_seq=2)
        assert texts(ada.messages("s1")) == ["m1", "sum"]
        assert ada.count("s1").events == 2
        assert ada.verify("s1") == []

    def test_17_r_a_summary_is_rewound_with_what_it_stands_for(self, ada: SessionService) -> None:
        """Found by random use: it stood where an earlier compaction had left something out."""
        ada.append("s1", [human("one", "a"), ai("two", "b"), human("three"), ai("four")])
        base = ada.context("s1")
        assert archive(ada, "s1", [2, 3, 4], base=base, summary=[NewEvent(message=ai("early"))]) is not None
        ada.append("s1", human("five"), invocation_id="run-1", state_delta={"k": 1})
        ada.edit("s1", ai("one!", "a"))
        base = ada.context("s1")
        covered = [event.seq for event in base.events if not event.is_synthetic]
        assert archive(ada, "s1", covered, base=base, summary=[NewEvent(message=ai("late"))]) is not None
        ada.rewind("s1", before_invocation="run-1")
        stand = self.by_text(ada)
        assert stand["late"] is stand["five"] is stand["one!"] is Standing.REWOUND
        assert stand["early"] is stand["one"] is Standing.LIVE
        assert texts(ada.messages("s1")) == ["one", "early"]
        assert texts(ada.events("s1", EventFilter(standings=frozenset({Standing.ARCHIVED})))) == [
            "two",
            "three",
            "four",
        ]
        assert ada.verify("s1") == []

    def test_17_r_a_summary_that_a_wider_one_replaced_is_archived(self, long: SessionService) -> None:
        """It comes back with its compaction, and goes with it."""
        self.archived(long, 1, 2, "early")
        self.archived(long, 3, 4, "late")
        stand = self.by_text(long)
        assert (stand["early"], stand["late"]) == (Standing.ARCHIVED, Standing.LIVE)
        long.rewind("s1", to_seq=3)
        stand = self.by_text(long)
        assert (stand["early"], stand["late"]) == (Standing.LIVE, Standing.REWOUND)
        long.undo_rewind("s1")
        stand = self.by_text(long)
        assert (stand["early"], stand["late"]) == (Standing.ARCHIVED, Standing.LIVE)
        assert long.verify("s1") == []

    def test_records_say_what_happened(self, long: SessionService) -> None:
        base = long.context("s1")
        done = archive(long, "s1", [1, 2], base=base, summary=summary("sum"), details={"strategy": "test", "saved": 9})
        assert done is not None
        assert dict(done[0].metadata) == {"strategy": "test", "saved": 9}

    def test_scopes_are_apart(self, ada: SessionService) -> None:
        """S22: a branch's summary is seen where its originals were."""
        ada.append("s1", numbered(2))
        ada.append("s1", [human("b1"), ai("b2")], branch="orch")
        ada.append("s1", [human("w1"), ai("w2")], branch="orch.writer")
        base = ada.context("s1", branch="orch")
        assert archive(ada, "s1", [3, 4], base=base, summary=summary("of orch")) is not None
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        assert texts(ada.messages("s1", branch="orch")) == ["m1", "m2", "so far?", "of orch"]
        assert texts(ada.messages("s1", branch="orch.writer")) == ["m1", "m2", "so far?", "of orch", "w1", "w2"]
        assert ada.count("s1").events == 2
        assert ada.count("s1", branch="orch").events == 2
        assert archive(ada, "s1", [1, 2], base=ada.context("s1"), summary=summary("of root")) is not None
        assert texts(ada.messages("s1", branch="orch")) == ["so far?", "of root", "so far?", "of orch"]
        assert ada.verify("s1") == []

    def test_what_is_not_in_scope_is_not_archived(self, ada: SessionService) -> None:
        ada.append("s1", numbered(2))
        ada.append("s1", [human("b1")], branch="orch")
        ada.append("s1", [], state_delta={"a": 1})
        base = ada.context("s1", branch="orch")
        for covered in ([1], [3, 4], [99], []):
            assert archive(ada, "s1", covered, base=base) is None
        assert ada.get("s1").version == 4
