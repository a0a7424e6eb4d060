"""Whatever a log holds, the prompt that is made of it is valid for every provider, and the log stays as it is."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from langchain_sessions import (
    Compaction,
    InMemoryStore,
    SessionService,
    TokenCount,
    TurnWindow,
    create_conversation_search_tool,
)
from langchain_sessions._chat.outbound import bounded, made_valid
from langchain_sessions._core.whole import whole_text, whole_value
from langchain_sessions.history import SessionChatMessageHistory
from langchain_sessions.memory import SessionMemoryAdvisor
from langchain_sessions.middleware import SessionMemoryMiddleware
from langchain_sessions.modes import SystemPromptMemory
from tests.surface.conftest import config_for
from tests.surface.strict_rules import InsistingModel, violations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from tests.surface.conftest import Face

HALF = "half \ud83d of a smile"
TEXTS = st.sampled_from(["", " ", "\n", "hello", "żółw 🐢", HALF, "\udc00", "两个字", "a" * 300]) | st.text(max_size=20)
IDS = st.sampled_from(["", "call_0", "call_1", "functions.look:0", "x" * 60, "toolu_01", HALF, "ü"])
MEDIA: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": ""}},
    {"type": "image_url", "image_url": {"url": "blob:http://localhost/1"}},
    {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
    {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
    {"type": "image"},
    {"type": "file", "file_id": "f1"},
    {"type": "file"},
    {"type": "image", "id": "lc_1"},
    {"type": "image_url", "image_url": {"url": "/home/ada/cat.png"}},
    {"type": "image_url", "image_url": {"url": "C:\\cat.png"}},
    {"type": "image_url", "image_url": "content://media/1"},
    {"type": "image", "url": "BLOB:http://localhost/1"},
    {"type": "image", "url": "HTTPS://example.com/cat.png"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
    {"type": "image", "url": "https://"},
    {"type": "video_url", "video_url": {"url": "file:///cat.mp4"}},
    {"type": "audio_url", "audio_url": {"url": ""}},
    {"type": "input_video"},
    {"type": "text-plain", "url": "blob:1", "mime_type": "text/plain"},
    {"type": "text-plain", "text": "words", "mime_type": "text/plain"},
]
NAMES = st.sampled_from(
    ["look", "multi_tool_use.parallel", "", "look up!", "x" * 80, "функция", HALF, "два слова", "__", "a\n"]
)
SPEAKERS = st.none() | NAMES
WORDS: st.SearchStrategy[Any] = st.builds(
    lambda kind, text: {**kind, "text": text},
    st.sampled_from([{"type": "text"}, {"type": "input_text"}, {"type": "output_text"}, {}]),
    TEXTS,
)
ODD: list[dict[str, Any]] = [
    {"type": "text", "text": "so", "score": float("inf")},
    {"type": "text", "text": "so", "at": datetime(2026, 1, 1, tzinfo=timezone.utc)},
]
BLOCKS = st.lists(WORDS | st.sampled_from(MEDIA + ODD) | TEXTS, max_size=3)
SPOKEN: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {}},
    {"type": "tool_use", "id": "call_0", "name": "look", "input": {}},
    {"type": "function_call", "call_id": "call_1", "id": "fc_1", "name": "look", "arguments": "{}"},
]
OLD_CALLS: list[dict[str, Any]] = [
    {},
    {},
    {"function_call": {"name": "look", "arguments": "{}"}},
    {"function_call": {"name": "look", "arguments": '{"q": NaN}'}},
    {"function_call": {"name": "", "arguments": "{"}},
]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"q": 1}
    for _ in range(levels):
        value = {"q": value}
    return value


LEAVES = st.sampled_from([float("nan"), float("-inf"), b"bytes", date(2026, 1, 1)])
VALUES = TEXTS | st.integers() | LEAVES | st.lists(TEXTS, max_size=2) | st.tuples(TEXTS, TEXTS)
ARGS = st.dictionaries(st.sampled_from(["q", HALF]), VALUES, max_size=2)
# A log keeps what nests so deeply as JSON, beside which there is nothing else.
DEEP = st.dictionaries(st.sampled_from(["q", HALF]), TEXTS | st.integers() | st.just(700).map(nested), max_size=2)


@st.composite
def replies(draw: st.DrawFn) -> AIMessage:
    """An assistant's message: words, calls, malformed calls, in any mixture."""
    count = draw(st.integers(0, 3))
    args = draw(st.sampled_from([ARGS, DEEP]))
    calls: list[Any] = [{"name": draw(NAMES), "args": draw(args), "id": draw(IDS)} for _ in range(count)]
    broken: list[Any] = [
        {"name": draw(SPEAKERS), "args": "{", "id": draw(IDS), "error": None} for _ in range(draw(st.integers(0, 1)))
    ]
    content: Any = draw(TEXTS | st.lists(WORDS | st.sampled_from(MEDIA + ODD + SPOKEN) | TEXTS, max_size=3))
    old: dict[str, Any] = draw(st.sampled_from(OLD_CALLS))
    return AIMessage(
        content, tool_calls=calls, invalid_tool_calls=broken, name=draw(SPEAKERS), additional_kwargs=dict(old)
    )


