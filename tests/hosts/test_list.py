"""Issue 17, items 10 and 11: each letter of the list that has no home elsewhere."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine

from langchain_sessions import (
    ANY_BRANCH,
    Compaction,
    ConversationSummary,
    EventFilter,
    EventKind,
    InMemoryStore,
    NewEvent,
    Outcome,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionService,
    Summarize,
    SummaryAsFact,
    SummaryPrompts,
    TimeWindow,
    TokenCount,
    TurnCount,
    TurnWindow,
    create_conversation_search_tool,
)
from langchain_sessions.errors import (
    CorruptRowError,
    InvalidInputError,
    ServiceClosedError,
    SessionsError,
    StoreUnavailableError,
)
from langchain_sessions.selectors import WholeRuns, by_type
from langchain_sessions.testing import StoreContract
from tests.openai_stub.server import OpenAIStub
from tests.servers.__main__ import SERVERS
from tests.servers.__main__ import main as run_servers
from tests.servers.environment import absence_variable, url_variable
from tests.servers.postgres import PrivatePostgres
from tests.servers.private import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

METHODS: dict[str, Callable[[SessionService], Any]] = {
    "append": lambda sessions: sessions.append("x", HumanMessage("more")),
    "compact": lambda sessions: sessions.compact("x", Compaction(TurnCount(1), TurnWindow(max_turns=1)), force=True),
    "context": lambda sessions: sessions.context("x"),
    "count": lambda sessions: sessions.count("x"),
    "events": lambda sessions: sessions.events("x"),
    "fork": lambda sessions: sessions.fork("x"),
    "get": lambda sessions: sessions.get("x"),
    "list_sessions": lambda sessions: sessions.list_sessions(),
    "messages": lambda sessions: sessions.messages("x"),
    "rewind": lambda sessions: sessions.rewind("x", to_seq=1),
    "search": lambda sessions: sessions.search("hello", session_id="x"),
    "turns": lambda sessions: sessions.turns("x"),
    "verify": lambda sessions: sessions.verify("x"),
    "delete": lambda sessions: sessions.delete("x"),
}


def written(path: Path) -> str:
    """A database with a session `x`, and another one beside it."""
    url = f"sqlite:///{path}"
    with SessionService(url) as sessions:
        for name in ("x", "other"):
            sessions.create(session_id=name)
            sessions.append(name, [HumanMessage("hello"), AIMessage("hi"), HumanMessage("again"), AIMessage("yes")])
    return url


def tampered(path: Path, sql: str, *values: Any) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(sql, values)
    connection.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/chat.db"])
def test_item_11a_a_closed_service_refuses_every_call(url: str, tmp_path: Path) -> None:
    sessions = SessionService(url.format(tmp_path))
    sessions.create(session_id="x")
    view = sessions.as_user("ada")
    sessions.close()
    for act in METHODS.values():
        with pytest.raises(ServiceClosedError):
            act(sessions)
    with pytest.raises(ServiceClosedError):
        view.create()
    with pytest.raises(ServiceClosedError):
        view.invocation("x")  # before its body pays a model
    with pytest.raises(ServiceClosedError):
        SessionCheckpointSaver(sessions).get_tuple({"configurable": {"thread_id": "x"}})


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_item_11b_who_spoke_last_leads_the_list_on_every_page(
    backend: str, database_url: str, table_prefix: str
) -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    database: Any = InMemoryStore() if backend == "memory" else database_url
    with SessionService(
        database, table_prefix=table_prefix, create_schema=True, clock=lambda: now, search=False
    ) as sessions:
        names = ["first", *(f"s{number:02}" for number in range(60))]
        for name in names:
            now += timedelta(milliseconds=500)
            sessions.create(session_id=name)
            sessions.append(name, HumanMessage("hello"))
        now += timedelta(milliseconds=500)
        sessions.append("first", HumanMessage("again"))
        found: list[str] = []
        cursor = None
        while cursor is not None or not found:
            page = sessions.list_sessions(limit=3, cursor=cursor)
            found += [session.id for session in page]
            cursor = page.next_cursor
    assert found == ["first", *reversed(names[1:])]


def test_item_11c_what_is_no_compaction_is_refused_at_once() -> None:
    wrong: Any = TokenCount(10)
    swapped: tuple[Any, Any] = (TurnWindow(max_turns=2), TurnCount(2))
    url: Any = "sqlite://"
    with SessionService("sqlite://") as sessions:
        for make in (
            lambda: SessionMemoryAdvisor(sessions, compaction=wrong),
            lambda: Compaction(*swapped),
            lambda: SessionMemoryAdvisor(url),
            lambda: SessionCheckpointSaver(url),
            lambda: SessionChatMessageHistory.factory(url),
        ):
            with pytest.raises(InvalidInputError, match=r"Compaction\(|SessionService\("):
                make()


def test_item_11c_a_summariser_is_named_as_a_model_of_an_agent_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIStub() as stub, SessionService("sqlite://") as sessions:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        sessions.create(session_id="s")
        sessions.append("s", [HumanMessage("I am Ada"), AIMessage("hi"), HumanMessage("more"), AIMessage("yes")])
        done = sessions.compact("s", Compaction(None, Summarize("openai:gpt-4o", keep_events=2)))
        assert done.outcome is Outcome.COMPACTED
        assert "I am Ada" in "".join(stub.last.texts)
        assert stub.last.body["model"] == "gpt-4o"
    for wrong in ("nobody:gpt-4o", " "):
        with pytest.raises(InvalidInputError, match="Summarize"):
            Summarize(wrong)


def test_item_11d_a_record_of_unknown_kind_is_kept_and_returned(tmp_path: Path) -> None:
    url = written(tmp_path / "chat.db")
    with SessionService(url) as sessions:
        sessions.end("x")
    tampered(tmp_path / "chat.db", "UPDATE events SET kind = 77 WHERE seq = 5")
    with SessionService(url) as sessions:
        assert [event.kind for event in sessions.events("x")][4:] == [EventKind.UNKNOWN]
        assert [event.seq for event in sessions.events("x", EventFilter(kinds={EventKind.UNKNOWN}))] == [5]
        assert list(sessions.events("x", EventFilter(kinds={EventKind.LIFECYCLE}))) == []
        assert len(sessions.messages("x")) == 4


@pytest.mark.parametrize("position", [10**15, 2**63 - 1, -5])
@pytest.mark.parametrize("name", sorted({*METHODS} - {"get", "list_sessions", "search", "delete"}))
@pytest.mark.timeout(60)
def test_item_11e_an_absurd_position_ends_in_bounded_time(tmp_path: Path, name: str, position: int) -> None:
    url = written(tmp_path / "chat.db")
    tampered(tmp_path / "chat.db", "UPDATE sessions SET last_seq = ? WHERE id = 'x'", position)
    refused = pytest.raises(CorruptRowError, match="'x'") if name in ("append", "fork", "rewind") else None
    with SessionService(url) as sessions:
        with refused or contextlib.suppress(CorruptRowError):
            METHODS[name](sessions)
        assert len(sessions.messages("other")) == 4


def test_item_11e_a_damaged_ledger_is_a_corrupt_row_for_compact_too(tmp_path: Path) -> None:
    url = written(tmp_path / "chat.db")
    tampered(tmp_path / "chat.db", "UPDATE sessions SET ledger = 'garbage' WHERE id = 'x'")
    with SessionService(url) as sessions, pytest.raises(CorruptRowError):
        METHODS["compact"](sessions)


def test_item_11f_a_read_only_file_is_read_or_the_error_says_how(tmp_path: Path) -> None:
    url = written(tmp_path / "chat.db")
    file = f"{url.replace('sqlite:///', 'sqlite:///file:')}?uri=true&mode=ro"
    with SessionService(f"{file}&immutable=1") as sessions:
        assert [message.text for message in sessions.messages("x")][-1] == "yes"
        assert list(sessions.search("hello", session_id="x"))
        assert sessions.verify("x") == []
        with pytest.raises(StoreUnavailableError, match=r"read-only.*mode=ro&immutable=1"):
            sessions.append("x", HumanMessage("more"))


def test_item_11g_the_filter_that_is_merged_in_wins() -> None:
    both = EventFilter(match="all", keywords=("a",)), EventFilter(match="any", keywords=("b",))
    assert both[0].merge(both[1]).match == "any"
    assert both[1].merge(both[0]).match == "all"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "image_url", "image_url": "https://example.org/cat.png"},
        {"type": "image", "source_type": "url", "url": "https://example.org/cat.png"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {"type": "input_image", "image_url": "https://example.org/cat.png"},
    ],
)
def test_item_11h_the_summariser_sees_the_address_of_a_picture(block: dict[str, Any]) -> None:
    shown: list[str] = []

    class Watched(GenericFakeChatModel):
        def invoke(self, input: Any, *more: Any, **options: Any) -> Any:  # noqa: A002 - langchain's name
            shown.extend(str(message.text) for message in input)
            return super().invoke(input, *more, **options)

    with SessionService("sqlite://") as sessions:
        sessions.create(session_id="s")
        blocks: list[Any] = [{"type": "text", "text": "what is this?"}, block]
        sessions.append("s", [HumanMessage(blocks), AIMessage("a cat"), HumanMessage("thanks"), AIMessage("welcome")])
        model = Watched(messages=iter(["a cat was shown"]))
        done = sessions.compact("s", Compaction(None, Summarize(model, keep_events=2)))
    assert done.archived
    assert "https://example.org/cat.png]" in "".join(shown)


def test_item_11i_a_time_to_live_begins_when_the_session_is_there() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with SessionService("sqlite://", clock=lambda: now) as sessions:
        session = sessions.create(time_to_live=timedelta(hours=1))
    assert session.expires_at == session.created_at + timedelta(hours=1)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite://chat.db", "sqlite:///chat.db"),
        ("postgres://ada:secret@localhost/chat", "postgresql://"),
        ("postgresql+psycopg://ada:secret@127.0.0.1:1/chat", "127.0.0.1:1"),
        ("postgresql+psycopg://ada:very@secret@127.0.0.1:1/chat", "%40"),
    ],
)
def test_item_11j_a_url_that_cannot_be_used_says_what_was_meant(url: str, named: str) -> None:
    with pytest.raises((InvalidInputError, StoreUnavailableError, SessionsError)) as caught:
        SessionService(url, create_schema=False).create()
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_item_11k_what_is_removed_of_a_user_is_told_and_what_the_engine_keeps(
    backend: str, database_url: str, table_prefix: str
) -> None:
    database: Any = InMemoryStore() if backend == "memory" else database_url
    with SessionService(database, table_prefix=table_prefix, create_schema=True) as sessions:
        ada = sessions.as_user("ada")
        ada.create("s1", state={"user:lang": "de", "app:theme": "dark"})
        ada.append("s1", [HumanMessage("hello"), AIMessage("hi")])
        gone = ada.delete_user()
        assert (gone, gone.events, gone.state_keys) == (1, 2, 1)
        assert copy.copy(gone).remainders == gone.remainders
        statements = [statement for remainder in gone.remainders for statement in remainder.clear]
        assert bool(gone.remainders) == (backend != "memory")
        if backend == "sqlite":
            assert "VACUUM" in statements
        if backend in ("postgres", "mariadb"):
            assert any(f"{table_prefix}events" in statement for statement in statements)
            _run_all(database_url, [each for each in statements if table_prefix in each])


def _run_all(url: str, statements: list[str]) -> None:
    """They are statements that this server takes."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement).close()
    engine.dispose()


