"""Threads of LangGraph's own savers, made by these savers, come over and go on here."""

from __future__ import annotations

import random
import sqlite3
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, interrupt
from sqlalchemy import make_url

from langchain_sessions import (
    EstimatedTokenCounter,
    InvalidInputError,
    SessionCheckpointSaver,
    SessionNotFoundError,
    SessionService,
    aimport_threads,
    import_threads,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from langchain_sessions import ImportProgress

KNOWN = [(__name__, "Mood"), (__name__, "Odd")]
SERDE = JsonPlusSerializer(allowed_msgpack_modules=KNOWN)


@dataclass
class Mood:
    """A class that nobody but its graph knows."""

    name: str
    level: int


@dataclass
class Odd:
    """What a tool gives back beside its text."""

    rows: list[int]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    mood: Mood
    notes: dict[str, Any]


REDUCE: Any = _messages_delta_reducer


def _said(state: State) -> list[AnyMessage]:
    return state.get("messages", [])


def graph(saver: BaseCheckpointSaver[Any], *, asks: bool = False) -> Any:
    """A chat whose model, subgraph and tool answer by what they were told."""

    def inner(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"inside {len(_said(state))}", id=f"in-{len(_said(state))}")]}

    def answer(state: State) -> dict[str, Any]:
        told = _said(state)[-1]
        n = len(_said(state))
        if told.text == "forget":
            return {"messages": [RemoveMessage(id=str(_said(state)[0].id))]}
        if told.text == "ask" and asks:
            return {"messages": [AIMessage(f"you said {interrupt('which?')}", id=f"a-{n}")]}
        call = {"name": "look", "args": {"n": n}, "id": f"call-{n}", "type": "tool_call"}
        said = [
            AIMessage("", tool_calls=[call], id=f"a-{n}"),
            ToolMessage("seen", tool_call_id=f"call-{n}", id=f"t-{n}", artifact=Odd([n, n + 1])),
            AIMessage(
                f"answer to {n}",
                id=f"b-{n}",
                usage_metadata={"input_tokens": n, "output_tokens": 1, "total_tokens": n + 1},
            ),
        ]
        return {"messages": said, "mood": Mood("calm", n), "notes": {f"k{n}": [Mood("old", n)], "big": "x" * 200}}

    sub = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile()
    built = StateGraph(State).add_node("answer", answer).add_node("sub", sub)
    return built.add_edge(START, "answer").add_edge("answer", "sub").add_edge("sub", END).compile(checkpointer=saver)


def at(thread: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def talk(saver: BaseCheckpointSaver[Any], threads: int = 3, seed: int = 1) -> list[str]:
    """Random conversations: turns, removals, forks, edits and an interrupt that waits."""
    chance = random.Random(seed)
    runs = graph(saver, asks=True)
    names = [f"thread-{seed}-{n}" for n in range(threads)]
    for name in names:
        config = {**at(name), "metadata": {"user_id": f"user-of-{name}"}}
        for turn in range(chance.randint(1, 4)):
            text = chance.choice(["hello", "forget", "tell me more about it, please"])
            runs.invoke({"messages": [HumanMessage(text, id=f"h-{name}-{turn}")]}, config)
            if chance.random() < 0.4:
                past = chance.choice(list(runs.get_state_history(at(name))))
                edited = HumanMessage("said otherwise", id=f"h-{name}-0")
                runs.update_state(
                    {**past.config, "metadata": config["metadata"]}, {"messages": [edited]}, as_node="answer"
                )
        runs.invoke({"messages": [HumanMessage("ask", id=f"q-{name}")]}, config)
    return names


def told(snapshot: Any) -> dict[str, Any]:
    """What a snapshot says."""
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "config": (snapshot.config.get("configurable") or {})["checkpoint_id"],
        "parent": snapshot.parent_config and (snapshot.parent_config.get("configurable") or {})["checkpoint_id"],
        "metadata": snapshot.metadata,
        "created": snapshot.created_at,
        "tasks": [(task.id, task.name, task.error, task.interrupts, task.result) for task in snapshot.tasks],
    }


