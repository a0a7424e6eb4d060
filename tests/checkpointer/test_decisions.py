"""What a saver decides inside a store's transaction: a mistake there looks like one, and nothing is written."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_sessions._log.log import adapter_draft, log_of
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._threads.save import CommitQueue
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.service import SessionService
from langchain_sessions.stores._threads import CheckpointQuery, PutPlan, ThreadStore, WritesPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions.stores._threads import PlanOutcome, ThreadPlan

pytestmark = pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def mistaken(*given: object) -> Any:
    del given
    raise TypeError("a mistake of ours")


def store_of(service: SessionService) -> ThreadStore:
    store = log_of(service).store
    assert isinstance(store, ThreadStore)
    return store


def saved(service: SessionService) -> None:
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_values": {"messages": [HumanMessage("hi", id="h")]},
        "channel_versions": {"messages": 1},
    }
    SessionCheckpointSaver(service).put(CONFIG, checkpoint, {"source": "loop"}, {"messages": 1})


def put_plan(service: SessionService, decide: Any) -> PutPlan:
    log = log_of(service)
    return PutPlan(
        key=log.key("t"),
        draft=adapter_draft(log, "t"),
        ns=0,
        ns_name="",
        cid="c",
        parent=None,
        is_fork=False,
        shape=1,
        shape_body=b"",
        idents=(),
        decide=decide,
    )


def writes_plan(service: SessionService, rows: Any) -> WritesPlan:
    log = log_of(service)
    draft = adapter_draft(log, "t")
    return WritesPlan(key=log.key("t"), draft=draft, ns=0, ns_name="", cid="c", rows=rows)


def test_a_mistake_in_a_plan_is_its_outcome(service: SessionService) -> None:
    saved(service)
    store = store_of(service)
    plans: list[ThreadPlan] = [
        writes_plan(service, mistaken),
        writes_plan(service, lambda _skey: []),
        put_plan(service, mistaken),
    ]
    outcomes = store.commit_threads(plans)
    assert [type(outcome) for outcome in outcomes] == [TypeError, type(None), TypeError]
    assert [event.id for event in service.events("t").items] == ["h"]
    assert service.verify("t") == []


async def test_a_mistake_in_a_question_is_told_as_it_is(service: SessionService) -> None:
    saved(service)
    store, log = store_of(service), log_of(service)
    query = CheckpointQuery(app=log.app, owner=log.owner, now=log.now(), session_id="t", limit=None, accept=mistaken)
    reader: Any = None
    with pytest.raises(TypeError, match="of ours"):
        store.find_checkpoints(query, None, reader)
    with pytest.raises(TypeError, match="of ours"):
        await store.afind_checkpoints(query, None, reader)
    with pytest.raises(TypeError, match="of ours"):
        store.prune_checkpoints(log.key("t"), log.now(), mistaken)
    assert len(list(SessionCheckpointSaver(service).list(CONFIG))) == 1


class _TornStore(SqlStore):
    """Whoever comes second to commit is torn away, as by Ctrl-C, while others wait for it."""

    def __init__(self) -> None:
        super().__init__("sqlite://")
        self.may_go_on = threading.Event()
        self.commits = 0

    def commit_threads(self, /, plans: Sequence[ThreadPlan]) -> list[PlanOutcome]:
        self.commits += 1
        if self.commits == 1:
            self.may_go_on.wait(10)
        if self.commits == 2:
            raise KeyboardInterrupt
        return super().commit_threads(plans)


def test_calls_that_waited_for_one_that_is_torn_away_are_written_by_the_next() -> None:
    store = _TornStore()
    queue = CommitQueue(store)
    service = SessionService(store)
    service.open("t")
    done: list[str] = []
    torn: list[str] = []

    def submit(cid: str) -> None:
        try:
            queue.submit(writes_plan(service, lambda _skey: [])._replace(cid=cid), lambda _: done.append(cid))
        except KeyboardInterrupt:
            torn.append(cid)

    threads = [threading.Thread(target=submit, args=(cid,)) for cid in "abcd"]
    threads[0].start()
    while not store.commits:
        time.sleep(0.001)
    for thread in threads[1:]:
        thread.start()
    line = next(iter(queue._lines.values()))
    while len(line.waiting) < 3:
        time.sleep(0.001)
    store.may_go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(torn) == 1
    assert sorted([*done, *torn]) == ["a", "b", "c", "d"]
    assert not queue._lines
    store.close()
