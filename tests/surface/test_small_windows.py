"""Windows far too small for what was said, over tool calls whose results came in any order: every prompt is valid."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_sessions import Compaction, SlidingWindow, TokenCount, TokenWindow
from langchain_sessions.memory import SessionMemoryAdvisor
from tests.openai_stub.replies import Call, CallTools
from tests.surface.conftest import Face, logged

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import SessionService
    from langchain_sessions._compaction.plan import CompactionStrategy
    from tests.openai_stub.server import OpenAIStub

TURNS = 8


def a_turn(number: int, dice: random.Random) -> list[BaseMessage]:
    """A question, one or two rounds of tool calls with results in any order and of any size, an answer."""
    said: list[BaseMessage] = [HumanMessage(f"question {number} " + "why " * dice.randrange(30))]
    for part in range(dice.randrange(1, 3)):
        ids = [f"c{number}.{part}.{at}" for at in range(dice.randrange(1, 5))]
        said.append(AIMessage("", tool_calls=[{"name": "look", "args": {"at": id_}, "id": id_} for id_ in ids]))
        results: list[BaseMessage] = [
            ToolMessage(f"result {id_} " + "so " * dice.randrange(60), tool_call_id=id_) for id_ in ids
        ]
        dice.shuffle(results)
        said += results
    return [*said, AIMessage(f"answer {number} " + "thus " * dice.randrange(30))]


def strategies(size: int) -> dict[str, CompactionStrategy]:
    return {"tokens": TokenWindow(max_tokens=size), "events": SlidingWindow(max(size // 60, 1))}


@pytest.mark.parametrize("size", [100, 250, 500, 800, 1_100, 1_500])
@pytest.mark.parametrize("kind", ["tokens", "events"])
async def test_small_windows(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
    size: int,
    kind: str,
) -> None:
    dice = random.Random(size)  # noqa: S311 - a seed makes a scenario
    compaction = Compaction(TokenCount(size), strategies(size)[kind])
    memories = [
        SessionMemoryAdvisor(sessions, compaction=compaction),
        SessionMemoryAdvisor(sessions, compaction=compaction, last_n=3),
    ]
    ada.open("s1")
    for number in range(TURNS):
        turn = a_turn(number, dice)
        ada.append("s1", turn)
        await face.invoke(memories[number % 2].wrap(model), f"and number {number}?", config)
        assert stub.last.texts[-1] == f"and number {number}?"
    # The stub has refused every prompt with a broken pair; nothing left the log.
    assert len(stub.requests) == TURNS
    assert len([kind for kind, _, _ in logged(ada) if kind == "human"]) == 2 * TURNS
    compacted: Any = [standing for _, _, standing in logged(ada) if standing == "archived"]
    assert compacted
    assert ada.verify("s1") == []


@pytest.mark.parametrize("size", [100, 500, 1_500])
async def test_a_loop_in_a_small_window(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
    size: int,
) -> None:
    """The running turn outgrows the window by far: it goes out whole, its results beside their calls."""
    chat = SessionMemoryAdvisor(sessions, compaction=Compaction(TokenCount(size), TokenWindow(max_tokens=size))).wrap(
        model
    )
    dice = random.Random(size)  # noqa: S311 - a seed makes a scenario
    ada.open("s1")
    for number in range(3):
        ada.append("s1", a_turn(number, dice))
    request: list[BaseMessage] = [HumanMessage("look everywhere")]
    stub.script(*[CallTools(tuple(Call("look", {"at": at}) for at in range(3))) for _ in range(4)], "found", "bye")
    for _ in range(4):
        reply = await face.invoke(chat, request, config)
        results: list[BaseMessage] = [
            ToolMessage(f"found {call['id']} " + "so " * 80, tool_call_id=call["id"]) for call in reply.tool_calls
        ]
        dice.shuffle(results)
        request += [AIMessage("", tool_calls=reply.tool_calls), *results]
    await face.invoke(chat, request, config)
    assert stub.last.roles[-17:] == ["user", *["assistant", "tool", "tool", "tool"] * 4]
    await face.invoke(chat, "thanks", config)
    assert {standing for _, _, standing in logged(ada)} <= {"live", "archived"}
