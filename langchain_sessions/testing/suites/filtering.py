"""Which events come back: every criterion of `EventFilter`, and pages that stay right while a log grows."""

from __future__ import annotations

import re
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

from langchain_sessions.errors import EventNotFoundError, InvalidInputError, StaleSessionError
from langchain_sessions.events import EventKind, NewEvent, Standing
from langchain_sessions.filters import EventFilter
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.faces import SettableClock
from langchain_sessions.testing.suites.base import StoreSuite, ai, asks, human, numbered, seqs, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService


class FilterSuite(StoreSuite):
    """Criteria are combined with and."""

    def found(self, service: SessionService, **criteria: Any) -> list[str]:
        """The texts that a filter wants."""
        return texts(service.events("s1", EventFilter(**criteria)))

    def test_times_are_inclusive(self, ada: SessionService, clock: SettableClock) -> None:
        start = clock.moment
        for n in range(5):
            clock.moment = start + timedelta(microseconds=n)
            ada.append("s1", human(f"m{n}"))
        one, three = start + timedelta(microseconds=1), start + timedelta(microseconds=3)
        assert self.found(ada, since=one, until=three) == ["m1", "m2", "m3"]
        elsewhere = timezone(timedelta(hours=5, minutes=45))
        assert self.found(ada, since=three.astimezone(elsewhere)) == ["m3", "m4"]

    def test_types_and_kinds(self, ada: SessionService) -> None:
        ada.append("s1", [SystemMessage("s"), human("h"), asks("c"), ToolMessage("t", tool_call_id="c"), ai("a")])
        ada.append("s1", [], state_delta={"a": 1})
        assert self.found(ada, roles={"human", "tool"}) == ["h", "t"]
        assert self.found(ada, roles={"user"}) == ["h"]
        assert self.found(ada, roles=frozenset()) == ["s", "h", "", "t", "a"]
        state = ada.events("s1", EventFilter(kinds=frozenset({EventKind.STATE})))
        assert seqs(state) == [6]
        assert self.found(ada, kinds={EventKind.MESSAGE}, roles={"ai"}) == ["", "a"]
        assert seqs(ada.events("s1", EventFilter(kinds=frozenset({EventKind.STATE}), roles=frozenset({"ai"})))) == []

    def test_authors_and_runs(self, ada: SessionService) -> None:
        ada.append("s1", human("a"), author="Ada", invocation_id="r1")
        ada.append("s1", human("b"), author="ada", invocation_id="r2")
        ada.append("s1", human("c"))
        assert self.found(ada, authors={"Ada"}) == ["a"]
        assert self.found(ada, authors={"Ada", "ada"}) == ["a", "b"]
        assert self.found(ada, invocation_id="r2") == ["b"]
        assert self.found(ada, invocation_id="R2") == []
        for name in ("a\0b", "\ud83d"):  # which no database takes, and a message may bear
            assert self.found(ada, invocation_id=name) == []
            assert self.found(ada, authors={name}) == []
            assert self.found(ada, authors={name, "Ada"}) == ["a"]
            ada.append("s1", HumanMessage("named", name=name))
            assert self.found(ada, authors={name}) == ["named"]

    def test_positions(self, ada: SessionService) -> None:
        ada.append("s1", numbered(6))
        assert self.found(ada, after_seq=2, before_seq=5) == ["m3", "m4"]
        assert self.found(ada, after_seq=6) == []
        assert self.found(ada, after_seq=1, last_n=2) == ["m5", "m6"]

    @pytest.mark.parametrize("word", ["100%", "a_b", "\\", "%", "_", "'", '"', "[a]", "$&", "{}", "${x}", "*"])
    def test_keywords_are_literal(self, ada: SessionService, word: str) -> None:
        """S18, X03: `%`, `_` and backslash mean themselves."""
        ada.append("s1", [human("100 dollars, aXb, nothing"), human(f"it says {word} here"), human(f"{word}")])
        assert self.found(ada, keyword=word) == [f"it says {word} here", word]

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
            ("Ünïcode", "ÜNÏCODE"),
            ("Hello", "hELLO"),
            ("你好世界", "好世"),
        ],
    )
    def test_keywords_know_no_case(self, ada: SessionService, text: str, word: str) -> None:
        ada.append("s1", [human(f"say {text}!"), human("something else")])
        assert self.found(ada, keyword=word) == [f"say {text}!"]

    def test_accents_count(self, ada: SessionService) -> None:
        ada.append("s1", [human("cafe"), human("café"), human("CAFÉ")])
        assert self.found(ada, keyword="café") == ["café", "CAFÉ"]
        assert self.found(ada, keyword="cafe") == ["cafe"]

    def test_keywords_find_odd_characters(self, ada: SessionService) -> None:
        ada.append("s1", [human("a\0b"), human("half \ud83d moon"), human("plain")])
        assert len(self.found(ada, keyword="a\0b")) == 1
        assert len(self.found(ada, keyword="HALF \ud83d")) == 1
        assert self.found(ada, keyword="\0") == ["a\0b"]

    def test_calls_and_results_are_searched(self, ada: SessionService) -> None:
        """S26."""
        call = {"name": "find_hotel", "args": {"city": "Oslo", "stars": 4}, "id": "c1", "type": "tool_call"}
        ada.append("s1", human("a room please"))
        ada.append("s1", [ai("").model_copy(update={"tool_calls": [call]}), ToolMessage("Grand", tool_call_id="c1")])
        for word, place in {"find_HOTEL": 2, "oslo": 2, "city": 2, "grand": 3}.items():
            assert seqs(ada.events("s1", EventFilter(keyword=word))) == [place]

    def test_several_keywords(self, ada: SessionService) -> None:
        ada.append("s1", [human("red fox"), human("red hen"), human("grey fox")])
        assert self.found(ada, keywords=("red", "fox")) == ["red fox", "red hen", "grey fox"]
        assert self.found(ada, keywords=("red", "fox"), match="all") == ["red fox"]
        assert self.found(ada, keywords=(" ", "hen")) == ["red hen"]
        assert len(self.found(ada, keyword=" ")) == 3

    def test_a_keyword_beside_keywords(self, ada: SessionService) -> None:
        """Criteria add up: the keyword and any of the others."""
        ada.append("s1", [human("red fox"), human("red hen"), human("grey fox"), human("red")])
        assert self.found(ada, keyword="red", keywords=("fox", "hen")) == ["red fox", "red hen"]
        assert self.found(ada, keyword="red", keywords=("fox", "hen"), match="all") == []
        assert self.found(ada, keyword="fox", keywords=("red",)) == ["red fox"]

    def test_patterns(self, ada: SessionService) -> None:
        ada.append("s1", [human(f"order {n}") for n in range(20)])
        ada.append("s1", [], state_delta={"a": 1})
        assert self.found(ada, pattern=re.compile(r"\b1\d$"), last_n=3) == ["order 17", "order 18", "order 19"]
        assert self.found(ada, pattern=re.compile("ORDER [34]$", re.IGNORECASE)) == ["order 3", "order 4"]
        page = ada.events("s1", EventFilter(pattern=re.compile("1"), page=1, page_size=4), with_total=True)
        assert (texts(page), page.total) == (["order 13", "order 14", "order 15", "order 16"], 11)

    def test_standings(self, ada: SessionService) -> None:
        ada.append("s1", [human("m1", "1"), ai("m2"), human("m3"), ai("m4")])
        ada.edit("s1", human("new", "1"))
        ada.append("s1", human("m6"))
        ada.rewind("s1", to_seq=5)
        ada.append("s1", human("bad"), invocation_id="run")
        archive(ada, "s1", [2], base=ada.context("s1"), summary=[NewEvent(message=ai("sum"))])
        assert self.found(ada, standings={Standing.SUPERSEDED}) == ["m1"]
        assert self.found(ada, standings={Standing.REWOUND}) == ["m6"]
        assert self.found(ada, standings={Standing.ARCHIVED}) == ["m2"]
        assert self.found(ada, standings={Standing.LIVE}) == ["m3", "m4", "new", "bad", "sum"]
        assert self.found(ada, synthetic=False, standings={Standing.LIVE}) == ["m3", "m4", "new", "bad"]
        assert self.found(ada, archived=False) == ["m1", "m3", "m4", "new", "m6", "bad", "sum"]
        assert texts(ada.events("s1", EventFilter.active())) == ["m3", "m4", "new", "bad", "sum"]
        assert "sum" not in texts(ada.events("s1", EventFilter.real_only()))

    def test_many_rewinds(self, ada: SessionService) -> None:
        for n in range(40):
            ada.append("s1", [human(f"m{n}"), human("gone")])
            ada.rewind("s1", to_seq=n * 3 + 1)
        assert self.found(ada, standings={Standing.LIVE}) == [f"m{n}" for n in range(40)]
        assert texts(ada.messages("s1", last_n=3)) == ["m37", "m38", "m39"]
        assert len(self.found(ada, standings={Standing.REWOUND})) == 40
        assert ada.verify("s1") == []

    def test_no_event_is_no_error(self, ada: SessionService) -> None:
        for found in (EventFilter(), EventFilter(last_n=5), EventFilter(keyword="x", page_size=3)):
            assert ada.events("s1", found).items == ()

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("last_n", 0),
            ("last_n", True),
            ("page_size", 0),
            ("page", -1),
            ("page", 1),
            ("after_seq", "1"),
            ("roles", {"robot"}),
            ("match", "some"),
            ("since", SettableClock().moment.replace(tzinfo=None)),
        ],
    )
    def test_nonsense_is_refused(self, ada: SessionService, field: str, value: object) -> None:
        with pytest.raises(InvalidInputError, match="page" if field == "page" else field):
            ada.events("s1", EventFilter(**{field: value}))  # type: ignore[arg-type]


