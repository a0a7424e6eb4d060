"""What commit a76aedc has stored, and everything that a later release has to find in it.

The tests thaw a database and read it with the current release through `everything_seen`; `make_first_release` wrote it.
Only public names are used, from the door that the release at hand has them in.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import json
import operator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import Interrupt, Send, StateSnapshot, interrupt
from pydantic import BaseModel
from sqlalchemy import MetaData, Table, create_engine, make_url, text
from typing_extensions import TypedDict

from langchain_sessions import EventKind, SearchSettings, SessionNotFoundError, SessionService

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig

HERE = Path(__file__).parent / "frozen"
BEGIN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
LATER = BEGIN + timedelta(hours=2)
"""When it is read: what was to live for an hour is gone, what was deleted may not come back yet."""
KEY = b"sixteen secrets."
QUERIES = ("passport", '"blue drawer"', "harbour", "Wörter", "train", "lantern")
OWNERS = ("ada", "bob", None)


def public(name: str) -> Any:
    """A public name, from the door that the release at hand has it in."""
    package = importlib.import_module("langchain_sessions")
    if hasattr(package, name):
        return getattr(package, name)
    home = "adapters" if name.startswith("Session") else "compaction"
    return getattr(importlib.import_module(f"langchain_sessions.{home}"), name)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors by what a text is about, so that "automobile" finds a car; the last number tells other texts apart."""
    themes = (("car", "automobile", "wheels"), ("passport", "papers"), ("boat", "vessel", "harbour"), ("train", "rail"))
    return [
        [*(float(any(word in each.lower() for word in theme)) for theme in themes), 0.1 + len(each) % 7 / 100]
        for each in texts
    ]


def sealing() -> EncryptedSerializer:
    """The codec of the sealed database."""
    return EncryptedSerializer.from_pycryptodome_aes(key=KEY)


def service_of(url: str, *, at: datetime | None = None, meaning: bool = False, sealed: bool = False) -> SessionService:
    """A service on a database, at a time that does not move."""
    return SessionService(
        url,
        codec=sealing() if sealed else None,
        create_schema=True,
        search=SearchSettings(embed=embed) if meaning else True,
        clock=lambda: LATER if at is None else at,
    )


# -- graphs ---------------------------------------------------------------------------------------------------------


class Desk(TypedDict, total=False):
    """A state with channels of many kinds."""

    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[Any], operator.add]
    facts: dict[str, Any]
    large: str
    answer: str


def config_of(thread: str, user: str | None = None) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **({} if user is None else {"user_id": user})}}


def chat_graph(saver: Any) -> Any:
    """A chat."""
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(f"It is number {len(state['messages'])}.")]})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def desk_graph(saver: Any) -> Any:
    """A graph whose subgraph asks a question, beside a node that fails and one that does not."""
    inner: Any = StateGraph(Desk)
    inner.add_node("look", lambda _: {"messages": [AIMessage("I am looking.", id="look")], "notes": [("a", 1)]})
    inner.add_node("ask", lambda _: {"answer": interrupt({"question": "Which drawer?"})})
    inner.add_edge(START, "look")
    inner.add_edge("look", "ask")

    def gather(state: Desk) -> dict[str, Any]:
        facts = {
            "when": BEGIN,
            "day": date(2026, 1, 2),
            "price": Decimal("9.40"),
            "id": UUID(int=7),
            "tags": {"b", "a"},
            "raw": b"\x00\xff",
            "found": [Document("A passport.", metadata={"page": 1})],
            "said": {"earlier": list(state.get("messages", []))},
        }
        return {"facts": facts, "large": "lorem ipsum " * 400, "notes": [None, 1.5, "ä\ud83d"]}

    def sometimes(state: Desk) -> dict[str, Any]:
        if not state.get("answer"):
            raise ValueError("not yet")
        return {"notes": ["at last"]}

    builder: Any = StateGraph(Desk)
    builder.add_node("gather", gather)
    builder.add_node("clerk", inner.compile())
    builder.add_node("sometimes", sometimes)
    builder.add_node("steady", lambda _: {"notes": ["steady"], "messages": [AIMessage("Steady.", id="steady")]})
    builder.add_edge(START, "gather")
    builder.add_edge("gather", "clerk")
    builder.add_conditional_edges("clerk", lambda state: [Send("sometimes", {**state, "answer": ""}), "steady"])
    return builder.compile(checkpointer=saver)


GRAPHS = {
    ("chat", "ada"): chat_graph,
    ("desk", "ada"): desk_graph,
    ("failed desk", "bob"): desk_graph,
    ("rewound", "ada"): chat_graph,
    ("long", None): chat_graph,
}