MESSAGES = st.one_of(
    st.builds(HumanMessage, content=TEXTS | BLOCKS, name=SPEAKERS),
    replies(),
    st.builds(ToolMessage, content=TEXTS | BLOCKS, tool_call_id=IDS, name=SPEAKERS),
    st.builds(ChatMessage, content=TEXTS | BLOCKS, role=st.sampled_from(["user", "assistant", "critic"])),
    st.builds(FunctionMessage, content=TEXTS, name=NAMES),
)
LOGS = st.lists(MESSAGES, max_size=12)


@settings(max_examples=500, deadline=None)
@given(LOGS, TEXTS)
def test_any_log_makes_a_prompt_that_all_five_take(log: list[BaseMessage], asked: str) -> None:
    given_log = [message.model_copy(deep=True) for message in log]
    prompt = made_valid([*log, HumanMessage(asked)], over=len(log))
    assert violations(prompt) == []
    assert list(map(repr, log)) == list(map(repr, given_log))
    assert [a is b for a, b in zip(prompt, made_valid(prompt, over=len(prompt) - 1), strict=True)] == [True] * len(
        prompt
    )


@settings(max_examples=100, deadline=None)
@given(LOGS, replies(), st.data())
def test_a_tool_loop_goes_on_behind_any_log(log: list[BaseMessage], asked: AIMessage, data: st.DataObject) -> None:
    results = [
        ToolMessage(data.draw(TEXTS), tool_call_id=call["id"] or "")
        for call in (*asked.tool_calls, *asked.invalid_tool_calls)
    ]
    turn = [HumanMessage("go on"), asked, *results] if results else [HumanMessage("go on")]
    prompt = made_valid([*log, *turn], over=len(log))
    assert violations(prompt) == []
    assert [message.type for message in prompt[-len(turn) :]] == [message.type for message in turn]


@st.composite
def numbered(draw: st.DrawFn) -> list[BaseMessage]:
    """Turns whose calls repeat the ids of others, each with results in any order that say which call they answer."""
    log: list[BaseMessage] = []
    number = 0
    for turn in range(draw(st.integers(1, 5))):
        ids = draw(
            st.lists(st.sampled_from(["call_0", "call_1", "call_2", "a.b:0"]), min_size=1, max_size=3, unique=True)
        )
        calls: list[Any] = [{"name": "look", "args": {"n": number + at}, "id": id_} for at, id_ in enumerate(ids)]
        results = [ToolMessage(f"result {number + at}", tool_call_id=id_) for at, id_ in enumerate(ids)]
        number += len(ids)
        log += [HumanMessage(f"turn {turn}"), AIMessage("", tool_calls=calls), *draw(st.permutations(results))]
        log.append(AIMessage(f"answer {turn}"))
    return log


