"""Writes the frozen database of the current schema version: ``python -m tests.migrations.make_frozen``.

Run it once per schema version, when that version is final, and commit what it writes. The file of an earlier version
is never written again: it is what somebody's disk holds.
"""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions import NewEvent, SessionService
from langchain_sessions._sql.tables.schema import SCHEMA_VERSION
from langchain_sessions.testing.archiving import archive

HERE = Path(__file__).parent / "frozen"
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def seen(service: SessionService) -> dict[str, Any]:
    """Everything that a release must find again, as JSON."""
    found: dict[str, Any] = {}
    for session in sorted(service.list_sessions().items, key=lambda session: session.id):
        events = service.events(session.id).items
        found[session.id] = {
            "user": session.user_id,
            "title": session.title,
            "metadata": dict(session.metadata),
            "version": session.version,
            "state": service.state(session.id),
            "context": [message.model_dump(mode="json") for message in service.messages(session.id)],
            "events": [
                {
                    "seq": event.seq,
                    "id": event.id,
                    "kind": event.kind.value,
                    "standing": event.standing.value,
                    "at": event.timestamp.isoformat(),
                    "branch": event.branch,
                    "author": event.author,
                    "invocation": event.invocation_id,
                    "delta": None if event.state_delta is None else dict(event.state_delta),
                    "metadata": dict(event.metadata),
                    "message": None if event.message is None else event.message.model_dump(mode="json"),
                }
                for event in events
            ],
        }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def write(path: Path) -> dict[str, Any]:
    """A database with a little of everything, and what is to be found in it."""
    service = SessionService(f"sqlite:///{path}", clock=lambda: AT)
    ada, nobody = service.as_user("ada"), service.as_user(None)
    ada.create("talk", title="Wörter 🎈", metadata={"tag": [1, None]}, state={"k": 1, "user:u": 2}, time_to_live=None)
    call = AIMessage("", id="m2", tool_calls=[{"name": "look", "args": {"q": "\u0000\ud83d"}, "id": "c1"}])
    events = [
        NewEvent(message=HumanMessage("hello", id="m1"), author="ada"),
        NewEvent(message=call, invocation_id="i1"),
        NewEvent(message=ToolMessage("found", tool_call_id="c1", id="m3", artifact={"rows": [1.5]}), id="e3"),
    ]
    ada.append("talk", events, state_delta={"k": 2, "app:a": 3}, metadata={"from": "web"})
    ada.append("talk", [HumanMessage(f"q{n}", id=f"q{n}") for n in range(6)])
    ada.edit("talk", HumanMessage("hello again", id="m1"))
    base = ada.context("talk")
    summary = [NewEvent(id="s1", message=HumanMessage("so far?", id="s1")), NewEvent(id="s2", message=AIMessage("all"))]
    archive(ada, "talk", [event.seq for event in base.events][:4], base=base, summary=summary)
    ada.append("talk", HumanMessage("regretted", id="r1"), branch="writer.a")
    ada.rewind("talk", to_seq=ada.get("talk").version - 1)
    nobody.open("thread")
    nobody.append("thread", [HumanMessage("x" * 5000, id="long"), AIMessage([{"type": "text", "text": "y"}], id="b")])
    nobody.end("thread")
    found = seen(service)
    service.close()
    return found


def main() -> None:
    """Write the database and what is to be found in it."""
    path = HERE / f"version_{SCHEMA_VERSION}.db"
    if path.exists():
        raise SystemExit(f"{path.name} is frozen")
    HERE.mkdir(exist_ok=True)
    expected = write(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
