"""Graph threads as a store keeps them: checkpoints, the writes that wait for them, and what other calls do to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from langchain_sessions._core.checkpoints import CUT, NAMES_WITHIN, ROOT, CheckpointRow, MessageRow, ValueRow, WriteRow
from langchain_sessions._core.edge import to_micros
from langchain_sessions._core.message_types import HUMAN
from langchain_sessions._core.piece_rows import NAME, NODE
from langchain_sessions._core.ranges import SeqSet, encode_ranges
from langchain_sessions._core.rows import ROOTED, EventRow, SessionKey, SessionRow
from langchain_sessions.errors import (
    HeadConflictError,
    InvalidInputError,
    SessionEndedError,
    SessionNotFoundError,
    StalePlanError,
)
from langchain_sessions.stores._threads import (
    CheckpointKey,
    CheckpointPage,
    CheckpointQuery,
    PutDecision,
    PutPlan,
    PutResult,
    ThreadPlan,
    ThreadRows,
    WritesPlan,
)
from langchain_sessions.stores._values import SessionDraft
from langchain_sessions.testing.faces import Face, PrivateLoop, SettableClock, faced
from langchain_sessions.testing.suites.base import StoreSuite, texts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from langchain_sessions.service import SessionService
    from langchain_sessions.stores._base import SessionStore

SUB = 77
_NAMES = {ROOT: "", SUB: "sub"}


class _Lacks:
    """A reader that knows nothing."""

    def lacks(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """All of them."""
        del session
        return seqs

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """None."""
        del session, shape
        return None

    def pieces(self, session: SessionRow, digests: Collection[bytes]) -> Collection[bytes]:
        """None."""
        del session, digests
        return ()


def write(task: str, idx: int, data: bytes) -> WriteRow:
    """A write of a task."""
    return WriteRow(task, idx, "channel", "", 0, None, data)


class Thread:
    """A thread of a store, as a saver writes it."""

    def __init__(self, store: SessionStore, key: SessionKey, now: int) -> None:
        """Use a store."""
        self.store, self.key, self.now = store, key, now
        self.draft = SessionDraft(app=key.app, id=key.id, user_id=str(key.owner), now=now)

    def plan(
        self, cid: str, parent: str | None = None, says: Sequence[str] = (), ns: int = ROOT, **more: Any
    ) -> PutPlan:
        """A checkpoint whose list holds what its parent's session had, and new messages."""
        values: tuple[ValueRow, ...] = more.pop("values", ())
        outside: bytes | None = more.pop("outside", None)
        run_id: str | None = more.pop("run_id", None)
        listed: Sequence[int] = more.pop("listed", ())
        needs: tuple[bytes, ...] = more.pop("needs", ())
        shape: int = more.get("shape", 5)

        def decide(session: SessionRow, related: Sequence[EventRow], waiting: Sequence[WriteRow]) -> PutDecision:
            del related
            fresh = tuple(self.event(session.last_seq + at, text) for at, text in enumerate(says, 1))
            seqs = [*listed, *(row.seq for row in fresh)]
            body = f"body {cid}".encode()
            row = CheckpointRow(ns, cid, parent, run_id, shape, encode_ranges(seqs), None, outside, body)
            return PutDecision(row=row, fresh=fresh, values=values, needs=needs, writes=tuple(waiting))

        options: dict[str, Any] = {"is_fork": False, "shape": 5, "shape_body": b"names", "idents": (), **more}
        return PutPlan(
            key=self.key, draft=self.draft, ns=ns, ns_name=_NAMES[ns], cid=cid, parent=parent, decide=decide, **options
        )

    def event(self, seq: int, text: str) -> EventRow:
        """A message that the root list holds."""
        rest = (None, None, None, None, text, None, None, None)
        return EventRow(seq, f"{text}-id", 0, None, None, HUMAN, ROOTED, self.now, 1, *rest)

    def writes(self, cid: str, *rows: WriteRow, ns: int = ROOT) -> WritesPlan:
        """Writes of tasks that ran on a checkpoint."""
        return WritesPlan(key=self.key, draft=self.draft, ns=ns, ns_name=_NAMES[ns], cid=cid, rows=lambda _: rows)

    def put(self, *given: Any, **options: Any) -> PutResult:
        """Write a checkpoint."""
        (outcome,) = self.store.commit_threads([self.plan(*given, **options)])
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, PutResult)
        return outcome

    def find(self, **wanted: Any) -> CheckpointPage:
        """The checkpoints that meet a query."""
        after = wanted.pop("after", None)
        known: dict[str, Any] = {"session_id": self.key.id, "owner": self.key.owner, "limit": None, **wanted}
        return self.store.find_checkpoints(CheckpointQuery(app=self.key.app, now=self.now, **known), after, _Lacks())

    def ids(self, **wanted: Any) -> list[str]:
        """Their ids."""
        return [item.row.cid for item in self.find(**wanted).found]

    def waiting(self, cid: str, ns: int = ROOT) -> list[tuple[str, int, bytes | None]]:
        """The writes of a checkpoint."""
        details = self.find(cid=cid, ns=ns).details
        return [(row.task, row.idx, row.data) for rows in details.writes.values() for row in rows]


