"""Issue 17, item 4: a real agent whose checkpoints are written when the test says: in every order beside the memory."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_sessions import SessionCheckpointSaver, SessionService, Standing

agents = pytest.importorskip("langchain.agents")
middleware = pytest.importorskip("langchain.agents.middleware")

CONFIG: Any = {"configurable": {"thread_id": "t"}}
RAW = "my mail is ada@example.com"
TASK: dict[str, Any] = {"name": "helper", "args": {"task": "write to ada@example.com"}, "id": "c1", "type": "tool_call"}
PATIENCE = 0.15
"""Seconds: LangGraph itself waits for a checkpoint before it goes on to the step after the next."""
LONG = 5.0
"""Seconds for what comes in any case."""


class Schedule:
    """Lets so many checkpoints through before each answer of a model, and all of the others after the last one."""

    def __init__(self, *before_answers: int) -> None:
        self.before_answers = list(before_answers)
        self.may = threading.Semaphore(0)
        self.done = threading.Condition()
        self.allowed = self.written = 0

    def answer(self) -> None:
        """A model is about to answer: let checkpoints through, and wait until these are written."""
        some = self.before_answers.pop(0) if self.before_answers else 0
        self.allowed += some
        if some:
            self.may.release(some)
        with self.done:
            # There may be fewer: LangGraph hands one over when the last is written.
            self.done.wait_for(lambda: self.written >= self.allowed, timeout=PATIENCE)
        if not self.before_answers:
            self.may.release(1000)


class Held(SessionCheckpointSaver):
    """A saver that writes a checkpoint when it may."""

    schedule: Schedule

    def put(self, *given: Any, **options: Any) -> Any:
        self.schedule.may.acquire(timeout=PATIENCE)
        stored = super().put(*given, **options)
        with self.schedule.done:
            self.schedule.written += 1
            self.schedule.done.notify_all()
        return stored


class Scripted(BaseChatModel):
    """Says what is next, when the schedule has been asked."""

    replies: list[Any]
    schedule: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        self.schedule.answer()
        return ChatResult(generations=[ChatGeneration(message=self.replies.pop(0))])


def saver_of(sessions: SessionService, schedule: Schedule) -> Held:
    saver = Held(sessions, owner="ignore")
    saver.schedule = schedule
    return saver


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("order", ["before", "behind"])
def test_item_4_raw_mail_is_found_in_no_order_of_checkpoints_and_memory(first: int, order: str) -> None:
    from langchain_sessions.middleware import SessionMemoryMiddleware  # noqa: PLC0415 - an extra's

    schedule = Schedule(first)
    with SessionService("sqlite://") as sessions:
        ours = SessionMemoryMiddleware(sessions, owner="ignore")
        redact = middleware.PIIMiddleware("email", apply_to_input=True)
        agent = agents.create_agent(
            Scripted(replies=[AIMessage("noted")], schedule=schedule),
            middleware=[redact, ours] if order == "before" else [ours, redact],
            checkpointer=saver_of(sessions, schedule),
        )
        agent.invoke({"messages": [HumanMessage(RAW)]}, CONFIG, durability="async")
        for query in ("mail", "ada", "example.com", "ada@example.com"):
            hits = sessions.search(query, session_id="t")
            assert not [hit for hit in hits if "example.com" in (hit.event.message or AIMessage("")).text]
        live = [event.message for event in sessions.events("t") if event.standing is Standing.LIVE and event.message]
        # The log's order is that of its records; a revision takes the place of what it supersedes in a prompt.
        assert sorted(message.text for message in live) == ["my mail is [REDACTED_EMAIL]", "noted"]
        assert [message.text for message in sessions.messages("t")] == ["my mail is [REDACTED_EMAIL]", "noted"]
        assert sessions.verify("t") == []


class Recording(Scripted):
    """Keeps what it was shown last."""

    shown: list[str] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        self.shown[:] = [message.text for message in messages]
        return super()._generate(messages, *given, **options)


class Trim(middleware.AgentMiddleware):  # type: ignore[name-defined, misc]
    """Takes all but the last message out of the state."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        del runtime
        return {"messages": [RemoveMessage(id=message.id) for message in state["messages"][:-1]]}


