"""The real OpenAI client, on both APIs: what a provider may answer, and how it may fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions.errors import PromptTooLongError
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.openai_stub.replies import Cut, Fail, Fill, Overflow, call
from tests.surface.conftest import TWO_CALLS, Face, Person, config_for, logged, make_model, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from langchain_sessions.memory import SessionMemoryAdvisor
    from tests.openai_stub.server import OpenAIStub

ROOT = Path(__file__).parents[2]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
MODELS = {"chat": "gpt-4o-mini", "responses": "gpt-5-pro"}
"""A model that langchain-openai asks through each API by itself."""


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(stub: OpenAIStub, api: str) -> ChatOpenAI:
    return make_model(stub, use_responses_api=api == "responses", stream_usage=True)


@pytest.fixture(params=["whole", "streamed"])
def speak(request: pytest.FixtureRequest, face: Face) -> Any:
    """A call that is answered at once or streamed."""
    return face.invoke if request.param == "whole" else face.stream


async def test_what_is_said_and_spent(
    speak: Any,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    api: str,
) -> None:
    chat = memory.wrap(model)
    stub.script("one two", "three")
    await speak(chat, "hi", config)
    await speak(chat, "and", config)
    assert {request.path for request in stub.requests} == {PATHS[api]}
    assert stub.last.texts == ["hi", "one two", "and"]
    replies = [message for message in ada.messages("s1") if isinstance(message, AIMessage)]
    assert [type(reply) for reply in replies] == [AIMessage] * 2
    assert all(reply.usage_metadata and reply.usage_metadata["input_tokens"] > 0 for reply in replies)
    assert all(reply.response_metadata["model_name"] == "gpt-4o-mini" for reply in replies)


async def test_parallel_calls(
    face: Face,
    speak: Any,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model).bind_tools([weather])
    stub.script(TWO_CALLS, "sunny", "bye")
    asked = HumanMessage("weather?")
    await speak(chat, [asked], config)
    calling = ada.messages("s1", invocation_id=ada.events("s1").items[-1].invocation_id)[-1]
    assert isinstance(calling, AIMessage)
    results = [ToolMessage(weather.invoke(c["args"]), tool_call_id=c["id"]) for c in reversed(calling.tool_calls)]
    await speak(chat, [asked, calling, *results], config)
    await speak(chat, "thanks", config)
    assert stub.last.roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert texts(ada) == ["weather?", "", "sun in Oslo", "sun in Rome", "sunny", "thanks", "bye"]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of langchain-openai, streaming a parsed object
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("include_raw", [False, True])
async def test_structured_output(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    config: RunnableConfig,
    method: str,
    *,
    include_raw: bool,
) -> None:
    chat = memory.wrap(model)
    stub.script(Fill({"name": "grace"}), "bye")
    structured = chat.with_structured_output(Person, method=method, include_raw=include_raw)
    found = await face.invoke(structured, "who, as json", config)
    assert (found["parsed"] if include_raw else found) == Person(name="grace")
    await face.invoke(chat, "thanks", config)
    assert stub.last.roles == ["user", "assistant", "user"]
    assert "grace" in stub.last.texts[1]


async def test_a_prompt_that_is_too_long(
    speak: Any,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    chat = memory.wrap(model)
    for number in range(3):
        await speak(chat, f"question {number}", config)
    stub.script(Overflow(), "fits", Overflow(), Overflow())
    await speak(chat, "and now", config)
    assert texts(ada)[-2:] == ["and now", "fits"]
    assert len(stub.requests) == 5
    with pytest.raises(PromptTooLongError):
        await speak(chat, "huge", config)
    assert len(stub.requests) <= 7
    await speak(chat, "small", config)
    assert texts(ada)[-2] == "small"


async def test_too_many_requests(
    speak: Any,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.script(Fail(429), "hello")
    with pytest.raises(Exception, match="429"):
        await speak(memory.wrap(model), "first", config)
    await speak(memory.wrap(model), "second", config)
    assert stub.last.texts == ["second"]
    assert logged(ada)[0] == ("human", "first", "failed")


async def test_the_client_tries_again(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    again = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    stub.script(Fail(500, "server_error"), "hello")
    await face.invoke(memory.wrap(again), "first", config)
    assert logged(ada) == [("human", "first", "live"), ("ai", "hello", "live")]


async def test_a_connection_that_is_cut(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.script(Cut("one two three four five six", 7), "six", "bye")
    with pytest.raises(Exception, match=r"(?i)connection|peer"):
        await face.stream(memory.wrap(model), "count", config)
    (_, text, standing) = logged(ada)[-1]
    assert standing == "failed"
    assert "one two three four five six".startswith(text)
    await face.stream(memory.wrap(model), "count", config)
    await face.stream(memory.wrap(model), "thanks", config)
    assert texts(ada) == ["count", "six", "thanks", "bye"]


async def test_a_reader_who_leaves(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.script("one two three four five six seven eight", "fine")
    await face.stream(memory.wrap(model), "count", config, take=6)
    (_, text, standing) = logged(ada)[-1]
    assert (standing, text.startswith("one")) == ("interrupted", True)
    await face.invoke(memory.wrap(model), "go on", config)
    assert stub.last.roles == ["user", "assistant", "user"]


async def test_an_agent(
    face: Face, stub: OpenAIStub, sessions: SessionService, model: ChatOpenAI, ada: SessionService
) -> None:
    agent = create_agent(model, [weather], system_prompt="Be brief.", middleware=[SessionMemoryMiddleware(sessions)])
    stub.script(TWO_CALLS, "sunny", call("weather", city="Bonn"), "sun again", "bye")
    for text in ("weather?", "and Bonn?", "thanks"):
        await face.invoke(agent, {"messages": [HumanMessage(text)]}, config_for("s1"))
    assert stub.last.roles[:5] == ["system", "user", "assistant", "tool", "tool"]
    assert [kind for kind, _, _ in logged(ada)] == ["human", "ai", "tool", "tool", "ai", *["human", "ai", "tool", "ai"],
                                                    "human", "ai"]  # fmt: skip
    assert {standing for _, _, standing in logged(ada)} == {"live"}


# -- what newcomers run --------------------------------------------------------------------------------------


def test_the_demo(stub: OpenAIStub, api: str) -> None:
    """With a key the demo speaks to OpenAI: strict rules for every request, the summariser's too."""
    stub.answers["Look it up"] = call("conversation_search", query="passport")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OPENAI")},
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": stub.base_url,
        "OPENAI_MODEL": MODELS[api],
    }
    done = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {request.path for request in stub.requests} == {PATHS[api]}
    assert any("tool" in request.roles for request in stub.requests)
    for part in ("tokens go to the model", "the summariser is called", "compacted:", "blue drawer", "resumed"):
        assert part in done.stdout


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/advisor.md", "docs/middleware.md"])
def test_the_examples(stub: OpenAIStub, api: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of the surface with `ChatOpenAI` where they have a scripted model."""
    stub.may_quote = stub.allow_repeats = True  # a page goes over the same ground more than once
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
    names: dict[str, object] = {"__name__": "example"}
    exec("from langchain_openai import ChatOpenAI", names)  # noqa: S102 - what the comment in the examples says
    for example in re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL):
        real = re.sub(r"FakeListChatModel\(responses=\[.*?\]\)", f"ChatOpenAI(model={MODELS[api]!r})", example)
        exec(compile(real, page, "exec"), names)  # noqa: S102 - our own documentation
    assert {request.path for request in stub.requests} == {PATHS[api]}
