"""State: deltas that replay exactly, and keys that reach beyond one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions.errors import InvalidInputError
from langchain_sessions.events import EventKind, NewEvent
from langchain_sessions.testing.suites.base import StoreSuite, ai, human, snapshot

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService


class StateSuite(StoreSuite):
    """State is the initial state and the deltas of the events that stand."""

    def test_deltas_merge_in_order(self, ada: SessionService) -> None:
        ada.create("s2", state={"tenant": "T", "n": 0})
        ada.append("s2", human("m1"), state_delta={"n": 1, "deep": {"list": [1, None, "x"]}})
        ada.append("s2", [NewEvent(message=ai("m2"), state_delta={"n": 2}), NewEvent(state_delta={"n": 3})])
        assert ada.state("s2") == {"tenant": "T", "n": 3, "deep": {"list": [1, None, "x"]}}
        assert [dict(event.state_delta) for event in ada.events("s2")] == [
            {"n": 1, "deep": {"list": [1, None, "x"]}},
            {"n": 2},
            {"n": 3},
        ]

    def test_none_deletes_a_key(self, ada: SessionService) -> None:
        """A16."""
        ada.append("s1", [], state_delta={"k": 1, "user:k": 1, "app:k": 1, "kept": 0})
        ada.append("s1", [], state_delta={"k": None, "user:k": None, "app:k": None, "never": None})
        assert ada.state("s1") == {"kept": 0}
        assert ada.verify("s1") == []

    def test_initial_none_is_no_key(self, ada: SessionService) -> None:
        ada.create("s2", state={"a": None, "b": 1, "temp:c": 2})
        assert ada.state("s2") == {"b": 1}

    def test_temp_is_in_no_table(self, ada: SessionService) -> None:
        """A15."""
        ada.append("s1", human("m1"), state_delta={"temp:pw": "x", "a": 1})
        assert ada.append("s1", [], state_delta={"temp:pw": "y"}) == []
        assert ada.state("s1") == {"a": 1}
        assert [dict(event.state_delta) for event in ada.events("s1")] == [{"a": 1}]

    def test_scoped_keys_reach_further(self, ada: SessionService, grace: SessionService) -> None:
        ada.create("s2")
        grace.create("g1")
        ada.append("s1", human("m1"), state_delta={"own": 1, "user:lang": "de", "app:theme": "dark"})
        assert ada.state("s2") == {"user:lang": "de", "app:theme": "dark"}
        assert grace.state("g1") == {"app:theme": "dark"}
        grace.append("g1", [], state_delta={"app:theme": "light", "user:lang": "en"})
        assert ada.state("s1") == {"own": 1, "user:lang": "de", "app:theme": "light"}

    def test_scoped_keys_of_initial_state(self, ada: SessionService) -> None:
        ada.create("s2", state={"a": 1, "user:b": 2, "app:c": 3})
        assert ada.state("s1") == {"user:b": 2, "app:c": 3}
        assert ada.state("s2") == {"a": 1, "user:b": 2, "app:c": 3}

    def test_scoped_keys_outlive_a_session(self, ada: SessionService) -> None:
        ada.append("s1", [], state_delta={"user:b": 2, "app:c": 3})
        ada.delete("s1")
        ada.create("s1")
        assert ada.state("s1") == {"user:b": 2, "app:c": 3}
        assert ada.delete_user() == 1
        ada.create("s1")
        assert ada.state("s1") == {"app:c": 3}

    def test_shared_state_needs_no_session(
        self, ada: SessionService, grace: SessionService, sessions: SessionService
    ) -> None:
        """Issue 17, item 11p."""
        assert grace.shared_state() == {}
        after = grace.update_shared_state({"user:lang": "en", "app:theme": "dark", "temp:x": 1})
        assert after == {"user:lang": "en", "app:theme": "dark"}
        assert ada.state("s1") == {"app:theme": "dark"}
        ada.append("s1", [], state_delta={"user:lang": "de", "app:theme": None, "own": 1})
        assert ada.shared_state() == {"user:lang": "de"}
        assert grace.shared_state() == sessions.shared_state(user_id="grace") == {"user:lang": "en"}
        assert sessions.update_shared_state({"app:n": 1}) == {"app:n": 1}
        assert sessions.update_shared_state({"user:lang": None}, user_id="grace") == {"app:n": 1}
        grace.create("g1")
        assert grace.state("g1") == {"app:n": 1}
        assert ada.verify("s1") == []

    def test_shared_state_is_refused_like_any_other(self, ada: SessionService, sessions: SessionService) -> None:
        nobody = sessions.as_user(None)
        assert nobody.shared_state() == {}
        assert nobody.update_shared_state({"app:a": 1}) == {"app:a": 1}
        refused: list[tuple[SessionService, dict[str, Any], str | None]] = [
            (ada, {"own": 1}, None),
            (ada, {"user:a": float("nan")}, None),
            (ada, {"user:a": 1}, "grace"),
            (nobody, {"user:a": 1}, None),
            (sessions, {"user:a": 1, "app:b": 2}, None),
            (sessions, {"user:a": 1}, " "),
        ]
        for service, changes, user in refused:
            with pytest.raises(InvalidInputError):
                service.update_shared_state(changes, user_id=user)
        with pytest.raises(InvalidInputError):
            ada.shared_state(user_id="grace")
        assert sessions.shared_state(user_id="ada") == {"app:a": 1}

    def test_user_keys_need_a_user(self, sessions: SessionService) -> None:
        nobody = sessions.as_user(None)
        with pytest.raises(InvalidInputError, match="state"):
            nobody.create("s2", state={"user:a": 1})
        nobody.create("s2")
        with pytest.raises(InvalidInputError, match="state_delta"):
            nobody.append("s2", human("m1"), state_delta={"user:a": 1, "b": 2})
        assert (nobody.get("s2").version, nobody.state("s2")) == (0, {})
        nobody.append("s2", [], state_delta={"app:a": 1})
        assert nobody.state("s2") == {"app:a": 1}

    def test_a_repeated_append_changes_state_once(self, ada: SessionService) -> None:
        ada.append("s1", human("m1", "1"), state_delta={"n": 1, "user:n": 1})
        ada.append("s1", [], state_delta={"n": 2, "user:n": 2})
        ada.append("s1", human("m1", "1"), state_delta={"n": 1, "user:n": 1})
        assert ada.state("s1") == {"n": 2, "user:n": 2}

    def test_state_alone_is_an_entry_of_the_log(self, ada: SessionService) -> None:
        [event] = ada.append("s1", [], state_delta={"a": 1}, author="Ada", metadata={"why": "test"})
        assert (event.kind, event.seq, event.author, dict(event.metadata)) == (
            EventKind.STATE,
            1,
            "Ada",
            {"why": "test"},
        )
        assert ada.count("s1").events == 0

    def test_refused_state_changes_nothing(self, ada: SessionService) -> None:
        ada.append("s1", human("m1"), state_delta={"a": 1})
        before = snapshot(ada, "s1")
        for bad in ({"a": float("nan")}, {"a": (1, 2)}, {"a": {1: 2}}, {1: 2}, {"": 1}, {"user:": 1}):
            with pytest.raises(InvalidInputError, match="state_delta"):
                ada.append("s1", human("m2"), state_delta=bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="state"):
            ada.create("s2", state={"a": {1, 2}})
        assert snapshot(ada, "s1") == before

    def test_look_alike_keys(self, ada: SessionService) -> None:
        names = ["k", "K", "k ", "ḱ", "k\u200b", "κ", "user", "User:x", "temp"]
        delta = {name: at for at, name in enumerate(names)}
        shared = {f"user:{name}": at for at, name in enumerate(["k", "K", "k ", "ḱ"])}
        ada.append("s1", [], state_delta={**delta, **shared})
        assert ada.state("s1") == {**delta, **shared}