@settings(max_examples=200, deadline=None)
@given(numbered())
def test_results_stay_with_the_calls_that_they_answer(log: list[BaseMessage]) -> None:
    prompt = made_valid([*log, HumanMessage("?")], over=len(log))
    asked = {call["id"]: call["args"]["n"] for m in prompt if isinstance(m, AIMessage) for call in m.tool_calls}
    answered = {m.tool_call_id: m.content for m in prompt if isinstance(m, ToolMessage)}
    assert {call: f"result {number}" for call, number in asked.items()} == answered
    assert len(asked) == sum(len(m.tool_calls) for m in log if isinstance(m, AIMessage))


async def test_arrays_in_what_is_said_break_nothing(
    face: Face, sessions: SessionService, thread: RunnableConfig
) -> None:
    """They are stored, compared with what comes again, and as media nobody could fetch them."""
    memory = SessionMemoryMiddleware(sessions, compaction=Compaction(TokenCount(50_000), TurnWindow(2)))
    model = InsistingModel()
    agent: Any = create_agent(model, middleware=[memory])
    for values in ([1.0, 2.0], [1.0, 2.0], [3.0, 4.0]):
        picture = {"type": "image", "data": np.array(values)}
        said = HumanMessage([{"type": "text", "text": "look"}, picture], id="m1")
        await face.invoke(agent, {"messages": [said]}, thread)
    assert len(model.seen) == 3
    assert {str(block) for block in model.seen[-1][-1].content} == {
        str({"type": "text", "text": "look"}),
        str({"type": "text", "text": "[image left out]"}),
    }
    assert sessions.verify("s1") == []


def test_calls_are_renamed_wherever_a_message_repeats_them() -> None:
    call: Any = {"name": "look", "args": {}, "id": "call_0"}
    first = AIMessage("", tool_calls=[call])
    second = AIMessage(
        [
            {"type": "text", "text": "once more"},
            {"type": "tool_use", "id": "call_0", "name": "look", "input": {}},
            {"type": "function_call", "call_id": "call_0", "id": "fc_1", "name": "look", "arguments": "{}"},
        ],
        tool_calls=[call],
        additional_kwargs={"tool_calls": [{"id": "call_0", "type": "function"}], "other": 1},
    )
    result = ToolMessage("so", tool_call_id="call_0")
    log = [HumanMessage("a"), first, result, AIMessage("b"), HumanMessage("c"), second, result, AIMessage("d")]
    prompt = made_valid([*log, HumanMessage("e")], over=len(log))
    assert prompt[1] is first
    renamed: Any = prompt[5]
    new = renamed.tool_calls[0]["id"]
    assert new != "call_0"
    assert prompt[6].tool_call_id == new  # type: ignore[attr-defined]
    assert renamed.content[1]["id"] == new
    assert renamed.content[2]["call_id"] == new
    assert renamed.content[2]["id"] == "fc_1"
    assert renamed.additional_kwargs == {"tool_calls": [{"id": new, "type": "function"}], "other": 1}
    # The beginning of a prompt stays the same as the conversation goes on, for the provider's cache.
    longer = [*log, HumanMessage("e"), second, result, AIMessage("f")]
    assert made_valid([*longer, HumanMessage("g")], over=len(longer))[: len(prompt)] == prompt


def test_a_reply_of_thoughts_alone_is_left_out() -> None:
    """As one that was cut within them: some clients would send it as nothing, and others not without what follows."""
    thoughts = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": " "}])
    asked = [HumanMessage("a"), thoughts, HumanMessage("b")]
    assert made_valid(asked, over=2) == [asked[0], asked[2]]
    call: Any = {"name": "look", "args": {}, "id": "call_1"}
    working = AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}], tool_calls=[call])
    turn = [HumanMessage("a"), working, ToolMessage("so", tool_call_id="call_1")]
    assert made_valid(turn, over=0)[1] is working


