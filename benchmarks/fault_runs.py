# ruff: noqa: ANN401 - stands in for what other people write
"""Long conversations with one fault each: whether the next turn succeeds, whether the prompt fits, and what is found.

Six hundred turns, in which ninety facts are told; the model counts its prompts with a real vocabulary, which the
default counter only estimates, and refuses those that exceed its window, in the words of a provider. One run each with
a summariser that is dead, with workers on deep branches under a long root, with other middleware that edits prompts
behind ours or adds to them, with tools that are numbered from 0 in every turn, and with each answer of
`docs/overflow.md`, of a provider whose limit nobody told us.

`--turns` makes the runs shorter; the facts are told all the same.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from benchmarks.budgets import BundledCounter
from langchain_sessions import (
    Compaction,
    InMemoryStore,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    Summarize,
    TokenCount,
    TokenWindow,
)
from tests.surface.overflow_answers import OVERFLOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.openai_stub.replies import Refuse

FACTS, TURNS = 90, 600
WINDOW = 6_000
FILLER = "We went on about the week, the budget and who would come along to what, as we always do. " * 5
NAME, VOCABULARY = "gpt-4o", "o200k_base"
WORDINGS = {f"{answer.provider}, {answer.about}, {at}": answer.answer for at, answer in enumerate(OVERFLOWS)}
"""What providers answer, as `docs/overflow.md` has it."""
OVERFLOW = next(iter(WORDINGS.values()))


@cache
def vocabulary(name: str) -> BundledCounter:
    """Counts as models do."""
    return BundledCounter(name)


class Refused(Exception):  # noqa: N818 - what a client raises
    """A provider does not take a prompt."""

    def __init__(self, answer: Refuse) -> None:
        """Say it as clients do: a status, and what the server wrote."""
        said = answer.body if isinstance(answer.body, str) else json.dumps(answer.body, ensure_ascii=False)
        super().__init__(f"Error code: {answer.status} - {said}")
        self.status_code, self.body = answer.status, answer.body


class Misnumbered(Exception):  # noqa: N818 - as above
    """A provider found two calls of one id."""


class Windowed(BaseChatModel):
    """Answers what fits its window, and refuses the rest in the words of a provider."""

    counter: Any = Field(default_factory=lambda: vocabulary(VOCABULARY))
    model_name: str = NAME
    window: int = WINDOW
    wording: Any = OVERFLOW
    reports: float | None = None
    calls_tools: bool = False
    sizes: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model
    refusals: list[int] = []  # noqa: RUF012

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        del args, kwargs
        size = self.counter.count_messages(messages).tokens
        if size > self.window:
            self.refusals.append(size)
            raise Refused(self.wording)
        self.sizes.append(size)
        ids = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
        if len(set(ids)) < len(ids):
            raise Misnumbered
        asks = self.calls_tools and isinstance(messages[-1], HumanMessage)
        usage: Any = None
        if self.reports is not None:
            told = round(size * self.reports)
            usage = {"input_tokens": told, "output_tokens": 1, "total_tokens": told + 1}
        calls: Any = [{"name": "look", "args": {}, "id": "call_0"}] if asks else []
        answer = AIMessage("" if asks else f"Noted. {FILLER[:200]}", tool_calls=calls, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        """As it is."""
        del args, kwargs
        return self

    @property
    def _llm_type(self) -> str:
        return "windowed"


class Summarising(BaseChatModel):
    """Writes summaries that hold none of the facts; or is dead."""

    is_dead: bool = False

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        del messages, args, kwargs
        if self.is_dead:
            raise ConnectionError
        return ChatResult(generations=[ChatGeneration(message=AIMessage("They made plans."))])

    @property
    def _llm_type(self) -> str:
        return "summarising"


class Outcome(NamedTuple):
    """What came of a run: turns that got an answer, the largest prompt, refusals, facts found, and what is wrong."""

    answered: int
    largest: int
    refused: int
    found: int
    problems: list[str]


def fact(number: int) -> str:
    """A fact that occurs nowhere else."""
    return f"locker {number:02d} opens with {(number * 7919) % 90_000 + 10_000}"


def said(turn: int, turns: int) -> str:
    """What is said in a turn; facts lie evenly in all of them."""
    before, after = (at * FACTS // turns for at in (turn, turn + 1))
    told = " ".join(f"Remember that {fact(number)}." for number in range(before, after))
    return f"Turn {turn}. {told} {FILLER}"


def _run(turns: int, model: Windowed, service: SessionService, ask: Callable[[int, str], object]) -> Outcome:
    answered = 0
    for turn in range(turns):
        try:
            ask(turn, said(turn, turns))
        except (Refused, Misnumbered):
            continue
        answered += 1
    found = 0
    for number in range(FACTS):
        hits = service.search(fact(number), session_id="s1", mode="literal")
        found += any(fact(number) in str(hit.event.message and hit.event.message.text) for hit in hits)
    return Outcome(answered, max(model.sizes), len(model.refusals), found, service.verify("s1"))


CONFIG: Any = {"configurable": {"session_id": "s1", "thread_id": "s1"}}


def _compaction(*, is_dead: bool = False, at: int = 4_000) -> Compaction:
    return Compaction(TokenCount(at), Summarize(Summarising(is_dead=is_dead), window=TokenWindow(max_tokens=1_500)))


def dead_summariser(turns: int) -> Outcome:
    """Every summary fails."""
    with SessionService(InMemoryStore()) as service:
        model = Windowed()
        chat = SessionMemoryAdvisor(service, compaction=_compaction(is_dead=True), context_window=WINDOW).wrap(model)
        return _run(turns, model, service, lambda _, text: chat.invoke(text, CONFIG))


def deep_branches(turns: int) -> Outcome:
    """Workers four branches deep, each in turn, under a root that grows beside them."""
    with SessionService(InMemoryStore()) as service:
        model = Windowed()
        memory = SessionMemoryAdvisor(service, compaction=_compaction(), context_window=WINDOW)
        branches = (None, "orch", "orch.w1", "orch.w1.deep", "orch.w1.deep.deeper", "orch.w2")
        chats = [memory.on_branch(branch).wrap(model) for branch in branches]
        return _run(turns, model, service, lambda turn, text: chats[turn % len(chats)].invoke(text, CONFIG))


def editing_middleware(turns: int) -> Outcome:
    """Another middleware shortens prompts behind ours, so that what is reported is not what we showed."""
    from langchain.agents import create_agent  # noqa: PLC0415 - an optional extra
    from langchain.agents.middleware import AgentMiddleware  # noqa: PLC0415

    class Editing(AgentMiddleware[Any, Any, Any]):
        turn = 0

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            self.turn += 1
            edits = self.turn % 3 == 0
            return handler(request.override(messages=request.messages[-1:]) if edits else request)

    with SessionService(InMemoryStore()) as service:
        model = Windowed(reports=1.0)
        memory = SessionMemoryMiddleware(service, compaction=_compaction(), context_window=WINDOW)
        agent: Any = create_agent(model, middleware=[memory, Editing()])
        return _run(turns, model, service, lambda _, text: agent.invoke({"messages": text}, CONFIG))


def adding_middleware(turns: int) -> Outcome:
    """Another middleware has instructions of its own, for which it makes the system prompt behind ours."""
    from langchain.agents import create_agent  # noqa: PLC0415 - an optional extra
    from langchain.agents.middleware import AgentMiddleware  # noqa: PLC0415

    class Instructing(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(system_message=SystemMessage(FILLER * 15)))

    with SessionService(InMemoryStore()) as service:
        model = Windowed(reports=1.0)
        memory = SessionMemoryMiddleware(service, compaction=_compaction(at=5_500), context_window=WINDOW)
        agent: Any = create_agent(model, middleware=[memory, Instructing()])
        return _run(turns, model, service, lambda _, text: agent.invoke({"messages": text}, CONFIG))


def numbered_tools(turns: int) -> Outcome:
    """Every turn calls a tool under the id `call_0`."""
    with SessionService(InMemoryStore()) as service:
        model = Windowed(calls_tools=True)
        chat = SessionMemoryAdvisor(service, compaction=_compaction(), context_window=WINDOW).wrap(model)

        def ask(_: int, text: str) -> None:
            reply = chat.invoke(text, CONFIG)
            result = ToolMessage("It is there.", tool_call_id=reply.tool_calls[0]["id"])
            chat.invoke([HumanMessage(text), reply, result], CONFIG)

        return _run(turns, model, service, ask)


def wording(words: Refuse) -> Callable[[int], Outcome]:
    """The window is smaller than anybody knows: every compaction is asked for by the provider, in its words."""

    def run(turns: int) -> Outcome:
        with SessionService(InMemoryStore()) as service:
            model = Windowed(wording=words)
            chat = SessionMemoryAdvisor(service, compaction=_compaction(at=1_000_000)).wrap(model)
            system = SystemMessage("Be brief.")
            return _run(turns, model, service, lambda _, text: chat.invoke([system, HumanMessage(text)], CONFIG))

    return run


RUNS: dict[str, Callable[[int], Outcome]] = {
    "dead summariser": dead_summariser,
    "deep branches": deep_branches,
    "editing middleware": editing_middleware,
    "adding middleware": adding_middleware,
    "numbered tools": numbered_tools,
    **{f"refused: {who}": wording(words) for who, words in WORDINGS.items()},
}


def main(argv: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--only", default="", help="runs whose name begins so")
    options = parser.parse_args(argv)
    print(f"{'fault':90}{'answered':>12}{'largest':>9}{'refused':>9}{'facts':>9}")
    for name, run in RUNS.items():
        if not name.startswith(options.only):
            continue
        done = run(options.turns)
        answered, facts = f"{done.answered}/{options.turns}", f"{done.found}/{FACTS}"
        print(f"{name:90}{answered:>12}{done.largest:>9}{done.refused:>9}{facts:>9}", *done.problems, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
