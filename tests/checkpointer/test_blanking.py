"""Issue 17, item 4: `blank` on a thread: no byte of what was said is left, and every checkpoint can be read."""

from __future__ import annotations

import json
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from sqlalchemy import LargeBinary, String, select

from langchain_sessions import (
    LongTermMemory,
    SearchSettings,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
)
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.errors import StoreError
from tests.recall.embedders import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


MAIL = 'write to "ada.lovelace@example.org", née Byron'
PIN = "pin 1234"
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    """Copies of what was said, in every form in which a graph may keep them."""

    messages: Annotated[list[AnyMessage], add_messages]
    quote: str
    notes: Annotated[list[Any], add]
    large: dict[str, Any]
    fails: bool


def talk(state: State) -> dict[str, Any]:
    said = str(state["messages"][-1].text)
    return {
        "messages": [AIMessage("noted", id=f"a{len(state['messages'])}")],
        "quote": f"she said: {said}",
        "notes": [json.dumps({"said": said}), Document(said), {"tool": [said, said]}],
        "large": {f"k{n}": f"line {n} of a long report" for n in range(400)} | {"said": said, "mail": said},
    }


def break_down(state: State) -> dict[str, Any]:
    if state.get("fails"):
        problem = "the second node is not well"
        raise RuntimeError(problem)
    return {}


