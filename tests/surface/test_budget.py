"""One budget: what triggers look at is the prompt as it goes out for this viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_sessions import SessionService
from langchain_sessions.compaction import Compaction, TokenCount, TokenWindow, TurnCount
from langchain_sessions.errors import PromptTooLongError
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from langchain_sessions.tokens._at_hand import ExactAtHand, counts_itself
from tests.openai_stub.replies import Overflow
from tests.surface.clients import make_client
from tests.surface.conftest import Face, config_for, logged

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from tests.openai_stub.server import OpenAIStub

WORDS = "words of no weight that fill a prompt " * 10


class Counting(BaseChatModel):
    """Keeps how long its prompts were, and reports it times a factor."""

    counter: Any
    factor: float = 1.0
    seen: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        tokens = self.counter.count_messages(messages).tokens
        self.seen.append(tokens)
        reported = round(tokens * self.factor)
        usage: Any = {"input_tokens": reported, "output_tokens": 1, "total_tokens": reported + 1}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("yes", usage_metadata=usage))])

    @property
    def _llm_type(self) -> str:
        return "counting"


@pytest.fixture
def counting() -> Counting:
    with SessionService("sqlite://") as service:
        return Counting(counter=service.tokens)


def long_root(ada: SessionService, turns: int) -> None:
    ada.open("s1")
    for number in range(turns):
        ada.append("s1", [HumanMessage(f"question {number}: {WORDS}"), AIMessage(f"answer {number}: {WORDS}")])


async def test_a_worker_under_a_long_root_compacts_what_it_sees(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    long_root(ada, 40)
    compaction = Compaction(TokenCount(2_000), TokenWindow(max_tokens=500))
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, branch="orch.w1", context_window=2_500).wrap(counting)
    for number in range(5):
        await face.invoke(chat, f"part {number}", config)
    assert max(counting.seen) <= 2_000
    assert ada.verify("s1") == []


async def test_a_worker_leaves_a_root_alone_that_fits(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    long_root(ada, 5)
    compaction = Compaction(TokenCount(20_000) | TurnCount(2), TokenWindow(max_tokens=100))
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, branch="orch.w1").wrap(counting)
    for number in range(5):
        await face.invoke(chat, f"part {number}", config)
    root = [standing for _, text, standing in logged(ada) if text.startswith(("question", "answer"))]
    assert set(root) == {"live"}


async def test_few_shots_and_windows_count_as_they_go_out(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    """What `last_n` leaves out does not fill the prompt."""
    long_root(ada, 40)
    compaction = Compaction(TokenCount(2_000), TokenWindow(max_tokens=500))
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, last_n=4).wrap(counting)
    await face.invoke(chat, "and now", config)
    assert {standing for _, _, standing in logged(ada)} == {"live"}


async def test_what_cannot_be_made_to_fit_names_its_parts(
    face: Face, stub: OpenAIStub, sessions: SessionService, ada: SessionService, model: ChatOpenAI
) -> None:
    ada.open("s1")
    memory = SessionMemoryAdvisor(
        sessions, compaction=Compaction(TokenCount(5_000), TokenWindow(max_tokens=500)), context_window=100
    )
    stub.script(Overflow(), Overflow())
    with pytest.raises(PromptTooLongError, match="window of 100") as caught:
        await face.invoke(memory.wrap(model), [("system", "Be brief. " * 20), ("human", WORDS)], config_for("s1"))
    assert set(caught.value.parts) == {"system prompt", "running turn"}
    assert caught.value.parts["running turn"] > caught.value.parts["system prompt"] > 20
    assert WORDS not in str(caught.value)


class Editing(AgentMiddleware[Any, Any, Any]):
    """Shortens prompts behind ours."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(messages=request.messages[-1:]))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=request.messages[-1:]))


