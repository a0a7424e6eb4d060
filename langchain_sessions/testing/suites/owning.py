"""Whose a session is: one id, one owner, and nothing that a stranger can learn or change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.errors import InvalidInputError, SessionExistsError, SessionNotFoundError
from langchain_sessions.events import NewEvent
from langchain_sessions.testing.suites.base import MakeService, StoreSuite, human, numbered, snapshot, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions.service import SessionService

LOOK_ALIKES = [
    "ada",
    "Ada",
    "ADA",
    "áda",
    "a\u0301da",
    "ada ",
    " ada",
    "ada\u200b",
    "аda",
    "adа",
    "i",
    "ı",
    "I",
    "İ",
    "ß",
    "ss",
    "ａｄａ",
    "ad\u00adа",
]

CALLS: dict[str, Callable[[SessionService], Any]] = {
    "get": lambda s: s.get("s1"),
    "update": lambda s: s.update("s1", title="mine"),
    "append": lambda s: s.append("s1", human("x")),
    "append nothing": lambda s: s.append("s1", []),
    "append state": lambda s: s.append("s1", [], state_delta={"a": 2}),
    "edit": lambda s: s.edit("s1", human("x", "1")),
    "events": lambda s: s.events("s1"),
    "context": lambda s: s.context("s1"),
    "messages": lambda s: s.messages("s1"),
    "turns": lambda s: s.turns("s1"),
    "count": lambda s: s.count("s1"),
    "state": lambda s: s.state("s1"),
    "rewind": lambda s: s.rewind("s1", to_seq=0),
    "undo_rewind": lambda s: s.undo_rewind("s1"),
    "fork": lambda s: s.fork("s1"),
    "end": lambda s: s.end("s1"),
    "reopen": lambda s: s.reopen("s1"),
    "verify": lambda s: s.verify("s1"),
}


class OwnerSuite(StoreSuite):
    """A session of somebody else, an expired one and none at all are the same."""

    @pytest.fixture
    def mine(self, ada: SessionService) -> SessionService:
        """The service as ada sees it, with something in `s1`."""
        ada.append("s1", [human("secret", "1"), *numbered(2)], state_delta={"a": 1})
        return ada

    def test_a_view_leads_to_nobody_else(self, mine: SessionService) -> None:
        """Who holds the view of one user holds that of no other."""
        for other in ("grace", None):
            with pytest.raises(InvalidInputError, match="bound to another user"):
                mine.as_user(other)
        assert mine.as_user("ada").owner == "ada"

    @pytest.mark.parametrize("call", CALLS)
    def test_a_stranger_meets_the_error_of_a_missing_id(
        self, mine: SessionService, grace: SessionService, sessions: SessionService, call: str
    ) -> None:
        """A1, S23, X01."""
        before = snapshot(mine, "s1")
        messages = set()
        for stranger in (grace, sessions.as_user(None), sessions.as_user("ADA")):
            with pytest.raises(SessionNotFoundError) as caught:
                CALLS[call](stranger)
            messages.add(str(caught.value))
        mine.delete("s1")
        with pytest.raises(SessionNotFoundError) as missing:
            CALLS[call](mine)
        assert messages == {str(missing.value)}
        assert before["session"].version == 3

    def test_a_stranger_changes_nothing(self, mine: SessionService, grace: SessionService) -> None:
        """A1, D07, X01."""
        before = snapshot(mine, "s1")
        for call in CALLS.values():
            with pytest.raises(SessionNotFoundError):
                call(grace)
        with pytest.raises(SessionExistsError, match="s1"):
            grace.create("s1")
        with pytest.raises(SessionNotFoundError):
            grace.open("s1")
        assert grace.delete("s1") is False
        assert grace.list_sessions().items == ()
        assert grace.purge_expired() == 0
        assert snapshot(mine, "s1") == before

    def test_creating_twice_is_refused_to_the_owner_too(self, mine: SessionService) -> None:
        """D08: no event is lost."""
        before = snapshot(mine, "s1")
        with pytest.raises(SessionExistsError):
            mine.create("s1", title="again", state={"b": 2})
        assert snapshot(mine, "s1") == before
        assert mine.open("s1") == before["session"]

    def test_opening_creates_once(self, grace: SessionService) -> None:
        opened = grace.open("s2")
        grace.append("s2", human("m1"))
        assert grace.open("s2").created_at == opened.created_at
        assert grace.open("s2").version == 1
        assert opened.expires_at is None

    def test_an_unowned_session_is_nobody_elses(self, sessions: SessionService, ada: SessionService) -> None:
        """§ It is never adopted by a later user."""
        nobody = sessions.as_user(None)
        nobody.create("free")
        nobody.append("free", human("m1"))
        with pytest.raises(SessionNotFoundError):
            ada.open("free")
        with pytest.raises(SessionNotFoundError):
            nobody.messages("s1")
        assert [session.id for session in nobody.list_sessions()] == ["free"]
        assert nobody.get("free").user_id is None

    def test_the_operator_reaches_all(self, sessions: SessionService, mine: SessionService) -> None:
        sessions.create("s2", user_id="grace")
        assert texts(sessions.messages("s1")) == ["secret", "m1", "m2"]
        assert sessions.open("s1").user_id == "ada"
        assert {session.id for session in sessions.list_sessions()} == {"s1", "s2"}
        assert sessions.as_user("grace").get("s2").user_id == "grace"
        with pytest.raises(SessionNotFoundError):
            mine.get("s2")

    def test_look_alike_users_are_different(self, sessions: SessionService) -> None:
        """D05."""
        for user in LOOK_ALIKES:
            theirs = sessions.as_user(user)
            theirs.create(f"of {user}", state={"user:name": user})
            theirs.append(f"of {user}", human(f"I am {user}"))
        for user in LOOK_ALIKES:
            theirs = sessions.as_user(user)
            assert [session.id for session in theirs.list_sessions()] == [f"of {user}"]
            assert theirs.state(f"of {user}") == {"user:name": user}
            for other in LOOK_ALIKES:
                if other != user:
                    with pytest.raises(SessionNotFoundError):
                        theirs.events(f"of {other}")

    def test_look_alike_sessions_are_different(self, ada: SessionService) -> None:
        """A6, S23: ids that differ in case, accents or blanks."""
        for name in LOOK_ALIKES:
            ada.create(f"s-{name}")
            ada.append(f"s-{name}", human(name))
        assert [texts(ada.messages(f"s-{name}")) for name in LOOK_ALIKES] == [[name] for name in LOOK_ALIKES]
        with pytest.raises(SessionNotFoundError):
            ada.get("S1")
        assert ada.delete("s-ada ")
        assert texts(ada.messages("s-ada")) == ["ada"]

    def test_apps_are_apart(self, ada: SessionService, make_service: MakeService, app: str) -> None:
        ada.append("s1", [], state_delta={"user:a": 1, "app:b": 2})
        other = make_service(app=app.upper()).as_user("ada")
        with pytest.raises(SessionNotFoundError):
            other.get("s1")
        other.create("s1")
        assert other.state("s1") == {}
        assert other.delete_user() == 1
        assert ada.state("s1") == {"user:a": 1, "app:b": 2}

    def test_a_view_speaks_for_one_user(self, ada: SessionService) -> None:
        for call in (ada.create, ada.open):
            with pytest.raises(InvalidInputError, match="user_id"):
                call("s2", user_id="grace")
        with pytest.raises(InvalidInputError, match="user_id"):
            ada.delete_user("grace")
        assert ada.create("s2", user_id="ada").user_id == "ada"

    def test_a_user_may_be_required(self, make_service: MakeService) -> None:
        strict = make_service(require_user=True)
        for call in (lambda: strict.as_user(None), lambda: strict.create("s2"), lambda: strict.open("s2")):
            with pytest.raises(InvalidInputError, match="user_id"):
                call()
        assert strict.as_user("ada").open("s2").user_id == "ada"

    def test_literal_ids(self, ada: SessionService, grace: SessionService) -> None:
        """D03: ids are values, never patterns, paths or SQL."""
        odd = ["../x", "/etc/passwd", "a\nb", "%", "_", "\\", "'; DROP TABLE x; --", "[a-z]", "$where", "C:\\x", "🦜"]
        for name in odd:
            ada.create(name)
            ada.append(name, [NewEvent(id=name, message=human(name), author=name, invocation_id=name)])
        for name in odd:
            assert texts(ada.messages(name)) == [name]
            with pytest.raises(SessionNotFoundError):
                grace.get(name)
        assert ada.delete("%")
        assert len(ada.list_sessions().items) == len(odd)
