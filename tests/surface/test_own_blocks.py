"""A session that one provider's model answered goes on with another's: what only the first takes goes no further."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_mistralai import ChatMistralAI
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_sessions import InMemoryStore, SessionService
from langchain_sessions._chat.outbound import made_valid
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.selectors import not_empty
from tests.surface.conftest import config_for
from tests.surface.strict_rules import InsistingModel, violations
from tests.surface.test_formatters import FORMATTERS, as_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

CALL: Any = {"name": "look", "args": {"q": 1}, "id": "call_1", "type": "tool_call"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SAID = {"type": "text", "text": "so it is"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
ITEM = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "call_1", "id": "fc_1"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
RECORDED = {"type": "code_execution_result", "code_execution_result": "1", "outcome": 1}

WRITTEN: dict[str, list[list[Any]]] = {
    "openai": [
        [REASONING, {**SAID, "annotations": [], "id": "msg_1"}],
        [REASONING, ITEM],
        [{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}, SAID],
        [{"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c", "outputs": None}, SAID],
        [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="}],
        [{"type": "mcp_call", "id": "mcp_1", "name": "n", "arguments": "{}", "output": "o"}, SAID],
        [{"type": "refusal", "refusal": "I cannot"}],
    ],
    "anthropic": [
        [THOUGHT, SAID, {"type": "tool_use", "id": "call_1", "name": "look", "input": {"q": 1}}],
        [{"type": "redacted_thinking", "data": "x"}, SAID],
        [SEARCH, FOUND, {**SAID, "citations": []}],
    ],
    "google_genai": [
        [{"type": "thinking", "thinking": "hm"}, {**SAID, "extras": {"signature": "c2ln"}}],
        [{"type": "executable_code", "executable_code": "1", "language": "PYTHON"}, RECORDED, SAID],
        [SAID, PICTURE],
        [PICTURE],
    ],
    "mistralai": [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, SAID],
        [SAID, {"type": "reference", "reference_ids": [1]}],
    ],
    "bedrock_converse": [
        [{"type": "reasoning_content", "reasoning_content": {"text": "hm", "signature": "s"}}, SAID],
        [{"type": "citations_content", "citations_content": {"content": [{"text": "so it is"}], "citations": []}}],
    ],
}
KEY = SecretStr("k")
READERS: dict[str, Callable[[], BaseChatModel]] = {
    "openai": lambda: ChatOpenAI(model="gpt-4o", api_key=KEY, use_responses_api=False),
    "openai responses": lambda: ChatOpenAI(model="gpt-4o", api_key=KEY, use_responses_api=True),
    "anthropic": lambda: ChatAnthropic(model_name="claude-sonnet-4-5", api_key=KEY, timeout=None, stop=None),
    "google": lambda: ChatGoogleGenerativeAI(model="gemini-2.5-flash", google_api_key=KEY),
    "mistral": lambda: ChatMistralAI(model_name="mistral-large-latest", api_key=KEY),
    "bedrock": lambda: ChatBedrockConverse(model="anthropic.claude-3", region_name="us-east-1"),
}
OWN = {"openai": "openai", "openai responses": "openai", "anthropic": "anthropic", "google": "google_genai"}
OWN |= {"mistral": "mistralai", "bedrock": "bedrock_converse"}
FOREIGN = (
    "reasoning",
    "_call",
    "thinking",
    "tool_result",
    "server_tool",
    "executable",
    "signature",
    "reference",
    "rs_1",
)


def turn_of(writer: str, content: list[Any], *, says_who: bool) -> list[BaseMessage]:
    """A turn that is over, as the client of a writer makes it."""
    has_call = any(block["type"] in ("function_call", "tool_use") for block in content)
    told = {"model_provider": writer} if says_who else {}
    reply = AIMessage(content, tool_calls=[CALL] if has_call else [], response_metadata=told)
    behind = [ToolMessage("found", tool_call_id="call_1"), AIMessage("done")] if has_call else []
    return [HumanMessage("q"), reply, *behind]


@pytest.mark.parametrize("says_who", [True, False])
@pytest.mark.parametrize("writer", WRITTEN)
@pytest.mark.parametrize("reader", READERS)
def test_what_another_provider_wrote_goes_out_as_what_was_said(reader: str, writer: str, says_who: bool) -> None:  # noqa: FBT001
    model = READERS[reader]()
    for content in WRITTEN[writer]:
        # Thoughts alone do not tell whose they are.
        if OWN[reader] == writer or (not says_who and {"thinking", "reasoning"} & {part["type"] for part in content}):
            continue
        log = turn_of(writer, content, says_who=says_who)
        kept = [message.model_copy(deep=True) for message in log]
        prompt = made_valid([*log, HumanMessage("next")], over=len(log), reader=model)
        assert violations(prompt) == []
        assert log == kept
        held = [block for message in prompt if isinstance(message.content, list) for block in message.content]
        assert {block["type"] for block in held} <= {"text"}  # type: ignore[index]
        again = made_valid(prompt, over=len(prompt) - 1, reader=model)
        assert [a is b for a, b in zip(prompt, again, strict=True)] == [True] * len(prompt)
        sent = as_sent(reader, prompt)
        # Mistral's client itself leaves out what was said beside calls.
        assert SAID not in content or "so it is" in (
            sent if reader != "mistral" or len(log) == 2 else str(prompt[1].content)
        )
        if len(log) == 2 and reader != "openai responses":
            assert not [word for word in FOREIGN if word in json.dumps([str(m.content) for m in prompt])]


@pytest.mark.parametrize("reader", READERS)
def test_what_a_provider_wrote_goes_back_to_it_as_it_is(reader: str) -> None:
    if reader == "openai":  # the older protocol knows none of it
        return
    model = READERS[reader]()
    for content in WRITTEN[OWN[reader]]:
        log = turn_of(OWN[reader], content, says_who=True)
        prompt = made_valid([*log, HumanMessage("next")], over=len(log), reader=model)
        assert prompt[1] is log[1]
        assert made_valid([*log, HumanMessage("next")], over=len(log))[1] is log[1]
        FORMATTERS[reader](prompt)


def test_a_search_that_nobody_finished_goes_no_further() -> None:
    """Anthropic refuses it behind a question; what is going on stays, and so does one whose result came later."""
    begun = AIMessage([SAID, SEARCH], response_metadata={"model_provider": "anthropic"})
    prompt = made_valid([HumanMessage("q"), begun, HumanMessage("next")], over=2)
    assert prompt[1].content == [SAID]
    assert made_valid([HumanMessage("q"), begun], over=0)[1] is begun
    alone = AIMessage([FOUND, SAID])
    assert made_valid([HumanMessage("q"), alone, HumanMessage("next")], over=2)[1].content == [SAID]
    calling = AIMessage([SEARCH, {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}], tool_calls=[CALL])
    later = AIMessage([FOUND, SAID])
    whole = [HumanMessage("q"), calling, ToolMessage("so", tool_call_id="call_1"), later, HumanMessage("next")]
    assert [a is b for a, b in zip(made_valid(whole, over=4), whole, strict=True)] == [True] * 5


def test_thoughts_go_with_the_call_that_they_led_to() -> None:
    """OpenAI refuses a reasoning item without what follows it."""
    asked = AIMessage([{"type": "text", "text": "let me see"}, REASONING, ITEM], tool_calls=[CALL])
    prompt = made_valid([HumanMessage("q"), asked, HumanMessage("never mind")], over=2)
    assert prompt[1].content == [{"type": "text", "text": "let me see"}]
    assert "rs_1" not in as_sent("openai responses", prompt)


def test_what_was_spoken_or_refused_is_shown_as_text() -> None:
    spoken = AIMessage("", additional_kwargs={"audio": {"id": "audio_1", "transcript": "hello", "expires_at": 1}})
    refused = AIMessage("", additional_kwargs={"refusal": "I cannot"})
    assert not_empty([spoken, refused]) == [spoken, refused]
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        ada.append("s1", [HumanMessage("a"), spoken, HumanMessage("b"), refused])
        model = InsistingModel()
        SessionMemoryAdvisor(sessions).wrap(model).invoke("c", config_for("s1"))
        assert [message.content for message in model.seen[0]] == ["a", "hello", "b", "I cannot", "c"]
        assert "audio" not in as_sent("openai", model.seen[0])


@pytest.mark.parametrize("kind", ["computer_call", "local_shell_call"])
def test_tools_of_openai_that_the_caller_executes_stay_with_their_results(kind: str) -> None:
    asked = AIMessage([{"type": kind, "id": "c_1", "call_id": "call_9", "action": {}, "status": "completed"}])
    result = ToolMessage("done", tool_call_id="call_9")
    turn = [HumanMessage("q"), asked, result]
    assert [a is b for a, b in zip(made_valid(turn, over=0), turn, strict=True)] == [True] * 3
    whole = [*turn, AIMessage("there")]
    assert made_valid([*whole, HumanMessage("next")], over=4)[:4] == whole
    assert "call_9" not in str(made_valid([*turn[:2], HumanMessage("never mind")], over=2))
    with SessionService(InMemoryStore()) as sessions:
        sessions.open("s1")
        sessions.append("s1", whole)
        assert [message.type for message in sessions.messages("s1")] == ["human", "ai", "tool", "ai"]


def test_an_approval_goes_out_as_it_is() -> None:
    answer = HumanMessage([{"type": "mcp_approval_response", "approve": True, "approval_request_id": "mcpr_1"}])
    assert made_valid([answer], over=0)[0] is answer


def test_a_wrapped_model_is_shown_what_it_takes() -> None:
    """The advisor knows which model answers, also behind a template; a model of one's own takes what there is."""
    log = turn_of("openai", WRITTEN["openai"][2], says_who=True)
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        ada.append("s1", log)
        model = InsistingModel()
        SessionMemoryAdvisor(sessions).wrap(model).invoke("next", config_for("s1"))
        assert "web_search_call" in str(model.seen[0])


