"""What every theme of the suite stands on: its fixtures, and short words for what tests say all the time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions.events import SessionEvent, Standing
from langchain_sessions.service import SessionService
from langchain_sessions.testing.faces import FACES, Face, PrivateLoop, SettableClock, faced

if TYPE_CHECKING:
    from langchain_sessions.stores._base import SessionStore

MakeService = Callable[..., SessionService]


class StoreSuite:
    """The fixtures of the suite. A subclass supplies `store`.

    Each test works in an app of its own, so that the store may serve many tests.

    Attributes:
        faces: The faces to test; a store that has only one says so.
    """

    faces: ClassVar[tuple[Face, ...]] = FACES

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test once on each face."""
        if "face" in metafunc.fixturenames:
            metafunc.parametrize("face", self.faces)

    @pytest.fixture
    def store(self) -> SessionStore:
        """The store under test, ready for use."""
        pytest.fail("A subclass of StoreContract supplies a `store` fixture that returns a SessionStore.")

    @pytest.fixture
    def loop(self) -> Iterator[PrivateLoop]:
        """Where the async face runs. A store that is bound to one loop overrides this with that loop."""
        loop = PrivateLoop()
        yield loop
        loop.close()

    @pytest.fixture
    def clock(self) -> SettableClock:
        """The service's clock; it stands still until a test moves it."""
        return SettableClock()

    @pytest.fixture
    def app(self) -> str:
        """An app that no other test uses."""
        return f"app-{secrets.token_hex(6)}"

    @pytest.fixture
    def make_service(
        self, store: SessionStore, face: Face, loop: PrivateLoop, clock: SettableClock, app: str
    ) -> MakeService:
        """Make another service over the same store, with options of its own."""

        def make(**options: Any) -> SessionService:
            return faced(SessionService(store, **{"app": app, "clock": clock, **options}), face, loop)

        return make

    @pytest.fixture
    def sessions(self, make_service: MakeService) -> SessionService:
        """The operator's service."""
        return make_service()

    @pytest.fixture
    def ada(self, sessions: SessionService) -> SessionService:
        """The service as ada sees it, with her session `s1`."""
        ada = sessions.as_user("ada")
        ada.create("s1")
        return ada

    @pytest.fixture
    def grace(self, sessions: SessionService) -> SessionService:
        """The service as grace sees it."""
        return sessions.as_user("grace")


def human(text: str, message_id: str | None = None) -> HumanMessage:
    """Something that a person says."""
    return HumanMessage(text, id=message_id)


def ai(text: str, message_id: str | None = None) -> AIMessage:
    """Something that the model says."""
    return AIMessage(text, id=message_id)


def asks(*call_ids: str, text: str = "") -> AIMessage:
    """An AI message that calls the tool `look` once for each id."""
    calls = [{"name": "look", "args": {"at": call}, "id": call, "type": "tool_call"} for call in call_ids]
    return AIMessage(text, tool_calls=calls)


def numbered(count: int, first: int = 1) -> list[BaseMessage]:
    """Messages `m1`, `m2`, … by turns of the person and the model."""
    return [human(f"m{n}") if n % 2 else ai(f"m{n}") for n in range(first, first + count)]


def texts(items: Iterable[SessionEvent | BaseMessage]) -> list[str]:
    """The texts of events or messages; records are left out."""
    messages = (item.message if isinstance(item, SessionEvent) else item for item in items)
    return [str(message.text) for message in messages if message is not None]


def seqs(events: Iterable[SessionEvent]) -> list[int]:
    """The positions of events."""
    return [event.seq for event in events]


def standings(events: Iterable[SessionEvent]) -> list[Standing]:
    """Where the messages among some events stand."""
    return [event.standing for event in events if event.message is not None]


def snapshot(service: SessionService, session_id: str) -> dict[str, Any]:
    """All that a session shows, for comparing before and after."""
    return {
        "session": service.get(session_id),
        "events": service.events(session_id).items,
        "messages": service.messages(session_id),
        "state": service.state(session_id),
    }
