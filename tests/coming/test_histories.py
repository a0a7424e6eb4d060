"""Conversations of other libraries and in files come over, and our own export comes back as it was."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from sqlalchemy import create_engine, text

from langchain_sessions import (
    InvalidInputError,
    NewEvent,
    SessionNotFoundError,
    SessionService,
    export_sessions,
    import_threads,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALL = {"name": "look", "args": {"at": "sea"}, "id": "call-1", "type": "tool_call"}
SAID: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("What is the weather? 👩‍👩‍👧", name="ada"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("sunny", tool_call_id="call-1"),
    AIMessage("It is sunny.", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
]


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as service:
        yield service


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'other.db'}") as service:
        yield service


def same(sessions: SessionService, name: str, expected: list[BaseMessage]) -> None:
    found = [event.message for event in sessions.events(name) if event.message is not None]
    assert [(type(each), each.content, getattr(each, "tool_calls", None)) for each in found] == [
        (type(each), each.content, getattr(each, "tool_calls", None)) for each in expected
    ]


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values), encoding="utf-8")
    return path


def twice(sessions: SessionService, source: Any, **options: Any) -> None:
    first = import_threads(sessions, source, **options)
    assert (first.problems, first.unchanged) == ((), 0)
    again = import_threads(sessions, source, **options)
    assert (again.threads, again.unchanged, again.messages) == (first.threads, first.threads, 0)


def test_an_export_comes_back_as_it_was(sessions: SessionService, other: SessionService, tmp_path: Path) -> None:
    ada = other.as_user("ada")
    ada.create("s1", title="Weather", metadata={"room": 3})
    when = datetime(2024, 2, 29, 12, 30, 1, 250, tzinfo=timezone.utc)
    odd = ToolMessage("bytes", tool_call_id="call-2", artifact=(1, b"\xff", {"deep": {2}}), id="odd")
    ada.append("s1", [NewEvent(message=each, timestamp=when, author="a", metadata={"n": 1}) for each in SAID])
    ada.append("s1", [NewEvent(message=odd, branch="sub"), NewEvent(state_delta={"k": [1]}, id="state")])
    other.create("s2")
    other.append("s2", HumanMessage("unowned"))
    file = tmp_path / "all.jsonl"
    file.write_text("".join(line + "\n" for line in export_sessions(other)), encoding="utf-8")
    twice(sessions, file)
    assert sessions.get("s1").user_id == "ada"
    assert sessions.get("s2").user_id is None
    assert (sessions.get("s1").title, dict(sessions.get("s1").metadata)) == ("Weather", {"room": 3})

    def told(service: SessionService, name: str) -> list[Any]:
        written = [json.loads(line) for line in export_sessions(service, name)]
        for line in written:
            line.get("session", {}).pop("updated_at", None)
            line.get("session", {}).pop("created_at", None)
        return written

    for name in ("s1", "s2"):
        assert told(sessions, name) == told(other, name)
        ours, theirs = (list(service.events(name)) for service in (sessions, other))
        assert [event.message for event in ours] == [event.message for event in theirs]
    assert sessions.state("s1") == {"k": [1]}


def test_other_forms_of_export(sessions: SessionService, tmp_path: Path) -> None:
    sessions.create("s1", title="Weather")
    sessions.append("s1", SAID)
    [line] = export_sessions(sessions, "s1", form="openai")
    chat = json.loads(line)
    assert [each["role"] for each in chat["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert chat["messages"][2]["tool_calls"][0]["function"]["name"] == "look"
    read = "\n".join(export_sessions(sessions, "s1", form="markdown"))
    assert read.startswith("# Weather\n")
    assert "It is sunny." in read
    assert "👩‍👩‍👧" in read
    examples = [json.loads(line) for line in export_sessions(sessions, form="langsmith")]
    assert [len(each["inputs"]["messages"]) for each in examples] == [2, 4]
    assert examples[1]["outputs"]["messages"][0]["content"] == "It is sunny."
    with pytest.raises(SessionNotFoundError):
        list(export_sessions(sessions, "none"))
    with pytest.raises(InvalidInputError):
        list(export_sessions(sessions, form="csv"))  # type: ignore[arg-type]
    path = tmp_path / "chat.jsonl"
    path.write_text(line, encoding="utf-8")
    twice(sessions.as_user("grace"), lines(tmp_path / "other.jsonl", {**chat, "session_id": "s3"}))
    same(sessions, "s3", SAID)


def test_files(sessions: SessionService, tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
    said = [HumanMessage("hello"), AIMessage("good day")]
    twice(sessions, lines(tmp_path / "loose.jsonl", *chat), user="ada")
    same(sessions.as_user("ada"), "loose", said)
    twice(sessions, lines(tmp_path / "tuning.jsonl", {"messages": chat}, {"messages": chat, "id": "named"}))
    same(sessions, "tuning-1", said)
    same(sessions, "named", said)
    (tmp_path / "history.json").write_text(json.dumps(messages_to_dict(SAID), indent=2), encoding="utf-8")
    twice(sessions, tmp_path / "history.json")
    same(sessions, "history", SAID)
    dumped = [each.to_json() for each in SAID]
    (tmp_path / "dumped.json").write_text(json.dumps({"one": dumped}), encoding="utf-8")
    twice(sessions, str(tmp_path / "dumped.json"))
    same(sessions, "one", SAID)


def test_files_that_are_damaged_or_none(sessions: SessionService, tmp_path: Path) -> None:
    broken = lines(tmp_path / "broken.jsonl", {"role": "user", "content": "first"})
    broken.write_text(broken.read_text() + "{not json\n")
    found = import_threads(sessions, broken)
    assert [(each.thread, each.problem) for each in found.problems] == [("broken", "line 2 is not JSON")]
    same(sessions, "broken", [HumanMessage("first")])
    odd = lines(
        tmp_path / "odd.jsonl", {"messages": [{"role": "user", "content": "kept"}, {"role": 5}]}, {"messages": []}
    )
    report = import_threads(sessions, odd)
    assert [each.thread for each in report.problems] == ["odd-1"]
    head = {"langchain-sessions": 1, "session": {"id": "torn", "user_id": None, "metadata": {}, "title": None}}
    torn = lines(tmp_path / "torn.jsonl", head, {"odd": 1}, {"odd": 2}, {**head, "session": {"id": "whole"}}, 5)
    report = import_threads(sessions, torn)
    assert [(each.thread, each.problem) for each in report.problems] == [
        ("torn", "a line is no event, or out of order"),
        ("torn", "a line is no event, or out of order"),
        ("whole", "line 5 is not JSON"),
    ]
    newer = lines(tmp_path / "newer.jsonl", {"langchain-sessions": 99, "session": {}})
    (tmp_path / "text.txt").write_text("hello")
    for source, why in ((newer, "newer release"), (tmp_path / "text.txt", "nothing that is known")):
        with pytest.raises(InvalidInputError, match=why):
            import_threads(sessions, source)


def test_sql_chat_message_history(sessions: SessionService, tmp_path: Path) -> None:
    sql = pytest.importorskip("langchain_community.chat_message_histories.sql")
    url = f"sqlite:///{tmp_path / 'old.db'}"
    for name in ("one", "two"):
        sql.SQLChatMessageHistory(name, connection=url, table_name="my_messages").add_messages(SAID)
    twice(sessions, url)
    for name in ("one", "two"):
        same(sessions, name, SAID)


def test_what_sql_chat_message_history_stores(sessions: SessionService, tmp_path: Path) -> None:
    """The same without that library: its table has been the same for years."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)"))
        for each in messages_to_dict(SAID):
            row = {"message": json.dumps(each)}
            connection.execute(text("INSERT INTO message_store (session_id, message) VALUES ('one', :message)"), row)
        connection.execute(text("INSERT INTO message_store (session_id, message) VALUES ('two', '{broken')"))
    engine.dispose()
    report = import_threads(sessions, url)
    assert [(each.thread, each.problem) for each in report.problems] == [
        ("two", "row 6: it is no message of this form")
    ]
    same(sessions, "one", SAID)


