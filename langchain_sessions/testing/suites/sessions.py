"""The life of sessions: listed, changed, ended, expired, deleted and purged."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.errors import InvalidInputError, SessionEndedError, SessionExistsError, SessionNotFoundError
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.suites.base import MakeService, StoreSuite, human, numbered, texts

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService
    from langchain_sessions.testing.faces import SettableClock


class SessionSuite(StoreSuite):
    """What a session says about itself, and lists of them."""

    def test_a_new_session(self, sessions: SessionService, clock: SettableClock, app: str) -> None:
        made = sessions.create("s1", user_id="ada", title="Über 🦜", metadata={"a": [1, {"b": None}]})
        assert (made.id, made.app, made.user_id, made.title, made.version) == ("s1", app, "ada", "Über 🦜", 0)
        assert (made.created_at, made.updated_at) == (clock.moment, clock.moment)
        assert made.expires_at == clock.moment + timedelta(days=60)
        assert dict(made.metadata) == {"a": [1, {"b": None}]}
        assert sessions.get("s1") == made
        assert sessions.create().id != sessions.create().id

    def test_changing_it(self, ada: SessionService, clock: SettableClock) -> None:
        clock.advance(minutes=5)
        ada.update("s1", title="Talk", metadata={"a": 1, "b": 2})
        changed = ada.update("s1", metadata={"a": None, "c": 3})
        assert (changed.title, dict(changed.metadata)) == ("Talk", {"b": 2, "c": 3})
        assert (changed.updated_at, changed.version) == (clock.moment, 0)
        assert ada.update("s1", title=None).title is None
        assert ada.update("s1", time_to_live=None).expires_at is None
        assert ada.update("s1", time_to_live=timedelta(days=1)).expires_at == clock.moment + timedelta(days=1)
        assert ada.get("s1") == ada.update("s1")

    def test_ended_and_reopened(self, ada: SessionService, clock: SettableClock) -> None:
        ada.append("s1", numbered(2))
        ended = ada.end("s1")
        assert (ended.ended_at, ended.is_ended) == (clock.moment, True)
        assert ada.end("s1") == ended
        with pytest.raises(SessionEndedError, match="reopen"):
            ada.append("s1", human("m3"))
        with pytest.raises(SessionEndedError):
            ada.append("s1", [], state_delta={"a": 1})
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        assert ada.reopen("s1").is_ended is False
        ada.append("s1", human("m3"))
        assert texts(ada.messages("s1")) == ["m1", "m2", "m3"]

    def test_a_list_is_newest_first(self, ada: SessionService, clock: SettableClock) -> None:
        for n in range(2, 6):
            clock.advance(seconds=7)
            ada.create(f"s{n}", title=f"T{n}")
        clock.advance(seconds=7)
        ada.append("s1", numbered(3))
        listed = ada.list_sessions()
        assert [session.id for session in listed] == ["s1", "s5", "s4", "s3", "s2"]
        assert (listed[0].message_count, listed[0].turn_count, listed[1].title) == (3, 2, "T5")
        assert listed[0] == ada.get("s1")
        assert listed.next_cursor is None

    @pytest.mark.parametrize("seconds", [0, 1, 90])
    def test_pages_of_a_list(self, sessions: SessionService, clock: SettableClock, seconds: int) -> None:
        """A34: keyset pages, also where many were active in one minute or one instant."""
        for n in range(23):
            clock.advance(seconds=seconds)
            sessions.create(f"s{n}")
        found: list[str] = []
        sizes: list[int] = []
        after: str | None = None
        while True:
            page = sessions.list_sessions(limit=5, cursor=after)
            found += [session.id for session in page]
            sizes.append(len(page))
            after = page.next_cursor
            if after is None:
                break
        assert (sizes, sorted(found)) == ([5, 5, 5, 5, 3], sorted(f"s{n}" for n in range(23)))
        if seconds:
            assert found == [f"s{n}" for n in reversed(range(23))]

    @pytest.mark.parametrize(("others", "limit"), [(60, 3), (160, 3), (160, 40)])
    def test_17_b_a_list_is_exact_within_a_minute(
        self, sessions: SessionService, clock: SettableClock, others: int, limit: int
    ) -> None:
        """However many were active in the same minute, what was touched last leads, through every page."""
        names = ["first", *(f"s{n}" for n in range(others))]
        for name in names:
            sessions.create(name)
            clock.advance(seconds=0.3)
        for again in ("first", "s7", "s1"):
            sessions.append(again, human("again"))
            clock.advance(seconds=0.1)
        found: list[str] = []
        page = sessions.list_sessions(limit=limit)
        while True:
            found += [session.id for session in page]
            if page.next_cursor is None:
                break
            page = sessions.list_sessions(limit=limit, cursor=page.next_cursor)
        touched = ["s1", "s7", "first"]
        assert found == [*touched, *(name for name in reversed(names) if name not in touched)]

    def test_a_writer_whose_clock_is_behind_hides_no_session(
        self, sessions: SessionService, clock: SettableClock
    ) -> None:
        names = [f"s{n}" for n in range(12)]
        for name in names:
            sessions.create(name)
            clock.advance(seconds=70)
        before = sessions.get("s11").updated_at
        clock.advance(minutes=-10)
        sessions.append("s11", human("from another host"))
        sessions.append("s10", [human("from there too")], state_delta={"app:seen": True})
        clock.advance(minutes=10)
        assert sessions.get("s11").updated_at == before
        page = sessions.list_sessions(limit=2)
        found = [session.id for session in page]
        while page.next_cursor is not None:
            page = sessions.list_sessions(limit=2, cursor=page.next_cursor)
            found += [session.id for session in page]
        assert found == names[::-1]

    @pytest.mark.parametrize(("others", "limit", "seconds"), [(8, 3, 90), (160, 40, 0.3), (70, 7, 0), (160, 30, 1)])
    def test_17_l_a_list_scrolls_both_ways(
        self, ada: SessionService, clock: SettableClock, others: int, limit: int, seconds: float
    ) -> None:
        """From its end page by page back to its beginning, where what came meanwhile is found as well."""
        for n in range(others):
            clock.advance(seconds=seconds)
            ada.create(f"t{n}")
        pages = [ada.list_sessions(limit=limit)]
        while pages[-1].next_cursor is not None:
            pages.append(ada.list_sessions(limit=limit, cursor=pages[-1].next_cursor))
        assert pages[0].previous_cursor is None
        page = pages[-1]
        for earlier in reversed(pages[:-1]):
            page = ada.list_sessions(limit=limit, cursor=page.previous_cursor)
            assert page.items == earlier.items
            assert page.previous_cursor == earlier.previous_cursor
            assert page.next_cursor == earlier.next_cursor
        clock.advance(seconds=1)
        ada.append("t0", human("again"))
        in_front = ada.list_sessions(limit=limit, cursor=pages[1].previous_cursor)
        assert in_front.previous_cursor is not None
        first = ada.list_sessions(limit=limit, cursor=in_front.previous_cursor)
        assert first.items == ada.list_sessions(limit=limit).items
        assert (first[0].id, first.previous_cursor) == ("t0", None)

    def test_17_l_back_from_a_page_whose_sessions_are_gone(self, ada: SessionService, clock: SettableClock) -> None:
        ada.delete("s1")
        for n in range(5):
            clock.advance(seconds=90)
            ada.create(f"n{n}")
        cursor = ada.list_sessions(limit=3).next_cursor
        for n in (0, 1):
            ada.delete(f"n{n}")
        empty = ada.list_sessions(limit=3, cursor=cursor)
        assert (empty.items, empty.next_cursor) == ((), None)
        back = ada.list_sessions(limit=3, cursor=empty.previous_cursor)
        assert [session.id for session in back] == ["n4", "n3", "n2"]
        assert back.previous_cursor is None

    def test_bad_arguments(self, ada: SessionService) -> None:
        for call in (
            lambda: ada.list_sessions(limit=0),
            lambda: ada.purge_expired(batch=0),
            lambda: ada.create("s2", time_to_live=timedelta(0)),
            lambda: ada.create("s2", title=3),  # type: ignore[arg-type]
            lambda: ada.update("s1", title="a\0b"),
        ):
            with pytest.raises(InvalidInputError):
                call()
        assert len(ada.list_sessions().items) == 1


class ExpirySuite(StoreSuite):
    """Expired reads as missing at once."""

    def test_expired_is_missing(self, ada: SessionService, sessions: SessionService, clock: SettableClock) -> None:
        """S25, T07: before any sweep."""
        ada.append("s1", numbered(2), state_delta={"a": 1})
        clock.advance(days=60, microseconds=-1)
        assert texts(ada.messages("s1")) == ["m1", "m2"]
        clock.advance(microseconds=1)
        for service in (ada, sessions):
            for call in (service.get, service.messages, service.events, service.state, service.count):
                with pytest.raises(SessionNotFoundError):
                    call("s1")
            with pytest.raises(SessionNotFoundError):
                service.append("s1", human("late"))
            assert service.list_sessions().items == ()
        assert ada.delete("s1") is False

    def test_no_expiry_stays_none(self, ada: SessionService, clock: SettableClock) -> None:
        """S25."""
        ada.create("s2", time_to_live=None)
        ada.open("s3")
        clock.advance(days=10_000)
        assert ada.get("s2").expires_at is None
        assert ada.get("s3").expires_at is None

    def test_creating_over_an_expired_id(
        self, ada: SessionService, grace: SessionService, clock: SettableClock
    ) -> None:
        """§ One's own expired session is removed first; a stranger's id stays taken until it is purged."""
        ada.append("s1", numbered(2), state_delta={"a": 1})
        clock.advance(days=61)
        with pytest.raises(SessionExistsError):
            grace.create("s1")
        with pytest.raises(SessionNotFoundError):
            grace.open("s1")
        ada.create("s1")
        assert (ada.messages("s1"), ada.state("s1"), ada.get("s1").version) == ([], {}, 0)

    def test_opening_over_an_expired_id(self, ada: SessionService, clock: SettableClock) -> None:
        ada.append("s1", numbered(2))
        clock.advance(days=61)
        assert (ada.open("s1").version, ada.messages("s1")) == (0, [])

    def test_purging(self, ada: SessionService, sessions: SessionService, clock: SettableClock) -> None:
        """S25, T07: it counts, in batches, and tells how far it got."""
        for n in range(6):
            ada.create(f"short-{n}", time_to_live=timedelta(hours=1))
            ada.append(f"short-{n}", numbered(2))
        clock.advance(hours=2)
        told: list[int] = []
        assert sessions.purge_expired(batch=4, progress=told.append) == 6
        assert told[-1] == 6
        assert sessions.purge_expired() == 0
        assert [session.id for session in ada.list_sessions()] == ["s1"]
        assert ada.create("short-0").version == 0

    def test_a_view_purges_its_own(self, ada: SessionService, grace: SessionService, clock: SettableClock) -> None:
        grace.create("g1")
        clock.advance(days=61)
        assert grace.purge_expired() == 1
        assert ada.purge_expired() == 1

    def test_sliding_expiry(self, make_service: MakeService, clock: SettableClock) -> None:
        ada = make_service(expiry="sliding", time_to_live=timedelta(days=1)).as_user("ada")
        start = clock.moment
        ada.create("s1")
        clock.advance(minutes=30)
        ada.append("s1", human("m1"))
        assert ada.get("s1").expires_at == start + timedelta(days=1)
        clock.advance(hours=20)
        ada.append("s1", human("m2"))
        assert ada.get("s1").expires_at == clock.moment + timedelta(days=1)
        clock.advance(hours=23)
        ada.append("s1", [], state_delta={"a": 1})
        assert ada.get("s1").expires_at == clock.moment + timedelta(days=1)
        clock.advance(days=1)
        with pytest.raises(SessionNotFoundError):
            ada.get("s1")


class DeletionSuite(StoreSuite):
    """Nothing but delete removes an event, and delete removes everything."""

    def test_everything_goes(self, ada: SessionService) -> None:
        """A5."""
        ada.append("s1", [human("m1", "1"), *numbered(3, 2)], state_delta={"a": 1}, branch="orch")
        ada.append("s1", numbered(4, 5), invocation_id="run")
        archive(ada, "s1", [5, 6], base=ada.context("s1"))
        ada.rewind("s1", to_seq=6)
        assert ada.delete("s1") is True
        assert ada.delete("s1") is False
        with pytest.raises(SessionNotFoundError):
            ada.messages("s1")
        made = ada.create("s1")
        assert (made.version, ada.messages("s1"), ada.state("s1")) == (0, [], {})
        assert ada.count("s1", branch="orch").events == 0
        assert texts(ada.append("s1", [human("new", "1")], invocation_id="run")) == ["new"]
        assert texts(ada.messages("s1")) == ["new"]
        assert ada.verify("s1") == []

    def test_a_late_write_cannot_bring_it_back(self, ada: SessionService, clock: SettableClock) -> None:
        """§ The tombstone holds for a day; `create` starts anew."""
        ada.delete("s1")
        with pytest.raises(SessionNotFoundError):
            ada.append("s1", human("late"))
        with pytest.raises(SessionNotFoundError):
            ada.open("s1", anew=False)
        clock.advance(hours=23)
        with pytest.raises(SessionNotFoundError):
            ada.open("s1", anew=False)
        clock.advance(hours=1)
        assert ada.open("s1", anew=False).version == 0

    def test_a_root_input_starts_anew(self, ada: SessionService) -> None:
        ada.delete("s1")
        assert ada.open("s1").version == 0
        assert ada.open("s1", anew=False).version == 0

    def test_a_stranger_may_take_a_deleted_id(self, ada: SessionService, grace: SessionService) -> None:
        ada.append("s1", numbered(2))
        ada.delete("s1")
        grace.create("s1")
        assert grace.messages("s1") == []
        with pytest.raises(SessionNotFoundError):
            ada.get("s1")

    def test_a_user_with_all(self, ada: SessionService, grace: SessionService, sessions: SessionService) -> None:
        grace.create("g1")
        for n in range(2, 5):
            ada.create(f"s{n}")
            ada.append(f"s{n}", numbered(2), state_delta={"user:a": n, "app:b": n})
        gone = sessions.delete_user("ada")
        assert (gone, gone.events, gone.state_keys) == (4, 6, 1)
        again = sessions.delete_user("ada")
        assert (again, again.events, again.state_keys) == (0, 0, 0)
        assert [session.id for session in sessions.list_sessions()] == ["g1"]
        assert ada.open("s1").version == 0
        assert ada.state("s1") == {"app:b": 4}

    def test_the_operator_names_whom(self, sessions: SessionService) -> None:
        for nobody in (None, "", " "):
            with pytest.raises(InvalidInputError, match="user_id"):
                sessions.delete_user(nobody)
        ended: Any = sessions.as_user(None)
        with pytest.raises(InvalidInputError, match="user_id"):
            ended.delete_user()
