"""What leaves the gate passes the formatters of the clients themselves, which no server is asked for."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_aws.chat_models import bedrock_converse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_google_genai import chat_models as google
from langchain_mistralai import chat_models as mistral
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._chat.outbound import made_valid
from langchain_sessions.memory import SessionMemoryAdvisor
from tests.surface.conftest import config_for
from tests.surface.strict_rules import InsistingModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEY = SecretStr("k")


def _openai(messages: Sequence[BaseMessage]) -> Any:
    return ChatOpenAI(model="gpt-4o", api_key=KEY)._get_request_payload([*messages])


def _responses(messages: Sequence[BaseMessage]) -> Any:
    return ChatOpenAI(model="gpt-4o", api_key=KEY, use_responses_api=True)._get_request_payload([*messages])


def _anthropic(messages: Sequence[BaseMessage]) -> Any:
    client = ChatAnthropic(model_name="claude-sonnet-4-5", api_key=KEY, timeout=None, stop=None)
    return client._get_request_payload([*messages])


def _google(messages: Sequence[BaseMessage]) -> Any:
    return [content.model_dump(mode="json") for content in google._parse_chat_history(messages)[1]]


def _mistral(messages: Sequence[BaseMessage]) -> Any:
    return [mistral._convert_message_to_mistral_chat_message(message) for message in messages]


def _bedrock(messages: Sequence[BaseMessage]) -> Any:
    return bedrock_converse._messages_to_bedrock([*messages])


FORMATTERS: dict[str, Callable[[Sequence[BaseMessage]], Any]] = {
    "openai": _openai,
    "openai responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
    "mistral": _mistral,
    "bedrock": _bedrock,
}


def as_sent(name: str, messages: Sequence[BaseMessage]) -> str:
    """What a client makes of messages, as it is written; AWS's writes bytes itself."""
    plain = (lambda value: base64.b64encode(value).decode()) if name == "bedrock" else None
    text = json.dumps(FORMATTERS[name](messages), allow_nan=False, ensure_ascii=False, default=plain)
    text.encode()
    return text


ODD_PARTS: list[Any] = [
    "a bare text",
    {"text": "without a type"},
    {"type": "text", "text": 5},
    {"type": "text", "text": "so", "raw": b"bytes"},
    {"type": "tool_result"},
    {"type": "tool_result", "content": "what was found"},
    {"type": "tool_result", "tool_use_id": "call_1", "content": None},
    {"type": "tool_result", "tool_use_id": 5, "content": {"a": 1}},
    {"type": "tool_result", "tool_use_id": "call_1", "content": [{"text": "no type"}, "bare", None]},
    {"type": "tool_use", "id": "call_1", "name": "look", "input": None},
    {"type": "tool_call", "id": "call_1", "name": "look", "args": {}},
    {"type": "function_call_output", "call_id": "call_1"},
    {"type": "server_tool_result", "tool_call_id": "call_1", "status": "success"},
    {"type": "web_search_tool_result"},
    {"type": "thinking"},
    {"type": "reasoning", "summary": [{}]},
    {"type": "refusal"},
    {"type": "search_result"},
    {"type": "unheard of", "value": {"a": [b"1"]}},
    {"type": None},
    {"type": 5, "value": float("nan")},
    {"a": 1},
    {},
]


@pytest.mark.parametrize("name", FORMATTERS)
@pytest.mark.parametrize("part", ODD_PARTS, ids=str)
def test_parts_that_no_client_knows_in_a_question_are_words(name: str, part: Any) -> None:
    call: Any = {"name": "look", "args": {}, "id": "call_1"}
    asked = HumanMessage([{"type": "text", "text": "see"}, part])
    turn = [asked, AIMessage("", tool_calls=[call]), ToolMessage([part], tool_call_id="call_1"), AIMessage("b")]
    prompt = made_valid([*turn, asked], over=len(turn))
    assert {block["type"] for m in (prompt[0], prompt[2], prompt[4]) for block in m.content} == {"text"}  # type: ignore[index]
    assert '"see"' in as_sent(name, prompt)
    if "what was found" in str(part):
        assert "what was found" in as_sent(name, prompt)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
        {"type": "guard_content", "text": "words"},
        {"type": "container_upload", "file_id": "f1"},
        {"cachePoint": {"type": "default"}},
    ],
)
def test_parts_that_one_client_knows_go_out_as_they_are(part: dict[str, Any]) -> None:
    asked = HumanMessage([{"type": "text", "text": "see"}, part])
    assert made_valid([asked], over=0)[0] is asked


@pytest.mark.parametrize("name", FORMATTERS)
@pytest.mark.parametrize("args", ["{", None, "[1]"])
def test_a_malformed_call_stays_with_its_result(name: str, args: str | None) -> None:
    """Bedrock's and Gemini's clients leave it out, and send the result."""
    call: Any = {"name": "look", "args": {}, "id": "call_1"}
    broken: Any = {"name": "look", "args": args, "id": "call_2", "error": None}
    results = [ToolMessage("so", tool_call_id="call_1"), ToolMessage("no JSON", tool_call_id="call_2")]
    asked = AIMessage("", tool_calls=[call], invalid_tool_calls=[broken])
    turn = [HumanMessage("a"), asked, *results]
    for prompt in (made_valid(turn, over=0), made_valid([*turn, AIMessage("b"), HumanMessage("c")], over=5)):
        # A call and its result, each by the same id; Gemini has none, Mistral's are its own.
        sent = as_sent(name, prompt)
        assert sent.count("no JSON") == 1
        assert sent.count("call_2") in (0, 2)
        assert sent.count('"look"') >= 2
    assert asked.invalid_tool_calls


@pytest.mark.parametrize("name", FORMATTERS)
@pytest.mark.parametrize("raw", [None, [], [{"id": "call_1", "type": "function", "function": {"name": "look"}}]])
def test_what_repeats_calls_that_are_none_is_left_out(name: str, raw: Any) -> None:
    said = AIMessage("b")
    said.additional_kwargs["tool_calls"] = raw
    prompt = made_valid([HumanMessage("a"), said, HumanMessage("c")], over=2)
    assert "look" not in as_sent(name, prompt)


ODD_KINDS: list[Any] = [{"type": {}}, {"type": ["text"], "text": "so"}, {"type": 5}, {"type": ""}, {"a": 1}, {}]


@pytest.mark.parametrize("part", [*ODD_KINDS, {"type": "tool_use", "id": ["call_1"]}], ids=str)
def test_a_reply_with_parts_of_no_kind_breaks_nothing(part: Any) -> None:
    call: Any = {"name": "look", "args": {}, "id": "call 1"}
    parts: list[Any] = [{"type": "text", "text": "see"}, part]
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        log = [HumanMessage(parts), AIMessage(parts, tool_calls=[call]), ToolMessage(parts, tool_call_id="call 1")]
        ada.append("s1", [*log, AIMessage(parts, tool_calls=[call])])
        model = InsistingModel()
        SessionMemoryAdvisor(sessions).wrap(model).invoke("and now?", config_for("s1"))
        for name in FORMATTERS:
            assert as_sent(name, model.seen[0])
