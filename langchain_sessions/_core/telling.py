"""What people are told who typed what is not there: the words of other libraries, and what stands for them here."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SERVICE = {
    "add": "append(session_id, HumanMessage('hi'))",
    "add_message": "append(session_id, HumanMessage('hi'))",
    "add_messages": "append(session_id, [HumanMessage('hi'), AIMessage('Hello!')])",
    "add_user_message": "append(session_id, HumanMessage('hi'))",
    "add_ai_message": "append(session_id, AIMessage('Hello!'))",
    "add_items": "append(session_id, [HumanMessage('hi'), AIMessage('Hello!')])",
    "append_event": "append(session_id, HumanMessage('hi'))",
    "append_message": "append(session_id, HumanMessage('hi'))",
    "save": "append(session_id, HumanMessage('hi')); what is appended is stored",
    "commit": "append(session_id, HumanMessage('hi')); what is appended is stored",
    "get_messages": "messages(session_id)",
    "get_items": "messages(session_id)",
    "get_history": "messages(session_id)",
    "history": "messages(session_id)",
    "load": "messages(session_id)",
    "get_events": "events(session_id)",
    "create_session": "create(session_id), or open(session_id) to get or create it",
    "new_session": "create(session_id), or open(session_id) to get or create it",
    "get_or_create": "open(session_id)",
    "get_session": "get(session_id)",
    "exists": "open(session_id) to get or create it, or get(session_id), which raises where there is none",
    "find_by_id": "get(session_id)",
    "find_by_user_id": "as_user(user_id).list_sessions()",
    "update_session": "update(session_id, title='…')",
    "rename": "update(session_id, title='…')",
    "title": "get(session_id).title",
    "set_title": "update(session_id, title='…')",
    "update_message": "edit(session_id, HumanMessage('hi', id='q1'))",
    "delete_message": "blank(session_id, message_id) to overwrite what it says",
    "remove_message": "blank(session_id, message_id) to overwrite what it says",
    "pop_item": "rewind(session_id, to_seq=…) to hide what was said after a position",
    "undo": "undo_rewind(session_id), or rewind(session_id, to_seq=…)",
    "copy": "fork(session_id)",
    "delete_by_id": "delete(session_id)",
    "delete_session": "delete(session_id)",
    "remove": "delete(session_id)",
    "clear": "rewind(session_id, to_seq=0) to hide what was said, or delete(session_id)",
    "clear_session": "rewind(session_id, to_seq=0) to hide what was said, or delete(session_id)",
    "list": "list_sessions()",
    "sessions": "list_sessions()",
    "threads": "list_sessions()",
    "find": "search('passport')",
    "count_tokens": "count(session_id).tokens",
    "export": "export_sessions(sessions, session_id)",
    "get_state": "state(session_id)",
    "set_state": "append(session_id, [], state_delta={'mood': 'glad'})",
    "update_state": "append(session_id, [], state_delta={'mood': 'glad'})",
    "summarize": "compact(session_id, Compaction(None, Summarize(model)))",
    "setup": "create_schema(); on SQLite it is done at first use",
    "create_tables": "create_schema(); on SQLite it is done at first use",
    "migrate": "create_schema(); on SQLite it is done at first use",
    "for_user": "as_user(user_id)",
    "with_user": "as_user(user_id)",
    "user": "as_user(user_id)",
    "wrap": "SessionMemoryAdvisor(sessions).wrap(model)",
    "invoke": "SessionMemoryAdvisor(sessions).wrap(model).invoke('hi', config)",
    "put": "SessionCheckpointSaver(sessions) for a graph's checkpointer",
    "get_tuple": "SessionCheckpointSaver(sessions) for a graph's checkpointer",
    "get_next_version": "SessionCheckpointSaver(sessions) for a graph's checkpointer",
}
_MEMORY = {
    "save_context": "memory.wrap(model), which stores what is said, or sessions.append(session_id, messages)",
    "load_memory_variables": "memory.wrap(model), which loads what was said, or sessions.messages(session_id)",
    "chat_memory": "sessions.messages(session_id)",
    "buffer": "sessions.messages(session_id)",
    "messages": "sessions.messages(session_id)",
    "clear": "sessions.rewind(session_id, to_seq=0), or sessions.delete(session_id)",
    "add_message": "memory.wrap(model), which stores what is said, or sessions.append(session_id, messages)",
}
_SESSION = {
    "messages": "sessions.messages(session.id)",
    "history": "sessions.messages(session.id)",
    "events": "sessions.events(session.id)",
    "append": "sessions.append(session.id, HumanMessage('hi'))",
    "add_message": "sessions.append(session.id, HumanMessage('hi'))",
    "state": "sessions.state(session.id)",
    "delete": "sessions.delete(session.id)",
    "search": "sessions.search('passport', session_id=session.id)",
    "user": "session.user_id",
    "owner": "session.user_id",
    "app_name": "session.app",
    "name": "session.title",
    "session_id": "session.id",
    "ttl": "session.expires_at",
}
_EVENT = {
    "content": "event.message.text",
    "text": "event.message.text",
    "role": "event.message.type",
    "type": "event.message.type, or event.kind",
    "status": "event.standing",
    "created_at": "event.timestamp",
    "time": "event.timestamp",
    "actions": "event.state_delta",
}
_HIT = {
    "message": "hit.event.message",
    "content": "hit.text",
    "page_content": "hit.text",
    "session_id": "hit.event.session_id",
    "metadata": "hit.event.metadata",
    "timestamp": "hit.event.timestamp",
}
_PAGE = {
    "events": "page.items",
    "messages": "[event.message for event in page]",
    "sessions": "page.items",
    "results": "page.items",
    "hits": "page.items",
    "data": "page.items",
    "cursor": "page.next_cursor",
    "next": "page.next_cursor",
    "count": "len(page), or page.total",
}
_SAVER = {
    "setup": "sessions.create_schema(); on SQLite it is done at first use",
    "asetup": "await sessions.acreate_schema(); on SQLite it is done at first use",
    "conn": "sessions = SessionService(engine), which takes an engine of yours",
    "delete": "delete_thread(thread_id)",
    "adelete": "await adelete_thread(thread_id)",
    "close": "sessions.close()",
}
_HISTORY = {
    "append": "add_message(HumanMessage('hi'))",
    "add": "add_message(HumanMessage('hi'))",
    "save": "add_message(HumanMessage('hi')); what is added is stored",
    "delete": "clear(), or SessionChatMessageHistory(…, clear_mode='delete')",
    "buffer": "history.messages",
}
_RUN = {
    "messages": "run.context().messages",
    "add_message": "run.append(HumanMessage('hi'))",
    "commit": "with sessions.invocation(session_id) as run: it is done when the block ends",
}
_SET = {
    "Session": {
        "title": "sessions.update(session.id, title=…)",
        "metadata": "sessions.update(session.id, metadata=…)",
        "expires_at": "sessions.update(session.id, time_to_live=…)",
        "ended_at": "sessions.end(session.id)",
    },
    "SessionEvent": {"message": "sessions.edit(session_id, message), with the id of the one to replace"},
}
INSTEAD = {
    "SessionService": _SERVICE,
    "SessionMemory": _MEMORY,
    "Session": _SESSION,
    "SessionEvent": _EVENT,
    "SearchHit": _HIT,
    "Page": _PAGE,
    "SessionCheckpointSaver": _SAVER,
    "SessionChatMessageHistory": _HISTORY,
    "Invocation": _RUN,
}
"""What to write for an attribute that a class does not have, by the class."""

_ADVISOR, _HISTORY_NAME, _SAVER_NAME = "SessionMemoryAdvisor", "SessionChatMessageHistory", "SessionCheckpointSaver"
_NAMES = {
    "Advisor": _ADVISOR,
    "BaseChatMemory": _ADVISOR,
    "CassandraStore": "SessionService",
    "ChatHistory": _HISTORY_NAME,
    "ChatMemory": _ADVISOR,
    "ChatMemoryRepository": "SessionService",
    "Checkpointer": _SAVER_NAME,
    "ConversationBufferMemory": _ADVISOR,
    "ConversationBufferWindowMemory": _ADVISOR,
    "ConversationSummaryBufferMemory": _ADVISOR,
    "ConversationSummaryMemory": _ADVISOR,
    "Conversation": "Session",
    "Event": "SessionEvent",
    "EventsCompactionConfig": "Compaction",
    "FileStore": "SessionService",
    "History": _HISTORY_NAME,
    "InMemorySessionRepository": "InMemoryStore",
    "JdbcChatMemoryRepository": "SessionService",
    "Memory": _ADVISOR,
    "MemoryStore": "InMemoryStore",
    "MessageChatMemoryAdvisor": _ADVISOR,
    "MessageWindowChatMemory": _ADVISOR,
    "Middleware": "SessionMemoryMiddleware",
    "NotFoundError": "SessionNotFoundError",
    "PostgresStore": "SqlStore",
    "PromptChatMemoryAdvisor": "SystemPromptMemory",
    "RecursiveSummarizationCompactionStrategy": "Summarize",
    "RunnableWithMessageHistory": _ADVISOR,
    "SearchTool": "create_conversation_search_tool",
    "Service": "SessionService",
    "SessionManager": "SessionService",
    "SlidingWindowCompactionStrategy": "SlidingWindow",
    "SqliteStore": "SqlStore",
    "Store": "SessionStore",
    "SummarizationMiddleware": "SessionMemoryMiddleware",
    "SummarizationNode": "Summarize",
    "SummaryMemory": "SummaryAsFact",
    "TokenCountCompactionStrategy": "TokenWindow",
    "TokenCountTrigger": "TokenCount",
    "Trigger": "CompactionTrigger",
    "TurnCountTrigger": "TurnCount",
    "TurnWindowCompactionStrategy": "TurnWindow",
    "VectorStoreChatMemoryAdvisor": "LongTermMemory",
    "VectorStoreRetrieverMemory": "LongTermMemory",
    "conversation_search": "create_conversation_search_tool",
    "create_search_tool": "create_conversation_search_tool",
    "search_tool": "create_conversation_search_tool",
    "summarize": "Summarize",
    "summarization": "Summarize",
    "wrap": _ADVISOR,
}
"""Names that other libraries have, or that come to mind, and the one that takes their place here."""

_ENDINGS = {
    "ChatMessageHistory": _HISTORY_NAME,
    "Saver": _SAVER_NAME,
    "Session": "SessionService",
    "SessionRepository": "SessionService",
    "SessionService": "SessionService",
}
"""The same for families of names, such as `AsyncPostgresSaver` and `SQLiteSession`, by how they end."""

_MODULES = {
    "adapters": f"{_ADVISOR}, SessionMemoryMiddleware, {_SAVER_NAME}, {_HISTORY_NAME}",
    "advisor": _ADVISOR,
    "advisors": _ADVISOR,
    "agents": "SessionMemoryMiddleware",
    "aio": "SessionService",
    "chat_history": _HISTORY_NAME,
    "chat_message_histories": _HISTORY_NAME,
    "checkpoint": _SAVER_NAME,
    "checkpointers": _SAVER_NAME,
    "codec": "SessionService",
    "compaction": "Compaction, TokenCount, TurnWindow, Summarize",
    "context": "Context",
    "exceptions": "SessionsError",
    "langgraph": _SAVER_NAME,
    "mysql": "SessionService",
    "postgres": "SessionService",
    "recall": "SearchHit, create_conversation_search_tool",
    "sessions": "SessionService",
    "sql": "SqlStore",
    "sqlite": "SessionService",
    "summary": "Summarize",
    "tokens": "best_counter, TokenCounter",
    "triggers": "TokenCount, TurnCount",
    "windows": "SlidingWindow, TurnWindow",
}
"""Modules that other libraries have, or that come to mind, and what they would hold."""

_MESSAGES, _GRAPHS = "langchain_core.messages", "langgraph.graph"
_ELSEWHERE = {
    "AIMessage": _MESSAGES,
    "BaseChatMessageHistory": "langchain_core.chat_history",
    "BaseCheckpointSaver": "langgraph.checkpoint.base",
    "BaseMessage": _MESSAGES,
    "BaseStore": "langgraph.store.base",
    "ChatOpenAI": "langchain_openai",
    "ChatPromptTemplate": "langchain_core.prompts",
    "END": _GRAPHS,
    "EncryptedSerializer": "langgraph.checkpoint.serde.encrypted",
    "FakeListChatModel": "langchain_core.language_models",
    "HumanMessage": _MESSAGES,
    "JsonPlusSerializer": "langgraph.checkpoint.serde.jsonplus",
    "MessagesPlaceholder": "langchain_core.prompts",
    "MessagesState": _GRAPHS,
    "PIIMiddleware": "langchain.agents.middleware",
    "RunnableConfig": "langchain_core.runnables",
    "START": _GRAPHS,
    "StateGraph": _GRAPHS,
    "SystemMessage": _MESSAGES,
    "ToolMessage": _MESSAGES,
    "add_messages": f"{_GRAPHS}.message",
    "create_agent": "langchain.agents",
    "trim_messages": _MESSAGES,
}
"""Names that go with ours and are LangChain's or LangGraph's, and where they are imported from."""

_RENAMED_ELSEWHERE = {"create_react_agent": "create_agent", "Message": "HumanMessage"}

_KEYWORDS = {
    "app_name": ("app",),
    "connection": ("sessions", "database"),
    "conn_string": ("sessions", "database"),
    "connection_string": ("sessions", "database"),
    "db": ("sessions", "database"),
    "db_url": ("sessions", "database"),
    "engine": ("sessions", "database"),
    "filter": ("where",),
    "filters": ("where",),
    "id": ("session_id",),
    "k": ("last_n", "limit", "page_size"),
    "keep": ("keep_events",),
    "limit": ("last_n", "page_size"),
    "max_messages": ("max_events", "last_n"),
    "max_tokens_before_summary": ("compaction",),
    "message": ("messages",),
    "llm": ("model",),
    "max_token_limit": ("compaction",),
    "messages_to_keep": ("keep_events",),
    "model": ("model", "compaction"),
    "n": ("last_n", "limit"),
    "prompt": ("prompts",),
    "input_messages_key": ("input_key",),
    "history_messages_key": ("history_key",),
    "store": ("database", "sessions"),
    "strategy": ("how", "window"),
    "summarizer": ("how",),
    "text": ("query",),
    "thread_id": ("session_id",),
    "token_counter": ("tokens",),
    "top_k": ("limit",),
    "trigger": ("when", "compaction"),
    "ttl": ("time_to_live", "adapter_time_to_live"),
    "url": ("database", "sessions"),
    "user": ("user_id",),
    "window": ("last_n", "context_window"),
}
"""Words of other libraries for an argument, and what it may be called here."""

_FROM_CONFIG = {"session_id", "thread_id", "user", "user_id", "username"}
_CONFIG = 'in the config of each call: {"configurable": {"session_id": ..., "user_id": ...}}'


def import_told(module: str, name: str, public: Sequence[str]) -> str | None:
    """What is said of a name that a module does not have: `public` is what the package has."""
    package, problem = module.partition(".")[0], f"There is no {name!r} in {module}."
    theirs = _RENAMED_ELSEWHERE.get(name, name)
    if place := _ELSEWHERE.get(theirs):
        whose = "LangGraph" if place.startswith("langgraph") else "LangChain"
        return f"{problem} It is {whose}'s. Write: from {place} import {theirs}"
    known = [name] if name in public else _instead_of(name) or _like(name, public)
    return f"{problem} Write: from {package} import {known[0]}" if known else None


def _instead_of(name: str) -> list[str]:
    """What takes the place of a name of another library; nothing where none is known."""
    if name in _NAMES:
        return [_NAMES[name]]
    return [here for ending, here in _ENDINGS.items() if name.endswith(ending)][:1]


def module_told(module: str, public: Sequence[str]) -> str:
    """What is said of a module that the package does not have."""
    package, _, path = module.partition(".")
    last = path.rpartition(".")[2]
    known = _MODULES.get(path.partition(".")[0]) or _MODULES.get(last) or ", ".join(_like(last, public))
    top = f"from {package} import {known or 'SessionService'}"
    return f"There is no module {module}: what is public is imported from the top. Write: {top}"


def _like(name: str, names: Iterable[str]) -> list[str]:
    """The one of `names` that is most like a name, whatever its case; nothing where none is."""
    plain = {each.lower().replace("_", ""): each for each in names}
    return [plain[each] for each in get_close_matches(name.lower().replace("_", ""), plain, 1, 0.75)]


def attribute_told(cls: type, name: str) -> str:
    """What is said of an attribute that a value of `cls` does not have."""
    problem = f"{cls.__name__!r} object has no attribute {name!r}"
    plain = name.removeprefix("a")
    for base in cls.__mro__:
        known = INSTEAD.get(base.__name__, {})
        if name in known:
            return f"{problem}. Write {known[name]}"
        if plain in known:
            return f"{problem}. Write {_awaited(known[plain])}"
    own = {each for each in dir(cls) if not each.startswith("_")}
    if not name.startswith("a"):
        own -= {f"a{each}" for each in own}  # who mistypes `append` did not look for `aappend`
    likely = get_close_matches(name, sorted(own), 1, 0.75)
    return f"{problem}. Write {likely[0]}" if likely else problem


def assignment_told(cls: type, name: str) -> str:
    """What is said to who sets an attribute of a value."""
    instead = _SET.get(cls.__name__, {}).get(name, f"dataclasses.replace(value, {name}=…), which makes another")
    return f"cannot assign to field {name!r}: values do not change. Write {instead}"


def _awaited(call: str) -> str:
    return f"await a{call}" if call[:1].islower() else call


def call_told(error: TypeError, function: Callable[..., Any], args: Sequence[object]) -> str:
    """What is said of a call whose arguments do not fit."""
    parameters = list(signature(function).parameters.values())
    is_method = bool(parameters) and parameters[0].name == "self"
    of = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    is_bound = is_method and bool(args) and any(each.__name__ == of for each in type(args[0]).__mro__)
    owner = type(args[0]).__name__ if is_bound else function.__qualname__.partition(".")[0]
    name = owner if function.__name__ == "__init__" else function.__name__
    shown = f"{owner}.{name}" if is_method and name != owner else name
    problem = str(error).replace(f"{function.__qualname__}()", f"{shown}()")
    if is_method and not is_bound:
        return f"{problem}. Call it on an object that you made, not on the class"
    taken = parameters[1:] if is_method else parameters
    unknown = problem.partition("unexpected keyword argument '")[2].partition("'")[0]
    if unknown:
        problem = problem.split(". Did you mean")[0]  # Python's own guess, since 3.13, knows no other library's words
        return f"{problem}. {_instead(unknown, owner, name, taken)}"
    return f"{problem}. Write {_form(name, taken, is_whole='positional argument' in problem and 'given' in problem)}"


def _instead(unknown: str, owner: str, name: str, parameters: Sequence[Parameter]) -> str:
    """What stands for a keyword that a call does not take."""
    names = [each.name for each in parameters]
    if "where" in names and unknown in _criteria():
        return f"Write where=EventFilter({unknown}=…)"
    known = [each for each in _KEYWORDS.get(unknown, ()) if each in names]
    if not known and unknown in _FROM_CONFIG:
        is_call = owner == "SessionService" and name != owner
        return f"Write sessions.as_user(user_id).{name}(…)" if is_call else f"It stands {_CONFIG}"
    likely = known or get_close_matches(unknown, names, 1, 0.75)
    return f"Write {likely[0]}=…" if likely else f"Write {_form(name, parameters)}"


def _criteria() -> set[str]:
    """What a filter is made of."""
    from langchain_sessions.filters import EventFilter  # noqa: PLC0415 - filters stand on this part

    return {each.name for each in fields(EventFilter)}


def _form(name: str, parameters: Iterable[Parameter], *, is_whole: bool = True) -> str:
    """How a call is written: what is needed by its name, what may be left out with an ellipsis."""
    parts: list[str] = []
    for each in parameters:
        is_needed = each.default is Parameter.empty
        if each.kind is Parameter.VAR_POSITIONAL:
            parts.append("…")
        elif each.kind is Parameter.VAR_KEYWORD or each.name.startswith("_") or not (is_whole or is_needed):
            continue
        else:
            parts.append(each.name if is_needed else f"{each.name}=…")
    return f"{name}({', '.join(parts)})"
