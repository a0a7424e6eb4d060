"""One budget: what triggers look at is the prompt as it goes out for this viewer."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from langchain_sessions import (
    Compaction,
    CompactionPlan,
    CompactionRequest,
    SessionService,
    SlidingWindow,
    Summarize,
    SummaryLimits,
    TokenCount,
    TokenWindow,
    TurnCount,
)
from langchain_sessions._chat.session_memory import tools_behind
from langchain_sessions._log.log import log_of
from langchain_sessions._tokens.exact_for_model import ExactForModel, counts_itself
from langchain_sessions.errors import PromptTooLongError
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from tests.compaction.models import ScriptedModel
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


async def test_a_worker_that_compacts_in_the_background_keeps_within_a_window_that_is_known(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    """There is no reply yet behind which the first prompt could be made to fit."""
    long_root(ada, 40)
    compaction = Compaction(TokenCount(2_000), TokenWindow(max_tokens=500), where="background")
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, branch="orch.w1", context_window=2_500).wrap(counting)
    for number in range(3):
        await face.invoke(chat, f"part {number}", config)
    assert max(counting.seen) < 2_500
    assert ada.verify("s1") == []


async def test_ancestors_are_compacted_in_the_background_too(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    long_root(ada, 40)
    compaction = Compaction(TokenCount(2_000), TokenWindow(max_tokens=500), where="background")
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, branch="orch.w1").wrap(counting)
    for number in range(3):
        await face.invoke(chat, f"part {number}", config)
        assert await log_of(sessions).background.adrain(10)
    assert counting.seen[0] > 2_000 > counting.seen[1]
    assert counting.seen[2] < 2_000
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


@pytest.mark.parametrize("where", ["before", "background"])
async def test_what_an_exact_count_says_does_not_fit_is_not_asked(
    face: Face, sessions: SessionService, ada: SessionService, config: RunnableConfig, where: Any
) -> None:
    """The history is compacted first; one enormous question cannot be made shorter, and the conversation goes on."""
    model = CountsItself(counter=sessions.tokens)
    compaction = Compaction(TokenCount(900), TokenWindow(max_tokens=300), where=where)
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, context_window=1_000).wrap(model)
    for _ in range(4):
        await face.invoke(chat, WORDS, config)
    asked = len(model.seen)
    with pytest.raises(PromptTooLongError) as caught:
        await face.invoke(chat, WORDS * 16, config)
    assert len(model.seen) == asked
    assert caught.value.window == 1_000
    assert caught.value.parts["running turn"] > 500
    assert caught.value.__cause__ is None
    await face.invoke(chat, WORDS, config)
    assert len(model.seen) == asked + 1
    assert all("words " * 100 not in str(message.text) for message in ada.messages("s1"))


@pytest.mark.parametrize("compacts", [True, False])
@pytest.mark.parametrize("adds", ["template", "chain", "middleware"])
async def test_what_is_added_to_a_prompt_is_named_too(
    face: Face, sessions: SessionService, ada: SessionService, thread: RunnableConfig, adds: str, *, compacts: bool
) -> None:
    model = Refusing(counter=sessions.tokens, window=500)
    options: Any = {"compaction": strategy("few tokens") if compacts else None, "context_window": 500}
    if adds == "middleware":
        agent: Any = create_agent(model, middleware=[SessionMemoryMiddleware(sessions, **options), Instructing()])
        value: Any = {"messages": "and now"}
    else:
        place: Any = "{place}" if adds == "chain" else WORDS * 15
        template = ChatPromptTemplate([("system", place), MessagesPlaceholder("history"), ("human", "{question}")])
        retrieving: Any = RunnablePassthrough.assign(place=lambda _: WORDS * 15)
        memory = SessionMemoryAdvisor(sessions, **options)
        agent = memory.wrap(retrieving | template | model, input_key="question", history_key="history")
        value = {"question": "and now"}
    with pytest.raises(PromptTooLongError) as caught:
        await face.invoke(agent, value, thread)
    named = "template" if adds == "template" else "added on the way"
    assert 1_000 < caught.value.parts[named] < 1_500
    assert sum(caught.value.parts.values()) == pytest.approx(model.refusals[-1], rel=0.05)


class Instructing(AgentMiddleware[Any, Any, Any]):
    """Has instructions of its own."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(system_message=SystemMessage(WORDS * 15)))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(system_message=SystemMessage(WORDS * 15)))


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


