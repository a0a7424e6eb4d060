"""The pure parts: what is new in a request, what a provider accepts, what filters let through."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import InvalidInputError, SessionEvent, Standing
from langchain_sessions import selectors as selecting
from langchain_sessions._chat.news import find_news, message_of
from langchain_sessions._chat.prompt import assemble, merge_system
from tests.openai_stub import rules


def event(
    at: int, message: BaseMessage, standing: Standing = Standing.LIVE, invocation_id: str | None = "r"
) -> SessionEvent:
    return SessionEvent(
        id=message.id or str(at),
        session_id="s",
        seq=at,
        position=at,
        timestamp=datetime(2026, 1, 1, tzinfo=timezone.utc),
        message=message,
        standing=standing,
        invocation_id=invocation_id,
    )


def logged(*messages: BaseMessage, standing: Standing = Standing.LIVE, run: str | None = "r") -> list[SessionEvent]:
    return [
        event(at, message, standing, run if message.type != "system" else None)
        for at, message in enumerate(messages, 1)
    ]


def calling(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": id_} for id_ in ids])


def result(id_: str, more: str = "") -> ToolMessage:
    return ToolMessage(f"result of {id_}{more}", tool_call_id=id_)


def fresh(body: list[BaseMessage], log: list[SessionEvent]) -> list[str]:
    return [str(message.text) for message in find_news(body, log).fresh]


Q, A = HumanMessage("yes"), AIMessage("ok")


@pytest.mark.parametrize(
    ("body", "log", "expected"),
    [
        ([Q], [], ["yes"]),
        ([Q], logged(Q, A), ["yes"]),  # said again
        ([Q, A, Q], logged(Q, A), ["yes"]),  # the whole conversation and something new
        ([HumanMessage("2+2"), AIMessage("4"), Q], logged(Q, A), ["yes"]),  # few-shots
        ([HumanMessage("2+2"), AIMessage("ok"), Q], logged(Q, A), ["yes"]),  # a few-shot that ends like the log
        ([Q, HumanMessage("and")], logged(HumanMessage("x"), A), ["yes", "and"]),
        ([Q, calling("c1"), result("c1")], logged(Q, calling("c1")), ["result of c1"]),
        ([Q, calling("c1", "c2"), result("c1"), result("c2")], logged(Q, calling("c1", "c2")),
         ["result of c1", "result of c2"]),
        ([result("c1")], logged(Q, calling("c1")), ["result of c1"]),
        ([Q, calling("c1"), result("c1")], [], ["yes", "", "result of c1"]),  # a loop that began without memory
        ([HumanMessage("x", id="1"), calling("c1"), result("c1")], logged(HumanMessage("x", id="1")),
         ["", "result of c1"]),  # calls that could not be stored
        ([Q, A, HumanMessage("x"), calling("c1"), result("c1")], logged(Q, A), ["x", "", "result of c1"]),
        ([Q], logged(Q, standing=Standing.FAILED), []),  # a retry
        ([Q], logged(Q, run=None), []),  # appended by the application just before
        ([Q], logged(Q, standing=Standing.OPEN), ["yes"]),  # another tab
    ],
)  # fmt: skip
def test_what_is_new(body: list[BaseMessage], log: list[SessionEvent], expected: list[str]) -> None:
    assert fresh(body, log) == expected


def test_ids_tell_whatever_else_differs() -> None:
    log = logged(HumanMessage("old", id="1"), AIMessage("reply", id="2", response_metadata={"a": 1}))
    body: list[BaseMessage] = [HumanMessage("old", id="1"), AIMessage("reply", id="2"), HumanMessage("new", id="3")]
    assert fresh(body, log) == ["new"]


def test_a_result_that_was_stored_out_of_turn() -> None:
    """Parallel tools return in any order."""
    log = logged(HumanMessage("q", id="1"), AIMessage("", id="2", tool_calls=calling("a", "b").tool_calls))
    log.append(event(3, ToolMessage("b", tool_call_id="b", id="t2"), Standing.OPEN))
    body: list[BaseMessage] = [
        message_of(log[0]),
        message_of(log[1]),
        ToolMessage("a", tool_call_id="a", id="t1"),
        message_of(log[2]),
    ]
    news = find_news(body, log)
    assert [message.id for message in news.fresh] == ["t1"]
    assert news.invocation_id == "r"
    assert list(news.tail) == body


def test_chunks_and_rebuilt_messages_are_the_same() -> None:
    log = logged(Q, AIMessage([{"type": "text", "text": "ok", "index": 0}]))
    assert fresh([Q, AIMessageChunk(content="ok"), HumanMessage("new")], log) == ["new"]


MESSAGES = st.lists(
    st.one_of(
        st.just("human"),
        st.just("ai"),
        st.tuples(st.just("calls"), st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("result"), st.sampled_from("abcd")),
    ),
    max_size=14,
)


@given(MESSAGES)
@example([("calls", ["b", "c", "a"]), ("result", "c"), ("calls", ["a"]), ("result", "c"), "human", "ai"])
def test_every_prompt_has_whole_pairs(kinds: list[Any]) -> None:
    history: list[BaseMessage] = []
    for at, kind in enumerate(kinds):
        if kind == "human":
            history.append(HumanMessage(f"question {at}"))
        elif kind == "ai":
            history.append(AIMessage(f"answer {at}"))
        else:
            # Each says something of its own: what is said twice counts as injected twice.
            history.append(calling(*kind[1]) if kind[0] == "calls" else result(kind[1], f" {at}"))
    prompt = assemble(SystemMessage("s"), [], history, [HumanMessage("now")])
    wire = [as_wire(message) for message in prompt]
    complaints = [
        line for line in rules.violations(wire, several_questions=True) if "result" in line or "system" in line
    ]
    assert complaints == []
    assert prompt[-1].content == "now"


def as_wire(message: BaseMessage) -> dict[str, Any]:
    roles = {"human": "user", "ai": "assistant"}
    found: dict[str, Any] = {"role": roles.get(message.type, message.type), "content": message.content}
    if isinstance(message, AIMessage) and message.tool_calls:
        found["tool_calls"] = [{"id": call["id"]} for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    return found


def test_the_rules_notice_what_providers_refuse() -> None:
    user, assistant = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    answer = {"role": "tool", "tool_call_id": "c", "content": "r"}
    assert rules.violations([user, call, answer]) == []
    bad: list[list[dict[str, Any]]] = [
        [assistant, user],
        [user, assistant],
        [user, call, {**user, "content": "x"}],
        [user, answer],
        [user, call],
        [user, {"role": "system", "content": "s"}, assistant, {**user, "content": "x"}],
        [user, assistant, user],
        [user, {**user, "content": "x"}],
        [],
    ]
    assert [bool(rules.violations(messages)) for messages in bad] == [True] * len(bad)


def test_system_messages_become_one_block() -> None:
    merged = merge_system([SystemMessage("a"), SystemMessage([{"type": "text", "text": "b"}])])
    assert merged is not None
    assert merged.content == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert merge_system([]) is None


def test_filters_combine() -> None:
    talk: list[BaseMessage] = [
        HumanMessage("Hello"),
        AIMessage("hello there"),
        AIMessage(""),
        SystemMessage("be brief"),
    ]
    wanted = (selecting.by_type("human") | selecting.containing("THERE")) & ~selecting.by_type("system")
    assert [m.text for m in wanted(talk)] == ["Hello", "hello there"]
    assert len(selecting.all_messages(talk)) == 4
    assert [m.type for m in selecting.no_system(selecting.not_empty(talk))] == ["human", "ai"]
    assert selecting.not_empty([AIMessage([{"type": "image", "url": "u"}]), calling("c")]) != []
    with pytest.raises(InvalidInputError, match="types"):
        selecting.by_type()
    with pytest.raises(InvalidInputError, match="text"):
        selecting.containing(" ")
    with pytest.raises(InvalidInputError, match="last_n"):
        selecting.message_window(0)


def test_selectors_chain() -> None:
    talk: list[BaseMessage] = [HumanMessage("q"), calling("a"), ToolMessage("no", tool_call_id="a", status="error"), A]
    assert [m.type for m in selecting.without_failed_calls(talk)] == ["human", "ai"]
    assert [m.type for m in selecting.without_tool_calls(talk)] == ["human", "ai"]
    assert [m.type for m in selecting.without_unpaired_calls(talk[:2] + talk[3:])] == ["human", "ai"]
    both = selecting.chain(selecting.without_tool_calls, selecting.message_window(1))
    assert [m.text for m in both([*talk, HumanMessage("last")])] == ["last"]