def test_functions_go_out_as_tools_and_roles_as_those_that_all_know() -> None:
    old: Any = {"function_call": {"name": "look", "arguments": '{"q": NaN, "n": 1}'}}
    log = [HumanMessage("a"), AIMessage("", additional_kwargs=old), FunctionMessage(content="so", name="look")]
    log = [*log, ChatMessage(content="b", role="assistant"), ChatMessage(content="c", role="user")]
    prompt: Any = made_valid([*log, *log, HumanMessage("d")], over=2 * len(log))
    assert violations(prompt) == []
    assert [message.type for message in prompt[:5]] == ["human", "ai", "tool", "ai", "human"]
    assert prompt[1].tool_calls[0]["args"] == {"q": None, "n": 1}
    assert prompt[1].tool_calls[0]["id"] == prompt[2].tool_call_id != prompt[6].tool_calls[0]["id"]


@pytest.mark.parametrize("is_template", [False, True])
def test_a_function_that_was_called_without_a_word_stays_with_its_result(is_template: bool) -> None:  # noqa: FBT001
    old: Any = {"function_call": {"name": "look", "arguments": '{"n": 1}'}}
    asked = AIMessage("", additional_kwargs=old)
    with SessionService(InMemoryStore()) as sessions:
        history = SessionChatMessageHistory("s1", sessions.as_user("ada"))
        history.add_messages([HumanMessage("a"), asked, FunctionMessage(content="so", name="look"), AIMessage("b")])
        model = InsistingModel()
        memory = SessionMemoryAdvisor(sessions)
        if is_template:
            chain = memory.wrap(TEMPLATE | model, input_key="question", history_key="history", system_key="memory")
            chain.invoke({"question": "c", "place": "d"}, config_for("s1"))
        else:
            memory.wrap(model).invoke("c", config_for("s1"))
        prompt = [message for message in model.seen[0] if message.type != "system"]
        assert [message.type for message in prompt] == ["human", "ai", "tool", "ai", "human"]
        assert prompt[1].tool_calls[0]["args"] == {"n": 1}
        assert prompt[2].tool_call_id == prompt[1].tool_calls[0]["id"]


def test_a_valid_prompt_goes_out_as_it_is() -> None:
    call: Any = {"name": "look", "args": {"q": "ż"}, "id": "call_1"}
    log: list[BaseMessage] = [
        HumanMessage([{"type": "text", "text": "hi"}, MEDIA[2], MEDIA[3]]),
        AIMessage("", tool_calls=[call]),
        ToolMessage("so 🐢", tool_call_id="call_1"),
        AIMessage("hello"),
        HumanMessage("one"),
        HumanMessage("two"),
    ]
    assert [a is b for a, b in zip(log, made_valid(log, over=4), strict=True)] == [True] * 6


def test_what_was_said_first_by_the_assistant_stays() -> None:
    prompt = made_valid([AIMessage("Welcome!"), AIMessage("What is it?"), HumanMessage("trains")], over=2)
    assert [m.type for m in prompt] == ["human", "ai", "human"]
    assert prompt[1].content == "Welcome!\n\nWhat is it?"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("plain", "plain"),
        ("żółw", "żółw"),
        ("a\ud83d\ude00b", "a😀b"),
        ("a\ud83d b", "a\ufffd b"),
        ("\udc00", "\ufffd"),
    ],
)
def test_whole_texts(text: str, whole: str) -> None:
    assert whole_text(text) == whole
    assert whole_value({"a": [text, {text: 1}], "b": 2}) == {"a": [whole, {whole: 1}], "b": 2}
    assert (whole_text(text) is text) == (text == whole)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LOGS)
@pytest.mark.parametrize("last_n", [None, 3])
def test_the_surface_sends_nothing_else(last_n: int | None, log: list[BaseMessage]) -> None:
    """Through the service, the advisor and the history, on a log that other writers filled."""
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        for message in log:
            ada.append("s1", message)
        model = InsistingModel()
        memory = SessionMemoryAdvisor(sessions, last_n=last_n)
        memory.wrap(model).invoke("what now?", config_for("s1"))
        memory.wrap(model).invoke([SystemMessage(HALF), HumanMessage("and now?")], config_for("s1"))
        assert len(model.seen) == 2
        history = SessionChatMessageHistory("s1", ada, last_n=last_n)
        # A history is read as data too: who follows whom stays as it was said.
        assert [line for line in violations(history.messages) if "encoded" in line or "twice" in line] == []


