"""Everything that a session shows, against the list that says what it should show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_sessions.errors import SessionNotFoundError
from langchain_sessions.filters import EventFilter

if TYPE_CHECKING:
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.service import SessionService
    from langchain_sessions.testing.models import ListModel

_VIEWERS = (None, "orch", "orch.sub", "other")


def compare_session(reader: SessionService, name: str, model: ListModel | None, now: int) -> None:
    """Log, contexts, state, counters, keyword search and `verify`; without a model, that there is no session."""
    if model is None:
        try:
            reader.get(name)
        except SessionNotFoundError:
            return
        raise AssertionError(name)
    events = reader.events(name).items
    stand = model.standings(now)
    assert [_shown(event) for event in events] == [
        (record.seq, record.kind, record.text, record.place, stand[record.seq]) for record in model.records
    ]
    for viewer in _VIEWERS:
        expected = [record.seq for record in model.context(viewer, now)]
        assert [event.seq for event in reader.context(name, branch=viewer).events] == expected, viewer
        newest = [events[record.seq - 1].message for record in model.context(viewer, now, last_n=2)]
        assert reader.messages(name, branch=viewer, last_n=2) == newest
    assert reader.state(name) == model.state()
    _compare_counts(reader, name, model)
    _compare_search(reader, name, model)
    assert reader.verify(name) == []


def _shown(event: SessionEvent) -> tuple[Any, ...]:
    text = None if event.message is None else str(event.message.text)
    return (event.seq, event.kind.value, text, event.position, event.standing)


def _compare_counts(reader: SessionService, name: str, model: ListModel) -> None:
    # Counters are kept when something happens; that a run has been idle for long is found when it is read.
    awake = max((run.at for run in model.runs.values() if run.status == "open"), default=0)
    for scope in _VIEWERS[:3]:
        assert reader.count(name, branch=scope)[:2] == model.count(scope, awake), scope


def _compare_search(reader: SessionService, name: str, model: ListModel) -> None:
    for word in ("ES", "100%", "SS", "m"):
        wanted = [r.seq for r in model.records if r.text is not None and word.casefold() in r.text.casefold()]
        assert [event.seq for event in reader.events(name, EventFilter(keyword=word))] == wanted