def same_history(old: BaseCheckpointSaver[Any], new: BaseCheckpointSaver[Any], name: str) -> None:
    mine, theirs = graph(new, asks=True), graph(old, asks=True)
    assert told(mine.get_state(at(name))) == told(theirs.get_state(at(name)))
    ours = [told(each) for each in mine.get_state_history(at(name))]
    assert ours == [told(each) for each in theirs.get_state_history(at(name))]
    for each in old.list(at(name)):
        found = new.get_tuple(each.config)
        assert found is not None
        assert (found.checkpoint, found.metadata, found.parent_config) == (
            each.checkpoint,
            each.metadata,
            each.parent_config,
        )
        assert found.pending_writes == each.pending_writes


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionService]:
    with SessionService(f"sqlite:///{tmp_path / 'here.db'}") as service:
        yield service


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "theirs.db"


def stored(path: Path, serde: Any = SERDE) -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(path, check_same_thread=False), serde=serde)


def saver_of(sessions: SessionService) -> SessionCheckpointSaver:
    return SessionCheckpointSaver(sessions, serde=SERDE, owner="ignore")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sqlite_saver_comes_over_and_goes_on(sessions: SessionService, path: Path, seed: int) -> None:
    old = stored(path)
    names = talk(old, seed=seed)
    report = import_threads(sessions, path)
    assert (report.threads, report.problems, report.unchanged) == (len(names), (), 0)
    assert report.messages
    new = saver_of(sessions)
    for name in names:
        same_history(old, new, name)
        mine, theirs = (graph(each, asks=True).invoke(Command(resume="red"), at(name)) for each in (new, old))
        assert mine == theirs
        more = {"messages": [HumanMessage("and now", id="now")]}
        assert graph(new).invoke(more, at(name)) == graph(old).invoke(more, at(name))
    old.conn.close()


def test_memory_comes_over(sessions: SessionService) -> None:
    old = InMemorySaver(serde=SERDE)
    names = talk(old)
    assert import_threads(sessions, old).threads == len(names)
    for name in names:
        same_history(old, saver_of(sessions), name)