def _response(name: str, said: str | list[Any] = "", *calls: str) -> AIMessage:
    """A reply as OpenAI's Responses API gives it."""
    made: list[Any] = [{"name": "look", "args": {}, "id": call, "type": "tool_call"} for call in calls]
    return AIMessage(said, tool_calls=made, response_metadata={"id": f"resp_{name}", "model_provider": "openai"})


def test_what_is_remembered_is_the_log_and_not_what_the_provider_keeps() -> None:
    """A client that goes on at its provider's newest reply would send nothing of a log that was edited or summed up."""
    client = ChatOpenAI(model="gpt-5", api_key=SecretStr("k"), use_previous_response_id=True)

    def sent(over: int, *messages: BaseMessage, **options: Any) -> tuple[str | None, int]:
        payload = client._get_request_payload(made_valid(messages, over, reader=client, **options))
        return payload.get("previous_response_id"), len(payload["input"])

    summary, asked = HumanMessage("In short: Rome."), HumanMessage("And now?")
    answered, dead = _response("1", "Sun."), _response("2", "I look.", "c1")
    assert sent(2, summary, answered, asked) == (None, 3)
    assert sent(2, summary, dead, asked) == (None, 3)
    calling, result = _response("3", "", "c2"), ToolMessage("rain", tool_call_id="c2")
    turn = (summary, answered, asked, calling, result)
    assert sent(2, *turn) == ("resp_3", 1)
    assert sent(2, *turn, is_shortened=True) == (None, 5)
    # An id that the gate changes is not the one that the provider waits for.
    odd = (summary, answered, asked, _response("4", "", "c 2"), ToolMessage("rain", tool_call_id="c 2"))
    assert sent(2, *odd) == (None, 5)
    assert made_valid(turn, 2, reader=client)[3] is calling
    other = ChatOpenAI(model="gpt-5", api_key=SecretStr("k"), use_responses_api=True)
    assert all(a is b for a, b in zip(turn, made_valid(turn, 2, reader=other), strict=True))


