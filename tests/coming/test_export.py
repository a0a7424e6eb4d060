"""An export that is taken over elsewhere is the same log: every entry, in its place, standing where it stood."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sessions import (
    Compaction,
    EventCount,
    InMemoryStore,
    InvalidInputError,
    InvocationStatus,
    NewEvent,
    PartitionedStore,
    SessionService,
    SlidingWindow,
    Standing,
    Summarize,
    export_sessions,
    import_threads,
)
from langchain_sessions.stores._memory import MemoryEngine
from langchain_sessions.stores._values import WALK
from langchain_sessions.testing import SettableClock
from langchain_sessions.testing.machine import SessionMachine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from langchain_sessions import Page, Session


LONG = 1_000_000


def lines(sessions: SessionService, session_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_sessions(sessions, session_id)]


def taken(sessions: SessionService, session_id: str, path: Path, clock: Any = None) -> SessionService:
    """The session in a store of its own, through a file."""
    path.write_text("\n".join(export_sessions(sessions, session_id)), encoding="utf-8", errors="surrogatepass")
    options = {} if clock is None else {"clock": clock}
    other = SessionService(InMemoryStore(), app=sessions.app, **options)
    report = import_threads(other, path)
    assert not report.problems
    return other


def shown(sessions: SessionService, session_id: str) -> Any:
    """All that a session shows."""
    branches = (None, "orch", "orch.sub")
    return (
        sessions.get(session_id),
        [sessions.context(session_id, branch=branch).messages for branch in branches],
        [sessions.count(session_id, branch=branch) for branch in branches],
        sessions.state(session_id),
        list(sessions.events(session_id)),
    )


def test_everything_that_can_happen_to_a_log_comes_back(tmp_path: Path) -> None:
    clock = SettableClock()
    with SessionService(InMemoryStore(), clock=clock) as sessions:
        sessions.create("s", title="Tea", metadata={"k": [1, 2]}, state={"mood": "calm", "left": 3}, user_id="ada")
        for n in range(6):
            clock.advance(seconds=1)
            said = [HumanMessage(f"q{n}", id=f"h{n}"), AIMessage(f"a{n}")]
            sessions.append("s", said, invocation_id=f"run-{n}", invocation_status=InvocationStatus.DONE)
        call = {"name": "look", "args": {"a": 1}, "id": "c", "type": "tool_call"}
        sessions.append("s", [AIMessage("", tool_calls=[call]), ToolMessage("found", tool_call_id="c")])
        sessions.append("s", HumanMessage("fails"), invocation_id="bad", invocation_status=InvocationStatus.FAILED)
        sessions.append("s", NewEvent(message=AIMessage("cut"), author="grace", branch="orch", interrupted=True))
        sessions.append("s", [], state_delta={"mood": None, "left": 2})
        sessions.edit("s", HumanMessage("Q1", id="h1"))
        sessions.compact("s", Compaction(EventCount(1), SlidingWindow(8)))
        sessions.append("s", [HumanMessage("wrong way", id="w")], state_delta={"left": 1})
        sessions.rewind("s", to_seq=sessions.get("s").version - 1)
        sessions.append("s", [HumanMessage("on we go"), AIMessage("on")])
        sessions.compact(
            "s",
            Compaction(
                EventCount(1), Summarize(GenericFakeChatModel(messages=iter([AIMessage("in short")])), keep_events=2)
            ),
        )
        sessions.blank("s", "h2")
        sessions.end("s")
        sessions.reopen("s")
        with taken(sessions, "s", tmp_path / "export.jsonl", clock) as other:
            assert lines(other, "s") == lines(sessions, "s")
            assert shown(other, "s") == shown(sessions, "s")
            assert {event.standing for event in other.events("s")} >= {Standing.ARCHIVED, Standing.REWOUND}


def a_log() -> SessionService:
    """Said, edited, compacted, taken back and said again."""
    sessions = SessionService(InMemoryStore())
    sessions.create("s", user_id="ada")
    for n in range(6):
        sessions.append("s", [HumanMessage(f"q{n}", id=f"h{n}"), AIMessage(f"a{n}", id=f"a{n}")])
    sessions.edit("s", HumanMessage("Q1", id="h1"))
    sessions.compact("s", Compaction(EventCount(1), SlidingWindow(8)))
    sessions.append("s", [HumanMessage("wrong way"), AIMessage("indeed")])
    sessions.rewind("s", to_seq=sessions.get("s").version - 2)
    sessions.append("s", [HumanMessage("on we go"), AIMessage("on")])
    return sessions


def test_twice_is_once_and_what_was_broken_off_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    with a_log() as sessions, SessionService(InMemoryStore()) as other:
        exported = list(export_sessions(sessions, "s"))
        for upto in (1, 9, len(exported), len(exported)):
            path.write_text("\n".join(exported[:upto]))
            assert not import_threads(other, path).problems
        assert import_threads(other, path).unchanged == 1
        assert lines(other, "s")[1:] == lines(sessions, "s")[1:]
        other.append("s", HumanMessage("it went on here"))
        assert import_threads(other, path).unchanged == 1


def test_another_log_under_the_same_id_stays(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    with a_log() as sessions, a_log() as other:
        other.append("s", HumanMessage("mine"))
        path.write_text("\n".join(export_sessions(sessions, "s")))
        before = lines(other, "s")
        report = import_threads(other, path)
        assert "another conversation is here" in report.problems[0].problem
        assert lines(other, "s") == before


def test_what_is_left_out_moves_no_position(tmp_path: Path) -> None:
    """Lines that cannot be read, or that a view does not see, leave the others where they stood."""
    path = tmp_path / "export.jsonl"
    with a_log() as sessions, SessionService(InMemoryStore()) as other:
        exported = list(export_sessions(sessions, "s"))
        stood = {event.id: event.standing for event in sessions.events("s") if event.message}
        gone = {3, 11}
        path.write_text("\n".join("{torn" if at in gone else line for at, line in enumerate(exported)))
        report = import_threads(other, path)
        assert report.problem_count == len(gone)
        left = {event.id: event.standing for event in other.events("s") if event.message}
        lost = {json.loads(exported[at])["id"] for at in gone}
        assert left == {name: standing for name, standing in stood.items() if name not in lost}
        said = [message.text for message in sessions.messages("s")]
        texts = {json.loads(exported[at])["message"]["data"]["content"] for at in gone}
        assert [message.text for message in other.messages("s")] == [text for text in said if text not in texts]


def test_one_that_is_refused_takes_no_other_along(tmp_path: Path) -> None:
    """Neither those that wait with it, nor those behind it; and a second import is none."""
    path = tmp_path / "export.jsonl"
    with a_log() as sessions, SessionService(InMemoryStore(), hide_superseded=True) as other:
        found = [json.loads(line) for line in export_sessions(sessions, "s")]
        found[4]["author"] = "nul\0"
        found[6]["message"]["data"]["content"] = "x" * 2 * LONG
        found[8]["standing"] = "detached"
        path.write_text("\n".join(map(json.dumps, found)))
        for target in (other, SessionService(PartitionedStore(Small()))):
            reports = [import_threads(target, path) for _ in range(2)]
            lost = 2 if target is other else 3
            assert [report.problem_count for report in reports] == [lost, lost]
            assert target.get("s").version == len(found) - 1 - lost
            assert target.as_user("ada").verify("s") == []


def test_numbers_without_end_end(tmp_path: Path) -> None:
    """Positions and ranges that no log has cost neither memory nor time."""
    path = tmp_path / "export.jsonl"
    with a_log() as sessions, SessionService(InMemoryStore()) as other:
        found = [json.loads(line) for line in export_sessions(sessions, "s")]
        found[5]["seq"] = 10**15
        for line in found[6:]:
            line["seq"] = line["seq"] + 10**15
            line["covers"] = [[1, 10**18]] if line["covers"] else []
        found[2]["metadata"] = {"deep": 1}
        text = json.dumps(found[2]).replace('{"deep": 1}', '{"deep": ' + "[" * 900 + "1" + "]" * 900 + "}")
        path.write_text("\n".join([*map(json.dumps, found[:2]), text, *map(json.dumps, found[3:])]))
        import_threads(other, path)
        assert other.get("s").version > 4
        assert other.verify("s") == []


def test_a_view_without_what_edits_replaced(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    store = InMemoryStore()
    with SessionService(store, hide_superseded=True) as sessions, SessionService(InMemoryStore()) as other:
        mine = sessions.as_user("ada")
        mine.open("s")
        mine.append("s", [HumanMessage("my number is 5", id="h"), AIMessage("noted")])
        mine.edit("s", HumanMessage("my number is …", id="h"))
        path.write_text("\n".join(export_sessions(mine, "s")))
        import_threads(other, path)
        # The edit stands where it was written: where the other one stood nobody says.
        assert {message.text for message in other.messages("s")} == {message.text for message in mine.messages("s")}


def test_what_expired_meanwhile_stays_out(tmp_path: Path) -> None:
    clock = SettableClock()
    path = tmp_path / "export.jsonl"
    with SessionService(InMemoryStore(), clock=clock) as sessions:
        sessions.create("short", time_to_live=timedelta(hours=1))
        sessions.create("long", time_to_live=timedelta(days=1))
        path.write_text("\n".join(export_sessions(sessions)))
        expires = sessions.get("long").expires_at
        clock.advance(hours=2)
        with SessionService(InMemoryStore(), clock=clock) as other:
            report = import_threads(other, path)
            assert [problem.thread for problem in report.problems] == ["short"]
            assert [session.expires_at for session in other.list_sessions()] == [expires]


def test_what_was_to_stay_for_ever_stays_though_it_is_old(tmp_path: Path) -> None:
    clock = SettableClock()
    path = tmp_path / "export.jsonl"
    with SessionService(InMemoryStore(), clock=clock, time_to_live=None) as sessions:
        sessions.create("old")
        sessions.append("old", HumanMessage("hi"))
        path.write_text("\n".join(export_sessions(sessions)))
        clock.advance(days=400)
        with SessionService(InMemoryStore(), clock=clock) as other:
            import_threads(other, path)
            assert other.get("old").expires_at is None
            assert lines(other, "old") == lines(sessions, "old")


class Small(MemoryEngine):
    """An engine that takes no long entries, as servers do."""

    def commit(self, partition: Any, expected: int, head: Any, rows: Any) -> bool:
        if sum(len(value or b"") for value in rows.values()) > LONG:
            raise InvalidInputError("messages", "take more bytes than this database takes at once")
        return super().commit(partition, expected, head, rows)


class Exported(SessionMachine):
    """Whatever was done to a log, its export says all of it."""

    path: Path

    def open_store(self) -> Any:
        return InMemoryStore(), "sync", None

    def teardown(self) -> None:
        for name, model in self.models.items():
            sessions = self.writers[0]
            with taken(sessions, name, self.path, self.clock) as other:
                assert lines(other, name) == lines(sessions, name)
                assert shown(other, name) == shown(sessions, name), model
        super().teardown()


def test_random_logs_come_back(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    Exported.path = tmp_path / "export.jsonl"
    run_state_machine_as_test(Exported, settings=settings(max_examples=25, stateful_step_count=25, deadline=None))


def test_all_sessions_are_walked_through_in_few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of partitions reads for each page all that was active in a minute: a page of a hundred was slow."""
    sessions = SessionService(InMemoryStore())
    for at in range(WALK // 4):
        sessions.create(f"s{at}")
    pages: list[int] = []
    listed = SessionService.list_sessions

    def counted(self: SessionService, **options: Any) -> Page[Session]:
        pages.append(options["limit"])
        return listed(self, **options)

    monkeypatch.setattr(SessionService, "list_sessions", counted)
    assert len([*export_sessions(sessions)]) == WALK // 4
    assert pages == [WALK]