async def test_agents_sessions(sessions: SessionService, tmp_path: Path) -> None:
    agents = pytest.importorskip("agents")
    session = agents.SQLiteSession("chat", tmp_path / "agents.db")
    await session.add_items(AGENTS_ITEMS)
    session.close()
    twice(sessions, tmp_path / "agents.db", user="ada")
    same(sessions, "chat", AGENTS_SAID)


AGENTS_ITEMS: list[Any] = [
    {"role": "user", "content": "What is the weather?"},
    {"type": "function_call", "call_id": "call-1", "name": "look", "arguments": '{"at": "sea"}'},
    {"type": "function_call_output", "call_id": "call-1", "output": "sunny"},
    {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It is sunny.", "annotations": []}],
    },
]
AGENTS_SAID: list[BaseMessage] = [
    HumanMessage("What is the weather?"),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("sunny", tool_call_id="call-1"),
    AIMessage("It is sunny."),
]


def test_what_agents_sessions_store(sessions: SessionService, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP)"))
        connection.execute(
            text(
                "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT,"
                " message_data TEXT, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
            )
        )
        for item in AGENTS_ITEMS:
            row = {"data": json.dumps(item)}
            connection.execute(
                text("INSERT INTO agent_messages (session_id, message_data) VALUES ('chat', :data)"), row
            )
    engine.dispose()
    twice(sessions, url)
    same(sessions, "chat", AGENTS_SAID)


