"""Every way to call a model with memory stores and shows the same conversation."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda

from langchain_sessions import Compaction, TurnCount, TurnWindow
from langchain_sessions.errors import BareAdvisorError, InvalidInputError
from langchain_sessions.memory import SessionMemoryAdvisor
from tests.openai_stub.replies import Fill
from tests.surface.conftest import Face, Person, config_for, logged, make_model, texts, weather

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_openai import ChatOpenAI

    from langchain_sessions import CompactionRequest, SessionService
    from tests.openai_stub.server import OpenAIStub


@pytest.mark.parametrize("responses_api", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_is_remembered(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    ada: SessionService,
    config: RunnableConfig,
    *,
    responses_api: bool,
    streamed: bool,
) -> None:
    chat = memory.wrap(make_model(stub, use_responses_api=responses_api))
    stub.script("hello ada", "you are ada")
    call = face.stream if streamed else face.invoke
    await call(chat, "I am ada", config)
    await call(chat, "who am I", config)
    assert stub.last.texts == ["I am ada", "hello ada", "who am I"]
    assert texts(ada) == ["I am ada", "hello ada", "who am I", "you are ada"]
    assert {standing for _, _, standing in logged(ada)} == {"live"}


async def test_chunks_arrive_one_by_one(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    stub.script("one two three four")
    chunks = await face.stream(memory.wrap(model) | StrOutputParser(), "count", config)
    assert [chunk for chunk in chunks if chunk] == ["one", " two", " three", " four"]


async def test_the_whole_message_is_stored(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, ada: SessionService, config: RunnableConfig
) -> None:
    chat = memory.wrap(make_model(stub, stream_usage=True)) | StrOutputParser()
    assert await face.invoke(chat, "hi", config) == "reply 1"
    await face.stream(chat, "and now", config)
    replies = [message for message in ada.messages("s1") if message.type == "ai"]
    assert all(type(reply) is AIMessage for reply in replies)
    assert all(reply.usage_metadata for reply in replies if isinstance(reply, AIMessage))


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of langchain-openai, streaming a parsed object
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
async def test_structured_output(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
    method: str,
    *,
    include_raw: bool,
    streamed: bool,
) -> None:
    chat = memory.wrap(model)
    stub.script(Fill({"name": "grace"}), "goodbye")
    structured = chat.with_structured_output(Person, method=method, include_raw=include_raw)
    if streamed:
        found = (await face.stream(structured, "who, as json", config))[-1]
    else:
        found = await face.invoke(structured, "who, as json", config)
    person = found.get("parsed", Person(name="grace")) if include_raw else found
    assert person == Person(name="grace")
    kinds = [kind for kind, _, _ in logged(ada)]
    assert kinds[:2] == ["human", "ai"]
    assert kinds.count("ai") == 1
    await face.invoke(chat, "thanks", config)
    assert stub.last.roles == ["user", "assistant", "user"]
    assert "grace" in stub.last.texts[1]


async def test_a_batch_has_a_session_for_each_item(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService
) -> None:
    chat = memory.wrap(model)
    configs = [config_for("s1"), config_for("s2"), config_for("s3")]
    values = ["first", "second", "third"]
    if face.name == "sync":
        chat.batch(values, configs)
    else:
        await chat.abatch(values, configs)
    assert [texts(ada, name)[0] for name in ("s1", "s2", "s3")] == values
    assert [len(texts(ada, name)) for name in ("s1", "s2", "s3")] == [2, 2, 2]


async def test_bound_arguments_reach_the_model(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chat = memory.wrap(model).bind(stop=["x"]).with_config(tags=["t"]).with_retry()
    await face.invoke(chat, "hi", config)
    assert stub.last.body["stop"] == ["x"]


async def test_configured_once(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, ada: SessionService
) -> None:
    chat = memory.wrap(model).with_config(config_for("s1"))
    await face.invoke(chat, "hi", {})
    assert texts(ada) == ["hi", "reply 1"]


async def test_a_chain_with_keys(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    prompt = ChatPromptTemplate(
        [("system", "Speak {tongue}."), MessagesPlaceholder("history"), ("human", "Now: {question}")]
    )
    chain = memory.wrap(prompt | model | StrOutputParser(), input_key="question", history_key="history")
    await face.invoke(chain, {"question": "hi", "tongue": "French"}, config)
    await face.stream(chain, {"question": "and", "tongue": "French"}, config)
    assert stub.last.texts == ["Speak French.", "hi", "reply 1", "Now: and"]
    assert texts(ada) == ["hi", "reply 1", "and", "reply 2"]


async def test_a_chain_that_takes_the_whole_conversation(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chain = memory.wrap(itemgetter("messages") | RunnableLambda(list) | model, input_key="messages")
    await face.invoke(chain, {"messages": "hi"}, config)
    await face.invoke(chain, {"messages": [HumanMessage("and")]}, config)
    assert stub.last.texts == ["hi", "reply 1", "and"]


async def test_a_template_before_the_model(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    prompt = ChatPromptTemplate([("system", "Be brief."), ("human", "2+2"), ("ai", "4"), ("human", "{question}")])
    chain = prompt | memory.wrap(model) | StrOutputParser()
    await face.invoke(chain, {"question": "3+3"}, config)
    await face.invoke(chain, {"question": "4+4"}, config)
    assert stub.last.texts == ["Be brief.", "2+2", "4", "3+3", "reply 1", "4+4"]
    assert texts(ada) == ["3+3", "reply 1", "4+4", "reply 2"]


async def test_examples_and_system_are_stored_on_request(
    face: Face,
    stub: OpenAIStub,
    sessions: SessionService,
    ada: SessionService,
    model: ChatOpenAI,
    config: RunnableConfig,
) -> None:
    memory = SessionMemoryAdvisor(sessions, store_system=True, store_examples=True)
    chat = memory.wrap(model)
    await face.invoke(chat, [("system", "Be brief."), ("human", "2+2"), ("ai", "4"), ("human", "3+3")], config)
    await face.invoke(chat, "4+4", config)
    assert stub.last.texts == ["Be brief.", "2+2", "4", "3+3", "reply 1", "4+4"]
    await face.invoke(chat, [("system", "Be long."), ("human", "5+5")], config)
    assert stub.last.texts[0] == "Be long."
    await face.invoke(chat, [("system", "Be long."), ("human", "6+6")], config)
    assert [text for kind, text, _ in logged(ada) if kind == "system"] == ["Be brief.", "Be long."]


async def test_examples_that_a_template_repeats_are_stored_once(
    face: Face, stub: OpenAIStub, ada: SessionService, model: ChatOpenAI, config: RunnableConfig
) -> None:
    prompt = ChatPromptTemplate([("human", "2+2"), ("ai", "4"), ("human", "{question}")])
    compaction = Compaction(TurnCount(3), TurnWindow(max_turns=2))
    chat = prompt | SessionMemoryAdvisor(ada, store_examples=True, compaction=compaction).wrap(model)
    for number in range(6):
        await face.invoke(chat, {"question": f"question {number}"}, config)
    assert stub.last.texts == ["2+2", "4", "question 3", "reply 4", "question 4", "reply 5", "question 5"]
    assert [text for _, text, _ in logged(ada)].count("2+2") == 1


async def test_a_trigger_is_told_what_goes_out_beside_the_messages(
    face: Face, sessions: SessionService, model: ChatOpenAI
) -> None:
    told: list[int] = []

    class Told:
        def is_due(self, request: CompactionRequest) -> bool:
            told.append(request.overhead_tokens)
            return False

    def memory(**options: Any) -> SessionMemoryAdvisor:
        return SessionMemoryAdvisor(sessions, compaction=Compaction(Told(), TurnWindow()), **options)

    brief: list[Any] = [("system", "Be brief. " * 20), ("human", "hi")]
    chats = (
        memory().wrap(model),
        memory().wrap(model).bind_tools([weather]),
        memory().wrap(model.bind_tools([weather])),
        memory().wrap(RunnableLambda(lambda said: said) | model.bind_tools([weather])),
        memory(store_system=True).wrap(model),
    )
    for number, chat in enumerate(chats):
        await face.invoke(chat, brief, config_for(f"s{number}"))
    system, *with_tools, stored = told
    assert system > 40
    assert {total - system for total in with_tools} == {with_tools[0] - system} != {0}
    assert stored == 0  # the log counts it


async def test_several_messages_at_once_are_stored_once(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.several_questions = True
    await face.invoke(memory.wrap(model), [HumanMessage("one"), HumanMessage("two"), HumanMessage("three")], config)
    assert texts(ada) == ["one", "two", "three", "reply 1"]


async def test_the_same_words_twice_are_two_messages(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    stub.allow_repeats = True
    stub.script("ok", "ok")
    chat = memory.wrap(model)
    await face.invoke(chat, "yes", config)
    await face.invoke(chat, "yes", config)
    assert texts(ada) == ["yes", "ok", "yes", "ok"]


async def test_events_have_sensible_names(
    stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    events = [event async for event in memory.wrap(model).astream_events("hi", config, version="v2")]
    assert {event["name"] for event in events} == {"SessionMemoryAdvisor", "ChatOpenAI"}
    streamed = [e["data"].get("chunk", AIMessage("")) for e in events if e["event"] == "on_chat_model_stream"]
    assert [chunk.content for chunk in streamed][1:3] == ["reply", " 1"]


async def test_sugar(
    face: Face,
    stub: OpenAIStub,
    memory: SessionMemoryAdvisor,
    model: ChatOpenAI,
    ada: SessionService,
    config: RunnableConfig,
) -> None:
    await face.invoke((memory | model) | StrOutputParser(), "hi", config)
    assert texts(ada) == ["hi", "reply 1"]


async def test_a_bare_advisor_in_a_chain_raises(
    face: Face, stub: OpenAIStub, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    chain = ChatPromptTemplate([("human", "{q}")]) | memory | model
    with pytest.raises(BareAdvisorError, match=r"memory\.wrap\(model\)"):
        await face.invoke(chain, {"q": "hi"}, config)
    assert stub.requests == []


async def test_a_dictionary_needs_keys(
    face: Face, memory: SessionMemoryAdvisor, model: ChatOpenAI, config: RunnableConfig
) -> None:
    with pytest.raises(InvalidInputError, match="input_key"):
        await face.invoke(memory.wrap(model), {"question": "hi"}, config)


def test_a_chain_has_no_tools(memory: SessionMemoryAdvisor, model: ChatOpenAI) -> None:
    chain: Any = memory.wrap(model | StrOutputParser())
    with pytest.raises(InvalidInputError, match="bind_tools"):
        chain.bind_tools([])
