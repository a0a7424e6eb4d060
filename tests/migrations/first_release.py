"""A database with everything that commit a76aedc could store, and everything that a later one has to find in it.

It was written once, by that commit, and is never written again: it is what somebody's disk holds. It was made by
running this file by its path with a checkout of that commit before all others, once for SQLite and once per server:

    PYTHONPATH=../a76aedc python tests/migrations/first_release.py
    PYTHONPATH=../a76aedc python tests/migrations/first_release.py postgresql+psycopg://… (an empty database)

The tests read it with the current release through `everything_seen`. Only public names are used, from the door that the
release at hand has them in.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import json
import operator
import sys
import tempfile
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.types import Command, Interrupt, Send, StateSnapshot, interrupt
from pydantic import BaseModel
from sqlalchemy import Engine, MetaData, Table, create_engine, make_url, text
from typing_extensions import TypedDict

from langchain_sessions import NewEvent, SearchSettings, SessionNotFoundError, SessionService, schema_sql

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
            "said": {"earlier": list(state["messages"])},
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


# -- writing --------------------------------------------------------------------------------------------------------


def write(url: str) -> None:
    """Everything, a little of each."""
    with service_of(url, at=BEGIN, meaning=True) as sessions:
        ada, bob, nobody = sessions.as_user("ada"), sessions.as_user("bob"), sessions.as_user(None)
        _write_talk(ada)
        _write_runs(ada)
        _write_summaries(ada)
        _write_indexed(ada)
        bob.create("notes", title="Bob's", time_to_live=None, state={"user:name": "Bob", "app:motto": "per aspera"})
        bob.append("notes", [HumanMessage("The captain's lantern."), AIMessage("In the harbour.")])
        bob.fork("notes", at_seq=1, new_id="notes again", metadata={"why": "a copy"})
        bob.update("notes again", time_to_live=None)
        bob.end("notes")
        nobody.open("hall")
        blocks = AIMessage([{"type": "text", "text": "y"}], id="b")
        nobody.append("hall", [HumanMessage("x" * 5_000, id="long"), blocks])
        ada.create("brief", time_to_live=timedelta(hours=1))
        ada.append("brief", HumanMessage("soon gone"))
        ada.open("gone")
        ada.append("gone", HumanMessage("deleted"))
        ada.delete("gone")
    with service_of(url, at=BEGIN) as sessions:
        saver = public("SessionCheckpointSaver")(sessions)
        for (thread, user), build in GRAPHS.items():
            _WRITERS[thread](build(saver), config_of(thread, user), sessions.as_user(user))
        ada = sessions.as_user("ada")
        tail = HumanMessage("The tail: a passport, not indexed.", id="tail")
        ada.append("indexed", [tail, AIMessage("And a train.")])


def _write_talk(ada: SessionService) -> None:
    """Exact values, an edit, a compaction without a summary, a branch, a rewind, and one that was undone."""
    ada.create("talk", title="Wörter 🎈", metadata={"tag": [1, None]}, state={"k": 1, "user:u": 2}, time_to_live=None)
    call = AIMessage("", id="m2", tool_calls=[{"name": "look", "args": {"q": "\u0000\ud83d"}, "id": "c1"}])
    pending = AIMessage("", id="p1", tool_calls=[{"name": "wait", "args": {}, "id": "c2"}])
    events = [
        NewEvent(message=HumanMessage("hello", id="m1"), author="ada", grounding={"source": ["a"]}),
        NewEvent(message=call, invocation_id="i1"),
        NewEvent(message=ToolMessage("found", tool_call_id="c1", id="m3", artifact={"rows": [1.5]}), id="e3"),
        NewEvent(message=AIMessage("Wörter, words."), error_code="E1", error_message="half", interrupted=True),
    ]
    ada.append("talk", events, state_delta={"k": 2, "app:a": 3}, metadata={"from": "web"})
    ada.append("talk", ToolMessage("odd", tool_call_id="none", id="odd", artifact=(1, b"\x00", Document("d"))))
    ada.append("talk", [HumanMessage(f"q{n}", id=f"q{n}") for n in range(6)])
    ada.edit("talk", HumanMessage("hello again", id="m1"))
    ada.edit("talk", HumanMessage("and again", id="m1"), author="ada", metadata={"third": True})
    ada.compact("talk", public("Compaction")(None, public("SlidingWindow")(4)))
    ada.append("talk", HumanMessage("regretted", id="r1"), branch="writer.a")
    ada.append("talk", HumanMessage("on a branch", id="w1"), branch="writer.b", state_delta={"k": 9})
    ada.rewind("talk", to_seq=ada.get("talk").version - 1)
    ada.rewind("talk", to_seq=3)
    ada.undo_rewind("talk")
    ada.append("talk", NewEvent(message=pending, long_running_tool_ids=("c2",)), state_delta={"k": None, "z": {"y": 1}})


def _write_runs(ada: SessionService) -> None:
    """Runs that were done, failed, interrupted, and one that is still open."""
    ada.create("runs", time_to_live=None)
    with ada.invocation("runs", "done", author="agent") as run:
        run.append(HumanMessage("Where is the passport?"))
        run.state["found"] = True
        run.append(AIMessage("In the blue drawer."))
    for name, error in (("failed", ValueError("no")), ("interrupted", KeyboardInterrupt())):
        with suppress(ValueError, KeyboardInterrupt), ada.invocation("runs", name, branch="helper") as run:
            run.append(HumanMessage(f"This one is {name}."))
            raise error
    ada.invocation("runs", "open").append(HumanMessage("Not done."))
    with ada.invocation("runs", "regretted") as run:
        run.append([HumanMessage("Forget this."), AIMessage("Forgotten.")])
        run.state["found"] = False
    ada.rewind("runs", before_invocation="regretted")


def _write_summaries(ada: SessionService) -> None:
    """Summaries: one of a branch, and one that takes in an earlier one."""
    ada.create("trains", time_to_live=None)
    compaction, summarize = public("Compaction"), public("Summarize")
    for part in range(2):
        for n in range(6):
            ada.append("trains", [HumanMessage(f"And train {part}-{n}?"), AIMessage(f"It leaves at {n}:40.")])
        model = FakeListChatModel(responses=[f"Summary {part}: trains to Turin."])
        ada.compact("trains", compaction(None, summarize(model, keep_events=2)))
    for n in range(4):
        ada.append("trains", [HumanMessage(f"Aside {n}"), AIMessage(f"Noted {n}")], branch="aside")
    model = FakeListChatModel(responses=["Asides were noted."])
    ada.compact("trains", compaction(None, summarize(model, keep_events=2)), branch="aside")


def _write_indexed(ada: SessionService) -> None:
    """A log with an index and vectors."""
    ada.create("indexed", time_to_live=None)
    said = ["My passport is in the blue drawer", "The captain left the harbour", "The car stands outside", "A lantern"]
    for n in range(30):
        ada.append("indexed", [HumanMessage(f"{said[n % 4]}, {n}.", id=f"h{n}"), AIMessage(f"I see {n}.", id=f"a{n}")])
    ada.reindex()
    ada.embed_pending()


def _write_chat(graph: Any, config: RunnableConfig, ada: SessionService) -> None:
    """A chat with a changed and a removed message, and another way taken from an earlier checkpoint."""
    for n in range(5):
        graph.invoke({"messages": [HumanMessage(f"Question {n} about the harbour", id=f"q{n}")]}, config)
    graph.update_state(config, {"messages": [HumanMessage("Question 1, changed", id="q1"), RemoveMessage("q2")]})
    graph.invoke({"messages": [HumanMessage("After the change", id="q5")]}, config)
    earlier = list(graph.get_state_history(config))[6].config
    graph.invoke({"messages": [HumanMessage("Another way", id="f1")]}, earlier)
    ada.append(config["configurable"]["thread_id"], HumanMessage("beside the graph", id="beside"))


def _write_desk(graph: Any, config: RunnableConfig, ada: SessionService) -> None:
    """A subgraph that waits for an answer."""
    del ada
    graph.invoke({"messages": [HumanMessage("Find my passport", id="d1")]}, config)


def _write_failed_desk(graph: Any, config: RunnableConfig, bob: SessionService) -> None:
    """A task that failed beside one that did not: what that one wrote is pending."""
    del bob
    graph.invoke({"messages": [HumanMessage("Find my papers", id="d1")]}, config)
    with suppress(ValueError):
        graph.invoke(Command(resume="the blue one"), config)
        raise AssertionError("the task was to fail")


def _write_rewound(graph: Any, config: RunnableConfig, ada: SessionService) -> None:
    """A thread that was taken back, forth and back again."""
    for n in range(4):
        graph.invoke({"messages": [HumanMessage(f"Step {n}", id=f"s{n}")]}, config)
    ada.rewind("rewound", to_seq=4)
    ada.undo_rewind("rewound")
    ada.rewind("rewound", to_seq=6)


def _write_long(graph: Any, config: RunnableConfig, nobody: SessionService) -> None:
    """A list of which so much was removed that it takes a packed form."""
    del nobody
    for n in range(4):
        many = [HumanMessage(f"Message {n}-{m}", id=f"m{n}-{m}") for m in range(40)]
        graph.invoke({"messages": many}, config)
    kept = graph.get_state(config).values["messages"]
    graph.update_state(config, {"messages": [RemoveMessage(message.id) for message in kept[::3]]})
    graph.invoke({"messages": [HumanMessage("At the end", id="end")]}, config)


_WRITERS: dict[str, Callable[[Any, Any, SessionService], None]] = {
    "chat": _write_chat,
    "desk": _write_desk,
    "failed desk": _write_failed_desk,
    "rewound": _write_rewound,
    "long": _write_long,
}


def write_sealed(url: str) -> None:
    """A conversation and a thread that only the key opens."""
    with service_of(url, at=BEGIN, sealed=True) as sessions:
        ada = sessions.as_user("ada")
        ada.create("secret", title="known", time_to_live=None, state={"k": [1]})
        ada.append("secret", [HumanMessage("sealed", id="x1"), AIMessage("indeed", id="x2")], state_delta={"k": 2})
        ada.edit("secret", HumanMessage("sealed twice", id="x1"))
        graph = chat_graph(public("SessionCheckpointSaver")(sessions))
        for n in range(3):
            graph.invoke({"messages": [HumanMessage(f"Sealed {n}", id=f"q{n}")]}, config_of("secret chat", "ada"))


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
        "covers": [list(run) for run in event.covers],
        "running": list(event.long_running_tool_ids),
        "grounding": event.grounding and dict(event.grounding),
        "message": None if event.message is None else plain(event.message),
    }


def meant(sessions: SessionService) -> list[str]:
    """What is found by its meaning alone: no word of the query was said."""
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
    return {name: value for name, value in sorted(config["configurable"].items()) if name != "user_id"}


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


# -- freezing and thawing -------------------------------------------------------------------------------------------


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


def frozen(name: str) -> dict[str, Any]:
    """What is to be found in a database; of a server's also its rows and the tables that they were in."""
    read: dict[str, Any] = json.loads(gzip.decompress((HERE / f"first_release_{name}.json.gz").read_bytes()))
    return read


