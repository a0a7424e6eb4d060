"""Other middleware before and behind ours: what it changes is not taken for what a model's tokens cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

from langchain_sessions import Compaction, TokenCount, TokenWindow
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from langchain_sessions import SessionService
    from langchain_sessions._chat.session_memory import SessionMemory
    from tests.surface.conftest import Face

BUDGET, TURNS, FACTOR = 4_000, 16, 1.5
COMPACTION = Compaction(TokenCount(BUDGET), TokenWindow(max_tokens=800))
SELDOM_UNCHANGED = ("clears inputs", "clears results", "cuts")
WORDS = "words of no weight that fill a prompt with what was said of the week and the way there "


class Reporting(BaseChatModel):
    """Reports what it is really asked, tools included, times a factor; calls a tool for each question."""

    counter: Any
    model_name: str = "gpt-4o"  # whose counts the default counter estimates
    factor: float = FACTOR
    calls_tools: bool = True
    fails: bool = False
    asked: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model
    sizes: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(len(messages))
        if self.fails and len(self.asked) % 5 == 0:
            raise ConnectionError
        tokens = round(self.factor * self.counter.count_messages(messages, tools=kwargs.get("tools", ())).tokens)
        self.sizes.append(tokens)
        usage: Any = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
        asks = self.calls_tools and isinstance(messages[-1], HumanMessage)
        calls: Any = [{"name": "look", "args": {"query": WORDS * 4}, "id": f"c{len(self.sizes)}"}] if asks else []
        answer = AIMessage("" if asks else WORDS, tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    @property
    def _llm_type(self) -> str:
        return "reporting"


class Another(Reporting):
    """A model of another make, whose vocabulary takes twice as many tokens."""

    factor: float = 2 * FACTOR

    @property
    def _llm_type(self) -> str:
        return "another"


class Selecting(Reporting):
    """Chooses tools for `LLMToolSelectorMiddleware`."""

    def with_structured_output(self, *args: Any, **kwargs: Any) -> Any:
        return RunnableLambda(lambda _: {"tools": ["look"]})


class Instructing(AgentMiddleware[Any, Any, Any]):
    """Adds four thousand characters to the system prompt of every call, as one for skills or documents does."""

    def _changed(self, request: Any) -> Any:
        return request.override(system_message=SystemMessage("Be brief. " + WORDS * 45))

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(self._changed(request))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._changed(request))


class Reminding(Instructing):
    """Adds a question of its own behind every third prompt."""

    asked = 0

    def _changed(self, request: Any) -> Any:
        self.asked += 1
        more = [] if self.asked % 3 else [HumanMessage("Remember: " + WORDS * 20)]
        return request.override(messages=[*request.messages, *more])


class Cutting(Instructing):
    """Shows the model the newest messages only."""

    def _changed(self, request: Any) -> Any:
        last = max(at for at, message in enumerate(request.messages) if message.type == "human")
        return request.override(messages=request.messages[last:])


@tool
def look(query: str) -> str:
    """Look something up."""
    return query


@tool
def other(query: str) -> str:
    """Look something else up, in what was written of it by those who came here before and did not find their way."""
    return query


MIDDLEWARE: dict[str, Callable[[Reporting], Any]] = {
    "clears inputs": lambda _: ContextEditingMiddleware(
        edits=[ClearToolUsesEdit(trigger=800, keep=1, clear_tool_inputs=True)]
    ),
    "clears results": lambda _: ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=800, keep=1)]),
    "adds instructions": lambda _: Instructing(),
    "adds messages": lambda _: Reminding(),
    "cuts": lambda _: Cutting(),
    "todo": lambda _: TodoListMiddleware(),
    "selects tools": lambda model: LLMToolSelectorMiddleware(model=Selecting(counter=model.counter), max_tools=1),
    "falls back": lambda model: ModelFallbackMiddleware(Another(counter=model.counter)),
    "tries again": lambda _: ModelRetryMiddleware(max_retries=1, initial_delay=0.0),
    "hides": lambda _: PIIMiddleware("email"),
    "summarises": lambda model: SummarizationMiddleware(model, trigger=("tokens", 3_000), keep=("messages", 4)),
    "caches": lambda _: AnthropicPromptCachingMiddleware(unsupported_model_behavior="ignore"),
}


@pytest.mark.parametrize("is_behind", [True, False], ids=["behind", "before"])
@pytest.mark.parametrize("name", MIDDLEWARE)
def test_what_others_change_is_not_learned_as_a_rate(
    sessions: SessionService, thread: RunnableConfig, name: str, *, is_behind: bool
) -> None:
    model = Reporting(counter=sessions.tokens, fails=name in ("falls back", "tries again"))
    memory = SessionMemoryMiddleware(sessions, compaction=COMPACTION)
    another = MIDDLEWARE[name](model)
    middleware: Any = [memory, another] if is_behind else [another, memory]
    agent: Any = create_agent(model, [look, other], middleware=middleware)
    for number in range(TURNS):
        agent.invoke({"messages": f"{number}: {WORDS * 4}"}, thread)
    assert_rates(memory, model, at_least=2 if is_behind and name in SELDOM_UNCHANGED else 15)


async def test_what_a_chain_adds_is_expected_and_not_learned_as_a_rate(
    face: Face, sessions: SessionService, config: RunnableConfig
) -> None:
    """Documents that a chain retrieves are known to nobody before it asks its model."""
    model = Reporting(counter=sessions.tokens, calls_tools=False)
    template = ChatPromptTemplate(
        [("system", "Documents: {documents}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    retrieving: Any = RunnablePassthrough.assign(documents=lambda _: WORDS * 40)
    memory = SessionMemoryAdvisor(sessions, compaction=COMPACTION)
    chat = memory.wrap(retrieving | template | model, input_key="question", history_key="history")
    for number in range(TURNS):
        await face.invoke(chat, {"question": f"{number}: {WORDS * 4}"}, config)
    assert_rates(memory, model, at_least=15)
    assert max(model.sizes) >= BUDGET * 0.85


def assert_rates(memory: SessionMemory, model: Reporting, *, at_least: int) -> None:
    known = memory.budget.measured(memory.model_call(model=model), ("?",), [HumanMessage(WORDS)], {}).usage
    rates = known.calibration.ratios
    assert len(rates) >= at_least
    assert all(rate == pytest.approx(FACTOR, rel=0.03) for rate in rates)
    # Nobody knows what is added before it was seen once.
    assert max(model.sizes[9:]) <= BUDGET * 1.02