@pytest.mark.parametrize("orders", [(0, 0), (2, 2), (9, 0), (9, 1), (9, 2)])
@pytest.mark.parametrize("order", ["before", "behind"])
def test_item_4_what_a_state_let_go_of_is_shown_in_no_order(orders: tuple[int, ...], order: str) -> None:
    from langchain_sessions.middleware import SessionMemoryMiddleware  # noqa: PLC0415 - an extra's

    schedule = Schedule(*orders)
    with SessionService("sqlite://") as sessions:
        ours = SessionMemoryMiddleware(sessions, owner="ignore")
        model = Recording(replies=[AIMessage("first"), AIMessage("second")], schedule=schedule)
        agent = agents.create_agent(
            model,
            middleware=[Trim(), ours] if order == "before" else [ours, Trim()],
            checkpointer=saver_of(sessions, schedule),
        )
        for question in ("one", "two"):
            agent.invoke({"messages": [HumanMessage(question)]}, CONFIG, durability="async")
        assert model.shown == ["two"]
        assert [message.text for message in sessions.messages("t")] == ["two", "second"]
        assert sessions.verify("t") == []


class Inject(middleware.AgentMiddleware):  # type: ignore[name-defined, misc]
    """Says something beside each question, as people do who look things up for a model."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        del state, runtime
        return {"messages": [HumanMessage("facts")]}


@pytest.mark.parametrize("between", range(4))
@pytest.mark.parametrize("order", ["before", "behind"])
def test_item_4_what_is_logged_between_two_looks_at_the_log_is_shown(
    between: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory looks at what stands, then at what is new. A checkpoint may log the question between the two."""
    from langchain_sessions._chat import prompt  # noqa: PLC0415 - beside what it is used with
    from langchain_sessions.middleware import SessionMemoryMiddleware  # noqa: PLC0415 - an extra's

    second_look: Any = prompt._newest_messages

    def look(*given: Any, **options: Any) -> Any:
        schedule.before_answers = [between, 0]
        schedule.answer()
        return (yield from second_look(*given, **options))

    monkeypatch.setattr(prompt, "_newest_messages", look)
    schedule = Schedule()
    with SessionService("sqlite://") as sessions:
        ours = SessionMemoryMiddleware(sessions, owner="ignore")
        model = Recording(replies=[AIMessage("first"), AIMessage("second"), AIMessage("third")], schedule=schedule)
        agent = agents.create_agent(
            model,
            middleware=[Inject(), ours] if order == "before" else [ours, Inject()],
            checkpointer=saver_of(sessions, schedule),
        )
        expected: list[str] = []
        for question, answer in (("one", "first"), ("two", "second"), ("three", "third")):
            schedule.may = threading.Semaphore(0)
            schedule.allowed = schedule.written
            agent.invoke({"messages": [HumanMessage(question)]}, CONFIG, durability="async")
            assert model.shown == [*expected, question, "facts"]
            expected += [question, "facts", answer]
        assert {event.standing for event in sessions.events("t") if event.message} == {Standing.LIVE}
        assert sessions.verify("t") == []