def test_item_11l_sessions_scroll_both_ways() -> None:
    """On every store and both faces, with ties and crowds: `test_17_l_…` of `ListSuite`."""
    with SessionService("sqlite://") as sessions:
        for number in range(7):
            sessions.create(session_id=f"s{number}")
        first = sessions.list_sessions(limit=3)
        second = sessions.list_sessions(limit=3, cursor=first.next_cursor)
        assert second.previous_cursor is not None
        back = sessions.list_sessions(limit=3, cursor=second.previous_cursor)
    assert [each.id for each in back] == [each.id for each in first]
    assert not {each.id for each in first} & {each.id for each in second}


def test_item_11m_a_window_of_days_is_a_strategy() -> None:
    now = datetime(2026, 1, 31, tzinfo=timezone.utc)
    with SessionService("sqlite://", clock=lambda: now, time_to_live=None) as sessions:
        sessions.create(session_id="s")
        for days in (30, 20, 6, 1):
            at = now - timedelta(days=days)
            said = [NewEvent(message=HumanMessage(f"{days} days ago"), timestamp=at)]
            sessions.append("s", [*said, NewEvent(message=AIMessage(f"yes, {days}"), timestamp=at)])
        week = Compaction(when=None, how=TimeWindow(timedelta(days=7)))
        assert len(sessions.compact("s", week).archived) == 4
        assert [message.text for message in sessions.messages("s")][::2] == ["6 days ago", "1 days ago"]
        assert not sessions.compact("s", week).archived
        sessions.compact("s", Compaction(when=None, how=TimeWindow(timedelta(hours=1))))
        assert [message.text for message in sessions.messages("s")] == ["1 days ago", "yes, 1"]
        assert sessions.verify("s") == []
    for wrong in (timedelta(0), timedelta(days=-1), 7):
        age: Any = wrong
        with pytest.raises(InvalidInputError, match="max_age"):
            TimeWindow(age)


