"""A window goes down to the store: the prompt is that of the whole log, and costs the same however long it is."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import (
    Compaction,
    InvocationStatus,
    SessionMemoryAdvisor,
    SessionService,
    SlidingWindow,
    SummaryAsFact,
)
from langchain_sessions.selectors import message_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

CONFIG: RunnableConfig = {"configurable": {"session_id": "s"}}


class Listening(GenericFakeChatModel):
    """Keeps the prompts that it was shown."""

    shown: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.shown.append(messages)
        return super()._generate(messages, *args, **kwargs)


def listening() -> Listening:
    return Listening(messages=(AIMessage(f"reply {at}") for at in range(1000)), shown=[])


def chat_turn(at: int, rng: random.Random) -> Sequence[BaseMessage]:
    """A question, calls of tools now and then, an answer; sometimes nobody answers, or many tools do."""
    turn: list[BaseMessage] = [HumanMessage(f"question {at}", id=f"q{at}")]
    for call in range(rng.choice([0, 0, 0, 1, 3, 30])):
        name = f"c{at}.{call}"
        turn.append(AIMessage("", id=f"a{name}", tool_calls=[{"name": "t", "args": {}, "id": name}]))
        if rng.random() < 0.9:
            turn.append(ToolMessage(f"result {name}", tool_call_id=name, id=f"r{name}"))
    if rng.random() < 0.9:
        turn.append(AIMessage(rng.choice(["answer", ""]) and f"answer {at}", id=f"a{at}"))
    return turn


def talk(service: SessionService, rng: random.Random) -> None:
    """A session with everything that moves what a context holds."""
    service.open("s")
    if rng.random() < 0.5:
        service.append("s", SystemMessage("Be brief.", id="sys"))
    for at in range(rng.randrange(3, 25)):
        status = rng.choice([InvocationStatus.DONE] * 4 + [InvocationStatus.FAILED, InvocationStatus.INTERRUPTED])
        service.append("s", chat_turn(at, rng), invocation_id=f"i{at}", invocation_status=status)
        happening = rng.random()
        if happening < 0.1 and status is not InvocationStatus.FAILED:
            service.edit("s", HumanMessage(f"edited {at}", id=f"q{at}"))
        elif happening < 0.15:
            service.compact("s", Compaction(None, SlidingWindow(max_events=8)))
        elif happening < 0.2:
            service.append("s", SystemMessage(f"From now on {at}.", id=f"sys{at}"))
        elif happening < 0.25:
            service.rewind("s", before_invocation=f"i{at}")


@pytest.mark.parametrize("last_n", [1, 5, 20])
@pytest.mark.parametrize("seed", range(12))
def test_the_prompt_of_a_window_is_that_of_the_whole_log(seed: int, last_n: int) -> None:
    prompts: list[list[str]] = []
    ways: list[dict[str, Any]] = [{"last_n": last_n}, {"select": message_window(last_n)}]
    for how in ways:
        with SessionService("sqlite://") as whole:
            service = whole.as_user(None)
            talk(service, random.Random(seed))  # noqa: S311 - the same talk twice
            model = listening()
            chat = SessionMemoryAdvisor(service, modes=[SummaryAsFact()], **how).wrap(model)
            chat.invoke("And now?", CONFIG)
            chat.invoke([HumanMessage("earlier"), AIMessage("foreign"), HumanMessage("One more?")], CONFIG)
            prompts.append([f"{message.type}: {message.content}" for shown in model.shown for message in shown])
    assert prompts[0] == prompts[1]


def test_a_long_turn_at_hand_hides_no_history() -> None:
    """A hand-written loop sends its turn again and again; what was before it is still shown."""
    with SessionService("sqlite://") as whole:
        service = whole.as_user(None)
        service.open("s")
        service.append("s", [HumanMessage("first"), AIMessage("1")])
        model = listening()
        chat = SessionMemoryAdvisor(service, last_n=2).wrap(model)
        turn: list[BaseMessage] = [HumanMessage("long", id="q")]
        for at in range(40):
            turn.append(AIMessage("", id=f"a{at}", tool_calls=[{"name": "t", "args": {}, "id": f"c{at}"}]))
            turn.append(ToolMessage("r", tool_call_id=f"c{at}", id=f"r{at}"))
        chat.invoke(turn, CONFIG)
        assert [message.content for message in model.shown[0][:3]] == ["first", "1", "long"]


def test_a_system_message_far_back_is_found_and_followed() -> None:
    with SessionService("sqlite://") as whole:
        service = whole.as_user(None)
        service.open("s")
        model = listening()
        chat = SessionMemoryAdvisor(service, last_n=4).wrap(model)

        def shown() -> list[str]:
            chat.invoke("What do you do?", CONFIG)
            return [str(message.content) for message in model.shown[-1] if message.type == "system"]

        def talk_on() -> None:
            for at in range(20):
                service.append("s", [HumanMessage(f"question {at}"), AIMessage(f"answer {at}")])

        talk_on()
        assert [shown(), shown()] == [[], []]
        service.append("s", SystemMessage("one", id="sys"))
        talk_on()
        assert [shown(), shown()] == [["one"], ["one"]]
        service.edit("s", SystemMessage("two", id="sys"))
        assert [shown(), shown()] == [["two"], ["two"]]
        service.append("s", SystemMessage("three"), invocation_id="i", invocation_status=InvocationStatus.OPEN)
        talk_on()
        assert shown() == ["two"]
        service.append("s", [], invocation_id="i", invocation_status=InvocationStatus.DONE)
        assert [shown(), shown()] == [["three"], ["three"]]
        service.rewind("s", before_invocation="i")
        talk_on()
        assert [shown(), shown()] == [["two"], ["two"]]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'chat.db'}", synchronous="NORMAL", search=False) as service:
        yield service.as_user(None)


def calls_of_a_turn(service: SessionService, live: int) -> int:
    """How many Python functions a turn enters beside so many live messages, the third time that it is asked for."""
    service.open("s")
    for at in range(0, live, 500):
        said = [(AIMessage if n % 2 else HumanMessage)(f"message {n}") for n in range(at, min(at + 500, live))]
        service.append("s", said)
    chat = SessionMemoryAdvisor(service, last_n=20).wrap(listening())
    for at in range(2):
        chat.invoke(f"warm {at}", CONFIG)
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        chat.invoke("counted", CONFIG)
    finally:
        sys.setprofile(None)
    service.delete("s")
    return calls


def test_a_turn_costs_the_same_however_long_the_log_is(file: SessionService) -> None:
    short = calls_of_a_turn(file, 100)
    file.create("s")
    assert calls_of_a_turn(file, 5_000) <= 1.05 * short