async def test_another_memory_knows_what_stored_replies_say_of_their_prompts(
    face: Face, sessions: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    """One memory per request, as a web service makes them, learns as one that stays."""
    counting.factor = 3.0
    compaction = Compaction(TokenCount(50_000), TokenWindow(max_tokens=500))
    for _ in range(4):
        await face.invoke(SessionMemoryAdvisor(sessions, compaction=compaction).wrap(counting), WORDS, config)
    # The next prompt is about 460 of our tokens, and 1 380 of the model's.
    fresh = SessionMemoryAdvisor(sessions, compaction=Compaction(TokenCount(1_200), TokenWindow(max_tokens=300)))
    await face.invoke(fresh.wrap(counting), WORDS, config)
    assert counting.seen[-1] < counting.seen[-2]


@pytest.mark.parametrize("as_schema", [True, False])
def test_tools_that_are_bound_in_a_chain_count_whatever_they_are_bound_as(*, as_schema: bool) -> None:
    """Clients bind schemas; models of one's own may bind what they were given."""

    @tool
    def look(query: str) -> str:
        """Look something up."""
        return query

    bound = convert_to_openai_tool(look) if as_schema else look
    model = FakeListChatModel(responses=["yes"]).bind(tools=[bound, object()])
    chain = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{question}")]) | model
    assert tools_behind(chain) == (bound,)


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


class CountsMore(Counting):
    """A local model whose own vocabulary takes three and a half times the tokens of OpenAI's."""

    def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
        tokens: int = self.counter.count_messages(messages).messages
        return round(3.5 * tokens)


@pytest.mark.parametrize(
    ("kind", "reported"), [(CountsMore, 0), (CountsMore, 3.5), (Counting, 3.5)], ids=["exact", "both", "reports"]
)
async def test_what_a_strategy_keeps_is_counted_as_the_prompt_is(
    face: Face,
    sessions: SessionService,
    counting: Counting,
    config: RunnableConfig,
    kind: type[Counting],
    reported: float,
) -> None:
    archived: list[int] = []
    compaction = Compaction(
        TokenCount(2_000), TokenWindow(max_tokens=700), on_result=lambda result: archived.append(len(result.archived))
    )
    sessions.as_user("ada").open("s1")
    model = kind(counter=counting.counter, factor=reported)
    chat = SessionMemoryAdvisor(sessions, compaction=compaction).wrap(model)
    for _ in range(25):
        await face.invoke(chat, WORDS, config)
    assert 1_500 <= 3.5 * max(model.seen) <= 2_000
    # Each makes room for several turns, not for the next one alone.
    assert 0 < len(archived) <= 8


@pytest.mark.parametrize("name", ["gpt-4o", "another-model"])
def test_a_vocabulary_that_is_cached_takes_over(tmp_path: Path, name: str) -> None:
    """And none is downloaded: of a model that nobody has a vocabulary of the tokens are estimated."""
    at_hand = ExactForModel(tmp_path)
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


class TooLong(Exception):  # noqa: N818 - what a client raises
    status_code = 400


class Refusing(Counting):
    """Takes no more than its window, which nobody else knows, and reports nothing."""

    window: int = 6_000
    refusals: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model
    prompts: list[str] = []  # noqa: RUF012

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        tokens = self.counter.count_messages(messages).tokens
        if tokens > self.window:
            self.refusals.append(tokens)
            raise TooLong("Error code: 400 - the input length exceeds the context length")
        self.prompts.append("\n".join(str(message.text) for message in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage("yes"))])


SELDOM = TokenCount(10**6)


def strategy(name: str, *replies: Any) -> Compaction | None:
    model = ScriptedModel(replies=list(replies) or ["They talked."])
    return {
        "few tokens": Compaction(SELDOM, Summarize(model, window=TokenWindow(1_500))),
        "many events": Compaction(SELDOM, Summarize(model, keep_events=60)),
        "no summary": Compaction(SELDOM, SlidingWindow(60)),
        "nothing": None,
    }[name]


@pytest.mark.parametrize("branch", [None, "orch.w1"])
@pytest.mark.parametrize("name", ["few tokens", "dead", "many events", "no summary", "nothing"])
async def test_a_refusal_is_enough_to_make_a_long_log_fit(
    face: Face,
    sessions: SessionService,
    ada: SessionService,
    counting: Counting,
    config: RunnableConfig,
    name: str,
    branch: str | None,
) -> None:
    ada.open("s1")
    log = [
        message
        for number in range(60)
        for message in (HumanMessage(f"question {number}: {WORDS * 3}"), AIMessage(f"answer {number}: {WORDS * 3}"))
    ]
    ada.append("s1", log)
    ada.append("s1", log[:8], branch="orch.w1")
    compaction = strategy("few tokens", RuntimeError("down")) if name == "dead" else strategy(name)
    model = Refusing(counter=counting.counter)
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, branch=branch).wrap(model)
    for number in range(2):
        await face.invoke(chat, f"part {number}", config)
    assert len(model.refusals) == 1
    assert ada.verify("s1") == []


