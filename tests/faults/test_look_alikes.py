"""D05: users, sessions and applications whose names look alike never meet, whatever they do and in whatever order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import Compaction, SessionExistsError, SessionNotFoundError, TurnCount, TurnWindow
from langchain_sessions.checkpointer import SessionCheckpointSaver
from tests.checkpointer.talking import talking
from tests.faults.drills import make_service, opened
from tests.faults.soaking import OPERATIONS, apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions import SessionService
    from tests.conftest import Counted

TOWN = 5_000
ALIKE = (
    *("ada", "Ada", "ADA", "ada ", " ada", "áda", "a\u0301da", "аda", "ada\u200b", "aɗa"),  # noqa: RUF001 - alike on purpose
    *("ıda", "ida", "İda", "i\u0307da", "ßda", "ssda", "ada\u00a0", "ａda", "ada.", "ad%"),  # noqa: RUF001
)


class Town:
    """Everybody has one session of each name that is theirs, and says only words that are theirs."""

    def __init__(self, services: list[SessionService], chance: random.Random) -> None:
        self.views = {(at, user): service.as_user(user) for at, service in enumerate(services) for user in ALIKE}
        self.said: dict[tuple[int, str], dict[str, int]] = {place: {} for place in self.views}
        self.owner: dict[tuple[int, str], str] = {}
        self.chance = chance
        self.count = 0

    def step(self) -> None:
        """Something that somebody does, and the look of it."""
        self.count += 1
        place = self.chance.choice(list(self.views))
        session = self.chance.choice(ALIKE)
        act: Callable[..., None] = self.chance.choice(
            [
                self.say,
                self.say,
                self.say,
                self.read,
                self.read,
                self.find,
                self.every,
                self.talk,
                self.compact,
                self.go,
            ]
        )
        act(place, session, self.views[place])

    def word(self, place: tuple[int, str]) -> str:
        """A word that nobody else says."""
        return f"word{place[0]}x{ALIKE.index(place[1])}x"

    def check(self, place: tuple[int, str], texts: list[str]) -> None:
        """All of them are somebody's own."""
        assert all(text.startswith(self.word(place)) or "summary" in text for text in texts), (place, texts)

    def reach(self, place: tuple[int, str], session: str) -> bool:
        """Whether the session is theirs; elsewhere it looks as if there were none."""
        owner = self.owner.get((place[0], session))
        if owner == place[1]:
            return True
        with pytest.raises(SessionNotFoundError):
            self.views[place].messages(session)
        return False

    def say(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        owner = self.owner.get((place[0], session))
        if owner not in (None, place[1]):
            with pytest.raises(SessionExistsError):
                view.create(session)
            with pytest.raises(SessionNotFoundError):
                view.append(session, HumanMessage(self.word(place)))
            return
        if owner is None:
            view.create(session)
            self.owner[place[0], session] = place[1]
            self.said[place][session] = 0
        view.append(session, HumanMessage(f"{self.word(place)} {self.count}"))
        self.said[place][session] += 1

    def read(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        if self.reach(place, session):
            events = [event.message for event in view.events(session) if event.message is not None]
            self.check(place, [str(each.text) for each in events])

    def find(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        other = self.chance.choice(list(self.views))
        hits = list(view.search(self.word(other), limit=20))
        assert all(hit.event.session_id in self.said[place] for hit in hits)
        self.check(place, [hit.text for hit in hits])

    def every(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        listed = {each.id for each in view.list_sessions(limit=100)}
        assert listed == set(self.said[place])

    def talk(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        if self.reach(place, session):
            graph = talking(SessionCheckpointSaver(view))
            config: Any = {"configurable": {"thread_id": session, "user_id": place[1]}}
            found = graph.get_state(config)
            assert found.created_at is None

    def compact(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        if self.reach(place, session):
            view.compact(session, Compaction(TurnCount(5), TurnWindow(max_turns=2)))
            self.check(place, [str(each.text) for each in view.messages(session)])

    def go(self, place: tuple[int, str], session: str, view: SessionService) -> None:
        if self.chance.random() < 0.8:
            return
        is_theirs = self.owner.get((place[0], session)) == place[1]
        assert view.delete(session) is is_theirs
        if is_theirs:
            del self.owner[place[0], session], self.said[place][session]


def _live(url: str, prefix: str, operations: int, seed: int = 1) -> None:
    """Two applications in one database, whose names look alike too."""
    apps = [make_service(url, table_prefix=prefix, app=app) for app in ("chat", "Chat ")]
    with opened(*apps) as services:
        town = Town(list(services), random.Random(seed))  # noqa: S311 - a seed makes a scenario
        for _ in range(operations):
            town.step()
        assert len(town.owner) > 10


@pytest.mark.backends("files", "sqlite", "postgres", "mariadb")
def test_users_who_look_alike_never_meet(database_url: str, table_prefix: str) -> None:
    _live(database_url, table_prefix, operations=250)


@pytest.mark.soak
@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_a_hundred_thousand_operations_of_users_who_look_alike(
    database_url: str, table_prefix: str, counted: Counted
) -> None:
    """A town for five thousand each, since what is read in a session grows with it."""
    for number in range(OPERATIONS // TOWN):
        _live(*apart(database_url, table_prefix, number), operations=TOWN, seed=number)
        counted("operations of look-alikes", TOWN)
