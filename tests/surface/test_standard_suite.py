"""Issue 17, item 7: LangChain's own suite for chat models, over a model and over the same one with memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_openai import ChatOpenAI

from langchain_sessions import InMemoryStore, SessionMemoryAdvisor, SessionService
from tests.openai_stub.replies import Fill, Reply, call
from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from collections.abc import Iterator

suites: Any = pytest.importorskip("langchain_tests.integration_tests")
pytestmark = [
    pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
    pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema:UserWarning"),
]
ANSWERS: dict[str, Reply] = {
    "magic_function_no_args": call("magic_function_no_args"),
    "magic_function(3)": call("magic_function", input=3),
    "Hello!": call("magic_function", input=3),
    "Pirate": call("greeting_generator", answer_style="pirate"),
    "weather in San Francisco": call("get_weather", location="San Francisco"),
    "Hello Group": call("unicode_customer", customer_name="你好啊集团", description="a company"),
    "Hello Corporation": call("unicode_customer", customer_name="こんにちは株式会社", description="a company"),
    "joke": Fill({"setup": "Why did the cat sit on the computer?", "punchline": "To watch the mouse."}),
}


class Suite(suites.ChatModelIntegrationTests):  # type: ignore[misc]
    """What langchain-tests asks of a model."""

    chat_model_class = ChatOpenAI
    supports_json_mode = True

    @property
    def chat_model_params(self) -> dict[str, Any]:
        """The client of a provider on this machine, whose address the environment names."""
        return {"model": "gpt-4o-mini", "max_retries": 0, "stream_usage": True}

    @pytest.mark.xfail(reason="fetches its image from a network", run=False)
    def test_image_inputs(self, model: Any) -> None:
        """Left out."""

    @pytest.mark.xfail(reason="is a benchmark", run=False)
    def test_stream_time(self, model: Any) -> None:
        """Left out."""

    @pytest.fixture
    def raw(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatOpenAI]:
        """A model, with what the suite wants of it."""
        with OpenAIStub(several_questions=True, may_quote=True, allow_repeats=True, answers=ANSWERS) as stub:
            monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            wanted = getattr(request, "param", {})
            yield ChatOpenAI(**{**self.standard_chat_model_params, **self.chat_model_params, **wanted})


class TestRaw(Suite):
    """The model itself, so that a failure below is memory's."""

    model = Suite.raw


class TestWithMemory(Suite):
    """The same model with memory."""

    @pytest.fixture
    def model(self, raw: ChatOpenAI) -> Iterator[Any]:
        with SessionService(InMemoryStore()) as sessions:
            yield SessionMemoryAdvisor(sessions).wrap(raw).with_config(configurable={"session_id": "s"})
            assert all(sessions.verify(session.id) == [] for session in sessions.list_sessions())
