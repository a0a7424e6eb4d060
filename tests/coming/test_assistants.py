"""What people exported from ChatGPT and from Claude: branches, tools, pictures, thoughts, and what is damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions import (
    InMemoryStore,
    InvalidInputError,
    SessionChatMessageHistory,
    SessionService,
    import_threads,
)

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
        "u1": ["1", "2"],
        "u1/m3": ["1", "3", "4"],
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
        (chatgpt(node("q", "root", "user", "x", create_time=1e99), shown="q"), "message q: its time cannot"),
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


Q = [node("q", "root", "user", "q"), node("a", "q", "assistant", "a")]
B, MORE = node("b", "q", "assistant", "b"), node("m", "b", "user", "more")


@pytest.mark.parametrize("shown", ["q", "gone", "a", "b", ["b"]])
def test_whatever_was_looked_at_every_message_comes_over(tmp_path: Path, shown: Any) -> None:
    """One in the middle, one that is not there, either end, and what is no name."""
    _, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(*Q, B, shown=shown)]))
    assert {name: [message.text for message in each] for name, each in found.items()} == {
        "c1": ["q", "a"],
        "c1/b": ["q", "b"],
    }


def test_what_is_said_later_goes_on_in_its_own_branch(tmp_path: Path) -> None:
    """The bare id went to the end that was looked at last: one branch was put behind the other."""
    path = tmp_path / "conversations.json"
    later = [chatgpt(*Q, shown="a"), chatgpt(*Q, B, shown="b"), chatgpt(*Q, B, MORE, shown="a")]
    later.append(chatgpt(*Q, B, MORE, node("b2", "b", "user", "else"), shown="b2"))
    with SessionService("sqlite://") as sessions:
        for each in later:
            path.write_text(json.dumps([each]))
            assert import_threads(sessions, path).problems == ()
        found = {each.id: [message.text for message in sessions.messages(each.id)] for each in sessions.list_sessions()}
    assert found == {"c1": ["q", "a"], "c1/b": ["q", "b", "more"], "c1/b2": ["q", "b", "else"]}


def test_which_answer_is_the_elder_says_the_question(tmp_path: Path) -> None:
    asked = {**Q[0], "children": ["b", 7, "gone", "a"]}
    _, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(asked, Q[1], B, shown="a")]))
    assert {name: each[-1].text for name, each in found.items()} == {"c1": "b", "c1/a": "a"}


def test_a_circle_beside_what_is_whole_is_told(tmp_path: Path) -> None:
    round_about = [node("x", "y", "user", "x"), node("y", "x", "user", "y")]
    report, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(*Q, *round_about, shown="a")]))
    assert [message.text for message in found["c1"]] == ["q", "a"]
    assert [each.problem[:18] for each in report.problems] == ["2 of its messages "]


def test_a_conversation_of_very_many_ends_brings_some_and_tells_of_the_others(tmp_path: Path) -> None:
    """Each repeats what stands before it. What was looked at last is among them."""
    comb = [Q[0], *(node(f"a{at}", "q", "assistant", f"{at}") for at in range(305))]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(*comb, shown="a304")]))
    with SessionService(InMemoryStore()) as sessions:
        report = import_threads(sessions, path)
        assert sessions.messages("c1/a304")[-1].text == "304"
    assert report.threads == 301
    assert [each.problem for each in report.problems] == ["it has 305 ends: 4 of them are left out"]


def _of_claude(*content: Any) -> dict[str, Any]:
    asked = {"uuid": "m0", "sender": "human", "text": "hi", "content": _text("")}
    return claude(asked, {"uuid": "m1", "sender": "assistant", "text": "", "content": content})


@pytest.mark.parametrize("given", ["words", [1], {"a": 1}])
def test_what_a_call_of_claude_holds_is_kept(tmp_path: Path, given: Any) -> None:
    told = _of_claude(
        {"type": "tool_use", "name": "w", "input": given, "id": 7},
        {"type": "tool_result", "tool_use_id": 7, "content": "r"},
    )
    report, found = imported(tmp_path / "claude.json", json.dumps([told]))
    asked, calling, result = found["u1"]
    assert (asked.text, report.problems) == ("hi", ())
    assert isinstance(calling, AIMessage)
    args = given if isinstance(given, dict) else {"input": given}
    assert calling.tool_calls == [{"name": "w", "args": args, "id": "7", "type": "tool_call"}]
    assert isinstance(result, ToolMessage)
    assert result.tool_call_id == "7"


@pytest.mark.parametrize("name", [None, {"a": 1}, ""])
def test_a_call_of_claude_without_a_name_is_told_and_the_rest_comes_over(tmp_path: Path, name: Any) -> None:
    """It ended the import."""
    harmed = _of_claude({"type": "tool_use", "name": name, "input": {}}, {"type": "text", "text": "said"})
    whole = {**chatgpt(*Q, shown="a"), "conversation_id": "whole"}
    report, found = imported(tmp_path / "claude.json", json.dumps([harmed, whole]))
    assert [message.text for message in found["u1"]] == ["hi", "said"]
    assert [message.text for message in found["whole"]] == ["q", "a"]
    assert [each.problem for each in report.problems] == ["message m1: a call in it names no tool"]


@pytest.mark.parametrize("named", [{}, {"tool_use_id": "gone"}])
def test_a_result_of_claude_without_a_call_is_shown(tmp_path: Path, named: dict[str, str]) -> None:
    path = tmp_path / "claude.json"
    told = _of_claude({"type": "text", "text": "x"}, {"type": "tool_result", "name": "w", "content": "r", **named})
    path.write_text(json.dumps([told]))
    with SessionService("sqlite://") as sessions:
        import_threads(sessions, path)
        _, _, calling, result = SessionChatMessageHistory("u1", sessions).messages
    assert isinstance(calling, AIMessage)
    assert isinstance(result, ToolMessage)
    assert (calling.tool_calls[0]["name"], result.text) == ("w", "r")


def test_words_of_unknown_kinds_are_kept_and_what_has_none_is_told(tmp_path: Path) -> None:
    of_claude = _of_claude(
        {"type": "token_budget"}, {"type": "voice_note", "text": "spoken"}, {"type": "x" * 99, "url": "u"}
    )
    parts = [
        {"content_type": "new", "words": "lost"}, {"content_type": "newer", "text": "kept"},
        {"content_type": "image_asset_pointer", "asset_pointer": {"a": 1}}, 7,
        {"content_type": "audio_transcription", "text": ""},
    ]  # fmt: skip
    told = chatgpt(
        node("s", "root", "developer", "a rule"),
        node("q", "s", "user", {"content_type": "multimodal_text", "parts": parts}),
        node("i", "q", "user", "    def f():\n        pass\n"),
        node("c", "i", "critic", "a grade"),
        shown="c",
    )
    report, found = imported(tmp_path / "conversations.json", json.dumps([of_claude, told]))
    assert [message.text for message in found["u1"]] == ["hi", "spoken"]
    assert [(each.type, each.text) for each in found["c1"]] == [
        ("system", "a rule"),
        ("human", "kept"),
        ("human", "    def f():\n        pass\n"),
    ]
    kinds = [f"m1: its part of the kind '{'x' * 40}'", "q: its part of the kind 'new'"]
    kinds += ["q: its part of the kind 'image_asset_pointer'", "q: its part of the kind 'int'"]
    kinds += ["c: its author's role 'critic'"]
    assert [each.problem for each in report.problems] == [f"message {kind} is not known here" for kind in kinds]


@pytest.mark.parametrize(
    ("written", "at"),
    [("2026-01-01T00:00:00", "2026-01-01 00:00"), ("2026-01-01T05:00:00+02:00", "2026-01-01 03:00")],
)
def test_a_time_without_a_zone_is_of_utc(tmp_path: Path, written: str, at: str) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(node("q", "root", "user", "q", create_time=written), shown="q")]))
    with SessionService("sqlite://") as sessions:
        import_threads(sessions, path)
        (event,) = sessions.events("c1").items
    assert f"{event.timestamp:%Y-%m-%d %H:%M}" == at


def test_what_cannot_be_stored_of_a_conversation_is_left_out_and_told(tmp_path: Path) -> None:
    """A time before all years, and titles; it was the conversation."""
    early = chatgpt(node("q", "root", "user", "q", create_time="0001-01-01T00:00:00+14:00"), shown="q")
    named = [{**chatgpt(*Q, shown="a"), "title": f"x{end}", "conversation_id": end} for end in ("\ud83d", "\0")]
    titled = [{**each, "conversation_id": f"t{at}"} for at, each in enumerate(named)]
    report, found = imported(tmp_path / "conversations.json", json.dumps([early, *titled]))
    assert {name: [each.text for each in said] for name, said in found.items()} == {
        "c1": ["q"], "t0": ["q", "a"], "t1": ["q", "a"]}  # fmt: skip
    assert [(each.thread, each.problem.partition(" ")[0]) for each in report.problems] == [
        ("c1", "message"), ("t0", "title:"), ("t1", "title:")]  # fmt: skip


def test_what_a_list_is_of_says_not_only_its_first_element(tmp_path: Path) -> None:
    report, found = imported(tmp_path / "conversations.json", json.dumps([None, chatgpt(*Q, shown="a")]))
    assert [message.text for message in found["c1"]] == ["q", "a"]
    assert [each.problem for each in report.problems] == ["it is no conversation of this form"]


@pytest.mark.parametrize(
    ("order", "pairs"),
    [
        ("c1 c2 r1 r2", {"r1": "c1", "r2": "c2"}),
        ("c1 d1 e1 r1", {"e1": "d1", "r1": "c1"}),
        ("c1 r1 c2 r2", {"r1": "c1", "r2": "c2"}),
        ("c1 r1 c2 c3 r2 r3", {"r1": "c1", "r2": "c2", "r3": "c3"}),
    ],
)
def test_each_result_answers_a_call_of_its_round(tmp_path: Path, order: str, pairs: dict[str, str]) -> None:
    """Of its tool before another: `d` calls it, and `e` is its result."""
    tools, kinds = {"d": "web", "e": "web"}, {"r": "tool", "e": "tool"}
    told, before = [], "root"
    for name in order.split():
        tool = tools.get(name[0], "python")
        how = {"author": tool} if name[0] in kinds else {"recipient": tool}
        told.append(node(name, before, kinds.get(name[0], "assistant"), "{}", **how))
        before = name
    _, found = imported(tmp_path / "conversations.json", json.dumps([chatgpt(*told, shown=before)]))
    assert {str(each.id): each.tool_call_id for each in found["c1"] if isinstance(each, ToolMessage)} == pairs


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
