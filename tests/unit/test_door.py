"""One door: what can be imported from the top, how it is documented, and what it refuses."""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import pickle
import re
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

import langchain_sessions
from langchain_sessions import (
    Compaction,
    InMemoryStore,
    InvalidInputError,
    MissingDependencyError,
    ServiceClosedError,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionEvent,
    SessionMemoryAdvisor,
    SessionNotFoundError,
    SessionsError,
    SessionService,
    StoreUnavailableError,
    TokenCount,
    TurnWindow,
    UnsupportedDatabaseError,
    _public_names,
    create_conversation_search_tool,
    errors,
)
from langchain_sessions._core.codec.any_message import MessageCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.rows import EventRow

ROOT = Path(__file__).parents[2]


def _list() -> ast.Module:
    return ast.parse((ROOT / "langchain_sessions" / "_public_names.py").read_text())


def _names_for_type_checkers() -> dict[str, str]:
    """What the block for type checkers imports, with where from."""
    block = next(node for node in _list().body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: str(node.module).removeprefix("langchain_sessions.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_three_lists_of_names_agree() -> None:
    lazy = {name: home for home, names in _public_names.HOMES.items() for name in names}
    assert lazy == _names_for_type_checkers()
    assert sorted(lazy) == sorted(langchain_sessions.__all__)


def test_who_asks_for_everything_is_given_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *at: None if name == "langchain" else find(name, *at))
    # Loaded already where another test asked for it.
    monkeypatch.delitem(vars(langchain_sessions), "SessionMemoryMiddleware", raising=False)

    assert set(_public_names.__all__) - set(langchain_sessions.__all__) == {"SessionMemoryMiddleware"}
    imported: dict[str, object] = {}
    exec("from langchain_sessions import *", imported)  # noqa: S102 - what an application writes
    assert imported["SessionService"] is SessionService
    assert "SessionService" in dict(inspect.getmembers(langchain_sessions))  # as `help` and notebooks ask
    assert "SessionMemoryMiddleware" not in dir(langchain_sessions)
    with pytest.raises(MissingDependencyError, match=r"langchain-sessions\[agents\]"):
        langchain_sessions.SessionMemoryMiddleware  # noqa: B018


def _public(path: Path) -> bool:
    return all(not part.startswith("_") for part in path.relative_to(ROOT / "langchain_sessions").parts)


def _defined(path: Path) -> set[str]:
    """The names that a module defines for others."""
    named: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            named.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in named if not name.startswith("_")}


def test_what_is_public_is_at_the_top_but_for_three_doors_of_other_people() -> None:
    """What only one module has would make a door of it; `cli.entry` is what a terminal calls."""
    modules = {path for path in (ROOT / "langchain_sessions").rglob("*.py") if _public(path)}
    named = {path.relative_to(ROOT / "langchain_sessions").as_posix(): _defined(path) for path in modules}
    elsewhere = {name for name, names in named.items() if names - {*langchain_sessions.__all__}}
    assert {name for name in elsewhere if not name.startswith("testing/")} == {
        "cli/entry.py",
        "selectors.py",
        "stores/engine.py",
    }


def test_no_folder_is_a_door_beside_the_top() -> None:
    folders = {path.parent for path in (ROOT / "langchain_sessions").rglob("*.py") if _public(path.parent)}
    assert {path.name for path in folders} == {"langchain_sessions", "cli", "stores", "testing", "suites"}


@pytest.mark.parametrize("name", langchain_sessions.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    found = getattr(langchain_sessions, name)
    assert not (inspect.isclass(found) or inspect.isfunction(found)) or (found.__doc__ or "").strip()


def test_every_error_is_in_one_module_and_at_the_top() -> None:
    here = {name for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, SessionsError)}
    assert here <= {*langchain_sessions.__all__}


def test_inheritance_is_at_most_two_deep() -> None:
    ours = [cls for cls in SessionService.__mro__ if cls.__module__.startswith("langchain_sessions")]
    assert max(len([base for base in cls.__mro__ if base in ours]) for cls in ours[1:]) == 1


def test_the_twin_is_shown_as_the_method_is() -> None:
    for name in ("append", "search", "create"):
        one, two = getattr(SessionService, name), getattr(SessionService, f"a{name}")
        assert inspect.signature(one) == inspect.signature(two)
        assert two.__doc__ == one.__doc__


def test_no_name_has_a_method_that_only_says_that_it_is_async() -> None:
    classes = filter(inspect.isclass, (getattr(langchain_sessions, name) for name in langchain_sessions.__all__))
    every = [(base.__name__, name, each) for cls in classes for base in _ours(cls) for name, each in vars(base).items()]
    assert not [(cls, name) for cls, name, each in every if re.fullmatch(r"Async `\w+`\.", str(each.__doc__))]


def _ours(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("langchain_sessions")]


def test_a_wrong_keyword_names_the_method_that_was_called() -> None:
    service: Any = SessionService(InMemoryStore())
    with pytest.raises(TypeError, match=r"append\(\) got an unexpected keyword argument 'sesion'"):
        service.append("s", HumanMessage("hi"), sesion="s")


def test_a_service_asks_for_its_database() -> None:
    make: Any = SessionService
    with pytest.raises(InvalidInputError, match=r"database: .*InMemoryStore\(\)"):
        make()


@pytest.fixture
def ada() -> Iterator[SessionService]:
    with SessionService(InMemoryStore()) as service:
        ada = service.as_user("ada")
        ada.open("s")
        yield ada