@pytest.mark.parametrize("edits", [False, True])
async def test_nothing_is_learned_from_a_prompt_that_was_changed_behind_ours(
    face: Face,
    sessions: SessionService,
    counting: Counting,
    thread: RunnableConfig,
    *,
    edits: bool,
) -> None:
    memory = SessionMemoryMiddleware(sessions, compaction=Compaction(TokenCount(50_000), TokenWindow(max_tokens=500)))
    counting.factor = 3.0
    agent = create_agent(counting, middleware=[memory, *([Editing()] if edits else [])])
    for _ in range(4):
        await face.invoke(agent, {"messages": WORDS}, thread)
    known = memory.budget.measured(memory.model_call(model=counting), ("?",), [HumanMessage(WORDS)], {}).usage
    # The first prompt holds one message, which the other middleware leaves as it is.
    assert len(known.calibration.ratios) == (1 if edits else 4)
    assert known.calibration.ratio == pytest.approx(3.0, rel=0.05)


class CountsItself(Counting):
    """A local model that knows its own vocabulary: two tokens a word."""

    def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
        return sum(2 * len(str(message.content).split()) for message in messages)


async def test_a_model_that_counts_itself_is_believed(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    model = CountsItself(counter=counting.counter)
    memory = SessionMemoryAdvisor(sessions, compaction=Compaction(TokenCount(1_000), TokenWindow(max_tokens=100)))
    for _ in range(3):
        await face.invoke(memory.wrap(model), WORDS, config)
    prompt = [HumanMessage(WORDS)]
    call = memory.budget.measured(memory.model_call(model=model), ("?",), prompt, {})
    assert call.usage.is_exact
    assert call.prompt_tokens == model.get_num_tokens_from_messages(prompt) + 3


@pytest.mark.parametrize("name", ["gpt-4o", "another-model"])
def test_a_vocabulary_that_is_cached_takes_over(tmp_path: Path, name: str) -> None:
    """And none is downloaded: of a model that nobody has a vocabulary of the tokens are estimated."""
    at_hand = ExactAtHand(tmp_path)
    model = ChatOpenAI(model=name, api_key=SecretStr("k"))
    assert at_hand.counter(model) is None
    at_hand.wait()
    known = at_hand.counter(model)
    assert known is None or (name == "gpt-4o" and known.count([HumanMessage("hello world")]) == 6)


@pytest.mark.parametrize(
    ("provider", "name"),
    [("Anthropic", "ChatAnthropic"), ("Gemini", "ChatGoogleGenerativeAI"), ("Ollama", "ChatOllama")],
)
def test_nobody_is_asked_over_the_network_for_a_count(provider: str, name: str) -> None:
    assert not counts_itself(make_client(provider, name, "http://127.0.0.1:9"))


@pytest.mark.parametrize("kind", ["advisor", "middleware"])
async def test_texts_are_bounded_where_that_is_asked(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, thread: RunnableConfig, kind: str
) -> None:
    shown: list[str] = []

    class Looking(Counting):
        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
            shown.extend(str(message.text) for message in messages)
            return super()._generate(messages, *args, **kwargs)

    model = Looking(counter=counting.counter)
    call: Any = {"name": "look", "args": {}, "id": "c1"}
    long = "x" * 50_000
    ada.open("s1")
    ada.append("s1", [HumanMessage("a"), AIMessage("", tool_calls=[call]), ToolMessage(long, tool_call_id="c1")])
    ada.append("s1", [AIMessage([{"type": "text", "text": long}])])
    if kind == "advisor":
        chat: Any = SessionMemoryAdvisor(sessions, max_characters=1_000).wrap(model)
        await face.invoke(chat, "and now", thread)
    else:
        agent = create_agent(model, middleware=[SessionMemoryMiddleware(sessions, max_characters=1_000)])
        await face.invoke(agent, {"messages": "and now"}, thread)
    assert max(map(len, shown)) < 1_100
    assert sum("49000 characters" in text for text in shown) == 2
    assert sum(len(str(message.text)) == 50_000 for message in ada.messages("s1")) == 2
