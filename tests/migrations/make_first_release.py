"""Writes the frozen database of commit a76aedc, with everything that it could store, and what is to be found in it.

It was run once, and what it wrote is never written again: it is what somebody's disk holds. On a checkout of that
commit with the `tests/migrations` of this one, for SQLite and for an empty database of each server:

    python -m tests.migrations.make_first_release
    python -m tests.migrations.make_first_release postgresql+psycopg://…

Once more it was run where the schema was the fourth, and what it wrote was called `schema_4`.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.types import Command
from sqlalchemy import Engine, MetaData, create_engine

from langchain_sessions import NewEvent, SessionService, schema_sql
from tests.migrations.first_release import (
    BEGIN,
    GRAPHS,
    HERE,
    chat_graph,
    config_of,
    everything_seen,
    public,
    sealed_seen,
    service_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig


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
    ada.append((config.get("configurable") or {})["thread_id"], HumanMessage("beside the graph", id="beside"))


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