@pytest.mark.parametrize("url", ["sqlite://", "memory"])
def test_a_closed_service_refuses_every_call(url: str) -> None:
    """Issue 17, list a."""
    service = SessionService(InMemoryStore() if url == "memory" else url)
    service.create("s")
    view = service.as_user("ada")
    service.close()
    calls: list[Callable[[], Any]] = [
        lambda: service.append("s", HumanMessage("hi")),
        lambda: service.messages("s"),
        lambda: service.get("s"),
        service.list_sessions,
        lambda: service.delete("s"),
        lambda: service.search("hi", whole_app=True),
        service.create_schema,
        lambda: view.open("t"),
    ]
    for call in calls:
        with pytest.raises(ServiceClosedError, match="was closed"):
            call()
    service.close()  # twice does no harm


def test_an_append_decodes_nothing_until_asked(ada: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = MessageCodec.decode

    def counting(self: MessageCodec, session_id: str, row: EventRow) -> BaseMessage:
        decoded.append(row.seq)
        return decode(self, session_id, row)

    monkeypatch.setattr(MessageCodec, "decode", counting)
    said = HumanMessage("hi", id="m1")
    (event,) = ada.append("s", said)
    assert decoded == []
    assert event.message == said
    assert event.message is not said
    assert event.message is event.message
    assert decoded == [1]


def test_what_an_append_returns_is_a_value(ada: SessionService) -> None:
    def appended() -> SessionEvent:
        return ada.append("s", AIMessage("hello", id="m1"))[0]

    stored = ada.events("s").items or (appended(), *ada.events("s").items)
    assert appended() == ada.events("s").items[0]
    assert repr(appended()) == repr(stored[0])
    assert pickle.loads(pickle.dumps(appended())) == appended()  # noqa: S301 - bytes of our own
    assert copy.deepcopy(appended()) == appended()
    assert replace(appended(), author="x").message == AIMessage("hello", id="m1")
    assert SessionEvent.message is None


def test_a_traceback_shows_the_driver_once(ada: SessionService) -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        ada.messages("nowhere")
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert len([name for name in frames if name.endswith("flow.py")]) == 1


@pytest.mark.parametrize("recency", ["high", float("nan"), None])
def test_a_wrong_option_of_a_search_is_no_corruption(ada: SessionService, recency: float) -> None:
    ada.append("s", HumanMessage("hello"))
    with pytest.raises(InvalidInputError, match="recency"):
        ada.search("hello", session_id="s", recency=recency)


def test_what_is_no_compaction_is_refused_with_the_way_out(ada: SessionService) -> None:
    """Issue 17, list c."""
    trigger: Any = TokenCount(10)
    swapped: Any = TurnWindow(2)
    for make in (
        lambda: SessionMemoryAdvisor(ada, compaction=trigger),
        lambda: Compaction(swapped, trigger),
        lambda: ada.compact("s", trigger),
    ):
        with pytest.raises(InvalidInputError, match=r"write Compaction\(when, how\)"):
            make()


def test_a_url_where_a_service_is_wanted_is_refused_with_the_way_out() -> None:
    """Issue 17, list c."""
    url: Any = "sqlite:///chat.db"
    for make in (
        lambda: SessionMemoryAdvisor(url),
        lambda: SessionChatMessageHistory("s", url),
        lambda: SessionCheckpointSaver(url),
        lambda: create_conversation_search_tool(url),
    ):
        with pytest.raises(InvalidInputError, match=r"give a SessionService, such as SessionService\('sqlite:"):
            make()


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("sqlite://chat.db", "sqlite:///chat.db"),
        ("postgres://ada:secret@host/chat", "postgresql://"),
        ("chat.db", "sqlite:///chat.db"),
    ],
)
def test_a_url_that_is_written_wrongly_names_what_was_meant(url: str, meant: str) -> None:
    """Issue 17, list j."""
    with pytest.raises((InvalidInputError, UnsupportedDatabaseError)) as caught:
        SessionService(url)
    assert meant in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_an_unreachable_server_is_named_without_the_password(scheme: str) -> None:
    """Issue 17, list j."""
    service = SessionService(f"{scheme}://ada:secret@127.0.0.1:1/chat")
    with pytest.raises(StoreUnavailableError) as caught:
        service.get("s")
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)
    service.close()


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("mysql://ada:secret@127.0.0.1:1/chat?colour=1", "colour"),
        ("mysql://ada:secret@127.0.0.1:1/chat?connect_timeout=soon", "connect_timeout"),
        ("postgresql://ada:secret@127.0.0.1:1/chat?colour=1", "colour"),
        ("postgresql://ada:secret@127.0.0.1:1/chat?connect_timeout=soon", "connect_timeout"),
        ("postgresql://ada:secret@127.0.0.1:1/chat?sslmode=maybe", "sslmode"),
        ("sqlite:///chat.db?timeout=soon", "timeout"),
    ],
)
def test_an_option_that_a_driver_does_not_take_is_named(url: str, option: str) -> None:
    with pytest.raises(InvalidInputError, match=f"option '{option}'") as caught, SessionService(url) as service:
        service.get("s")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["mysql://ada@127.0.0.1:1/chat?charset=utf8mb4", "postgresql://ada@127.0.0.1:1/chat?application_name=chat"]
)
def test_no_option_is_blamed_for_a_server_that_is_not_there(url: str) -> None:
    with SessionService(url) as service, pytest.raises(StoreUnavailableError, match="start it"):
        service.get("s")


def test_no_option_is_blamed_for_the_name_of_a_file() -> None:
    with (
        SessionService("sqlite:///a\x00b.db?timeout=3") as service,
        pytest.raises(StoreUnavailableError, match="driver"),
    ):
        service.get("s")