def test_twice_is_once_and_a_grown_source_adds_what_is_new(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, other, *_ = talk(old)
    first = import_threads(sessions, path)
    again = import_threads(sessions, path)
    assert (again.unchanged, again.checkpoints, again.messages) == (first.threads, 0, 0)
    graph(old).invoke({"messages": [HumanMessage("later", id="later")]}, at(name))
    grown = import_threads(sessions, path)
    assert (grown.unchanged, grown.checkpoints > 0) == (first.threads - 1, True)
    for each in (name, other):
        same_history(old, saver_of(sessions), each)
    old.conn.close()


class PowerCutError(Exception):
    """The import ends here."""


class FailsInTheMiddle(EstimatedTokenCounter):
    """A counter with which the power goes in the middle of a thread."""

    left = 12

    def count_text(self, text: str) -> int:
        self.left -= 1
        if self.left == 0:
            raise PowerCutError
        return super().count_text(text)


def test_an_import_that_was_broken_off_goes_on(sessions: SessionService, path: Path, tmp_path: Path) -> None:
    old = stored(path)
    names = talk(old)
    with (
        SessionService(f"sqlite:///{tmp_path / 'here.db'}", tokens=FailsInTheMiddle()) as unlucky,
        pytest.raises(PowerCutError),
    ):
        import_threads(unlucky, path)
    broken_off = sum(1 for name in names for _ in saver_of(sessions).list(at(name)))
    report = import_threads(sessions, path)
    whole = sum(1 for name in names for _ in old.list(at(name)))
    assert 0 < broken_off < whole
    assert (report.threads, report.checkpoints) == (len(names), whole - broken_off)
    for name in names:
        same_history(old, saver_of(sessions), name)
    old.conn.close()


def test_a_prediction_writes_nothing(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    names = talk(old)
    predicted = import_threads(sessions, path, dry_run=True)
    assert not sessions.list_sessions().items
    done = import_threads(sessions, path)
    assert (predicted.threads, predicted.checkpoints, predicted.messages) == (
        len(names),
        done.checkpoints,
        done.messages,
    )
    assert predicted.bytes_before == done.bytes_before
    assert done.bytes_before is not None
    assert done.bytes_after is not None
    assert predicted.bytes_after is not None
    assert abs(predicted.bytes_after - done.bytes_after) < done.bytes_after // 4
    old.conn.close()


def test_delta_channels(sessions: SessionService, path: Path) -> None:
    class Long(TypedDict):
        messages: Annotated[list[AnyMessage], DeltaChannel(REDUCE, snapshot_frequency=4)]

    def long(saver: BaseCheckpointSaver[Any]) -> Any:
        def answer(state: Long) -> Any:
            return {"messages": [AIMessage(f"answer to {len(state['messages'])}", id=f"a{len(state['messages'])}")]}

        built = StateGraph(Long).add_node("answer", answer).add_edge(START, "answer")
        return built.compile(checkpointer=saver)

    old = stored(path)
    for turn in range(6):
        long(old).invoke({"messages": [HumanMessage(f"turn {turn}", id=f"h{turn}")]}, at("long"))
    assert not import_threads(sessions, path).problems
    new = saver_of(sessions)
    mine, theirs = (list(map(told, long(each).get_state_history(at("long")))) for each in (new, old))
    assert mine == theirs
    more = {"messages": [HumanMessage("more", id="more")]}
    assert long(new).invoke(more, at("long")) == long(old).invoke(more, at("long"))
    old.conn.close()


def test_owners(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, other, *_ = talk(old)
    told: list[ImportProgress] = []
    import_threads(sessions, path, user_from="metadata.user_id", progress=told.append)
    finished = dict.fromkeys((each.threads, each.total) for each in told if each.threads)
    assert list(finished) == [(1, 3), (2, 3), (3, 3)]
    assert told[-1].checkpoints == told[-1].checkpoints_total == sum(1 for _ in old.list(None))
    assert sessions.as_user(f"user-of-{name}").get(name).user_id == f"user-of-{name}"
    with pytest.raises(SessionNotFoundError):
        sessions.as_user(f"user-of-{name}").get(other)
    refused = import_threads(sessions, path, user="somebody else")
    assert (refused.threads, {each.problem for each in refused.problems}) == (
        0,
        {"a session of that id is somebody else's"},
    )
    for wrong in ("user_id", "metadata"):
        with pytest.raises(InvalidInputError):
            import_threads(sessions, path, user_from=wrong)
    with pytest.raises(InvalidInputError):
        import_threads(sessions.as_user("ada"), path, user="ada")
    old.conn.close()


async def test_async_and_a_callable(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, *_ = talk(old)
    await aimport_threads(sessions, path, user="rest", user_from=lambda thread, _: "ada" if thread == name else None)
    found = {each.id: each.user_id for each in await sessions.alist_sessions()}
    assert (found.pop(name), set(found.values())) == ("ada", {"rest"})
    old.conn.close()


def test_times_are_those_of_the_source(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, *_ = talk(old)
    import_threads(sessions, path)
    first = min(each.checkpoint["ts"] for each in old.list(at(name)))
    session = sessions.get(name)
    assert session.created_at.isoformat() == first
    assert sessions.search("answer", session_id=name).items
    assert not sessions.verify(name)
    old.conn.close()


def test_a_class_that_nobody_allowed_is_not_loaded(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, *_ = talk(old)
    import_threads(sessions, path)
    # A reader in strict mode sees what LangGraph's own strict mode shows; nothing was lost for those who know.
    strict = SessionCheckpointSaver(sessions, owner="ignore").get_tuple(at(name))
    assert strict is not None
    assert not isinstance(strict.checkpoint["channel_values"].get("mood"), Mood)
    old.conn.close()


def test_what_is_pickled_is_never_loaded(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, other, *_ = talk(old)
    with old.conn:
        newest = old.get_tuple(at(name))
        assert newest is not None
        cid = (newest.config.get("configurable") or {})["checkpoint_id"]
        bomb = b"cbuiltins\neval\n(Vraise SystemExit\ntR."
        old.conn.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ? WHERE checkpoint_id = ?", (bomb, cid))
    report = import_threads(sessions, path)
    assert [(each.thread, each.checkpoint) for each in report.problems] == [(name, cid)]
    assert "pickle" in report.problems[0].problem
    same_history(old, saver_of(sessions), other)
    old.conn.close()


def test_damage_in_the_middle_costs_what_is_damaged(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    names = talk(old, threads=4)
    *_, middle, _ = list(old.list(at(names[1])))
    cid = (middle.config.get("configurable") or {})["checkpoint_id"]
    with old.conn:
        old.conn.execute("UPDATE checkpoints SET checkpoint = x'c1c1' WHERE checkpoint_id = ?", (cid,))
        old.conn.execute("UPDATE checkpoints SET metadata = 'not json' WHERE thread_id = ?", (names[2],))
    report = import_threads(sessions, path)
    assert report.threads == len(names)
    assert [each.checkpoint for each in report.problems if each.thread == names[1]] == [cid]
    assert {each.thread for each in report.problems} == {names[1], names[2]}
    for name in (names[0], names[3]):
        same_history(old, saver_of(sessions), name)
    kept = [(each.config.get("configurable") or {})["checkpoint_id"] for each in saver_of(sessions).list(at(names[1]))]
    assert kept
    assert cid not in kept
    old.conn.close()


def test_torn_pages_are_no_reason_to_lose_the_rest(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    names = talk(old, threads=8)
    old.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    old.conn.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096 * 2)
    report = import_threads(sessions, path)
    assert report.problem_count
    assert 0 < report.threads <= len(names)


def test_sources_that_are_none(sessions: SessionService, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    empty = sqlite3.connect(tmp_path / "empty.db")
    empty.execute("CREATE TABLE other (a)")
    empty.close()
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"\xee" * 5000)
    for source in (
        tmp_path / "missing.db",
        f"sqlite:///{tmp_path}/missing.db",
        tmp_path / "text",
        "mysql://h/d",
        "",
        5,
    ):
        with pytest.raises(InvalidInputError, match="source"):
            import_threads(sessions, source)  # type: ignore[arg-type]
    for found in (tmp_path / "empty.db", broken):
        with pytest.raises(InvalidInputError, match="database"):
            import_threads(sessions, found)
    assert not (tmp_path / "missing.db").exists()


def test_a_source_that_is_written_meanwhile(sessions: SessionService, path: Path) -> None:
    old = stored(path)
    name, *_ = talk(old)
    stop = threading.Event()

    def write() -> None:
        busy = stored(path)
        for _ in range(20):
            if stop.is_set():
                break
            graph(busy).invoke({"messages": [HumanMessage("busy")]}, at("busy"))
        busy.conn.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert not import_threads(sessions, path).problems
    finally:
        stop.set()
        writer.join()
    import_threads(sessions, path)
    same_history(old, saver_of(sessions), name)
    old.conn.close()


def test_an_encrypted_source(sessions: SessionService, path: Path) -> None:
    pytest.importorskip("Crypto")
    sealed = EncryptedSerializer.from_pycryptodome_aes(SERDE, key=b"0123456789abcdef")
    old = stored(path, sealed)
    name, *_ = talk(old)
    wrong = EncryptedSerializer.from_pycryptodome_aes(SERDE, key=b"fedcba9876543210")
    for serde, why in ((None, "give its serializer"), (wrong, "not its key")):
        for dry_run in (False, True):
            with pytest.raises(InvalidInputError, match=why):
                import_threads(sessions, path, serde=serde, dry_run=dry_run)
    assert not sessions.list_sessions().items
    assert not import_threads(sessions, path, serde=sealed).problems
    same_history(old, saver_of(sessions), name)
    old.conn.close()


@pytest.mark.backends("postgres")
def test_a_postgres_saver_comes_over_and_goes_on(fresh_database_url: str, sessions: SessionService) -> None:
    url = make_url(fresh_database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with PostgresSaver.from_conn_string(url) as old:
        old.serde = SERDE
        old.setup()
        names = talk(old)
        report = import_threads(sessions, fresh_database_url)
        assert (report.threads, report.problems) == (len(names), ())
        assert report.bytes_before
        assert import_threads(sessions, url).unchanged == len(names)
        new = saver_of(sessions)
        for name in names:
            same_history(old, new, name)
            mine, theirs = (graph(each, asks=True).invoke(Command(resume="red"), at(name)) for each in (new, old))
            assert mine == theirs
