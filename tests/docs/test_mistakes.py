"""What beginners do, and what they are told: each error says what to type."""

from __future__ import annotations

import asyncio
import copy
import importlib.util
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy.ext.asyncio import create_async_engine

import langchain_sessions
from langchain_sessions import (
    Compaction,
    EventFilter,
    InMemoryStore,
    LongTermMemory,
    NewEvent,
    SearchSettings,
    SessionChatMessageHistory,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    SlidingWindow,
    Summarize,
    SummaryAsFact,
    TiktokenCounter,
    TokenCount,
    TurnWindow,
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


def graph(config: object) -> object:
    """A graph over the saver, run with a config."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("say", lambda _state: {"messages": [("ai", "Hello!")]})
    builder.add_edge(START, "say")
    return builder.compile(checkpointer=saver()).invoke({"messages": "hi"}, config)


def saver() -> Any:
    return SessionCheckpointSaver(SessionService(InMemoryStore()))


def history() -> Any:
    return SessionChatMessageHistory("s1", SessionService(InMemoryStore()))


def event() -> Any:
    return ada().append("s1", HI)[0]


def hit() -> Any:
    view = ada()
    view.append("s1", HI)
    return view.search("hi")[0]


def assigned() -> None:
    ada().get("s1").title = "Lisbon"


async def awaited() -> None:
    await ada().alist()


def module(name: str) -> Callable[[], object]:
    """`import name`."""
    return lambda: importlib.import_module(name)


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
    "a saver's name at our saver": (
        named("SqliteSaver", "langchain_sessions.checkpointer"),
        "There is no 'SqliteSaver' in langchain_sessions.checkpointer. Write: from langchain_sessions import Sess",
    ),
    "a history's name at our history": (
        named("ChatMessageHistory", "langchain_sessions.history"),
        "Write: from langchain_sessions import SessionChatMessageHistory",
    ),
    "a name mistyped at its module": (
        named("SessionServise", "langchain_sessions.service"),
        "Write: from langchain_sessions import SessionService",
    ),
    "an error's other name": (
        named("SessionNotFound", "langchain_sessions.errors"),
        "Write: from langchain_sessions import SessionNotFoundError",
    ),
    "small letters": (named("sessionservice"), "Write: from langchain_sessions import SessionService"),
    "a name with an underscore": (named("session_service"), "Write: from langchain_sessions import SessionService"),
    "a class for each side": (named("AsyncSessionService"), "Write: from langchain_sessions import SessionService"),
    "Spring's advisor": (
        named("MessageChatMemoryAdvisor"),
        "Write: from langchain_sessions import SessionMemoryAdvisor",
    ),
    "Spring's repository": (named("SessionRepository"), "Write: from langchain_sessions import SessionService"),
    "a store for each database": (named("PostgresStore"), "Write: from langchain_sessions import SqlStore"),
    "a tool by its name": (
        named("conversation_search", "langchain_sessions.tools"),
        "Write: from langchain_sessions import create_conversation_search_tool",
    ),
    "a saver of any database": (
        named("ShallowMongoSaver"),
        "Write: from langchain_sessions import SessionCheckpointSaver",
    ),
    "a session of openai-agents": (named("SQLAlchemySession"), "Write: from langchain_sessions import SessionService"),
    "Spring's trigger": (named("TokenCountTrigger"), "Write: from langchain_sessions import TokenCount"),
    "LangGraph's own name": (named("StateGraph"), "It is LangGraph's. Write: from langgraph.graph import StateGraph"),
    "what LangChain calls otherwise now": (
        named("create_react_agent"),
        "Write: from langchain.agents import create_agent",
    ),
    "a module of sessions": (
        module("langchain_sessions.sessions"),
        "Write: from langchain_sessions import SessionService",
    ),
    "LangChain's own name": (named("HumanMessage"), "It is LangChain's. Write: from langchain_core.messages import"),
    "a module of old": (module("langchain_sessions.adapters"), "Write: from langchain_sessions import SessionMemoryAd"),
    "a module of a module of old": (
        module("langchain_sessions.adapters.checkpointer"),
        "There is no module langchain_sessions.adapters: what is public is imported from the top",
    ),
    "LangGraph's module": (
        module("langchain_sessions.checkpoint.sqlite"),
        "Write: from langchain_sessions import SessionCheckpointSaver",
    ),
    "the usual module of errors": (
        module("langchain_sessions.exceptions"),
        "Write: from langchain_sessions import SessionsError",
    ),
    "a folder that is not public": (
        module("langchain_sessions.compaction"),
        "Write: from langchain_sessions import Compaction, TokenCount",
    ),
    "a module of such a folder": (module("langchain_sessions.tokens.tiktoken"), "import best_counter, TokenCounter"),
    "a module of stores": (module("langchain_sessions.stores.sql"), "Write: from langchain_sessions import SqlStore"),
    "any module": (module("langchain_sessions.zebra"), "Write: from langchain_sessions import SessionService"),
    # -- databases
    "a database of another kind": (
        lambda: service("redis://localhost"),
        "Use one of: sqlite, postgresql, mysql, cassandra, file",
    ),
    "a folder with two slashes": (lambda: service("file://folder"), "such as file:///var/lib/chat"),
    "a way to make savers": (lambda: service.from_conn_string("chat.db"), "Write SessionService('sqlite:///chat.db')"),
    "the setup of other savers, on the service": (
        lambda: ada().setup(),
        "Write create_schema(); on SQLite it is done at first use",
    ),
    "a user beside the database": (lambda: service("sqlite://", "ada"), "Write SessionService(database=…, app=…"),
    "LangChain's word for a counter": (lambda: service("sqlite://", token_counter=len), "Write tokens=…"),
    "a model's name for a counter": (lambda: service("sqlite://", tokens="gpt-4o"), "such as best_counter('gpt-4o')"),
    "a word for a serializer": (lambda: service("sqlite://", codec="json"), "such as JsonPlusSerializer()"),
    "a word for an embedder": (lambda: SearchSettings(embed=wrong("openai")), "such as OpenAIEmbeddings()"),
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
        "The database at 127.0.0.1:1 cannot be reached; start it, or correct host and port of the URL",
    ),
    "a folder that is not there": (
        lambda: service("sqlite:////no/such/folder/chat.db").list_sessions(),
        "Its folder has to exist",
    ),
    "an engine by its word": (lambda: service(engine="sqlite://"), "Write database=…"),
    "a URL by another word": (lambda: service(db_url="sqlite://"), "Write database=…"),
    "another name of the argument": (lambda: service(url="sqlite://"), "Write database=…"),
    "an unknown option": (lambda: service("sqlite://", user="ada"), "It stands in the config of each call"),
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
    "too few arguments": (lambda: ada().append("s1"), "Write append(session_id, messages)"),
    "a keyword that is not one": (lambda: ada().append("s1", HI, metdata={}), "Write metadata=…"),
    "a pair for a message": (lambda: ada().append("s1", ("user", "hi")), "for example [HumanMessage('hi')]"),
    "an edit by position": (lambda: ada().edit("s1", 1), "such as edit('s1', HumanMessage('hi', id='q1'))"),
    "an edit of a session's message by a text": (lambda: ada().edit("s1", "hi"), "with the id of the one"),
    "an edit without a session": (lambda: ada().edit(HI), "Write edit(session_id, message)"),
    "an edit of a message without an id": (lambda: ada().edit("s1", HI), "needs the id of the message"),
    "an edit of a message that is not there": (
        lambda: ada().edit("s1", HumanMessage("hi", id="q9")),
        "Session 's1' has no message 'q9' to replace. events('s1') shows what it has",
    ),
    "a rewind to what is not there": (lambda: ada().rewind("s1", to_seq=9), "has no position 9. events('s1') shows"),
    "a rewind before the beginning": (lambda: ada().rewind("s1", to_seq=-1), "give a position of the log: 0, 1, 2 …"),
    "a version that is out of date": (lambda: ada().append("s1", HI, expected_version=9), "Read it again and retry"),
    "a number that is none": (
        lambda: ada().append("s1", HI, state_delta={"k": float("nan")}),
        "state_delta['k']: nan is not a JSON number",
    ),
    "a cursor made up": (lambda: ada().list_sessions(cursor="2"), "give page.next_cursor as it is"),
    "an unknown role": (lambda: EventFilter(roles={"bot"}), "there are human, user, ai, assistant"),
    "a page without a size": (lambda: EventFilter(page=2), "such as EventFilter(page=2, page_size=20)"),
    "nothing to append": (
        lambda: ada().append(),
        "SessionService.append() missing 2 required positional arguments: 'session_id' and 'messages'. Write append(s",
    ),
    "a role and a text": (lambda: ada().append("s1", "user", "hi"), "Write append(session_id, messages, branch=…"),
    "one message by its word": (lambda: ada().append("s1", message=HI), "Write messages=…"),
    "a user in a call": (lambda: ada().append("s1", HI, user_id="ada"), "Write sessions.as_user(user_id).append(…)"),
    "the session for its id": (lambda: ada().append(ada().get("s1"), HI), "give a string, such as its id, not Session"),
    "a call on the class": (service.list_sessions, "Call it on an object that you made, not on the class"),
    "LangChain's word for appending": (lambda: ada().add_message("s1", HI), "Write append(session_id, HumanMessage("),
    "ADK's word for appending": (lambda: ada().append_event("s1", HI), "Write append(session_id, HumanMessage('hi'))"),
    "ADK's word for making": (lambda: ada().create_session("s1"), "or open(session_id) to get or create it"),
    "LangChain's word for reading": (lambda: ada().get_messages("s1"), "Write messages(session_id)"),
    "a word for a list": (lambda: ada().list(), "Write list_sessions()"),
    "a word for a list, to be awaited": (lambda: asyncio.run(awaited()), "Write await alist_sessions()"),
    "a word for deleting": (lambda: ada().delete_session("s1"), "Write delete(session_id)"),
    "LangChain's word for forgetting": (lambda: ada().clear("s1"), "Write rewind(session_id, to_seq=0)"),
    "state to be set": (lambda: ada().set_state("s1", {"a": 1}), "Write append(session_id, [], state_delta={"),
    "a method mistyped": (lambda: ada().mesages("s1"), "has no attribute 'mesages'. Write messages"),
    "openai-agents' word for reading": (lambda: ada().get_items("s1"), "Write messages(session_id)"),
    "openai-agents' word for appending": (
        lambda: ada().add_items("s1", [HI]),
        "Write append(session_id, [HumanMessage(",
    ),
    "openai-agents' word for forgetting": (lambda: ada().clear_session("s1"), "Write rewind(session_id, to_seq=0)"),
    "Spring's word for a user's": (lambda: ada().find_by_user_id("ada"), "Write as_user(user_id).list_sessions()"),
    "a message to be deleted": (lambda: ada().delete_message("s1", "q1"), "Write blank(session_id, message_id)"),
    "a session to be renamed": (lambda: ada().rename("s1", "Trip"), "Write update(session_id, title='…')"),
    "a call on the class with an id": (lambda: service.messages("s1"), "Call it on an object that you made"),
    "the usual limit": (lambda: ada().messages("s1", limit=3), "Write last_n=…"),
    "LangChain's k": (lambda: ada().search("hi", k=3), "Write limit=…"),
    "a number for a filter": (lambda: ada().events("s1", 3), "such as EventFilter(roles={'human'}), not int"),
    "a dictionary for a filter": (lambda: ada().events("s1", {"roles": ["human"]}), "write EventFilter(…)"),
    "a field of the filter beside it": (lambda: ada().events("s1", last_n=3), "Write where=EventFilter(last_n=…)"),
    "a short word for a duration": (lambda: ada().create(ttl=60), "Write time_to_live=…"),
    "a title in second place": (lambda: ada().create("s2", "Lisbon"), "Write create(session_id=…, user_id=…, title=…"),
    "the place of a rewind alone": (lambda: ada().rewind("s1", 2), "Write rewind(session_id, before_invocation=…, to"),
    "where to search, in second place": (lambda: ada().search("hi", "s1"), "Write search(query, session_id=…"),
    "messages of a session's value": (lambda: ada().get("s1").messages, "Write sessions.messages(session.id)"),
    "a title to be set": (assigned, "Write sessions.update(session.id, title=…)"),
    "an event's content": (lambda: event().content, "Write event.message.text"),
    "an event's role": (lambda: event().role, "Write event.message.type"),
    "a hit's document": (lambda: hit().page_content, "Write hit.text"),
    "a page's events": (lambda: ada().events("s1").events, "Write page.items"),
    "a text in an event": (lambda: ada().append("s1", NewEvent(message=wrong("hi"))), "such as HumanMessage('hi')"),
    "an event by place": (lambda: wrong(NewEvent)(HI), "Write NewEvent(message=…"),
    # -- graphs
    "the setup of other savers": (
        lambda: saver().setup(),
        "Write sessions.create_schema(); on SQLite it is done at first use",
    ),
    "… to be awaited": (lambda: saver().asetup(), "Write await sessions.acreate_schema()"),
    "how other savers are made": (
        lambda: wrong(SessionCheckpointSaver).from_conn_string("chat.db"),
        "Write SessionCheckpointSaver(SessionService('sqlite:///chat.db'))",
    ),
    "a saver of nothing": (wrong(SessionCheckpointSaver), "Write SessionCheckpointSaver(sessions)"),
    "a thread's id for a config": (lambda: saver().get_tuple("t1"), 'config: pass {"configurable": {"session_id"'),
    "a config beside its place": (
        lambda: saver().get_tuple({"thread_id": "t1"}),
        'pass {"configurable": {"session_id"',
    ),
    "a graph without a thread": (lambda: graph({"configurable": {"user_id": "ada"}}), 'pass {"configurable": {"sess'),
    "a word for a saver's serializer": (
        lambda: SessionCheckpointSaver(SessionService("sqlite://"), serde=wrong("pickle")),
        "such as JsonPlusSerializer()",
    ),
    # -- memory
    "a session's id for a config": (lambda: advisor().wrap(MODEL).invoke("hi", "s1"), 'config: pass {"configurable"'),
    "a session in the advisor": (
        lambda: wrong(SessionMemoryAdvisor)(ada(), session_id="s1"),
        "It stands in the config of each call",
    ),
    "a word for a selector": (
        lambda: advisor(select="human"),
        "select: give a selector, such as by_type('human', 'ai')",
    ),
    "a word for what is stored": (
        lambda: advisor(store="human"),
        "store: give a selector, such as by_type('human', 'ai')",
    ),
    "a mode alone": (lambda: advisor(modes=SummaryAsFact()), "such as [SummaryAsFact()]"),
    "a mode's class": (lambda: advisor(modes=[SummaryAsFact]), "such as [SummaryAsFact()]"),
    "a word for a vector store": (lambda: LongTermMemory(wrong("chroma")), "such as InMemoryVectorStore("),
    "a word for a judge": (lambda: SearchSettings(rerank=wrong("cohere")), "or a BaseDocumentCompressor"),
    "a word for a schema": (
        lambda: Summarize(MODEL, schema=wrong("json")),
        "such as ConversationSummary, or a JSON sch",
    ),
    "an advisor for a middleware": (
        lambda: wrong(type(advisor())).wrap_tool_call,  # what create_agent looks for
        "Write create_agent(model, middleware=[SessionMemoryMiddleware(sessions)])",
    ),
    "a buffer's limit": (lambda: advisor(max_token_limit=2000), "Write compaction=…"),
    "LangChain's word for a model": (lambda: wrong(Summarize)(llm=MODEL), "Write model=…"),
    "a summariser for how": (lambda: wrong(Compaction)(None, summarizer=MODEL), "Write how=…"),
    "a class that is allowed alone": (
        lambda: SessionCheckpointSaver(ada(), allow=wrong(Compaction)),
        "such as allow=[Compaction]",
    ),
    "a window of LangChain's memory": (lambda: advisor(k=5), "Write last_n=…"),
    "a model beside the service": (lambda: wrong(SessionMemoryAdvisor)(ada(), MODEL), "Write SessionMemoryAdvisor(ses"),
    "an option of LangChain's middleware": (
        lambda: wrong(SessionMemoryMiddleware)(ada(), max_tokens_before_summary=4000),
        "SessionMemoryMiddleware() got an unexpected keyword argument 'max_tokens_before_summary'. Write compaction=…",
    ),
    "what old memories have": (lambda: advisor().save_context({}, {}), "Write memory.wrap(model)"),
    "RunnableWithMessageHistory's keys": (
        lambda: advisor().wrap(MODEL, input_messages_key="question"),
        "Write input_key=…",
    ),
    "a history of an id": (
        lambda: wrong(SessionChatMessageHistory)("s1"),
        "Write SessionChatMessageHistory(session_id, sessions)",
    ),
    "a history of a connection": (
        lambda: wrong(SessionChatMessageHistory)(session_id="s1", connection="sqlite://"),
        "Write sessions=…",
    ),
    "a text for a history": (lambda: history().add_message("hi"), "such as HumanMessage('hi')"),
    "a trigger of a text": (lambda: TokenCount(wrong("8000")), "tokens: give a number above 0"),
    "a trigger's class": (
        lambda: Compaction(wrong(TokenCount), SlidingWindow(4)),
        "the class TokenCount is no trigger",
    ),
    "when without how": (lambda: wrong(Compaction)(TokenCount(10)), "Write Compaction(when, how)"),
    "when by another word": (lambda: wrong(Compaction)(trigger=TokenCount(10)), "Write when=…"),
    "a text for prompts": (lambda: Summarize(MODEL, prompts=wrong("Be brief.")), "write SummaryPrompts(system='…')"),
    "a window by another word": (lambda: wrong(TurnWindow)(turns=3), "Write TurnWindow(max_turns=…)"),
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
    "a model's name that nobody knows": (lambda: Summarize("my-model"), "such as Summarize('openai:gpt-4o')"),
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


def test_there_are_more_than_a_hundred() -> None:
    assert len(MISTAKES) >= 110


def test_a_search_tool_takes_a_bare_text() -> None:
    view = ada()
    view.append("s1", HumanMessage("My passport is in the drawer."))
    tool = create_conversation_search_tool(view)
    assert "drawer" in tool.invoke("passport", {"configurable": {"session_id": "s1"}})


def test_what_is_not_there_is_not_there_for_programs() -> None:
    for value in (ada(), ada().get("s1"), event(), saver()):
        assert not hasattr(value, "setup")
        assert not hasattr(value, "_private")
    assert not hasattr(SessionService, "from_conn_string")
    assert importlib.util.find_spec("langchain_sessions_of_others") is None
    assert not hasattr(langchain_sessions, "zebra")
    copied = copy.copy(event())
    assert copied == pickle.loads(pickle.dumps(copied))  # noqa: S301 - bytes of our own


def test_an_error_within_a_call_stays_what_it_is() -> None:
    def clock() -> Any:
        message = "clock() missing 1 required positional argument: 'zone'"
        raise TypeError(message)

    with pytest.raises(TypeError, match=r"zone'$"):
        service(InMemoryStore(), clock=clock).open("s1")