def test_item_11n_a_summary_as_a_fact_names_its_session_and_templates_their_slots() -> None:
    with SessionService("sqlite://") as sessions:
        sessions.create(session_id="s&1")
        sessions.append("s&1", [HumanMessage("I am Ada"), AIMessage("hi"), HumanMessage("more"), AIMessage("yes")])
        summariser = GenericFakeChatModel(messages=iter(["she is Ada"]))
        sessions.compact("s&1", Compaction(None, Summarize(summariser, keep_events=2)))
        seen: list[Any] = []

        def answer(prompt: Any) -> AIMessage:
            seen.append(prompt)
            return AIMessage("Ada")

        config: Any = {"configurable": {"session_id": "s&1"}}
        memory = SessionMemoryAdvisor(sessions, modes=[SummaryAsFact()])
        memory.wrap(RunnableLambda(answer)).invoke([HumanMessage("who am I?")], config)
    (system, *_), *_ = (prompt.to_messages() if hasattr(prompt, "to_messages") else prompt for prompt in seen)
    assert 'session="s&amp;1">she is Ada</fact>' in system.text
    for template in ("{instructions} {summary} {sumary}", "{instructions}"):
        with pytest.raises(InvalidInputError, match=r"template.*(sumary|\{summary\})"):
            SummaryAsFact(template)
    assert SummaryAsFact("{instructions} {summary} {{word}} {}").template
    with pytest.raises(InvalidInputError, match=r"request.*nothing fills nonsense.*\{conversation\}"):
        SummaryPrompts(request="{conversation} {nonsense}")


