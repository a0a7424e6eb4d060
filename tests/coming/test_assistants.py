"""What people exported from ChatGPT and from Claude: branches, tools, pictures, thoughts, and what is damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions import InvalidInputError, SessionChatMessageHistory, SessionService, import_threads

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_sessions import ImportReport


def node(name: str, before: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A place in a conversation of ChatGPT; a text stands for its content."""
    told = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    said = {"id": name, "author": {"role": role, "name": more.pop("author", None)}, "content": told, **more}
    return {"id": name, "message": {"create_time": 1_700_000_000.5, "recipient": "all", **said}, "parent": before}


def chatgpt(*nodes: dict[str, Any], shown: str) -> dict[str, Any]:
    root = {"id": "root", "message": None, "parent": None}
    mapping = {each["id"]: each for each in (root, *nodes)}
    return {"title": "A cat", "mapping": mapping, "current_node": shown, "conversation_id": "c1"}


def imported(path: Path, text: str | bytes) -> tuple[ImportReport, dict[str, list[BaseMessage]]]:
    """What comes over from a file; twice, of which the second time brings nothing."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with SessionService("sqlite://") as sessions:
        report = import_threads(sessions, path, user="ada")
        assert import_threads(sessions, path, user="ada").messages == 0
        return report, {each.id: sessions.messages(each.id) for each in sessions.list_sessions()}


DRAWN = {
    "content_type": "multimodal_text",
    "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1"}, "a cat"],
}
SPOKEN = {
    "content_type": "multimodal_text",
    "parts": [
        {"content_type": "audio_transcription", "text": "Draw a cat"},
        {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": {
            "content_type": "audio_asset_pointer", "asset_pointer": "sediment://a1"}},
    ],
}  # fmt: skip
TALK = [
    node("s", "root", "system", ""),
    node("q", "s", "user", SPOKEN),
    node("t", "q", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Cats", "content": "purr"}]}),
    node("c", "t", "assistant", {"content_type": "code", "text": '{"size": 1}'}, recipient="dalle.text2im"),
    node("r", "c", "tool", DRAWN, author="dalle.text2im"),
    node("r2", "r", "tool", "and no more", author="dalle.text2im"),
    node("a", "r2", "assistant", "Here it is", metadata={"model_slug": "gpt-4o"}),
    node("p", "a", "assistant", {"content_type": "code", "text": "print(1)"}, recipient="python"),
    node("p2", "p", "tool", {"content_type": "execution_output", "text": "1"}, author="python"),
    node("b", "q", "assistant", "No cat"),
]


def test_a_conversation_of_chatgpt(tmp_path: Path) -> None:
    report, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(*TALK, shown="p2")]))
    assert (report.threads, report.messages, report.problems) == (2, 11, ())
    asked, thought, calling, drawn, more, told, said, coding, printed = found["c1"]
    assert asked.content == [{"type": "text", "text": "Draw a cat"}, {"type": "audio", "url": "sediment://a1"}]
    assert (thought.content, thought.additional_kwargs) == ("", {"reasoning_content": "Cats\npurr"})
    assert isinstance(calling, AIMessage)
    assert calling.tool_calls == [{"name": "dalle.text2im", "args": {"size": 1}, "id": "c", "type": "tool_call"}]
    assert isinstance(drawn, ToolMessage)
    assert (drawn.tool_call_id, drawn.content) == (
        "c",
        [{"type": "image", "url": "file-service://f1"}, *_text("a cat")],
    )
    assert isinstance(more, AIMessage)
    assert (more.tool_calls[0]["name"], told.text) == ("dalle.text2im", "and no more")
    assert (said.text, said.response_metadata) == ("Here it is", {"model_name": "gpt-4o"})
    assert isinstance(coding, AIMessage)
    assert coding.tool_calls[0]["args"] == {"input": "print(1)"}
    assert printed.text == "1"
    assert [message.text for message in found["c1/b"]] == ["Draw a cat", "No cat"]


def _text(words: str) -> list[Any]:
    return [{"type": "text", "text": words}]


def test_what_came_over_can_be_shown_to_a_model(tmp_path: Path) -> None:
    """What only lies in the export nobody can fetch: its place is said in words."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(*TALK, shown="p2")]))
    with SessionService("sqlite://") as sessions:
        import_threads(sessions, path)
        shown = SessionChatMessageHistory("c1", sessions).messages
    assert shown[0].content == [*_text("Draw a cat"), *_text("[audio left out]")]
    assert [message.type for message in shown][:2] == ["human", "ai"]
    assert not any("service://" in str(message.content) for message in shown)


def claude(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"uuid": "u1", "name": "Trip", "chat_messages": list(messages)}


