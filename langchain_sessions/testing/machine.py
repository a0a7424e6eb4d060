"""Random use of a store, compared with a list after every step.

    class TestMachine(SessionMachine.TestCase): ...

needs a store: make a subclass with `machine_for(make_store)`. Hypothesis is needed only here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions._core.edge import to_micros
from langchain_sessions.errors import (
    EventConflictError,
    EventNotFoundError,
    SessionEndedError,
    SessionExistsError,
    SessionNotFoundError,
    StaleSessionError,
)
from langchain_sessions.events import InvocationStatus, NewEvent
from langchain_sessions.service import SessionService
from langchain_sessions.stores._base import SessionStore
from langchain_sessions.testing.archiving import archive
from langchain_sessions.testing.comparing import compare_session
from langchain_sessions.testing.faces import Face, PrivateLoop, SettableClock, faced
from langchain_sessions.testing.models import ConflictInModelError, ListModel, Said

if TYPE_CHECKING:
    from langchain_sessions._core.view import Context

OpenStore = Callable[[], tuple[SessionStore, Face, PrivateLoop]]
_NAMES = st.sampled_from(["s1", "s1", "s1", "s2"])
_TEXTS = st.sampled_from(["yes", "No way", "100% ß"])
_SAID = st.tuples(_TEXTS, st.sampled_from(["human", "ai"]), st.sampled_from([None, None, "a", "b", "c"]))
_BRANCHES = st.sampled_from([None, None, None, "orch", "orch.sub"])
_RUNS = st.sampled_from([None, None, "run-1", "run-2"])
_STATUSES = st.sampled_from([None, *InvocationStatus])
_PICKS = st.lists(st.sampled_from([True, True, False]), min_size=12, max_size=12)
_SUMMARIES = st.sampled_from([None, "summary", "summary"])
_DELTAS = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from([None, 1, "x"]), max_size=2)


class SessionMachine(RuleBasedStateMachine):
    """Two writers over one store, and a list for each of two sessions."""

    def open_store(self) -> tuple[SessionStore, Face, PrivateLoop]:
        """The store to test, the face to test it by, and where its async face runs."""
        raise NotImplementedError

    def __init__(self) -> None:
        """Start with `s1`."""
        super().__init__()
        self.clock = SettableClock()
        store, face, loop = self.open_store()
        app = f"machine-{id(self)}-{next(_numbers)}"
        services = [SessionService(store, app=app, clock=self.clock).as_user("ada") for _ in range(2)]
        self.writers = [faced(service, face, loop) for service in services]
        self.models: dict[str, ListModel] = {}
        self.plans: list[tuple[str, Context, frozenset[int]]] = []
        self.create("s1")
        start = [("one", "human", "a"), ("two", "ai", "b"), ("three", "human", None), ("four", "ai", None)]
        self.append("s1", 0, start, None, None, None, {}, 1)

    @property
    def now(self) -> int:
        """The present in microseconds."""
        return to_micros(self.clock())

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.writers[0].delete_user()

    # -- sessions ------------------------------------------------------------------------------------------

    def create(self, name: str) -> None:
        """Create a session; refused where there is one."""
        try:
            self.writers[0].create(name)
        except SessionExistsError:
            assert name in self.models
        else:
            assert name not in self.models
            self.models[name] = ListModel()

    @rule(name=_NAMES)
    def recreate(self, name: str) -> None:
        """Create, whether it is there or not."""
        self.create(name)
        self.compare(name)

    @rule(name=_NAMES, chance=st.integers(0, 9))
    def delete(self, name: str, chance: int) -> None:
        """Delete now and then."""
        if chance:
            return
        assert self.writers[1].delete(name) is (name in self.models)
        self.models.pop(name, None)
        self.plans = [plan for plan in self.plans if plan[0] != name]
        self.compare(name)

    @rule(minutes=st.sampled_from([1, 5, 10, 14, 15, 16, 16, 20, 61 * 24 * 60]))
    def wait(self, minutes: int) -> None:
        """Let time pass: open runs fail, sessions expire."""
        self.clock.advance(minutes=minutes)
        if timedelta(minutes=minutes) > timedelta(days=60):
            self.models.clear()
            self.plans.clear()
        for name in ("s1", "s2"):
            self.compare(name)

    @rule()
    def purge(self) -> None:
        """Remove what has expired, which nobody can tell."""
        self.writers[0].purge_expired(batch=1)

    @rule(name=_NAMES, chance=st.integers(0, 3))
    def end_or_reopen(self, name: str, chance: int) -> None:
        """Now and then end a session that takes events; always let an ended one take them again."""
        model = self.models.get(name)
        if model is None or (chance and not model.is_ended):
            return
        (self.writers[0].reopen if model.is_ended else self.writers[1].end)(name)
        model.is_ended = not model.is_ended
        model.add(kind="lifecycle")
        self.compare(name)

    @rule(name=_NAMES, at=st.integers(0, 100))
    def fork(self, name: str, at: int) -> None:
        """Copy a log up to a position and look at the copy."""
        model = self.models.get(name)
        if model is None:
            return
        upto = at % (len(model.records) + 1)
        made = self.writers[0].fork(name, at_seq=upto)
        known = {record.run for record in model.records[:upto]}
        runs = {run: copy.copy(value) for run, value in model.runs.items() if run in known}
        self.models[made.id] = ListModel(copy.deepcopy(model.records[:upto]), runs)
        self.compare(made.id)
        del self.models[made.id]
        self.writers[0].delete(made.id)

    # -- the log -------------------------------------------------------------------------------------------

    @rule(
        name=_NAMES,
        writer=st.integers(0, 1),
        said=st.lists(_SAID, min_size=1, max_size=4),
        branch=_BRANCHES,
        run=_RUNS,
        status=_STATUSES,
        delta=_DELTAS,
        times=st.integers(1, 2),
    )
    def append(  # noqa: PLR0917 - a rule's arguments
        self,
        name: str,
        writer: int,
        said: list[tuple[str, str, str | None]],
        branch: str | None,
        run: str | None,
        status: InvocationStatus | None,
        delta: dict[str, Any],
        times: int,
    ) -> None:
        """Append a batch, once or (as after a lost answer) twice."""
        status = None if run is None else status
        items = [Said(text=t, speaker=s, key=_key(at, t, s, i, run)) for at, (t, s, i) in enumerate(said)]
        messages = [_message(text, speaker, message_id) for text, speaker, message_id in said]
        options: dict[str, Any] = {"branch": branch, "invocation_id": run, "invocation_status": status}
        for _ in range(times):
            if not (messages or delta or status):
                return
            self._append(name, self.writers[writer], messages, items, {**options, "state_delta": delta})
            self.compare(name)

    @rule(name=_NAMES, branch=_BRANCHES, run=_RUNS, status=_STATUSES, delta=_DELTAS)
    def note(
        self, name: str, branch: str | None, run: str | None, status: InvocationStatus | None, delta: dict[str, Any]
    ) -> None:
        """Append state or a mark alone."""
        self.append(name, 1, [], branch, run, status, delta, 1)

    def _append(
        self,
        name: str,
        service: SessionService,
        messages: list[BaseMessage],
        items: list[Said],
        options: dict[str, Any],
    ) -> None:
        model = self.models.get(name)
        try:
            got = [event.seq for event in service.append(name, messages, **options)]
        except SessionNotFoundError:
            assert model is None
            self.create(name)
            return
        except SessionEndedError:
            assert model is not None
            assert model.is_ended
            return
        except EventConflictError:
            assert model is not None
            assert not self._expected(model, items, options), "an unexpected conflict"
            return
        assert model is not None
        assert not model.is_ended
        assert got == self._expected(model, items, options)

    def _expected(self, model: ListModel, items: list[Said], options: dict[str, Any]) -> list[int] | None:
        status = options["invocation_status"]
        try:
            return model.append(
                items,
                branch=options["branch"],
                run=options["invocation_id"],
                status=None if status is None else status.value,
                delta=options["state_delta"],
                now=self.now,
            )
        except ConflictInModelError:
            return None

    @rule(name=_NAMES, lag=st.integers(0, 2))
    def append_expecting(self, name: str, lag: int) -> None:
        """Append if nothing happened meanwhile."""
        model = self.models.get(name)
        if model is None or model.is_ended:
            return
        version = len(model.records)
        try:
            self.writers[0].append(name, HumanMessage("on time"), expected_version=version - lag)
        except StaleSessionError:
            assert lag
        else:
            assert not lag
            model.add(text="on time", speaker="human")
        self.compare(name)

    @rule(name=_NAMES, message_id=st.sampled_from(["a", "b", "c"]), text=_TEXTS)
    def edit(self, name: str, message_id: str, text: str) -> None:
        """Replace a message."""
        model = self.models.get(name)
        if model is None or model.is_ended:
            return
        expected = model.edit(message_id, text, "ai", self.now)
        try:
            event = self.writers[1].edit(name, AIMessage(text, id=message_id))
        except EventNotFoundError:
            assert expected is None
        else:
            assert expected is not None
            assert event.seq == expected.seq
        self.compare(name)

    @rule(name=_NAMES, at=st.integers(0, 100), back=st.integers(0, 6))
    def rewind(self, name: str, at: int, back: int) -> None:
        """Go back a little, or anywhere."""
        model = self.models.get(name)
        if model is None:
            return
        last = len(model.records)
        target = max(last - back, 0) if back else at % (last + 1)
        self.writers[0].rewind(name, to_seq=target)
        model.rewind(target)
        self.compare(name)

    @rule(name=_NAMES, run=st.sampled_from(["run-1", "run-2"]))
    def rewind_run(self, name: str, run: str) -> None:
        """Go back to before a run."""
        model = self.models.get(name)
        if model is None:
            return
        seen = model.visible()
        first = next((record.seq for record in model.records if record.run == run and record.seq in seen), None)
        try:
            done = self.writers[0].rewind(name, before_invocation=run)
        except EventNotFoundError:
            assert first is None
            return
        assert first is not None
        assert done.to_seq == first - 1
        model.rewind(first - 1)
        self.compare(name)

    @rule(name=_NAMES)
    def undo(self, name: str) -> None:
        """Take a rewind back."""
        model = self.models.get(name)
        if model is None:
            return
        target = model.undo_target()
        try:
            done = self.writers[1].undo_rewind(name)
        except EventNotFoundError:
            assert target is None
            return
        assert done.to_seq == target
        model.rewind(done.to_seq)
        self.compare(name)

    # -- compaction ----------------------------------------------------------------------------------------

    @rule(name=_NAMES, branch=_BRANCHES, picks=_PICKS, keep=st.integers(0, 3))
    def plan(self, name: str, branch: str | None, picks: list[bool], keep: int) -> None:
        """Read a context and choose what to archive, to be committed later or never."""
        if name not in self.models:
            return
        base = self.writers[0].context(name, branch=branch)
        mine = [event.seq for event in base.events if event.branch == branch and not event.is_synthetic]
        chosen = frozenset(seq for seq, pick in zip(mine[: len(mine) - keep], picks, strict=False) if pick)
        self.plans.append((name, base, chosen))

    @rule(name=_NAMES, branch=_BRANCHES, picks=_PICKS, keep=st.integers(0, 3), text=_SUMMARIES)
    def compact(self, name: str, branch: str | None, picks: list[bool], keep: int, text: str | None) -> None:
        """Choose and commit at once."""
        if name in self.models:
            self.plan(name, branch, picks, keep)
            self.commit(len(self.plans) - 1, text, keep=False)

    @precondition(lambda self: self.plans)
    @rule(which=st.integers(0, 100), text=_SUMMARIES, keep=st.booleans())
    def commit(self, which: int, text: str | None, *, keep: bool) -> None:
        """Commit a plan, perhaps an old one, perhaps twice."""
        plan = self.plans[which % len(self.plans)]
        if not keep:
            self.plans.remove(plan)
        name, base, covered = plan
        summary = [] if text is None else [NewEvent(message=AIMessage(text))]
        done = archive(self.writers[1], name, covered, base=base, summary=summary)
        expected = self.models[name].archive(base.branch, covered, base.compaction, text, self.now)
        assert (done is not None) is expected
        self.compare(name)

    # -- comparing -----------------------------------------------------------------------------------------

    def compare(self, name: str) -> None:
        """Everything that a session shows, against its list."""
        compare_session(self.writers[len(name) % 2], name, self.models.get(name), self.now)


_numbers = iter(range(1 << 60))


def _message(text: str, speaker: str, message_id: str | None) -> BaseMessage:
    return HumanMessage(text, id=message_id) if speaker == "human" else AIMessage(text, id=message_id)


def _key(at: int, text: str, speaker: str, message_id: str | None, run: str | None) -> object:
    """What identifies a message: its id, else its place in its run."""
    if message_id is not None:
        return message_id
    return None if run is None else (run, at, text, speaker)


def machine_for(open_store: OpenStore) -> type[SessionMachine]:
    """A machine over a store of one's own.

    Args:
        open_store: Called at the start of each example; the store may be the same each time.
    """
    return type("StoreMachine", (SessionMachine,), {"open_store": lambda _: open_store()})