SEARCHED = AIMessage(
    [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, SAID],
    response_metadata={"model_provider": "openai"},
)


@pytest.mark.parametrize(
    ("tools", "options", "kept"),
    [
        ((), {}, False),
        (({"type": "function", "function": {"name": "look"}},), {}, False),
        (({"type": "web_search"},), {}, True),
        ((), {"reasoning": {"effort": "low"}}, True),
        ((), {"use_responses_api": True}, True),
        (({"type": "web_search"},), {"use_responses_api": False}, False),
    ],
)
def test_the_protocol_that_openai_s_client_chooses_itself(
    tools: Sequence[Any], options: dict[str, Any], *, kept: bool
) -> None:
    """The older one knows nothing of a search, and refused every later prompt."""
    model = ChatOpenAI(model="gpt-4o", api_key=KEY, **options)
    prompt = made_valid([HumanMessage("q"), SEARCHED, HumanMessage("next")], over=2, reader=model, tools=tools)
    assert ("web_search_call" in str(prompt[1].content)) is kept
    assert "so it is" in str(prompt[1].text)


@pytest.mark.parametrize("tools", [(), ({"type": "web_search"},)])
def test_the_tools_of_a_call_say_which_protocol_it_is(tools: Sequence[Any]) -> None:
    shown: list[Sequence[BaseMessage]] = []

    class Seen(ChatOpenAI):
        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            shown.append(messages)
            return ChatResult(generations=[ChatGeneration(message=AIMessage("yes"))])

    with SessionService("sqlite://") as sessions:
        ada = sessions.as_user("ada")
        ada.append(ada.open("s1").id, [HumanMessage("q"), SEARCHED])
        model = Seen(model="gpt-4o", api_key=KEY)
        memory = SessionMemoryAdvisor(sessions)
        template = ChatPromptTemplate([MessagesPlaceholder("past"), ("human", "{question}")])
        bound: Any = model.bind_tools(tools) if tools else model
        memory.wrap(bound).invoke("next", config_for("s1"))
        memory.wrap(model).bind_tools(tools).invoke("next", config_for("s1"))
        chain = memory.wrap(template | bound, input_key="question", history_key="past")
        chain.invoke({"question": "and?"}, config_for("s1"))
    assert len(shown) == 3
    assert [("web_search_call" in str(prompt[1].content)) for prompt in shown] == [bool(tools)] * len(shown)
