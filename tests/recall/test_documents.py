"""What of a message can be found, and what must not be."""

from __future__ import annotations

import base64
from datetime import datetime, timezone

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions._recall.text.documents import make_document, searchable_text

MAY = datetime(2023, 5, 8, 12, tzinfo=timezone.utc)
BYTES = base64.b64encode(bytes(range(256)) * 4).decode()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (HumanMessage("a blue kettle"), ["blue kettle"]),
        (HumanMessage(["plain", {"type": "text", "text": "block"}]), ["plain", "block"]),
        (
            AIMessage("", tool_calls=[{"name": "bookFlight", "args": {"toCity": ["Oslo", 7]}, "id": "call_9"}]),
            ["bookFlight", "book Flight", "to City", "Oslo", "7"],
        ),
        (
            AIMessage("", invalid_tool_calls=[{"name": "f", "args": '{"x": broken', "id": "call_9", "error": None}]),
            ["broken"],
        ),
        (ToolMessage("42 degrees", name="get_weather", tool_call_id="call_9"), ["42 degrees", "get_weather"]),
        (AIMessage([{"type": "reasoning", "reasoning": "step one"}]), ["step one"]),
        (AIMessage([{"type": "thinking", "thinking": "hmm", "signature": "c2ln"}]), ["hmm"]),
        (
            AIMessage([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "in short"}]}]),
            ["in short"],
        ),
        (AIMessage("x", additional_kwargs={"reasoning_content": "because"}), ["because"]),
        (
            HumanMessage([{"type": "file", "base64": BYTES, "mime_type": "a/b", "extras": {"filename": "tax.pdf"}}]),
            ["tax.pdf"],
        ),
        (HumanMessage([{"type": "file", "file": {"filename": "plan.docx", "file_data": BYTES}}]), ["plan.docx"]),
    ],
)
def test_words_are_found_wherever_a_provider_puts_them(message: BaseMessage, words: list[str]) -> None:
    text = searchable_text(message)
    assert all(word in text for word in words), text
    assert "call_9" not in text
    assert "c2ln" not in text
    assert BYTES[:40] not in text


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": BYTES, "mime_type": "image/png"},
        {"type": "image", "url": "https://example.com/x.png", "id": "img_9"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BYTES}"}},
        {"type": "input_audio", "input_audio": {"data": BYTES, "format": "wav"}},
        {"type": "audio", "source_type": "base64", "data": BYTES},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BYTES}},
        {"type": "tool_use", "id": "toolu_9", "name": "f", "input": {}},
    ],
)
def test_images_bytes_and_ids_are_no_words(block: dict[str, object]) -> None:
    assert searchable_text(HumanMessage([block])) == ""


def test_bytes_in_running_text_are_left_out_and_what_was_said_stays() -> None:
    order = "3f2b8a44-1c1d-4e5f-9a7b-0123456789ab"
    text = searchable_text(HumanMessage(f"see data:image/png;base64,{BYTES} for order {order} or {BYTES}"))
    assert text.split() == ["see", "for", "order", order, "or"]


def test_a_document_knows_its_author() -> None:
    assert make_document(HumanMessage("hi", name="ada"), author=None, timestamp=MAY).author == "ada"
    assert make_document(HumanMessage("hi", name="ada"), author="grace", timestamp=MAY).author == "grace"
    assert make_document(AIMessage("hi"), author=None, timestamp=MAY).author is None


def test_a_deeply_nested_argument_ends() -> None:
    nested: dict[str, object] = {"word": "deep"}
    for _ in range(500):
        nested = {"in": nested}
    searchable_text(AIMessage("", tool_calls=[{"name": "f", "args": nested, "id": "1"}]))
