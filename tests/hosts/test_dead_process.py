"""A process that died in the middle of a turn holds nothing up: its run is given up, or gone on with."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import tool

from langchain_sessions import SessionCheckpointSaver, SessionMemoryAdvisor, SessionMemoryMiddleware, Standing
from tests.faults.drills import make_service, opened
from tests.faults.processes import CHAT, killed
from tests.surface.strict_rules import InsistingModel

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from langchain_core.outputs import ChatResult

    from langchain_sessions import SessionService

THREAD: Any = {"configurable": {"thread_id": "s"}}
AT_ONCE = 30.0
"""Seconds, half of `lock_timeout`: whoever goes on waits for nobody."""
LATER = datetime.now(timezone.utc) + timedelta(hours=1)


class Hanging(InsistingModel):
    """A model that says that it was asked, and nothing more."""

    said: Any

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.said.send(messages[-1].text)
        time.sleep(1000)
        raise NotImplementedError


class Calling(InsistingModel):
    """A model that calls a tool first, and answers then."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(messages, *args, **kwargs)
        if isinstance(messages[-1], HumanMessage) and messages[-1].text == "look":
            calls = [{"name": "slow", "args": {}, "id": "c1", "type": "tool_call"}]
            result.generations[0].message = AIMessage("", tool_calls=calls)
        return result


def agent_of(service: SessionService, model: Any, said: Connection | None = None) -> Any:
    @tool
    def slow() -> str:
        """Takes its time, in the process that dies."""
        if said is None:
            return "found"
        said.send("looking")
        time.sleep(1000)
        raise NotImplementedError

    ours, saver = SessionMemoryMiddleware(service), SessionCheckpointSaver(service)
    return create_agent(model, [slow], middleware=[ours], checkpointer=saver)


def die_in_a_chat(url: str, prefix: str, said: Connection) -> None:
    """Die while the model is asked."""
    service = make_service(url, table_prefix=prefix)
    SessionMemoryAdvisor(service).wrap(Hanging(said=said)).invoke([HumanMessage("lost", id="lost")], CHAT)


def die_in_a_tool(url: str, prefix: str, said: Connection) -> None:
    """Die while a tool works."""
    service = make_service(url, table_prefix=prefix)
    agent_of(service, Calling(), said).invoke({"messages": [HumanMessage("look")]}, THREAD, durability="sync")


def said_in(service: SessionService) -> list[tuple[str, Standing]]:
    return [(event.message.text, event.standing) for event in service.events("s") if event.message]


@pytest.mark.backends("files", "sqlite", "postgres", "mariadb")
def test_a_chat_goes_on_without_the_turn_of_a_dead_process(database_url: str, table_prefix: str) -> None:
    options: dict[str, Any] = {"table_prefix": table_prefix}
    with opened(make_service(database_url, **options)) as (service,):
        service.open("s")
        assert killed(0, die_in_a_chat, database_url, table_prefix) == ["lost"]
        model = InsistingModel()
        began = time.monotonic()
        SessionMemoryAdvisor(service).wrap(model).invoke("hello", CHAT)
        assert time.monotonic() - began < AT_ONCE
        assert [message.text for message in model.seen[-1]] == ["hello"]
        assert [message.text for message in service.messages("s")] == ["hello", "yes"]
        assert said_in(service)[0] == ("lost", Standing.OPEN)
        assert service.verify("s") == []
    with opened(make_service(database_url, clock=lambda: LATER, **options)) as (service,):
        assert said_in(service)[0] == ("lost", Standing.FAILED)
        model = InsistingModel()
        # Who asks the same again, under the same id, takes the run up; nothing is stored twice.
        SessionMemoryAdvisor(service).wrap(model).invoke([HumanMessage("lost", id="lost")], CHAT)
        assert sorted(message.text for message in service.messages("s")) == ["hello", "lost", "yes", "yes"]
        assert {standing for _, standing in said_in(service)} == {Standing.LIVE}
        assert service.verify("s") == []


@pytest.mark.backends("files", "sqlite", "postgres", "mariadb")
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_thread_goes_on_behind_a_dead_process(database_url: str, table_prefix: str, *, goes_on: bool) -> None:
    with opened(make_service(database_url, table_prefix=table_prefix)) as (service,):
        service.open("s")
        assert killed(0, die_in_a_tool, database_url, table_prefix) == ["looking"]
        model = Calling()
        agent = agent_of(service, model)
        began = time.monotonic()
        if goes_on:
            agent.invoke(None, THREAD)
            expected = ["look", "", "found", "yes"]
            assert [message.text for message in service.messages("s")] == expected
            agent.invoke({"messages": "hello"}, THREAD)
            assert [message.text for message in model.seen[-1]] == [*expected, "hello"]
        else:
            agent.invoke({"messages": "hello"}, THREAD)
            assert [message.text for message in model.seen[-1]] == ["hello"]
            lost = [standing for text, standing in said_in(service) if text in ("look", "")]
            assert lost == [Standing.FAILED] * 2
            assert [message.text for message in service.messages("s")] == ["hello", "yes"]
        assert time.monotonic() - began < AT_ONCE
        assert service.verify("s") == []