def test_the_search_tool_returns_whole_text() -> None:
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        ada.append("s1", HumanMessage(f"turtles and {HALF}"))
        found = create_conversation_search_tool(ada).invoke({"query": "turtles"}, config_for("s1"))
        found.encode()
        assert "\ufffd" in json.loads(found)["results"][0]["text"]


def ids_of(messages: Sequence[BaseMessage]) -> list[str | None]:
    return [call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]


def test_a_history_leaves_what_is_going_on_as_it_is() -> None:
    """Whoever executes its calls adds results under the ids that they see."""
    call: Any = {"name": "look", "args": {}, "id": "call_0"}
    with SessionService(InMemoryStore()) as sessions:
        history = SessionChatMessageHistory("s1", sessions)
        turn = [HumanMessage("a"), AIMessage("", tool_calls=[call]), ToolMessage("b", tool_call_id="call_0")]
        history.add_messages([*turn, AIMessage("c"), HumanMessage("d"), AIMessage("", tool_calls=[call])])
        assert ids_of(history.messages)[-1] == "call_0"
        assert len(set(ids_of(history.messages))) == 2
        history.add_messages([ToolMessage("e", tool_call_id="call_0")])
        assert history.messages[-1].content == "e"
        history.add_messages([AIMessage("f")])
        assert violations([*history.messages, HumanMessage("?")]) == []
        assert len(history.messages) == 8


@pytest.mark.parametrize("kind", ["reasoning", "thinking", "redacted_thinking"])
def test_a_reply_that_was_cut_in_a_thought_ends_with_what_it_said(kind: str) -> None:
    cut = AIMessage([{"type": "text", "text": "first"}, {"type": kind, "id": "rs_1", "summary": []}])
    prompt = made_valid([HumanMessage("a"), cut, HumanMessage("b")], over=2)
    assert prompt[1].content == [{"type": "text", "text": "first"}]
    assert cut.content[1:], "the log keeps it"