# -- reading --------------------------------------------------------------------------------------------------------


def seen(sessions: SessionService) -> dict[str, Any]:
    """What is to be found in the logs, as JSON."""
    found: dict[str, Any] = {}
    for user in OWNERS:
        view = sessions.as_user(user)
        for session in sorted(view.list_sessions().items, key=lambda session: session.id):
            found[f"{user}/{session.id}"] = _session_seen(view, session.id)
    return _as_json(found)


def _session_seen(view: SessionService, session_id: str) -> dict[str, Any]:
    session = view.get(session_id)
    events = view.events(session_id).items
    branches = sorted({event.branch for event in events if event.branch is not None})
    return {
        "user": session.user_id,
        "title": session.title,
        "metadata": dict(session.metadata),
        "created": session.created_at.isoformat(),
        "ended": session.ended_at and session.ended_at.isoformat(),
        "version": session.version,
        "state": view.state(session_id),
        "contexts": {str(branch): _context_seen(view, session_id, branch) for branch in (None, *branches)},
        "events": [_event_seen(event) for event in events],
        "found": {query: _hits(view, session_id, query) for query in QUERIES},
        "verify": view.verify(session_id),
    }


def _hits(view: SessionService, session_id: str, query: str) -> list[str]:
    """What a search finds by its words; how that is ranked, and what is found beside it, may become better."""
    words = query.strip('"').casefold()
    hits = view.search(query, session_id=session_id, limit=100).items
    return sorted(hit.event.id for hit in hits if words in str(hit.event.message and hit.event.message.text).casefold())


def _context_seen(view: SessionService, session_id: str, branch: str | None) -> dict[str, Any]:
    context = view.context(session_id, branch=branch)
    counted = view.count(session_id, branch=branch)
    return {
        "seqs": [event.seq for event in context.events],
        "messages": [plain(message) for message in context.messages],
        "tokens": context.tokens,
        "live": [counted.events, counted.turns, counted.tokens],
    }


def _event_seen(event: Any) -> dict[str, Any]:
    same = (
        *("seq", "position", "id", "author", "branch", "invocation_id", "error_code", "error_message", "is_synthetic"),
        *("is_interrupted", "tokens", "revision", "archived_by", "superseded_by", "is_in_thread"),
    )
    return {
        **{name: getattr(event, name) for name in same},
        "kind": event.kind.value,
        "standing": event.standing.value,
        "at": event.timestamp.isoformat(),
        "delta": dict(event.state_delta or {}),
        "metadata": dict(event.metadata or {}),
        # What a rewind went back over was not told then.
        "covers": [list(run) for run in event.covers if event.kind is not EventKind.REWIND],
        "running": list(event.long_running_tool_ids),
        "grounding": event.grounding and dict(event.grounding),
        "message": None if event.message is None else plain(event.message),
    }


def meant(sessions: SessionService) -> list[str]:
    """What is found by its meaning alone: no word of the query was said."""
    sessions.as_user("ada").embed_pending()  # what is embedded says who speaks since then, so vectors are made anew
    hits = sessions.as_user("ada").search("automobile", session_id="indexed", limit=100).items
    return sorted(str(hit.event.message and hit.event.message.id) for hit in hits if "car" in str(hit.event.message))


def gone(sessions: SessionService) -> list[str]:
    """Of sessions that expired or were deleted, what reading and a late write come to."""
    ada = sessions.as_user("ada")
    tries: dict[str, Callable[[], object]] = {
        "expired": lambda: ada.get("brief"),
        "deleted": lambda: ada.get("gone"),
        "late": lambda: ada.open("gone", anew=False),
        "foreign": lambda: ada.get("notes"),
    }
    refused = []
    for name, attempt in tries.items():
        with suppress(SessionNotFoundError):
            attempt()
            continue
        refused.append(name)
    return refused


def threads_seen(sessions: SessionService, graphs: Mapping[Any, Any] = GRAPHS) -> dict[str, Any]:
    """What is to be found in the threads, cold: each tuple of each namespace, and each state of the graph."""
    found: dict[str, Any] = {}
    for (thread, user), build in graphs.items():
        view, config = sessions.as_user(user), config_of(thread)
        saver, graph = public("SessionCheckpointSaver")(view), build(public("SessionCheckpointSaver")(view))
        tuples = list(public("SessionCheckpointSaver")(view).list(config))
        found[thread] = {
            "tuples": [_tuple_seen(each) for each in tuples],
            # Each by itself, by a saver that listing them has taught nothing.
            "alone": [_digest(_tuple_seen(saver.get_tuple(each.config))) for each in tuples[::3]],
            "state": _state_seen(graph.get_state(config, subgraphs=True)),
            "history": [_state_seen(state) for state in graph.get_state_history(config)],
        }
    return _as_json(found)


