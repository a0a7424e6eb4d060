"""Issue 17, items 5 and 6: every middleware of LangChain before and behind ours, with our saver, another one, and none.

The table in docs/compatibility.md is what these tests find: `python -m tests.hosts.test_neighbours` writes it.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents import middleware as lc
from langchain.agents.middleware import types as lc_types
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langchain_sessions import SessionCheckpointSaver, SessionMemoryMiddleware, SessionService, Standing
from tests.surface.strict_rules import violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
ORDERS = ("before", "behind")
SAVERS = ("SessionCheckpointSaver", "InMemorySaver", "none")
QUESTIONS = ("hi, I am ada@example.com", "weather?", "thanks", "and tomorrow?", "bye")
MARK = "<!-- made by tests/hosts/test_neighbours.py -->"


class Strict(BaseChatModel):
    """Answers like a person would, and refuses a prompt that one of five providers would refuse."""

    prompts: list[Any] = []  # noqa: RUF012 - a field of pydantic, copied for each model
    failures: int = 0

    @property
    def _llm_type(self) -> str:
        return "strict"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        broken = violations(messages)
        if broken:
            raise AssertionError(broken)
        self.prompts.append(messages)
        if self.failures:
            self.failures -= 1
            message = "the line is bad"
            raise ConnectionError(message)
        number = len(self.prompts)
        last = messages[-1]
        if isinstance(last, HumanMessage) and last.text == "weather?":
            call = {"name": "weather", "args": {"city": "Paris"}, "id": f"call_{number}"}
            reply = AIMessage("", tool_calls=[call])
        else:
            reply = AIMessage(f"answer {number}")
        return ChatResult(generations=[ChatGeneration(message=reply)])


class Choosing(FakeListChatModel):
    """Chooses tools."""

    def with_structured_output(self, schema: Any, **options: Any) -> Any:
        del schema, options
        return RunnableLambda(lambda _: {"tools": ["weather"]})


_broken: list[int] = []


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    if _broken:
        _broken.pop()
        message = "no line"
        raise ConnectionError(message)
    return f"sunny in {city}"


def fake(*replies: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(replies))


def summarizing() -> Any:
    return lc.SummarizationMiddleware(model=fake("SUMMARY"), trigger=("messages", 5), keep=("messages", 2))


def clearing() -> Any:
    return lc.ContextEditingMiddleware(edits=[lc.ClearToolUsesEdit(trigger=1, keep=0)])


NEIGHBOURS: dict[str, Callable[[], Any]] = {
    "ContextEditingMiddleware": clearing,
    "FilesystemFileSearchMiddleware": lambda: lc.FilesystemFileSearchMiddleware(root_path=tempfile.gettempdir()),
    "HumanInTheLoopMiddleware": lambda: lc.HumanInTheLoopMiddleware(interrupt_on={"weather": True}),
    "LLMToolEmulator": lambda: lc.LLMToolEmulator(tools=["weather"], model=fake("sunny in Paris")),
    "LLMToolSelectorMiddleware": lambda: lc.LLMToolSelectorMiddleware(model=Choosing(responses=[""])),
    "ModelCallLimitMiddleware": lambda: lc.ModelCallLimitMiddleware(run_limit=9),
    "ModelFallbackMiddleware": lambda: lc.ModelFallbackMiddleware(Strict()),
    "ModelRetryMiddleware": lambda: lc.ModelRetryMiddleware(initial_delay=0, jitter=False),
    "PIIMiddleware": lambda: lc.PIIMiddleware("email", strategy="redact"),
    "ShellToolMiddleware": lambda: lc.ShellToolMiddleware(workspace_root=tempfile.gettempdir()),
    "SummarizationMiddleware": summarizing,
    "TodoListMiddleware": lc.TodoListMiddleware,
    "ToolCallLimitMiddleware": lambda: lc.ToolCallLimitMiddleware(run_limit=9),
    "ToolRetryMiddleware": lambda: lc.ToolRetryMiddleware(initial_delay=0, jitter=False),
}
if hasattr(lc, "ProviderToolSearchMiddleware"):
    NEIGHBOURS["ProviderToolSearchMiddleware"] = lambda: lc.ProviderToolSearchMiddleware(searchable_tools=[])
if hasattr(lc, "ToolErrorMiddleware"):
    NEIGHBOURS["ToolErrorMiddleware"] = lambda: lc.ToolErrorMiddleware(lambda error, request: "it failed")
LATE = ("ProviderToolSearchMiddleware", "ToolErrorMiddleware")
"""Those that the lowest version of LangChain does not have."""
_FAIL_MODEL = ("ModelRetryMiddleware", "ModelFallbackMiddleware")
_FAIL_TOOL = ("ToolRetryMiddleware", "ToolErrorMiddleware")


def converse(name: str, order: str, saver: str, sessions: SessionService) -> Strict:
    """Five turns of an agent with a tool; every rule that must hold is asserted on the way."""
    model = Strict(failures=1 if name in _FAIL_MODEL else 0)
    _broken[:] = [1] if name in _FAIL_TOOL else []
    chain = [NEIGHBOURS[name](), SessionMemoryMiddleware(sessions)]
    savers = {
        "SessionCheckpointSaver": SessionCheckpointSaver(sessions),
        "InMemorySaver": InMemorySaver(),
        "none": None,
    }
    agent: Any = create_agent(
        model, [weather], middleware=chain if order == "before" else chain[::-1], checkpointer=savers[saver]
    )
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    for question in QUESTIONS:
        state = agent.invoke({"messages": [HumanMessage(question)]}, config)
        while "__interrupt__" in state:
            state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
        assert isinstance(state["messages"][-1], AIMessage)
    assert_log(name, saver, sessions, model)
    return model


def assert_log(name: str, saver: str, sessions: SessionService, model: Strict) -> None:
    """The log holds each message once, in order, and the model saw what it should."""
    stands = [event for event in sessions.events("t") if event.message and event.standing is not Standing.SUPERSEDED]
    said = [event.message.text for event in stands if isinstance(event.message, HumanMessage)]
    asked = [text for text in said if not text.startswith("Here is a summary")]
    expected: list[str] = list(QUESTIONS)
    if name == "PIIMiddleware":
        expected[0] = "hi, I am [REDACTED_EMAIL]"
        assert not any("ada@" in message.text for prompt in model.prompts for message in prompt)
    assert asked == expected
    results = [event for event in stands if isinstance(event.message, ToolMessage)]
    assert len(results) == 1
    answers = [event for event in stands if isinstance(event.message, AIMessage)]
    assert len(answers) == len(QUESTIONS) + 1
    assert len({event.message.id for event in stands if event.message}) == len(stands)
    assert sessions.verify("t") == []
    last = [message.text for message in model.prompts[-1] if message.type != "system"]
    if name == "SummarizationMiddleware" and saver != "none":
        assert last[0].endswith("SUMMARY")
        assert last[-1] == QUESTIONS[-1]
        assert QUESTIONS[1] not in last
    elif name != "ContextEditingMiddleware":
        assert [text for text in last if text in expected] == expected


def needs_saver(name: str) -> bool:
    return name == "HumanInTheLoopMiddleware"


# LangChain's tool for a shell leaves its pipes to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", sorted(NEIGHBOURS))
def test_item_6_a_neighbour(name: str, order: str, saver: str) -> None:
    if needs_saver(name) and saver == "none":
        pytest.skip("asks LangGraph to wait, which needs a checkpointer")
    with SessionService("sqlite://") as sessions:
        converse(name, order, saver, sessions)
    if name == "ShellToolMiddleware":
        gc.collect()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("saver", ["SessionCheckpointSaver", "InMemorySaver"])
def test_item_5_the_model_sees_the_summary_and_what_was_kept(order: str, saver: str) -> None:
    with SessionService("sqlite://") as sessions:
        model = converse("SummarizationMiddleware", order, saver, sessions)
    summarized = [prompt for prompt in model.prompts if prompt[0].text.endswith("SUMMARY")]
    assert len(summarized) >= 2
    for prompt in summarized:
        assert len(prompt) <= 5
        assert sum(message.text.endswith("SUMMARY") for message in prompt) == 1


def test_item_6_no_middleware_of_langchain_is_left_out() -> None:
    found = {
        name
        for name in lc.__all__
        if isinstance(kind := getattr(lc, name), type)
        and issubclass(kind, lc_types.AgentMiddleware)
        and kind is not lc_types.AgentMiddleware
    }
    assert found == set(NEIGHBOURS)


def table() -> str:
    """The table of the docs."""
    head = [f"{saver}, {order}" for saver in SAVERS for order in ORDERS]
    lines = ["| middleware | " + " | ".join(head) + " |", "|" + "---|" * (len(head) + 1)]
    for name in sorted({*NEIGHBOURS, *LATE}):
        cells = ["needs one" if needs_saver(name) and saver == "none" else "works" for saver in SAVERS for _ in ORDERS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_item_6_the_table_in_the_docs_is_what_was_found() -> None:
    """A cell says `works` only while the test of that cell passes."""
    assert table() in PAGE.read_text()


if __name__ == "__main__":
    before, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(f"{before}{MARK}\n\n{table()}\n")
    sys.stdout.write(f"{PAGE} was written\n")