def graph_of(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("talk", talk)
    builder.add_node("aside", break_down)
    builder.add_edge(START, "talk")
    builder.add_edge(START, "aside")
    return builder.compile(checkpointer=saver)


def stored(service: SessionService) -> bytes:
    """All that a store holds, as it says it itself."""
    store: Any = log_of(service).store
    if not hasattr(store, "tables"):
        return repr(vars(store.engine)).encode()

    def read(tx: Any) -> list[bytes]:
        found: list[bytes] = []
        for table in store.tables.metadata.sorted_tables:
            columns = [column for column in table.c if isinstance(column.type, (String, LargeBinary))]
            for row in tx.once(select(*columns)) if columns else ():
                found += [value.encode() if isinstance(value, str) else bytes(value or b"") for value in row]
        return found

    return b"\n".join(store.run(TransactionKind.READ, read))


def traces(service: SessionService) -> list[str]:
    """Which words of the mail are still there, in clear."""
    seen = stored(service) + repr(list(SessionCheckpointSaver(service).list(CONFIG))).encode()
    return [word for word in ("lovelace", "Byron", "1234") if word.encode() in seen]


@pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
def test_item_04_nothing_of_it_is_left_in_a_thread(open_service: Callable[..., SessionService]) -> None:
    service = open_service()
    graph = graph_of(SessionCheckpointSaver(service))
    graph.invoke({"messages": [HumanMessage(MAIL, id="m1")]}, CONFIG)
    graph.invoke({"messages": [HumanMessage(f"my {PIN}", id="m2")]}, CONFIG)
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": [HumanMessage(MAIL, id="m3")], "fails": True}, CONFIG)
    assert traces(service) == ["lovelace", "Byron", "1234"]
    for message_id in ("m1", "m3"):
        service.blank("t", message_id)
    assert traces(service) == ["1234"]
    service.blank("t", "m2")
    # Shorter words are overwritten where they are the message, not wherever a value says the same.
    assert f"my {PIN}" not in repr([event.message for event in service.events("t")])
    assert service.verify("t") == []

    other = graph_of(SessionCheckpointSaver(open_service()))
    for saver in (graph, other):
        states = list(saver.get_state_history(CONFIG))
        said = {message.id: message.text for state in states for message in state.values.get("messages", ())}
        assert said == {"m1": "[blanked]", "m2": "[blanked]", "m3": "[blanked]", "a1": "noted", "a3": "noted"}
        quotes = [state.values["quote"] for state in states if "quote" in state.values]
        assert all(quote.startswith("she said: [blanked]") or PIN in quote for quote in quotes)
        assert states[0].values["large"]["k7"] == "line 7 of a long report"
    done = other.invoke({"messages": [HumanMessage("still there?", id="m4")], "fails": False}, CONFIG)
    assert [message.text for message in done["messages"]][-2:] == ["still there?", "noted"]
    assert service.verify("t") == []


class Hooked(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    llm_input_messages: list[AnyMessage]
    kept: dict[str, Any]


@pytest.mark.parametrize("said", [f"SECRET {MAIL}", [{"type": "text", "text": f"SECRET {MAIL} " + "é" * 300}]])
def test_item_04_what_a_hook_cut_for_the_model_is_blanked_too(tmp_path: Path, said: Any) -> None:
    def cut(state: Hooked) -> dict[str, Any]:
        shorter = "SECRET, cut" if isinstance(said, str) else [{"type": "text", "text": "SECRET, cut " * 40}]
        asked = state["messages"][0].model_copy(update={"content": shorter})
        return {"llm_input_messages": [asked], "kept": {"id": "h", "says": "no word of it", "large": [asked] * 200}}

    path = tmp_path / "chat.db"
    builder: Any = StateGraph(Hooked)
    builder.add_node("cut", cut).add_edge(START, "cut")
    with SessionService(f"sqlite:///{path}") as sessions:
        graph = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
        graph.invoke({"messages": [HumanMessage(said, id="h")]}, CONFIG)
        assert [event.seq for event in sessions.events("t") if event.message] == [1]
        sessions.blank("t", "h")
        state = graph.get_state(CONFIG).values
        assert state["kept"]["says"] == "no word of it"
        assert "SECRET" not in str(state)
        assert sessions.verify("t") == []
    assert b"SECRET" not in b"".join(each.read_bytes() for each in tmp_path.iterdir())


NAME = "Augusta Ada King, Countess of L."
CALL = {"name": "find", "args": {"name": NAME, "q": "json"}, "id": "c", "type": "tool_call"}


class Copied(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    shown: list[AnyMessage]
    quote: str


def _kinds(message: BaseMessage) -> list[Any]:
    content: Any = message.content
    return [] if isinstance(content, str) else [block["type"] for block in content]


@pytest.mark.backends("memory", "sqlite")
@pytest.mark.parametrize(
    "message",
    [
        HumanMessage(f"{MAIL} and an emoji in halves \ud83d\ude00", id="h"),
        HumanMessage([{"type": "text", "text": "text"}, {"type": "text", "text": f"{MAIL} \ud83d\ude00"}], id="h"),
        HumanMessage([{"type": "text", "text": "tuple"}, {"type": "x", "data": ("tuple", MAIL, b"\x00" * 9)}], id="h"),
        ToolMessage("content", tool_call_id="c", artifact=("set", {"bytes"}, {1: MAIL}, {"name": NAME}), id="h"),
        AIMessage("", tool_calls=[CALL], id="h"),
    ],
)
def test_item_04_what_is_blanked_in_a_copy_is_read_as_before(
    open_service: Callable[..., SessionService], message: BaseMessage
) -> None:
    """Values that JSON has no form for are stored with a tag, which may be a word of the message, too."""

    def copy(state: Copied) -> dict[str, Any]:
        cut = state["messages"][0].model_copy(update={"additional_kwargs": {"cut": True}})
        return {"shown": [cut, state["messages"][0]], "quote": NAME}

    service = open_service()
    builder: Any = StateGraph(Copied)
    builder.add_node("copy", copy).add_edge(START, "copy")
    builder.compile(checkpointer=SessionCheckpointSaver(service)).invoke({"messages": [message]}, CONFIG)
    service.blank("t", "h")
    state = builder.compile(checkpointer=SessionCheckpointSaver(service)).get_state(CONFIG).values
    assert [shown.id for shown in state["shown"]] == ["h", "h"]
    said = repr([state["messages"], state["shown"]])
    assert [word for word in ("lovelace", "Byron", "Countess", "d83d", "\U0001f600") if word in said] == []
    assert _kinds(state["shown"][0]) == _kinds(message)  # the other one is the log's own
    if isinstance(message, AIMessage):
        assert state["quote"].startswith("[blanked]")
    assert service.verify("t") == []


def test_item_04_no_byte_is_left_in_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with SessionService(url) as service:
        graph = graph_of(SessionCheckpointSaver(service))
        for number in range(30):
            graph.invoke({"messages": [HumanMessage(f"{MAIL}, for the time {number}", id=f"m{number}")]}, CONFIG)
        service.reindex("t")
        list(service.search("lovelace", whole_app=True))
        service.blank("t", seqs=[event.seq for event in service.events("t") if event.kind.value == "message"])
        found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert [word for word in (b"lovelace", b"Byron") if word in found] == []
        assert service.verify("t") == []


def test_item_04_what_the_middlewares_left_is_blanked(service: SessionService) -> None:
    """As docs/howto/privacy.md has it: the redacted revision stands, the raw one goes."""
    agent = create_agent(
        GenericFakeChatModel(messages=iter(["hello", "again"])),
        middleware=[SessionMemoryMiddleware(service), PIIMiddleware("email", strategy="redact")],
        checkpointer=SessionCheckpointSaver(service),
    )
    agent.invoke({"messages": [HumanMessage("I am ada@example.org", id="m1")]}, CONFIG)
    done = service.blank("t", superseded=True)
    assert done.seqs  # wherever saver and middleware, which come at once, put the raw one, once or each
    said = [message.text for message in service.messages("t")]
    assert said == ["I am [REDACTED_EMAIL]", "hello"]
    assert b"ada@example.org" not in stored(service)
    agent.invoke({"messages": [HumanMessage("and now?", id="m2")]}, CONFIG)
    assert b"ada@example.org" not in stored(service)


def _answers() -> Iterator[str]:
    yield from ("hello", "again")


def test_item_04_vectors_and_long_term_memory_forget_too(open_service: Callable[..., SessionService]) -> None:
    words = Words()
    service = open_service(search=SearchSettings(embed=words))
    documents = InMemoryVectorStore(Words())
    memory = LongTermMemory(documents)
    advisor = SessionMemoryAdvisor(service, modes=[memory])
    advisor.wrap(GenericFakeChatModel(messages=_answers())).invoke(
        [HumanMessage(MAIL, id="m1")], {"configurable": {"session_id": "t"}}
    )
    service.embed_pending("t")
    assert "lovelace" in repr(documents.store)
    asked = len(words.texts)
    service.blank("t", "m1")
    assert "lovelace" not in repr(documents.store)
    assert service.verify("t") == []
    service.embed_pending("t")
    memory.add_session_to_memory(service, "t")
    assert not any("blanked" in text for text in words.texts[asked:])
    assert "blanked" not in repr(documents.store)


def test_item_04_a_vector_store_that_fails_is_asked_again(
    service: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = InMemoryVectorStore(Words())
    advisor = SessionMemoryAdvisor(service, modes=[LongTermMemory(documents)])
    advisor.wrap(GenericFakeChatModel(messages=_answers())).invoke(
        [HumanMessage(MAIL, id="m1")], {"configurable": {"session_id": "t"}}
    )

    def fail(ids: Any) -> None:
        raise ConnectionError(ids)

    with monkeypatch.context() as patched:
        patched.setattr(documents, "delete", fail)
        with pytest.raises(StoreError):
            service.blank("t", "m1")
    assert service.blank("t", "m1").seq is None
    assert "lovelace" not in repr(documents.store)


def test_item_04_other_savers_are_no_business_of_it(service: SessionService) -> None:
    """What a graph keeps elsewhere is kept there: only what the service stores is overwritten."""
    saver = InMemorySaver()
    graph_of(saver).invoke({"messages": [HumanMessage(MAIL, id="m1")]}, CONFIG)
    service.create("t")
    service.append("t", HumanMessage(MAIL, id="m1"))
    service.blank("t", "m1")
    assert traces(service) == []