@pytest.mark.parametrize("orders", [(0, 0, 0), (1, 0, 0), (2, 1, 0), (0, 2, 1), (1, 1, 2), (2, 2, 2)])
def test_item_4_the_task_of_an_agent_that_is_a_tool_is_logged_once_in_any_order(orders: tuple[int, ...]) -> None:
    from langchain_core.tools import tool  # noqa: PLC0415 - beside what it is used with

    from langchain_sessions.middleware import SessionMemoryMiddleware  # noqa: PLC0415 - an extra's

    schedule = Schedule(*orders)
    with SessionService("sqlite://") as sessions:
        inner = agents.create_agent(
            Scripted(replies=[AIMessage("written")], schedule=schedule),
            middleware=[SessionMemoryMiddleware(sessions, owner="ignore", branch="helper")],
            name="helper",
        )

        @tool
        def helper(task: str) -> str:
            """Have somebody else do it."""
            return str(inner.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

        outer = agents.create_agent(
            Scripted(replies=[AIMessage("", tool_calls=[TASK]), AIMessage("it is done")], schedule=schedule),
            [helper],
            middleware=[SessionMemoryMiddleware(sessions, owner="ignore")],
            checkpointer=saver_of(sessions, schedule),
        )
        outer.invoke({"messages": [HumanMessage("tell ada")]}, CONFIG, durability="async")
        live = [event for event in sessions.events("t") if event.standing is Standing.LIVE and event.message]
        said = [event.message for event in live if event.message]
        assert [message.text for message in said].count(TASK["args"]["task"]) == 1
        assert all(message.id for message in said)
        assert [m.text for m in sessions.messages("t")] == ["tell ada", "", "written", "it is done"]
        assert sessions.verify("t") == []


class NodeFirst(SessionCheckpointSaver):
    """A saver that writes what a graph was asked when the checkpoint of a node that is an agent has said so."""

    _QUESTION_AT = 2
    """The first checkpoint of a run holds its input alone."""

    def hold(self) -> None:
        """Another run begins."""
        self.may_go_on, self.written = threading.Event(), [0, 0]
        self.is_logged = threading.Event(), threading.Event()

    def _note(self, *, is_node: bool) -> None:
        self.written[is_node] += 1
        if self.written[is_node] == self._QUESTION_AT:
            self.is_logged[is_node].set()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        is_node = bool(config["configurable"].get("checkpoint_ns"))
        assert is_node or self.may_go_on.wait(LONG)
        stored = super().put(config, checkpoint, metadata, new_versions)
        self._note(is_node=is_node)
        return stored

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        is_node = bool(config["configurable"].get("checkpoint_ns"))
        assert is_node or await asyncio.to_thread(self.may_go_on.wait, LONG)
        stored = await super().aput(config, checkpoint, metadata, new_versions)
        self._note(is_node=is_node)
        return stored


class Await(middleware.AgentMiddleware):  # type: ignore[name-defined, misc]
    """Lets memory look at the log when the node's checkpoint is there: before or behind the graph's."""

    def __init__(self, saver: NodeFirst, *, is_behind: bool) -> None:
        super().__init__()
        self.saver, self.is_behind = saver, is_behind

    def _wait(self) -> None:
        assert self.saver.is_logged[True].wait(LONG)
        if self.is_behind:
            self.saver.may_go_on.set()
            assert self.saver.is_logged[False].wait(LONG)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self._wait()
        reply = handler(request)
        self.saver.may_go_on.set()
        return reply

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await asyncio.to_thread(self._wait)
        reply = await handler(request)
        self.saver.may_go_on.set()
        return reply


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
async def test_item_4_a_question_that_a_node_logs_before_its_graph_stands_once(
    service: SessionService, *, is_behind: bool, is_async: bool
) -> None:
    """It is logged for the node. Memory of the graph moves it, unless the graph's checkpoint made it the graph's."""
    from langgraph.graph import START, MessagesState, StateGraph  # noqa: PLC0415 - beside what it is used with

    from langchain_sessions.middleware import SessionMemoryMiddleware  # noqa: PLC0415 - an extra's

    saver = NodeFirst(service, owner="ignore")
    ours = SessionMemoryMiddleware(service, owner="ignore")
    model = Recording(replies=[AIMessage("first"), AIMessage("second")], schedule=Schedule())
    agent: Any = agents.create_agent(model, middleware=[Await(saver, is_behind=is_behind), ours])
    graph: Any = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent").compile(checkpointer=saver)
    for question in ("one", "two"):
        saver.hold()
        given = {"messages": [HumanMessage(question)]}
        if is_async:
            await graph.ainvoke(given, CONFIG, durability="async")
        else:
            graph.invoke(given, CONFIG, durability="async")
    assert model.shown == ["one", "first", "two"]
    said = [event for event in service.events("t") if event.message]
    standing = [event.message.text for event in said if event.standing is Standing.LIVE and event.message]
    assert standing == ["one", "first", "two", "second"]
    left = [
        (event.message.text, event.branch, event.standing)
        for event in said
        if event.standing is not Standing.LIVE and event.message
    ]
    moved = [] if is_behind else ["one", "two"]
    assert left == [(text, "agent", Standing.SUPERSEDED) for text in moved]
    assert [message.text for message in service.messages("t")] == standing
    assert service.verify("t") == []