class ThreadSuite(StoreSuite):
    """Checkpoints come newest first, as one step each, and a rewind of the log is one of the thread."""

    @pytest.fixture
    def thread(  # noqa: PLR0917 - a fixture's fixtures
        self, store: SessionStore, face: Face, loop: PrivateLoop, clock: SettableClock, app: str, ada: SessionService
    ) -> Thread:
        """Ada's `s1` as a thread."""
        del ada
        return Thread(faced(store, face, loop), SessionKey(app, "s1", "ada"), to_micros(clock()))

    def test_a_checkpoint_brings_its_messages(self, thread: Thread, ada: SessionService) -> None:
        done = thread.put("c1", says=["one", "two"], values=(ValueRow(b"d" * 16, b"large"),), outside=b"d" * 16)
        assert (done.session.last_seq, done.session.head_id, done.session.live_events) == (2, "c1", 2)
        page = thread.find(ns=ROOT, limit=1)
        assert [item.row for item in page.found] == [done.decision.row]
        skey = done.session.skey
        assert page.details.values == {(skey, b"d" * 16): b"large"}
        assert page.details.shapes == {(skey, 5): b"names"}
        assert [MessageRow(*parts).text for parts in page.details.events[skey]] == ["one", "two"]
        assert texts(ada.messages("s1")) == ["one", "two"]
        assert ada.count("s1").events == 2
        assert ada.verify("s1") == []

    def test_names_that_lie_in_the_row_are_nobody_elses(self, thread: Thread) -> None:
        skey = thread.put("c1", shape=NAMES_WITHIN, shape_body=b"").session.skey
        thread.put("c2", "c1")
        page = thread.find(ns=ROOT)
        assert [item.row.shape for item in page.found] == [5, NAMES_WITHIN]
        assert page.details.shapes == {(skey, 5): b"names", (skey, NAMES_WITHIN): b""}

    def test_newest_first_by_page(self, thread: Thread) -> None:
        for number in range(7):
            thread.put(f"c{number}", f"c{number - 1}" if number else None)
        thread.put("c3", ns=SUB)
        assert thread.ids() == ["c6", "c5", "c4", "c3", "c3", "c2", "c1", "c0"]
        assert thread.ids(ns=ROOT, before="c3") == ["c2", "c1", "c0"]
        assert thread.ids(cid="c3") == ["c3", "c3"]
        assert [item.ns_name for item in thread.find(cid="c3", ns=SUB, ns_name="sub").found] == ["sub"]
        assert sorted(item.ns_name for item in thread.find(cid="c3").found) == ["", "sub"]
        seen, after = list[str](), None
        while True:
            page = thread.find(limit=3, after=after)
            seen += [item.row.cid for item in page.found]
            after = page.after
            if after is None:
                break
        assert seen == thread.ids()
        assert thread.ids(accept=lambda item: item.row.cid in {"c1", "c5"}) == ["c5", "c1"]

    def test_threads_of_an_owner(self, thread: Thread, grace: SessionService, ada: SessionService) -> None:
        thread.put("c1", run_id="run")
        for service, name in ((ada, "s2"), (grace, "s3")):
            service.create(name)
        other = Thread(thread.store, thread.key._replace(id="s2"), thread.now)
        other.put("c2", run_id="run")
        assert thread.ids(session_id=None) == ["c2", "c1"]
        assert thread.ids(session_id=None, owner="grace") == []
        with pytest.raises(SessionNotFoundError):
            thread.find(owner="grace")
        assert thread.find(session_id="none").found == []
        assert [key.id for key in thread.store.find_runs(thread.key.app, "ada", ["run", "no"])] == ["s1", "s2"]
        assert thread.store.find_runs(thread.key.app, "grace", ["run"]) == []

    def test_writes_wait_for_their_checkpoint(self, thread: Thread, ada: SessionService) -> None:
        thread.put("c1")
        version = ada.get("s1").version
        store = thread.store
        first = thread.writes("c1", write("t", 0, b"one"), write("t", -1, b"old"))
        again = thread.writes("c1", write("t", 0, b"other"), write("t", -1, b"new"), write("u", 0, b"two"))
        assert store.commit_threads([first]) == [None]
        assert store.commit_threads([again]) == [None]
        assert ada.get("s1").version == version
        told = [("t", 0, b"one"), ("t", -1, b"new"), ("u", 0, b"two")]
        assert sorted(thread.waiting("c1")) == sorted(told)
        late = thread.writes("c1", write("v", 0, b"three"))
        outcomes = store.commit_threads([late, thread.plan("c2", "c1")])
        assert outcomes[0] is None
        assert isinstance(outcomes[1], PutResult)
        assert {row.data for row in outcomes[1].decision.writes} >= {b"one", b"new", b"two", b"three"}
        assert sorted(thread.waiting("c1")) == sorted([*told, ("v", 0, b"three")])

    def test_one_failure_takes_no_other_with_it(self, thread: Thread, ada: SessionService) -> None:
        thread.put("c1")
        plans: list[ThreadPlan] = [thread.writes("c1", write("t", 0, b"x")), thread.plan("c2", "c0", strict=True)]
        outcomes = thread.store.commit_threads(plans)
        assert outcomes[0] is None
        assert isinstance(outcomes[1], HeadConflictError)
        assert thread.waiting("c1") == [("t", 0, b"x")]
        with pytest.raises(StalePlanError):
            thread.put("c3", "c1", outside=b"g" * 16)
        foreign = Thread(thread.store, thread.key._replace(owner="grace"), thread.now)
        with pytest.raises(SessionNotFoundError):
            foreign.put("c4")
        ada.end("s1")
        with pytest.raises(SessionEndedError):
            thread.put("c5", "c1")
        assert thread.ids() == ["c1"]

    def test_a_rewind_of_the_log_is_one_of_the_thread(self, thread: Thread, ada: SessionService) -> None:
        thread.put("c1", says=["one"])
        thread.put("c2", "c1", says=["two"], listed=[1])
        thread.store.commit_threads([thread.writes("c1", write("t", 0, b"reply"))])
        ada.rewind("s1", to_seq=1)
        assert thread.ids() == ["c1"]
        assert thread.waiting("c1") == []
        assert texts(ada.messages("s1")) == ["one"]
        ada.undo_rewind("s1")
        assert thread.ids() == ["c2", "c1"]
        assert thread.waiting("c1") == [("t", 0, b"reply")]
        assert texts(ada.messages("s1")) == ["one", "two"]
        with pytest.raises(InvalidInputError, match="reset_thread"):
            ada.rewind("s1", to_seq=0)
        ada.rewind("s1", to_seq=0, reset_thread=True)
        assert thread.ids() == []
        assert ada.verify("s1") == []

    def test_pruning_keeps_events_and_mends_lines(self, thread: Thread, ada: SessionService) -> None:
        values = [ValueRow(bytes([number]) * 16, b"large") for number in range(3)]
        for number, value in enumerate(values):
            parent = f"c{number - 1}" if number else None
            thread.put(
                f"c{number}",
                parent,
                says=[f"m{number}"],
                listed=range(1, number + 1),
                values=(value,),
                outside=value.digest,
            )

        def keep(rows: ThreadRows) -> Collection[CheckpointKey]:
            assert (rows.session_id, len(rows.rows), len(rows.in_sight)) == ("s1", 3, 3)
            return {(ROOT, "c0"), (ROOT, "c2")}

        assert thread.store.prune_checkpoints(thread.key, thread.now, keep) == 1
        found = thread.find()
        assert [(item.row.cid, item.row.parent) for item in found.found] == [("c2", "c0"), ("c0", None)]
        assert {digest for _, digest in found.details.values} == {values[0].digest, values[2].digest}
        assert texts(ada.messages("s1")) == ["m0", "m1", "m2"]
        assert thread.store.prune_checkpoints(thread.key, thread.now, lambda _: set()) == 2
        assert texts(ada.messages("s1")) == ["m0", "m1", "m2"]
        assert thread.store.prune_checkpoints(thread.key._replace(id="none"), thread.now, keep) == 0
        assert ada.verify("s1") == []

    def test_values_come_with_what_they_consist_of(self, thread: Thread) -> None:
        names = [bytes([number]) * NAME for number in range(6)]
        rows = {
            names[0]: NODE + names[1] + names[2],
            names[1]: NODE + names[3],
            names[2]: b"leaf two",
            names[3]: b"leaf three",
            names[4]: NODE + names[2] + names[5],
        }
        values = [ValueRow(name, row) for name, row in rows.items()]
        thread.put("c1", values=tuple(values[:4]), outside=names[0])
        # What a value takes over has to be there; what is gone is left out of an answer.
        thread.put("c2", "c1", values=(values[4],), outside=names[4], needs=(names[0],))
        with pytest.raises(StalePlanError):
            thread.put("c3", "c2", needs=(b"g" * NAME,))
        told = {name: row for (_, name), row in thread.find(cid="c1").details.values.items()}
        assert told == {name: rows[name] for name in names[:4]}
        told = {name: row for (_, name), row in thread.find(ns=ROOT, limit=1).details.values.items()}
        assert told == {name: rows[name] for name in (names[4], names[2])}
        thread.store.prune_checkpoints(thread.key, thread.now, lambda _: {(ROOT, "c2")})
        told = {name: row for (_, name), row in thread.find().details.values.items()}
        assert told == {name: rows[name] for name in (names[4], names[2])}
        with pytest.raises(StalePlanError):
            thread.put("c3", "c2", needs=(names[1],))

    def test_writes_bring_their_values(self, thread: Thread, ada: SessionService) -> None:
        names = [bytes([number]) * NAME for number in range(3)]
        rows = {names[0]: NODE + names[1] + names[2], names[1]: b"one", names[2]: b"two"}
        values = tuple(ValueRow(name, row) for name, row in rows.items())
        thread.put("c1", says=["one"])
        large = WriteRow("t", 0, "channel", "", CUT, None, names[0] + b"more")
        plan = thread.writes("c1", large)._replace(values=values)
        assert thread.store.commit_threads([plan]) == [None]
        (outcome,) = thread.store.commit_threads([plan._replace(values=(), needs=(b"g" * NAME,))])
        assert isinstance(outcome, StalePlanError)

        def told(thread: Thread) -> dict[bytes, bytes]:
            return {name: row for (_, name), row in thread.find(cid="c1").details.values.items()}

        assert told(thread) == rows
        # Stored for good with the checkpoint that follows, and needed as long as the one that they ran on.
        thread.put("c2", "c1", says=["two"], listed=[1])
        assert told(thread) == rows
        copy = Thread(thread.store, thread.key._replace(id=ada.fork("s1").id), thread.now)
        assert told(copy) == rows
        thread.store.prune_checkpoints(thread.key, thread.now, lambda _: {(ROOT, "c1")})
        assert told(thread) == rows
        thread.store.prune_checkpoints(thread.key, thread.now, lambda _: set())
        with pytest.raises(StalePlanError):
            thread.put("c3", needs=(names[0],))
        assert told(copy) == rows

    def test_writes_go_whose_checkpoint_is_missing(self, thread: Thread) -> None:
        name = bytes(NAME)
        thread.put("c1", says=["one"])
        large = WriteRow("t", 0, "channel", "", CUT, None, name)
        plan = thread.writes("c2", large)._replace(values=(ValueRow(name, b"large"),))
        assert thread.store.commit_threads([plan]) == [None]

        def keep(rows: ThreadRows) -> Collection[CheckpointKey]:
            assert [*rows.missing] == [(ROOT, "c2")]
            return {(ROOT, "c1"), (ROOT, "c2")}

        assert thread.store.prune_checkpoints(thread.key, thread.now, keep) == 0
        thread.put("c3", "c1", needs=(name,))
        assert thread.store.prune_checkpoints(thread.key, thread.now, lambda _: {(ROOT, "c1"), (ROOT, "c3")}) == 0
        with pytest.raises(StalePlanError):
            thread.put("c4", needs=(name,))
        assert thread.ids() == ["c3", "c1"]

    def test_a_fork_copies_what_mentions_nothing_later(self, thread: Thread, ada: SessionService) -> None:
        thread.put("c1", says=["one"])
        thread.put("c2", "c1", says=["two"], listed=[1])
        thread.store.commit_threads([thread.writes("c2", write("t", 0, b"x"))])
        made = ada.fork("s1", at_seq=1)
        copy = Thread(thread.store, thread.key._replace(id=made.id), thread.now)
        assert copy.ids() == ["c1"]
        assert texts(ada.messages(made.id)) == ["one"]
        whole = Thread(thread.store, thread.key._replace(id=ada.fork("s1").id), thread.now)
        assert whole.ids() == ["c2", "c1"]
        assert whole.waiting("c2") == [("t", 0, b"x")]
        copy.put("c3", "c1", says=["other"], listed=[1])
        assert thread.ids() == ["c2", "c1"]
        assert [row.cid for row in thread.store.list_root_checkpoints(thread.key, thread.now)] == ["c1", "c2"]
        assert ada.verify(made.id) == []

    def test_ancestors_until_enough(self, thread: Thread) -> None:
        thread.put("c0", "c2")  # by hand: they go round in a circle
        thread.put("c1", "c0")
        thread.put("c2", "c1")
        query = CheckpointQuery(app=thread.key.app, owner="ada", now=thread.now, session_id="s1", ns=ROOT, cid="c2")
        for wanted, expected in ((set[str](), ["c1", "c0", "c2"]), ({"c1"}, ["c1"]), ({"c0"}, ["c1", "c0"])):

            def stored_in(item: Any, shape: bytes, wanted: set[str] = wanted) -> set[str]:
                assert shape == b"names"
                return {"a"} if item.row.cid in wanted else set()

            page = thread.store.load_lineage(query, ["a"], stored_in, _Lacks())
            assert [item.row.cid for item in page.found] == expected

    def test_a_thread_goes_with_its_session(self, thread: Thread, ada: SessionService) -> None:
        thread.put("c1", says=["one"])
        ada.delete("s1")
        assert thread.find().found == []
        (outcome,) = thread.store.commit_threads([thread.writes("c1", write("t", 0, b"late"))])
        assert isinstance(outcome, SessionNotFoundError)
        assert thread.put("c9").session.last_seq == 0
        assert thread.ids() == ["c9"]
