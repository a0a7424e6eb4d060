"""What beginners do, and what they are told: each error says what to type."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy.ext.asyncio import create_async_engine

from langchain_sessions import (
    Compaction,
    EventFilter,
    InMemoryStore,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    SlidingWindow,
    Summarize,
    TiktokenCounter,
    TokenCount,
    create_conversation_search_tool,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = FakeListChatModel(responses=["Hello!"])
HI = HumanMessage("hi")
service: Any = SessionService  # what a type checker would refuse is what is tried here


def wrong(value: object) -> Any:
    """A value that a type checker would refuse, too."""
    return value


def ada() -> Any:
    """The view of a user who has one session."""
    view = SessionService(InMemoryStore()).as_user("ada")
    view.open("s1")
    return view


def advisor(**options: Any) -> Any:
    return SessionMemoryAdvisor(ada(), **options)


def named(name: str, module: str = "langchain_sessions") -> Callable[[], object]:
    """`from module import name`."""
    return lambda: getattr(importlib.import_module(module), name)


def closed() -> None:
    with SessionService("sqlite://") as sessions:
        pass
    sessions.list_sessions()


def ended() -> None:
    view = ada()
    view.end("s1")
    view.append("s1", HI)


def of_grace() -> None:
    sessions = SessionService(InMemoryStore())
    sessions.as_user("grace").open("s1")
    sessions.as_user("ada").append("s1", HI)


def a_step() -> object:
    return (ChatPromptTemplate.from_template("{q}") | advisor() | MODEL).invoke(
        "x", {"configurable": {"session_id": "s"}}
    )


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a saver's name elsewhere": (named("SqliteSaver"), "Write: from langchain_sessions import SessionCheckpointSaver"),
    "a history's name elsewhere": (named("SQLChatMessageHistory"), "import SessionChatMessageHistory"),
    "an older name": (named("MemoryStore"), "import InMemoryStore"),
    "a name mistyped": (named("SessionServise"), "import SessionService"),
    "a memory of old": (named("ConversationBufferMemory"), "import SessionMemoryAdvisor"),
    "a summary memory of old": (named("ConversationSummaryMemory"), "import SessionMemoryAdvisor"),
    "a saver's old name": (named("MemorySaver"), "import SessionCheckpointSaver"),
    "what upstream deprecates": (named("RunnableWithMessageHistory"), "import SessionMemoryAdvisor"),
    "a store where stores are": (
        named("InMemoryStore", "langchain_sessions.stores"),
        "Write: from langchain_sessions import InMemoryStore",
    ),
    # -- databases
    "a store's class for a store": (lambda: service(InMemoryStore), "InMemoryStore(), not the class "),
    "a saver for a database": (lambda: service(InMemorySaver()), "not langgraph.checkpoint.memory.InMemorySaver"),
    "SQLite's name for memory": (lambda: service(":memory:"), "or sqlite:// for one in memory"),
    "no database": (service, "give a URL such as sqlite:///chat.db"),
    "None for a database": (lambda: service(None), "or a store such as InMemoryStore()"),
    "a path": (lambda: service("chat.db"), "such as sqlite:///chat.db"),
    "two slashes": (lambda: service("sqlite://chat.db"), "write sqlite:///chat.db for a file here"),
    "postgres://": (lambda: service("postgres://ada:secret@localhost/chat"), "Write postgresql:// in the URL"),
    "a driver that is not supported": (
        lambda: service("sqlite+aiosqlite:///chat.db"),
        "Leave the driver out (sqlite://",
    ),
    "a database that is not supported": (lambda: service("mongodb://localhost/chat"), "Use one of: "),
    "a wrong port": (
        lambda: service("postgresql://ada:secret@127.0.0.1:1/chat").list_sessions(),
        "The database at 127.0.0.1:1 cannot be reached",
    ),
    "a folder that is not there": (
        lambda: service("sqlite:////no/such/folder/chat.db").list_sessions(),
        "Its folder has to exist",
    ),
    "another name of the argument": (lambda: service(url="sqlite://"), "unexpected keyword argument 'url'"),
    "an unknown option": (lambda: service("sqlite://", user="ada"), "unexpected keyword argument 'user'"),
    "sync calls on an async engine": (
        lambda: service(create_async_engine("postgresql+psycopg://localhost/chat")).list_sessions(),
        "Use the a… methods",
    ),
    "a closed service": (closed, "Make another one"),
    # -- sessions
    "a session that is not there": (lambda: ada().append("s9", HI), "open() makes one that does not exist"),
    "a session of somebody else": (of_grace, "or belongs to somebody else"),
    "a session twice": (lambda: ada().create("s1"), "Choose another, or open() your own session"),
    "a session that has ended": (ended, "Call reopen()"),
    "a blank user": (lambda: SessionService(InMemoryStore()).as_user(" "), "user_id: must not be blank"),
    "seconds for a duration": (lambda: ada().create(time_to_live=60), "give a timedelta"),
    "a text for a message": (lambda: ada().append("s1", "hi"), "for example [HumanMessage('hi')]"),
    "a dictionary for a message": (lambda: ada().append("s1", {"role": "user"}), "for example [HumanMessage('hi')]"),
    "arguments the other way round": (lambda: ada().append(HI, "s1"), "session_id: give a string, not HumanMessage"),
    "too few arguments": (lambda: ada().append("s1"), "missing 1 required positional argument: 'messages'"),
    "a keyword that is not one": (lambda: ada().append("s1", HI, meta={}), "unexpected keyword argument 'meta'"),
    "a pair for a message": (lambda: ada().append("s1", ("user", "hi")), "for example [HumanMessage('hi')]"),
    "an edit by position": (lambda: ada().edit("s1", 1), "such as edit('s1', HumanMessage('hi', id='q1'))"),
    "an edit of a session's message by a text": (lambda: ada().edit("s1", "hi"), "with the id of the one"),
    "an edit without a session": (lambda: ada().edit(HI), "missing 1 required positional argument: 'message'"),
    "an edit of a message without an id": (lambda: ada().edit("s1", HI), "needs the id of the message"),
    "a version that is out of date": (lambda: ada().append("s1", HI, expected_version=9), "Read it again and retry"),
    "a number that is none": (
        lambda: ada().append("s1", HI, state_delta={"k": float("nan")}),
        "state_delta['k']: nan is not a JSON number",
    ),
    "a cursor made up": (lambda: ada().list_sessions(cursor="2"), "give page.next_cursor as it is"),
    "an unknown role": (lambda: EventFilter(roles={"bot"}), "there are human, user, ai, assistant"),
    "a page without a size": (lambda: EventFilter(page=2), "such as EventFilter(page=2, page_size=20)"),
    # -- memory
    "an advisor as a step": (a_step, "Write prompt | memory.wrap(model)"),
    "a model's name for a model": (lambda: advisor().wrap("gpt-4o"), "such as wrap(ChatOpenAI(model='…'))"),
    "no session in the config": (lambda: advisor().wrap(MODEL).invoke("hi"), 'pass {"configurable": {"session_id"'),
    "a dictionary for a chain": (
        lambda: advisor().wrap(MODEL).invoke({"q": "hi"}, {"configurable": {"session_id": "s"}}),
        "use memory.wrap(chain, input_key=",
    ),
    "a config without configurable's word": (
        lambda: advisor().wrap(MODEL).invoke("hi", {"configurable": {"session": "s"}}),
        'pass {"configurable": {"session_id"',
    ),
    "a URL for a service": (lambda: SessionMemoryAdvisor(wrong("sqlite://")), "give a SessionService"),
    "… for the middleware": (lambda: SessionMemoryMiddleware(wrong("sqlite://")), "give a SessionService"),
    "… for the saver": (lambda: SessionCheckpointSaver(wrong("sqlite://")), "give a SessionService"),
    "… for the history": (
        lambda: SessionChatMessageHistory(wrong("sqlite://"), wrong("s1")),
        "give a SessionService",
    ),
    "a trigger alone": (lambda: advisor(compaction=TokenCount(10)), "write Compaction(when, how)"),
    "a compaction the wrong way round": (
        lambda: Compaction(wrong(SlidingWindow(4)), wrong(TokenCount(10))),
        "SlidingWindow is no trigger",
    ),
    "a model's name for a summary": (lambda: Summarize(wrong("gpt-4o")), "such as Summarize(ChatOpenAI(model='…'))"),
    "a text for a compaction": (lambda: ada().compact("s1", "summarise"), "write Compaction(when, how)"),
    "a model for an encoding": (
        lambda: TiktokenCounter(wrong("gpt-4o")).count_messages([HI]),
        "write best_counter('gpt-4o')",
    ),
    # -- tools, which answer in words
    "a search without a session": (
        lambda: pytest.fail(create_conversation_search_tool(ada()).invoke({"query": "x"})),
        'has to pass {"configurable": {"session_id"',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_the_way_out(name: str) -> None:
    do, told = MISTAKES[name]
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - a table of many kinds
        do()
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, Exception) or "search" in name


def test_there_are_forty() -> None:
    assert len(MISTAKES) >= 40