def _place(config: Any) -> Any:
    """Which checkpoint a config names."""
    if config is None:
        return None
    return {name: value for name, value in sorted((config.get("configurable") or {}).items()) if name != "user_id"}


def _tuple_seen(found: Any) -> Any:
    return {
        "config": _place(found.config),
        "checkpoint": plain(found.checkpoint),
        "metadata": plain(found.metadata),
        "parent": _place(found.parent_config),
        "writes": [plain(list(write)) for write in found.pending_writes or ()],
    }


def _state_seen(state: StateSnapshot) -> Any:
    """What was stored of a state; the ids of tasks are LangGraph's to compute."""
    return {
        "values": plain(state.values),
        "next": sorted(state.next),
        "config": _place(state.config),
        "metadata": plain(state.metadata),
        "created": state.created_at,
        "parent": _place(state.parent_config),
        "interrupts": [plain(each.value) for each in state.interrupts],
        "tasks": [
            [task.name, repr(task.error), _state_seen(task.state) if isinstance(task.state, StateSnapshot) else None]
            for task in sorted(state.tasks, key=lambda task: task.name)
        ],
    }


def plain(value: Any) -> Any:
    """A value as JSON that keeps its kind; long texts by their digest, messages by id and digest."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) <= 200 else f"{len(value)} characters {_digest(value)}"
    if isinstance(value, BaseMessage):
        said = {name: plain(each) for name, each in vars(value).items() if each or each == 0}
        return f"<{value.type} {value.id} {_digest(said)}>"
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return {type(value).__name__: _parts(value)}


def _parts(value: Any) -> Any:
    """What a value that JSON has no form for is made of."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, Send):
        return [value.node, plain(value.arg)]
    if isinstance(value, Interrupt):
        return [plain(value.value), value.id]
    return plain(vars(value)) if isinstance(value, BaseModel) else repr(value)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _as_json(value: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(value))
    return read


# -- thawing ----------------------------------------------------------------------------------------------------------


def everything_seen(url: str) -> dict[str, Any]:
    """What a release finds."""
    with service_of(url) as sessions:
        found = {"logs": seen(sessions), "gone": gone(sessions), "threads": threads_seen(sessions)}
    with service_of(url, meaning=True) as sessions:
        return {**found, "meant": meant(sessions)}


def sealed_seen(url: str) -> dict[str, Any]:
    """What a release with the key finds in the sealed database."""
    with service_of(url, sealed=True) as sessions:
        return {"logs": seen(sessions), "threads": threads_seen(sessions, {("secret chat", "ada"): chat_graph})}


def frozen(name: str, of: str = "first_release") -> dict[str, Any]:
    """What is to be found in a database; of a server's also its rows and the tables that they were in."""
    read: dict[str, Any] = json.loads(gzip.decompress((HERE / f"{of}_{name}.json.gz").read_bytes()))
    return read


def thaw(name: str, url: str, of: str = "first_release") -> None:
    """A database as it was written: SQLite's file, or a server's rows in its tables of then."""
    if name in {"postgresql", "mariadb"}:
        _thaw_rows(frozen(name, of), url)
        return
    packed = (HERE / f"{of}_{name}.db.gz").read_bytes()
    Path(str(make_url(url).database)).write_bytes(gzip.decompress(packed))


def _thaw_rows(kept: dict[str, Any], url: str) -> None:
    engine, metadata = create_engine(url), MetaData()
    with engine.begin() as connection:
        for statement in kept["ddl"].split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
        metadata.reflect(connection)
        for table in metadata.sorted_tables:
            connection.execute(table.delete())
            if rows := kept["rows"][table.name]:
                connection.execute(table.insert(), [_row(table, row) for row in rows])
        if engine.dialect.name == "postgresql":
            # What was inserted with its key has not moved the counter that gives out keys.
            counter = "SELECT setval(pg_get_serial_sequence('sessions', 'skey'), (SELECT max(skey) FROM sessions))"
            connection.execute(text(counter))
    engine.dispose()


def _row(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    binary = {column.name for column in table.columns if column.type.python_type is bytes}
    return {
        name: base64.b64decode(value) if name in binary and value is not None else value for name, value in row.items()
    }