CLAUDE: list[dict[str, Any]] = [
    {"uuid": "m1", "sender": "human", "text": "Look", "created_at": "2026-01-01T00:00:00Z",
     "content": [{"type": "text", "text": "Look"}],
     "attachments": [{"file_name": "a.txt", "extracted_content": "Rome"}], "files": [{"file_name": "b.png"}]},
    {"uuid": "m2", "sender": "assistant", "text": "", "created_at": "2026-01-01T00:00:01Z", "content": [
        {"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "I look"},
        {"type": "tool_use", "name": "web", "input": {"q": "Rome"}}, {"type": "tool_result", "name": "web",
        "content": [{"type": "text", "text": "sun"}]}, {"type": "text", "text": "Sunny"}]},
    {"uuid": "m3", "sender": "human", "text": "Thanks", "created_at": None},
]  # fmt: skip


def test_a_conversation_of_claude(tmp_path: Path) -> None:
    report, found = imported(tmp_path / "claude.json", json.dumps([claude(*CLAUDE)]))
    assert (report.threads, report.messages, report.problems) == (1, 5, ())
    asked, calling, result, said, thanks = found["u1"]
    assert asked.content == [*_text("Look"), *_text("a.txt\nRome"), {"type": "file", "filename": "b.png"}]
    assert isinstance(calling, AIMessage)
    assert (calling.text, calling.additional_kwargs) == ("I look", {"reasoning_content": "Hm"})
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.text) == (calling.tool_calls[0]["id"], "sun")
    assert (said.text, thanks) == ("Sunny", HumanMessage("Thanks", id="m3"))


def test_an_answer_of_claude_that_was_asked_for_again_is_a_conversation_beside_it(tmp_path: Path) -> None:
    parents = ["0", "m1", "m1", "m3"]
    told = [{"uuid": f"m{at}", "sender": "human" if at == 1 else "assistant", "text": f"{at}",
             "parent_message_uuid": before} for at, before in enumerate(parents, 1)]  # fmt: skip
    _, found = imported(tmp_path / "claude.json", json.dumps([claude(*told)]))
    assert {name: [message.text for message in each] for name, each in found.items()} == {
        "u1": ["1", "3", "4"],
        "u1/m2": ["1", "2"],
    }


@pytest.mark.parametrize(
    ("harmed", "problem"),
    [
        ({"title": "x", "mapping": 7}, "it is no conversation of this form"),
        ({"title": "x", "mapping": {"a": 7}}, "it is no conversation of this form"),
        (
            {"mapping": {name: {"parent": "yx"["xy".index(name)]} for name in "xy"}},
            "it is no conversation of this form",
        ),
        (chatgpt(node("q", "root", "user", 7), shown="q"), "message q: it is no message of this form"),
        (chatgpt({**node("q", "root", "user", "x"), "message": {"id": "q"}}, shown="q"), "message q: it is no message"),
        (chatgpt(node("q", "root", "user", "x", create_time=1e99), shown="q"), "message q: it is no message"),
        (chatgpt(node("q", "root", "user", {"content_type": "new"}), shown="q"), "message q: its kind 'new' is not"),
        ({"uuid": "u", "chat_messages": [{"uuid": "m"}]}, "message m: it is no message of this form"),
        ({"uuid": "u", "chat_messages": 7}, "it is no conversation of this form"),
    ],
)
def test_what_is_damaged_is_named_and_the_rest_comes_over(tmp_path: Path, harmed: dict[str, Any], problem: str) -> None:
    whole = {**chatgpt(node("x", "root", "user", "fine"), shown="x"), "conversation_id": "whole"}
    report, found = imported(tmp_path / "conversations.json", json.dumps([whole, harmed]))
    assert [message.text for message in found["whole"]] == ["fine"]
    assert [each.problem[: len(problem)] for each in report.problems] == [problem]


def test_whatever_was_looked_at_every_message_comes_over(tmp_path: Path) -> None:
    """One in the middle, and one that is not there."""
    said = [node("q", "root", "user", "q"), node("a", "q", "assistant", "a"), node("b", "q", "assistant", "b")]
    for shown, first in (("q", "a"), ("gone", "b"), ("b", "b")):
        _, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(*said, shown=shown)]))
        assert {each[-1].text for each in found.values()} == {"a", "b"}
        assert found["c1"][-1].text == first


def test_an_archive_is_told_to_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", "[]")
    with (
        SessionService("sqlite://") as sessions,
        pytest.raises(InvalidInputError, match="unpack it, and name the file"),
    ):
        import_threads(sessions, path)


def test_a_file_that_breaks_off_brings_what_is_whole(tmp_path: Path) -> None:
    text = json.dumps([chatgpt(*TALK, shown="b"), chatgpt(*TALK, shown="b")])[:-40]
    report, found = imported(tmp_path / "conversations.json", text)
    assert set(found) >= {"c1"}
    assert [each.problem for each in report.problems] == ["the file is not JSON from message 2 on"]
