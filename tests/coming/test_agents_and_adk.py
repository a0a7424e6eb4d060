"""Pictures, thoughts and branches of the agents library and of Google's ADK come over as what they are."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from sqlalchemy import create_engine, text

from langchain_sessions import InvalidInputError, SessionMemoryAdvisor, SessionService, import_threads
from langchain_sessions._importing.messages import adk_message, agents_message, openai_message, read_with
from langchain_sessions._importing.opening import open_source
from langchain_sessions._importing.values import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from langchain_sessions import ImportProgress

# Of which each alphabet of base64 writes two characters in its own way.
PIXELS = b"\xff\xfe\xfb\xef" * 3
BASE64 = base64.b64encode(PIXELS).decode()
STRUCTURE = "CREATE TABLE message_structure (session_id TEXT, message_id INTEGER, branch_id TEXT)"


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "input_image", "image_url": f"data:image/png;base64,{BASE64}", "detail": "auto"},
            {"type": "image", "base64": BASE64, "mime_type": "image/png"},
        ),
        (
            {"type": "input_image", "image_url": "https://x.test/a.png"},
            {"type": "image", "url": "https://x.test/a.png"},
        ),
        ({"type": "input_image", "file_id": "file-1"}, {"type": "image", "file_id": "file-1"}),
        (
            {"type": "input_image", "file_id": "file-1", "detail": "low"},
            {"type": "image", "file_id": "file-1", "extras": {"detail": "low"}},
        ),
        (
            {"type": "input_file", "filename": "a.csv", "file_data": "AAA\nBBB==\r\n"},
            {"type": "file", "base64": "AAABBB==", "mime_type": "text/csv", "filename": "a.csv"},
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BASE64}"},
            {"type": "file", "base64": BASE64, "mime_type": "application/pdf", "filename": "a.pdf"},
        ),
        (
            {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "high"},
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "high"}},
        ),
        (
            {"type": "input_file", "filename": "a.csv", "file_data": BASE64},
            {"type": "file", "base64": BASE64, "mime_type": "text/csv", "filename": "a.csv"},
        ),
        (
            {"type": "input_file", "file_data": base64.b64encode(b"%PDF-1.7").decode()},
            {"type": "file", "base64": base64.b64encode(b"%PDF-1.7").decode(), "mime_type": "application/pdf"},
        ),
        ({"type": "input_file", "file_url": "https://x.test/a.pdf"}, {"type": "file", "url": "https://x.test/a.pdf"}),
        (
            {"type": "input_audio", "input_audio": {"data": BASE64, "format": "wav"}},
            {"type": "audio", "base64": BASE64, "mime_type": "audio/wav"},
        ),
        ({"type": "not_known_yet", "x": 1}, {"type": "not_known_yet", "x": 1}),
        ({"type": "input_image"}, {"type": "input_image"}),
    ],
)
def test_what_the_agents_library_shows_a_model(part: dict[str, Any], block: dict[str, Any]) -> None:
    said = agents_message({"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, part]})
    assert said.content == [{"type": "text", "text": "What is it?"}, block]


def test_what_a_tool_shows_comes_over_as_what_it_is() -> None:
    """A picture came over as a text of its base64."""
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{BASE64}"}
    shown = {"type": "image", "base64": BASE64, "mime_type": "image/png"}
    output = {"type": "function_call_output", "call_id": "c1"}
    of_function = agents_message({**output, "output": [{"type": "input_text", "text": "A map"}, picture]})
    assert of_function.content == [{"type": "text", "text": "A map"}, shown]
    assert agents_message({**output, "output": "words"}).content == "words"
    assert agents_message({**output, "output": {"a": 1}}).content == '{"a": 1}'
    response = {
        "name": "look",
        "response": {"a": 1},
        "parts": [{"inline_data": {"data": BASE64, "mime_type": "image/png"}}],
    }
    (of_adk,) = adk_message({"role": "user", "parts": [{"function_response": response}]}, "user")
    assert of_adk.content == [{"type": "text", "text": '{"a": 1}'}, shown]


def test_tools_of_openai_that_the_caller_executes_come_over_in_pairs() -> None:
    calling = agents_message({"type": "custom_tool_call", "id": "i", "call_id": "c1", "name": "sql", "input": "select"})
    assert isinstance(calling, AIMessage)
    assert calling.tool_calls[0]["args"] == {"__arg1": "select"}
    result = agents_message({"type": "custom_tool_call_output", "call_id": "c1", "output": "1"})
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.additional_kwargs) == ("c1", {"type": "custom_tool_call_output"})
    seen = {"type": "computer_screenshot", "image_url": "https://x.test/a.png"}
    assert agents_message({"type": "computer_call_output", "call_id": "c2", "output": seen}).content == [seen]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "local_shell_call_output", "id": "x", "output": "o"},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
    ],
)
def test_a_result_that_names_no_call_or_says_nothing_comes_over_as_it_is(item: dict[str, Any]) -> None:
    """It was dropped."""
    assert read_with(agents_message, item).content == [item]


def test_what_else_a_result_of_a_tool_of_openai_holds_is_kept() -> None:
    item = {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}], "max_output_length": 9}
    result = agents_message(item)
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.text) == ("c1", '[{"stdout": "a"}]')
    assert result.additional_kwargs == {"type": "shell_call_output", "max_output_length": 9}


@pytest.mark.parametrize("output", [{"type": "x"}, {"type": ["x"]}, [{"type": "x"}], [], {"type": "text", "text": "a"}])
def test_what_a_tool_of_the_application_gives_back_is_json_whatever_type_it_names(output: Any) -> None:
    """No provider knows a block of such a type."""
    result = agents_message({"type": "function_call_output", "call_id": "c1", "output": output})
    assert result.content == json.dumps(output)


@pytest.mark.parametrize("written", ["", None, "{}"])
def test_a_call_without_arguments_is_one(written: str | None) -> None:
    """The message of it was dropped, or the call was a malformed one."""
    item = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": written}
    asked = {"function": {"name": "look", "arguments": written}, "type": "function", "id": "c1"}
    chat = {"role": "assistant", "content": None, "tool_calls": [asked]}
    for said in (read_with(agents_message, item), read_with(openai_message, chat)):
        assert isinstance(said, AIMessage)
        assert [(call["id"], call["args"]) for call in said.tool_calls] == [("c1", {})]
        assert said.invalid_tool_calls == []


def test_what_an_encrypted_session_stored_is_told_as_such() -> None:
    with pytest.raises(SourceError, match="encrypted, by the library's EncryptedSession"):
        read_with(agents_message, {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "x"})


@pytest.mark.parametrize("written", ["{bad", "[1]", '"x"', pytest.param("[" * 100_000, id="deep")])
def test_a_call_whose_arguments_are_none_comes_over_as_such(written: str) -> None:
    """It was dropped, and the result behind it answered nothing."""
    item = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": written}
    asked = {"function": {"name": "look", "arguments": written}, "type": "function", "id": "c1"}
    fine = {"function": {"name": "look", "arguments": "{}"}, "type": "function", "id": "c2"}
    chat = {"role": "assistant", "content": None, "tool_calls": [asked, fine]}
    for said in (agents_message(item), openai_message(chat)):
        assert isinstance(said, AIMessage)
        (broken,) = said.invalid_tool_calls
        assert (broken["id"], broken["name"], broken["args"]) == ("c1", "look", written)
        assert [call["id"] for call in said.tool_calls] == (["c2"] if said.tool_calls else [])


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("text/csv", "file")],
)
def test_what_adk_shows_a_model(encode: Any, mime_type: str, kind: str) -> None:
    inline = {"inline_data": {"data": encode(PIXELS).decode(), "mime_type": mime_type}}
    named = {"file_data": {"file_uri": "gs://x/y", "mime_type": mime_type, "display_name": "y"}}
    (said,) = adk_message({"role": "user", "parts": [{"text": "What is it?"}, inline, named]}, "user")
    assert said.content == [
        {"type": "text", "text": "What is it?"},
        {"type": kind, "base64": BASE64, "mime_type": mime_type},
        {"type": kind, "url": "gs://x/y", "mime_type": mime_type, "filename": "y"},
    ]


def test_how_closely_adk_has_a_model_look_is_kept() -> None:
    inline = {"data": BASE64, "mime_type": "video/mp4"}
    shown = {"media_resolution": {"level": "MEDIA_RESOLUTION_HIGH"}, "video_metadata": {"end_offset": "3s"}}
    (said,) = adk_message({"role": "user", "parts": [{"inline_data": inline, **shown}]}, "user")
    assert said.content == [
        {
            "type": "video",
            "base64": BASE64,
            "mime_type": "video/mp4",
            "media_resolution": "MEDIA_RESOLUTION_HIGH",
            "video_metadata": {"end_offset": "3s"},
        }
    ]


def test_a_thought_of_adk_is_kept_beside_what_was_said() -> None:
    thought = {"text": "They greet me.", "thought": True}
    (both,) = adk_message({"role": "model", "parts": [thought, {"text": "Good day."}]}, "helper")
    assert (both.content, both.additional_kwargs) == ("Good day.", {"reasoning_content": "They greet me."})
    assert [block["type"] for block in both.content_blocks] == ["reasoning", "text"]
    (alone,) = adk_message({"role": "model", "parts": [thought]}, "helper")
    assert alone.content_blocks == [{"type": "reasoning", "reasoning": "They greet me."}]


class Asked(FakeListChatModel):
    """Keeps what it was shown."""

    shown: ClassVar[list[BaseMessage]] = []

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        self.shown[:] = messages
        return "A cat."


def agents_database(file: Path, said: dict[str, list[dict[str, Any]]]) -> str:
    """What the library stores, by session."""
    engine = create_engine(url := f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY)"))
        columns = "id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, message_data TEXT, created_at TIMESTAMP"
        connection.execute(text(f"CREATE TABLE agent_messages ({columns})"))
        for session, items in said.items():
            for item in items:
                row = {"session": session, "data": json.dumps(item)}
                connection.execute(
                    text("INSERT INTO agent_messages (session_id, message_data) VALUES (:session, :data)"), row
                )
    engine.dispose()
    return url


def test_a_picture_that_came_over_is_shown_to_a_model(tmp_path: Path) -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{BASE64}"}
    item = {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, picture]}
    url = agents_database(tmp_path / "agents.db", {"chat": [item]})
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as sessions:
        assert import_threads(sessions, url, user="ada").problems == ()
        model = Asked(responses=["A cat."])
        config: Any = {"configurable": {"thread_id": "chat", "user_id": "ada"}}
        SessionMemoryAdvisor(sessions).wrap(model).invoke("Well?", config)
    assert model.shown[0].content == [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "base64": BASE64, "mime_type": "image/png"},
    ]


def test_each_branch_of_the_agents_library_is_a_session(tmp_path: Path) -> None:
    spoken = [{"role": "user", "content": words} for words in ("one", "two", "other two", "of no branch")]
    url = agents_database(tmp_path / "agents.db", {"chat": spoken, "plain": [{"role": "user", "content": "hello"}]})
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(STRUCTURE))
        for message, branch in ((1, "main"), (2, "main"), (1, "alt"), (3, "alt")):
            connection.execute(text(f"INSERT INTO message_structure VALUES ('chat', {message}, '{branch}')"))
    engine.dispose()
    source = open_source(url).histories
    assert source is not None
    assert source.count() == 6
    source.close()
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as sessions:
        for messages in (6, 0):
            progress: list[ImportProgress] = []
            report = import_threads(sessions, url, user="ada", progress=progress.append)
            assert (report.threads, report.messages, report.problems) == (3, messages, ())
            assert [(each.threads, each.total) for each in progress] == [(1, 3), (2, 3), (3, 3)]
        found = {each.id: [message.text for message in sessions.messages(each.id)] for each in sessions.list_sessions()}
    assert found == {"chat": ["one", "two", "of no branch"], "chat/alt": ["one", "other two"], "plain": ["hello"]}


async def test_branches_of_an_advanced_session(tmp_path: Path) -> None:
    memory = pytest.importorskip("agents.extensions.memory")
    file = tmp_path / "agents.db"
    session = memory.AdvancedSQLiteSession(session_id="chat", db_path=file, create_tables=True)
    await session.add_items([{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}])
    await session.add_items([{"role": "user", "content": "two"}, {"role": "assistant", "content": "2"}])
    await session.create_branch_from_turn(2, "alt")
    await session.add_items([{"role": "user", "content": "other two"}])
    session.close()
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as sessions:
        assert import_threads(sessions, file, user="ada").problems == ()
        assert [message.text for message in sessions.messages("chat")] == ["one", "1", "two", "2"]
        assert [message.text for message in sessions.messages("chat/alt")] == ["one", "1", "other two"]


def test_a_driver_that_is_missing_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> Any:
        raise ImportError

    monkeypatch.setattr("langchain_sessions._importing.opening.create_engine", missing)
    for url, extra in (("postgresql://h/x", "postgres"), ("postgres://h/x", "postgres"), ("mariadb://h/x", "mysql")):
        with (
            SessionService("sqlite://") as sessions,
            pytest.raises(InvalidInputError, match=rf"pip install 'langchain-sessions\[{extra}\]'"),
        ):
            import_threads(sessions, url)