class PagingSuite(StoreSuite):
    """Pages and cursors."""

    def test_numbered_pages(self, ada: SessionService) -> None:
        """S28."""
        ada.append("s1", [human(f"hit {n}") if n % 2 else human("miss") for n in range(14)])
        sizes = []
        for page in range(4):
            wanted = EventFilter(keyword="hit", page=page, page_size=3)
            found = ada.events("s1", wanted, with_total=True)
            assert found.total == 7
            sizes.append(len(found))
        assert sizes == [3, 3, 1, 0]
        huge = EventFilter(page=2**61, page_size=2**61)
        assert ada.events("s1", huge).items == ()

    def test_paging_back_and_forth(self, ada: SessionService) -> None:
        """A36: 95 messages, 30 at a time."""
        ada.append("s1", numbered(95))
        page = ada.events("s1", EventFilter(last_n=30))
        newest, pages = page, [seqs(page)]
        while page.previous_cursor is not None:
            page = ada.events("s1", EventFilter(page_size=30), cursor=page.previous_cursor)
            pages.append(seqs(page))
        assert [len(found) for found in pages if found] == [30, 30, 30, 5]
        assert sorted(seq for found in pages for seq in found) == list(range(1, 96))
        ada.append("s1", numbered(3, 96))
        onward = ada.events("s1", EventFilter(page_size=30), cursor=newest.next_cursor)
        assert texts(onward) == ["m96", "m97", "m98"]

    def test_paging_on_while_events_are_appended(self, ada: SessionService) -> None:
        ada.append("s1", numbered(5))
        seen: list[int] = []
        page = ada.events("s1", EventFilter(page_size=2))
        for _ in range(6):
            seen += seqs(page)
            ada.append("s1", human("more"))
            page = ada.events("s1", EventFilter(page_size=2), cursor=page.next_cursor)
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) == 10

    @pytest.mark.parametrize("size", [None, 1, 2, 3])
    def test_following_the_cursor_ends(self, ada: SessionService, size: int | None) -> None:
        """Whatever the page size; and the cursor that led to the end leads on when more is appended."""
        wanted = EventFilter(page_size=size)
        assert ada.events("s1", wanted).next_cursor is None
        ada.append("s1", numbered(4))
        page = ada.events("s1", wanted)
        found, cursor = texts(page), None
        while page.next_cursor is not None:
            cursor = page.next_cursor
            page = ada.events("s1", wanted, cursor=cursor)
            found += texts(page)
        assert found == ["m1", "m2", "m3", "m4"]
        ada.append("s1", numbered(1, 5))
        assert texts(ada.events("s1", wanted, cursor=cursor)) == ["m5"]

    def test_a_filter_holds_on_every_page(self, ada: SessionService) -> None:
        ada.append("s1", [human(f"hit {n}") if n % 3 == 0 else human("miss") for n in range(30)])
        wanted = EventFilter(keyword="hit", page_size=4)
        found, page = [], ada.events("s1", wanted)
        while page.items:
            found += texts(page)
            page = ada.events("s1", wanted, cursor=page.next_cursor)
        assert found == [f"hit {n}" for n in range(0, 30, 3)]

    def test_back_within_a_filter(self, ada: SessionService) -> None:
        ada.append("s1", numbered(10))
        wanted = EventFilter(after_seq=4, page_size=2)
        first = ada.events("s1", wanted)
        second = ada.events("s1", wanted, cursor=first.next_cursor)
        assert (texts(first), first.previous_cursor, texts(second)) == (["m5", "m6"], None, ["m7", "m8"])
        assert texts(ada.events("s1", wanted, cursor=second.previous_cursor)) == ["m5", "m6"]

    @pytest.mark.parametrize("far", [1 << 62, 1 << 70])
    def test_numbers_beyond_any_log(self, ada: SessionService, far: int) -> None:
        """What no driver takes as a number means what it says: before, behind, or more than all."""
        ada.append("s1", numbered(4))
        everything = ["m1", "m2", "m3", "m4"]
        all_of: Any = ({"after_seq": -far}, {"after_seq": -1}, {"before_seq": far}, {"last_n": far}, {"page_size": far})
        for wanted in all_of:
            assert texts(ada.events("s1", EventFilter(**wanted), with_total=True)) == everything
        none_of: Any = ({"after_seq": far}, {"before_seq": -far}, {"before_seq": 0}, {"page": far, "page_size": far})
        for wanted in none_of:
            assert texts(ada.events("s1", EventFilter(**wanted), with_total=True)) == []
        assert texts(ada.messages("s1", last_n=far)) == texts(ada.context("s1", last_n=far).messages) == everything
        assert [found.id for found in ada.list_sessions(limit=far)] == ["s1"]
        page = ada.events("s1", EventFilter(page_size=far))
        assert texts(ada.events("s1", EventFilter(page_size=far), cursor=page.next_cursor)) == []
        older = ada.events("s1", EventFilter(last_n=2)).previous_cursor
        assert texts(ada.events("s1", EventFilter(before_seq=0), cursor=older)) == []
        for version in (far, -far):
            with pytest.raises(StaleSessionError):
                ada.append("s1", human("m5"), expected_version=version)
        with pytest.raises(EventNotFoundError):
            ada.rewind("s1", to_seq=far)
        with pytest.raises(EventNotFoundError):
            ada.fork("s1", at_seq=far)
        with pytest.raises(EventNotFoundError):
            ada.blank("s1", seqs=[far])
        assert ada.purge_expired(batch=far) == 0

    @pytest.mark.parametrize(
        "cursor", ["", "nonsense", "WyJvdGhlciIsMV0", "é", "W10", "bnVsbA", "WyJuZXdlciJd", "WyJuZXdlciIsIngiLDFd"]
    )
    def test_cursors_that_are_none(self, ada: SessionService, cursor: str) -> None:
        ada.append("s1", numbered(2))
        for call in (lambda: ada.events("s1", cursor=cursor), lambda: ada.list_sessions(cursor=cursor)):
            with pytest.raises(InvalidInputError, match="cursor"):
                call()

    def test_merged_filters(self) -> None:
        """S32: the request wins, exclusions add up, and no combination raises."""
        own = EventFilter(last_n=5, branch="orch", archived=False, keyword="a")
        merged = own.merge(EventFilter(page=1, page_size=3, synthetic=False))
        assert (merged.last_n, merged.page, merged.page_size) == (None, 1, 3)
        assert (merged.branch, merged.archived, merged.synthetic, merged.keyword) == (
            "orch",
            False,
            False,
            "a",
        )
        assert merged.merge(EventFilter(last_n=2)).limit == 2
        assert own.merge(EventFilter()) == own
        assert EventFilter(match="all").merge(EventFilter(match="any")).match == "any"
        assert EventFilter(match="all").merge(EventFilter()).match == "all"