def test_what_adk_stores(sessions: SessionService, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'adk.db'}"
    engine = create_engine(url)
    parts: list[tuple[str, list[Any]]] = [
        ("user", [{"text": "What is the weather?"}]),
        ("helper", [{"function_call": {"id": "call-1", "name": "look", "args": {"at": "sea"}}}]),
        ("helper", [{"function_response": {"id": "call-1", "name": "look", "response": {"sky": "sunny"}}}]),
        ("helper", [{"text": "It is sunny."}]),
    ]
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT)"))
        connection.execute(text("CREATE TABLE app_states (app_name TEXT, state TEXT)"))
        connection.execute(text("CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT)"))
        names = "id, app_name, user_id, session_id, invocation_id, timestamp, event_data"
        connection.execute(text(f"CREATE TABLE events ({names})"))
        connection.execute(text("INSERT INTO sessions VALUES ('app', 'ada', 'chat', '{}')"))
        connection.execute(text('UPDATE sessions SET state = \'{"at": 3, "room": "blue"}\''))
        connection.execute(text("INSERT INTO user_states VALUES ('app', 'ada', '{\"lang\": \"de\"}')"))
        for at, (author, said) in enumerate(parts):
            role = "user" if author == "user" else "model"
            data = {"author": author, "content": {"role": role, "parts": said}, "actions": {"state_delta": {"at": at}}}
            row = {"id": f"e{at}", "at": f"2025-01-01 10:00:0{at}.000000", "data": json.dumps(data)}
            connection.execute(text("INSERT INTO events VALUES (:id, 'app', 'ada', 'chat', 'i', :at, :data)"), row)
    engine.dispose()
    twice(sessions, url)
    expected = [
        HumanMessage("What is the weather?"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage('{"sky": "sunny"}', tool_call_id="call-1"),
        AIMessage("It is sunny."),
    ]
    same(sessions.as_user("ada"), "chat", expected)
    assert sessions.state("chat") == {"at": 3, "room": "blue", "user:lang": "de"}
    assert {event.author for event in sessions.events("chat") if event.message} == {"user", "helper"}


def test_an_id_of_two_adk_applications_is_one_session_here(sessions: SessionService, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'adk.db'}"
    engine = create_engine(url)
    said = json.dumps({"author": "user", "content": {"role": "user", "parts": [{"text": "hello"}]}})
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT)"))
        connection.execute(text("CREATE TABLE app_states (app_name TEXT, state TEXT)"))
        connection.execute(text("CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT)"))
        names = "id, app_name, user_id, session_id, invocation_id, timestamp, event_data"
        connection.execute(text(f"CREATE TABLE events ({names})"))
        for app, user in (("a", "ada"), ("b", "ada"), ("b", "grace")):
            row = {"app": app, "user": user, "data": said, "id": f"{app}-{user}"}
            connection.execute(text("INSERT INTO sessions VALUES (:app, :user, 's', '{}')"), row)
            at = "2025-01-01 10:00:00"
            statement = text(f"INSERT INTO events VALUES (:id, :app, :user, 's', 'i', '{at}', :data)")
            connection.execute(statement, row)
    engine.dispose()
    report = import_threads(sessions, url)
    assert (report.threads, report.messages, [each.thread for each in report.problems]) == (1, 1, ["s", "s"])
    assert sessions.get("s").user_id == "ada"