class KeepsAll:
    """A strategy of somebody's own that would archive nothing; it may say who summarises all the same."""

    def __init__(self, summarizer: ScriptedModel | None) -> None:
        self._of = None if summarizer is None else Summarize(summarizer)

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        plan = CompactionPlan() if self._of is None else self._of.plan(request)
        return replace(plan, archive=())


@pytest.mark.parametrize("names_summarizer", [True, False])
async def test_the_last_resort_asks_whom_a_strategy_names(
    face: Face,
    sessions: SessionService,
    ada: SessionService,
    counting: Counting,
    config: RunnableConfig,
    *,
    names_summarizer: bool,
) -> None:
    long_root(ada, 60)
    how = KeepsAll(ScriptedModel(replies=["They talked."]) if names_summarizer else None)
    outcomes: list[str] = []
    compaction = Compaction(SELDOM, how, on_result=lambda result: outcomes.append(result.outcome.value))
    model = Refusing(counter=counting.counter)
    await face.invoke(SessionMemoryAdvisor(sessions, compaction=compaction).wrap(model), "and now", config)
    assert outcomes[-1] == ("compacted" if names_summarizer else "archived")
    assert ("They talked." in model.prompts[-1]) == names_summarizer
    if not names_summarizer:
        # Whoever summarises next is shown what went before.
        later = ScriptedModel(replies=["They talked."])
        ada.append("s1", [HumanMessage("one more"), AIMessage("yes")])
        ada.compact("s1", Compaction(None, Summarize(later, keep_events=2)))
        assert "question 3:" in later.shown


async def test_what_is_kept_is_left_alone_where_that_is_enough(
    face: Face, sessions: SessionService, ada: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    """The newest turns stay that the strategy keeps: a refusal is no reason to forget all."""
    long_root(ada, 40)
    model = Refusing(counter=counting.counter)
    chat = SessionMemoryAdvisor(sessions, compaction=strategy("few tokens")).wrap(model)
    await face.invoke(chat, "and now", config)
    assert "question 39" in model.prompts[-1]
    assert "question 36" in model.prompts[-1]
    assert "They talked." in model.prompts[-1]


@pytest.mark.parametrize("dead_until", [0, 12])
@pytest.mark.parametrize("window", [None, 4_000])
async def test_no_turn_is_lost_to_the_last_resort(
    face: Face,
    sessions: SessionService,
    counting: Counting,
    config: RunnableConfig,
    dead_until: int,
    window: int | None,
) -> None:
    """Turns so large that what the strategy keeps does not fit: each is in the prompt, or was in a summary."""
    summariser = ScriptedModel(replies=["They talked."])
    limits = SummaryLimits(cool_down=timedelta(0))
    compaction = Compaction(TokenCount(3_000), Summarize(summariser, keep_events=10, limits=limits))
    model = Refusing(counter=counting.counter, window=4_000)
    chat = SessionMemoryAdvisor(sessions, compaction=compaction, context_window=window).wrap(model)
    living, summariser.replies = summariser.replies, [RuntimeError("down")]
    shown = 0
    for number in range(24):
        if number == dead_until:
            summariser.replies, shown = living, len(summariser.prompts)
        large = 8 <= number < 12 or not dead_until
        await face.invoke(chat, f"turn {number}! {WORDS * (18 if large else 3)}", config)
    told = [str(message.text) for prompt in summariser.prompts[shown:] for message in prompt]
    known = {int(found) for text in [*told, model.prompts[-1]] for found in re.findall(r"turn (\d+)!", text)}
    assert known == set(range(24))
    assert "They talked." in model.prompts[-1]


async def test_the_words_of_a_chains_template_count_too(
    face: Face, sessions: SessionService, counting: Counting, config: RunnableConfig
) -> None:
    template = ChatPromptTemplate(
        [("system", WORDS * 15 + "{place}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    compaction = Compaction(TokenCount(3_000), TokenWindow(max_tokens=300))
    memory = SessionMemoryAdvisor(sessions, compaction=compaction, context_window=20_000)
    chain = memory.wrap(template | counting, input_key="question", history_key="history")
    for number in range(15):
        await face.invoke(chain, {"question": f"part {number}: {WORDS}", "place": WORDS * 3}, config)
    assert 2_500 < max(counting.seen) <= 3_000