FIELDS: dict[str, Any] = {
    "title": "T",
    "keywords": ["k"],
    "summary": "She is Ada.",
    "key_points": [],
    "key_facts": [],
    "sentiment": "neutral",
    "confidence": 7,
}
RULES: dict[str, Any] = {
    "title": "of_a_call",
    "type": "object",
    "required": ["summary", "mood"],
    "properties": {
        "summary": {"type": "string"},
        "mood": {"enum": ["good", "bad", None]},
        "topics": {"type": "array", "items": {"type": "string", "enum": ["billing", "shipping"]}},
        "stars": {"type": ["integer", "null"], "minimum": 1, "maximum": 5},
    },
}


@pytest.mark.parametrize(
    ("schema", "answer", "is_fit"),
    [
        (ConversationSummary, FIELDS, True),
        (ConversationSummary, {**FIELDS, "sentiment": "calm"}, False),
        (ConversationSummary, {**FIELDS, "confidence": 10.5}, False),
        (RULES, {"summary": "s", "mood": None, "topics": ["billing"], "stars": None}, True),
        (RULES, {"summary": "s", "mood": "mixed"}, False),
        (RULES, {"summary": "s", "mood": "good", "topics": ["billing", "weather"]}, False),
        (RULES, {"summary": "s", "mood": "good", "stars": 6}, False),
        (RULES, {"summary": "s", "mood": "good", "stars": "5"}, False),
    ],
)
def test_item_11n_enumerations_and_bounds_of_a_structured_summary_are_enforced(
    schema: Any,
    answer: dict[str, Any],
    is_fit: bool,  # noqa: FBT001 - what is expected
) -> None:
    with SessionService("sqlite://") as sessions:
        sessions.create(session_id="s")
        sessions.append("s", [HumanMessage("I am Ada"), AIMessage("hi"), HumanMessage("more"), AIMessage("yes")])
        model = GenericFakeChatModel(messages=iter([json.dumps(answer)] * 5))
        done = sessions.compact("s", Compaction(None, Summarize(model, keep_events=2, schema=schema)))
    assert (done.outcome is Outcome.COMPACTED) == is_fit, done