async def test_adk_sessions(sessions: SessionService, tmp_path: Path) -> None:
    adk = pytest.importorskip("google.adk.sessions")
    pytest.importorskip("aiosqlite")
    events, types = pytest.importorskip("google.adk.events"), pytest.importorskip("google.genai.types")
    service = adk.DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
    chat = await service.create_session(
        app_name="app", user_id="ada", session_id="chat", state={"room": "blue", "user:lang": "de"}
    )
    look = types.FunctionCall(id="call-1", name="look", args={"at": "sea"})
    seen = types.FunctionResponse(id="call-1", name="look", response={"sky": "sunny"})
    said = [
        ("user", "user", types.Part(text="What is the weather?")),
        ("helper", "model", types.Part(function_call=look)),
        ("helper", "user", types.Part(function_response=seen)),
        ("helper", "model", types.Part(text="It is sunny.")),
    ]
    for at, (author, role, part) in enumerate(said):
        content = types.Content(role=role, parts=[part])
        actions = events.EventActions(state_delta={"at": at})
        event = events.Event(author=author, invocation_id="i", content=content, actions=actions)
        await service.append_event(chat, event)
    await service.close()
    twice(sessions, tmp_path / "adk.db")
    expected = [
        HumanMessage("What is the weather?"),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage('{"sky": "sunny"}', tool_call_id="call-1"),
        AIMessage("It is sunny."),
    ]
    same(sessions.as_user("ada"), "chat", expected)
    assert sessions.state("chat") == {"at": 3, "room": "blue", "user:lang": "de"}


async def test_agents_sessions_over_sqlalchemy(sessions: SessionService, tmp_path: Path) -> None:
    agents = pytest.importorskip("agents.extensions.memory.sqlalchemy_session")
    pytest.importorskip("aiosqlite")
    url = f"sqlite+aiosqlite:///{tmp_path / 'agents.db'}"
    session = agents.SQLAlchemySession.from_url("chat", url=url, create_tables=True)
    await session.add_items(AGENTS_ITEMS)
    await session.engine.dispose()
    twice(sessions, tmp_path / "agents.db", user="ada")
    same(sessions, "chat", AGENTS_SAID)


def test_parts_that_no_format_knows_are_exported_as_text(
    sessions: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(_: Any) -> Any:
        raise ValueError

    sessions.create("s1")
    sessions.append("s1", [HumanMessage("hello"), AIMessage([{"type": "odd"}, {"type": "text", "text": "good day"}])])
    monkeypatch.setattr("langchain_sessions._exporting.forms.convert_to_openai_messages", older)
    [line] = export_sessions(sessions, "s1", form="openai")
    assert json.loads(line)["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "good day"},
    ]


@pytest.mark.backends("postgres")
def test_langchain_postgres(fresh_database_url: str, sessions: SessionService) -> None:
    histories = pytest.importorskip("langchain_postgres")
    import uuid

    import psycopg
    from sqlalchemy import make_url

    url = make_url(fresh_database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    name = str(uuid.uuid4())
    with psycopg.connect(url) as connection:
        histories.PostgresChatMessageHistory.create_tables(connection, "chat_history")
        histories.PostgresChatMessageHistory("chat_history", name, sync_connection=connection).add_messages(SAID)
    twice(sessions, url)
    same(sessions, name, SAID)


@pytest.mark.backends("mariadb")
def test_sql_chat_message_history_on_mysql(fresh_database_url: str, sessions: SessionService) -> None:
    """Names that the database takes for one are two people's here."""
    engine = create_engine(fresh_database_url)
    with engine.begin() as connection:
        columns = "id INTEGER PRIMARY KEY AUTO_INCREMENT, session_id TEXT, message TEXT"
        connection.execute(text(f"CREATE TABLE message_store ({columns})"))
        for name, said in (("ada", SAID), ("Ada", SAID[:1]), ("grace é", SAID[1:])):
            rows = [{"name": name, "message": json.dumps(each)} for each in messages_to_dict(said)]
            statement = "INSERT INTO message_store (session_id, message) VALUES (:name, :message)"
            connection.execute(text(statement), rows)
    engine.dispose()
    url = fresh_database_url.replace("mariadb+pymysql", "mysql")
    report = import_threads(sessions, url, dry_run=True)
    assert (report.threads, report.bytes_before is not None) == (3, True)
    twice(sessions, url)
    same(sessions, "ada", SAID)
    same(sessions, "Ada", SAID[:1])
    same(sessions, "grace é", SAID[1:])


@pytest.mark.backends("mariadb")
def test_the_real_sql_chat_message_history_on_mysql(fresh_database_url: str, sessions: SessionService) -> None:
    sql = pytest.importorskip("langchain_community.chat_message_histories.sql")
    sql.SQLChatMessageHistory("one", connection=fresh_database_url).add_messages(SAID)
    twice(sessions, fresh_database_url)
    same(sessions, "one", SAID)