def test_a_thought_before_a_call_stays() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    asks = AIMessage([thought], tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    log = [HumanMessage("a"), asks, ToolMessage("x", tool_call_id="c1"), AIMessage("b")]
    assert made_valid([*log, HumanMessage("c")], over=4)[1].content == [thought]


def test_a_call_that_a_message_holds_twice_goes_out_once() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    asks = AIMessage(
        [block, {"type": "text", "text": "well"}, block], tool_calls=[{"name": "look", "args": {}, "id": "c1"}]
    )
    log = [HumanMessage("a"), asks, ToolMessage("x", tool_call_id="c1"), AIMessage("b")]
    assert made_valid([*log, HumanMessage("c")], over=4)[1].content == [block, {"type": "text", "text": "well"}]


@pytest.mark.parametrize("kind", ["input_text", "output_text"])
def test_words_under_a_name_of_openai_alone_are_text(kind: str) -> None:
    asked = HumanMessage([{"type": kind, "text": "hello"}])
    assert made_valid([asked], over=0)[0].content == [{"type": "text", "text": "hello"}]


LONG = "x" * 5_000


def test_names_are_those_that_all_take_wherever_they_stand() -> None:
    name, call = "multi_tool_use.parallel", "c1"
    asked = AIMessage(
        [
            {"type": "tool_use", "id": call, "name": name, "input": {}},
            {"type": "function_call", "call_id": call, "name": name, "arguments": "{}"},
        ],
        tool_calls=[{"name": name, "args": {}, "id": call}],
        additional_kwargs={"tool_calls": [{"id": call, "type": "function", "function": {"name": name}}]},
        name="Research Agent",
    )
    log = [HumanMessage("a", name="Ada"), asked, ToolMessage("b", tool_call_id=call, name=name), AIMessage("c")]
    prompt = made_valid([*log, HumanMessage("d", name="")], over=4)
    assert violations(prompt) == []
    shown: Any = prompt[1]
    said = "multi_tool_use_parallel"
    assert [block["name"] for block in shown.content] == [said, said]
    assert shown.tool_calls[0]["name"] == said
    assert shown.additional_kwargs["tool_calls"][0]["function"]["name"] == said
    assert [message.name for message in prompt] == ["Ada", "Research_Agent", said, None, None]
    assert asked.tool_calls[0]["name"] == name


def test_speakers_that_lose_their_letters_stay_apart() -> None:
    speakers = ["Ада", "Грейс", "艾达", "x" * 80, "x" * 81]
    prompt = made_valid([HumanMessage("hello", name=name) for name in speakers], over=0)
    assert violations(prompt) == []
    assert len({message.name for message in prompt}) == len(speakers)


@pytest.mark.parametrize("blank", ["", " \n", [], [{"type": "text", "text": ""}], [" "]])
def test_a_blank_system_message_is_none(blank: Any) -> None:
    with SessionService(InMemoryStore()) as sessions:
        model = InsistingModel()
        chat = SessionMemoryAdvisor(sessions).wrap(model)
        chat.invoke([SystemMessage(blank), HumanMessage("hi")], config_for("s1"))
        agent = create_agent(model, system_prompt=SystemMessage(blank), middleware=[SessionMemoryMiddleware(sessions)])
        agent.invoke({"messages": [HumanMessage("hi")]}, config_for("s2", thread_id="s2"))
        assert [[message.type for message in prompt] for prompt in model.seen] == [["human"], ["human"]]


@pytest.mark.parametrize(
    ("block", "goes_out"),
    [
        ({"type": "image_url", "image_url": {"url": "/9j/" + "A" * 5_000}}, True),  # bare base64, as Ollama takes it
        ({"type": "image", "source_type": "id", "id": "file-1"}, True),
        ({"type": "image", "base64": "aGk=", "id": "lc_1"}, True),
        ({"type": "image", "source": {"type": "base64", "data": "aGk="}}, True),
        ({"type": "document", "source": {"type": "text", "data": "words"}}, True),
        ({"type": "video", "source": {"s3Location": {"uri": "s3://b/k"}}}, True),
        ({"type": "file", "file": {"file_id": "f1"}}, True),
        ({"type": "media", "file_uri": "gs://b/k", "mime_type": "image/png"}, True),
        ({"type": "image_url", "image_url": {"url": "~/cat.png"}}, False),
        ({"type": "image_url", "image_url": {"url": "FILE:///cat.png"}}, False),
        ({"type": "media", "file_uri": "content://media/1", "mime_type": "image/png"}, False),
        ({"type": "image", "source": {"type": "base64", "data": ""}}, False),
    ],
)
def test_media_goes_out_where_somebody_can_fetch_it(block: dict[str, Any], goes_out: bool) -> None:  # noqa: FBT001
    asked = HumanMessage([{"type": "text", "text": "see"}, block])
    assert (made_valid([asked], over=0)[0] is asked) is goes_out


def test_arguments_are_bounded_where_asked_and_stay_json() -> None:
    call: Any = {"name": "write", "args": {"text": [LONG], "to": "ada"}, "id": "c1"}
    said = AIMessage(
        [{"type": "function_call", "call_id": "c1", "name": "write", "arguments": json.dumps(call["args"])}],
        tool_calls=[call],
    )
    shorter: Any = bounded(said, 100)
    assert len(str(shorter.tool_calls)) < 250
    assert json.loads(shorter.content[0]["arguments"]) == shorter.tool_calls[0]["args"]
    assert shorter.tool_calls[0]["args"]["to"] == "ada"
    assert bounded(shorter, 100) is shorter
    assert bounded(said, 5_000 + len("[]") + 50) is said


TEMPLATE = ChatPromptTemplate(
    [("system", "Be brief.\n{memory}\n{place}"), MessagesPlaceholder("history"), ("human", "{question}")]
)


@settings(max_examples=40, deadline=None)
@given(LOGS, TEXTS.filter(str.strip))
def test_a_chain_with_a_template_is_sent_nothing_else(log: list[BaseMessage], asked: str) -> None:
    for modes in ([], [SystemPromptMemory("{instructions}\n{memory}")]):
        with SessionService(InMemoryStore()) as sessions:
            ada = sessions.as_user("ada")
            ada.open("s1")
            for message in log:
                ada.append("s1", message)
            model = InsistingModel()
            memory = SessionMemoryAdvisor(sessions, modes=modes, max_characters=100)
            chain = memory.wrap(TEMPLATE | model, input_key="question", history_key="history", system_key="memory")
            chain.invoke({"question": asked, "place": HALF}, config_for("s1"))
            assert len(model.seen) == 1


@pytest.mark.parametrize("moved", [False, True])
def test_a_chain_with_a_template_is_bounded_where_asked(moved: bool) -> None:  # noqa: FBT001
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        ada.append("s1", [HumanMessage(LONG), AIMessage(LONG)])
        model = InsistingModel()
        modes = [SystemPromptMemory("{instructions}\n{memory}")] if moved else []
        memory = SessionMemoryAdvisor(sessions, modes=modes, max_characters=100)
        chain = memory.wrap(TEMPLATE | model, input_key="question", history_key="history", system_key="memory")
        chain.invoke({"question": LONG, "place": "here"}, config_for("s1"))
        whole = "".join(str(message.text) for message in model.seen[0])
        assert whole.count("4900 characters") == 3
        assert len(whole) < 500
        assert sum(len(str(message.text)) == 5_000 for message in ada.messages("s1")) == 3


@pytest.mark.parametrize(
    ("given", "goes_out"),
    [
        (HALF, whole_text(HALF)),
        ([HumanMessage(HALF)], [HumanMessage(whole_text(HALF))]),
        ([("human", "hi"), ("ai", ""), ("human", "so?")], [HumanMessage("hi"), HumanMessage("so?")]),
        ([SystemMessage("Be brief."), HumanMessage(" ")], [SystemMessage("Be brief."), HumanMessage("(empty)")]),
    ],
)
async def test_what_is_said_without_a_session_can_be_sent_too(
    face: Face, sessions: SessionService, given: Any, goes_out: Any
) -> None:
    model = InsistingModel()
    memory = SessionMemoryAdvisor(sessions, on_missing_session="skip")
    await face.invoke(memory.wrap(model), given, {})
    assert model.seen == [[HumanMessage(goes_out)] if isinstance(goes_out, str) else goes_out]
    chain = memory.wrap(TEMPLATE | model, input_key="question", history_key="history", system_key="memory")
    await face.invoke(chain, {"question": HALF, "place": HALF}, {})
    assert model.seen[-1][-1] == HumanMessage(whole_text(HALF))


def bottom_of(value: Any) -> Any:
    while isinstance(value, dict) and "in" in value:
        value = value["in"]
    return value


def call_args(message: Any) -> Any:
    return message.tool_calls[0]["args"]


@pytest.mark.parametrize("levels", [150, 700, 3_000])
@pytest.mark.parametrize("bottom", ["word", b"word", {1: ("word",)}])
def test_what_nests_deep_is_neither_refused_nor_lost(levels: int, bottom: Any) -> None:
    """Past what recursion reaches it is text, its bottom too; what goes out is bounded."""
    value: Any = bottom
    for _ in range(levels):
        value = {"in": value}
    call: Any = {"name": "look", "args": {"q": value, "n": 1}, "id": "c1"}
    asked = HumanMessage([{"type": "text", "text": "see"}, {"type": "other", "v": value}])
    with SessionService(InMemoryStore()) as sessions:
        sessions.as_user("ada").open("s1")
        log = [asked, AIMessage("", tool_calls=[call]), ToolMessage("so", tool_call_id="c1", artifact=value)]
        sessions.as_user("ada").append("s1", [*log, AIMessage("done")])
        found: Any = sessions.messages("s1")
        part = found[0].content[1]
        for kept in (part if isinstance(part, str) else part["v"], call_args(found[1])["q"], found[2].artifact):
            assert "word" in str(bottom_of(kept))
        assert call_args(found[1])["n"] == 1
        model = InsistingModel()
        SessionMemoryAdvisor(sessions).wrap(model).invoke("next", config_for("s1"))
        assert sessions.verify("s1") == []