def test_item_11o_whole_runs_are_stored_and_no_others() -> None:
    config: Any = {"configurable": {"session_id": "s"}}
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1", "type": "tool_call"}])
    answers: list[Any] = [AIMessage("hi"), ConnectionError("away"), call, AIMessage("it is blue")]

    def answer(_: Any) -> AIMessage:
        said = answers.pop(0)
        if isinstance(said, AIMessage):
            return said
        raise said

    with SessionService("sqlite://") as sessions:
        chat: Any = SessionMemoryAdvisor(sessions, store=WholeRuns()).wrap(RunnableLambda(answer))
        chat.invoke([HumanMessage("hello")], config)
        with pytest.raises(ConnectionError):
            chat.invoke([HumanMessage("are you there?")], config)
        question = HumanMessage("look it up")
        chat.invoke([question], config)
        assert [message.text for message in sessions.messages("s")] == ["hello", "hi"]
        chat.invoke([question, call, ToolMessage("blue", tool_call_id="c1")], config)
        said = [message.text for message in sessions.messages("s")]
        assert said == ["hello", "hi", "look it up", "", "blue", "it is blue"]
        assert [e.message for e in sessions.events("s") if e.message is not None] == sessions.messages("s")
        assert sessions.verify("s") == []
    asked = [SystemMessage("be brief"), HumanMessage("a"), HumanMessage("b"), call, HumanMessage("c"), AIMessage("d")]
    assert [message.text for message in WholeRuns()(asked)] == ["be brief", "c", "d"]
    assert [m.text for m in WholeRuns(by_type("ai"))([HumanMessage("a"), AIMessage("b")])] == ["b"]


def test_item_11p_state_of_a_user_and_an_app_needs_no_session() -> None:
    """On every store and both faces: `StateSuite.test_shared_state_needs_no_session`."""
    with SessionService("sqlite://") as sessions:
        ada = sessions.as_user("ada")
        ada.update_shared_state({"user:lang": "de", "app:theme": "dark"})
        assert ada.shared_state() == {"user:lang": "de", "app:theme": "dark"}
        assert sessions.as_user("grace").shared_state() == {"app:theme": "dark"}


def test_item_11q_a_thread_id_that_is_too_long_is_refused_before_a_node_runs() -> None:
    ran: list[int] = []

    def work(state: MessagesState) -> dict[str, Any]:
        ran.append(len(state["messages"]))
        return {}

    with SessionService("sqlite://") as sessions:
        builder = StateGraph(MessagesState)
        builder.add_node("work", work)
        builder.add_edge(START, "work")
        graph: Any = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
        with pytest.raises(InvalidInputError, match=r"thread_id.*255"):
            graph.invoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": "t" * 256}})
    assert ran == []