def thaw(name: str, url: str) -> None:
    """A database as it was written: SQLite's file, or a server's rows in its tables of then."""
    if name in {"postgresql", "mariadb"}:
        _thaw_rows(frozen(name), url)
        return
    packed = (HERE / f"first_release_{name}.db.gz").read_bytes()
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


def _rows(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as JSON."""
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        return {
            table.name: [
                {
                    name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
                    for name, value in row._mapping.items()
                }
                for row in connection.execute(table.select())
            ]
            for table in metadata.sorted_tables
        }


def _freeze(name: str, found: dict[str, Any]) -> None:
    path = HERE / f"first_release_{name}.json.gz"
    if path.exists():
        raise SystemExit(f"{path.name} is frozen")
    path.write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), mtime=0))


def _freeze_files(directory: Path) -> None:
    for name, writer, reader in (("sqlite", write, everything_seen), ("sealed", write_sealed, sealed_seen)):
        path = directory / f"{name}.db"
        writer(f"sqlite:///{path}")
        # Read after it was copied: a search brings the index up to date.
        packed = gzip.compress(path.read_bytes(), mtime=0)
        _freeze(name, reader(f"sqlite:///{path}"))
        (HERE / f"first_release_{name}.db.gz").write_bytes(packed)


def _freeze_server(url: str) -> None:
    engine = create_engine(url)
    flavour = "postgresql" if engine.dialect.name == "postgresql" else "mariadb"
    write(url)
    kept = {"ddl": schema_sql(flavour), "rows": _rows(engine)}
    _freeze(flavour, {**kept, "found": everything_seen(url)})
    engine.dispose()


def main() -> None:
    """Write a database with the release that is first on the path, and what is to be found in it."""
    if len(sys.argv) > 1:
        _freeze_server(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as directory:
        _freeze_files(Path(directory))


if __name__ == "__main__":
    main()