def test_item_10_the_search_tool_sees_what_its_agent_sees() -> None:
    config: Any = {"configurable": {"thread_id": "s"}}
    with SessionService("sqlite://") as sessions:
        sessions.create(session_id="s")
        sessions.append("s", HumanMessage("a report is due"))
        for worker in ("orch.one", "orch.two"):
            sessions.append("s", AIMessage(f"the report of {worker}"), branch=worker)
        found = {
            branch: json.loads(
                create_conversation_search_tool(sessions, branch=branch).invoke({"query": "report"}, config)
            )
            for branch in (None, "orch.one", ANY_BRANCH)
        }
        literal = create_conversation_search_tool(sessions, mode="literal", branch="orch.two")
        (only,) = json.loads(literal.invoke({"query": "REPORT of orch"}, config))["results"]
        wrong: Any = "fuzzy"
        with pytest.raises(InvalidInputError, match="mode"):
            create_conversation_search_tool(sessions, mode=wrong)
    texts = {branch: [result["text"] for result in answer["results"]] for branch, answer in found.items()}
    assert texts[None] == ["a report is due"]
    assert texts["orch.one"] == ["a report is due", "the report of orch.one"]
    assert len(texts[ANY_BRANCH]) == 3
    assert {result["why"] for answer in found.values() for result in answer["results"]} <= {"match", "context"}
    assert only["text"].endswith("orch.two")


def test_item_11r_draws_are_the_same_each_time_but_in_a_soak() -> None:
    """The two histories are plain examples: `test_every_prompt_has_whole_pairs`, `test_17_r_…` of `ArchiveSuite`."""
    is_soak = os.environ.get("LANGCHAIN_SESSIONS_DRAWS") == "soak"
    for profile in ("default", "ci"):
        drawn = settings.get_profile(profile)
        assert drawn.derandomize
        assert Phase.shrink not in drawn.phases
    longest = settings.get_profile("soak")
    assert not longest.derandomize
    assert longest.max_examples >= 1000
    assert settings().derandomize != is_soak
    kept = {name for suite in StoreContract.__mro__ for name in vars(suite) if name.startswith("test_17_r_")}
    assert len(kept) == 2


def test_item_11s_what_cannot_be_installed_is_named_and_the_rest_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`make test` on a machine whose package manager fails: an `apt-get` that does nothing but that."""
    broken = tmp_path / "apt-get"
    broken.write_text("#!/bin/sh\necho no such mirror >&2\nexit 100\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(url_variable("postgres"), raising=False)

    class Missing(PrivatePostgres):
        package = "postgresql-of-tomorrow"

        @classmethod
        def installed(cls) -> bool:
            return False

        def start(self) -> None:
            problem = f"{self.package} is not installed"
            raise ServerUnavailableError(problem)

    monkeypatch.setitem(SERVERS, "postgres", Missing)
    told = f"import os; print(os.environ[{absence_variable('postgres')!r}])"
    status = run_servers(["run", "--install", "--only", "postgres", "--", sys.executable, "-c", told])
    out, error = capfd.readouterr()
    assert status == 0
    assert "postgresql-of-tomorrow is not installed" in out
    assert "postgresql-of-tomorrow" in error + out


def test_item_11s_a_run_that_needs_all_backends_fails_without_one() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LANGCHAIN_SESSIONS_TEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--require-backends",
        "tests/unit/test_door.py",
    ]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    assert done.returncode != 0
    assert "was asked for but cannot run" in done.stderr + done.stdout


def test_every_letter_of_the_list_has_a_test() -> None:
    names = [name.removeprefix("test_item_11") for name in globals() if name.startswith("test_item_11")]
    assert {name[0] for name in names} == set("abcdefghijklmnopqrs")
