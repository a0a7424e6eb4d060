"""Filters in SQL equal filters in memory: one log, any filter, the same answer from every store."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions import ANY_BRANCH, EventFilter, EventKind, InvocationStatus, NewEvent, SessionService, Standing
from langchain_sessions._sql.store import SqlStore
from langchain_sessions.stores._memory import InMemoryStore
from langchain_sessions.testing import SettableClock
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Databases

CLOCK = SettableClock()
ALPHABET = "aAbß%_\\ 'éE\u0301İıΣσς🦜\0\ud83d\n"  # noqa: RUF001 - look-alikes are the point
TEXT = st.text(ALPHABET, max_size=5)
BRANCHES = [None, "a", "a.b", "A", "a%", "ab"]


def _fill(service: SessionService) -> None:
    """A log in which everything happened: edits, compactions, rewinds, failed runs, branches."""
    service.create("s1")
    said: list[BaseMessage] = [
        HumanMessage("Aa ß%_", id="1"),
        AIMessage("İstanbul ıΣσς", id="2"),
        SystemMessage("a\0b \ud83d"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"Aé": "E\u0301\\"}, "id": "c", "type": "tool_call"}]),
        ToolMessage([{"type": "text", "text": "🦜 %a"}], tool_call_id="c", name="look"),
        AIMessage("Eé", name="cleo"),
        # So long that a database packs them.
        HumanMessage("Aa %_b" * 400),
        AIMessage("İıΣ ß🦜" * 400, tool_calls=[{"name": "find", "args": {"E": "b"}, "id": "f", "type": "tool_call"}]),
    ]
    for at, message in enumerate(said * 2):
        fresh = message if at < len(said) else message.model_copy(update={"id": None})
        when = CLOCK.moment + timedelta(seconds=at)
        branch = BRANCHES[at % len(BRANCHES)]
        service.append("s1", fresh, branch=branch, author=[None, "Ada", "ada"][at % 3], timestamp=when)
    service.edit("s1", HumanMessage("edited Bb", id="1"))
    for status in InvocationStatus:
        service.append("s1", HumanMessage(f"run {status.value}"), invocation_id=status.value, invocation_status=status)
    service.append("s1", [], state_delta={"k": 1})
    base = service.context("s1")
    mine = [event.seq for event in base.events if event.branch is None][:2]
    archive(service, "s1", mine, base=base, summary=[NewEvent(message=AIMessage("sum Aa"))])
    service.append("s1", [HumanMessage("gone b"), AIMessage("gone a", id="g")])
    service.rewind("s1", to_seq=service.get("s1").version - 1)
    service.append("s1", [AIMessage("after _%", id="g"), HumanMessage("last ß")])
    base = service.context("s1", branch="a")
    archive(service, "s1", [event.seq for event in base.events if event.branch == "a"][:1], base=base)
    service.end("s1")


@pytest.fixture(scope="module")
def both(backend: str, all_databases: Databases) -> Iterator[tuple[SessionService, SessionService]]:
    """The same log in memory and on a backend."""
    prefix = f"f{secrets.token_hex(4)}_"
    store = SqlStore(all_databases.shared(backend), table_prefix=prefix)
    store.create_schema()
    found = SessionService(InMemoryStore(), clock=CLOCK), SessionService(store, clock=CLOCK)
    for service in found:
        _fill(service)
    yield found
    found[1].delete("s1")
    store.close()


def _some(values: list[Any]) -> st.SearchStrategy[frozenset[Any]]:
    return st.one_of(st.just(frozenset[Any]()), st.frozensets(st.sampled_from(values), min_size=1, max_size=4))


MOMENTS = st.one_of(st.none(), st.integers(-1, 11).map(lambda s: CLOCK.moment + timedelta(seconds=s)))
PLACES = st.one_of(st.none(), st.integers(0, 30))
CRITERIA = st.fixed_dictionaries(
    {},
    optional={
        "since": MOMENTS,
        "until": MOMENTS,
        "roles": _some(["human", "ai", "system", "tool", "chat"]),
        "kinds": _some(list(EventKind)),
        "standings": _some(list(Standing)),
        "synthetic": st.sampled_from([None, True, False]),
        "archived": st.sampled_from([None, True, False]),
        "keyword": TEXT,
        "keywords": st.lists(TEXT, max_size=3).map(tuple),
        "match": st.sampled_from([None, "any", "all"]),
        "pattern": st.sampled_from([None, None, re.compile("a.b", re.DOTALL), re.compile("^E", re.IGNORECASE)]),
        "branch": st.sampled_from([ANY_BRANCH, *BRANCHES, "a.b.c"]),
        "authors": _some(["Ada", "ada", "nobody", "cleo"]),
        "tools": _some(["look", "find"]),
        "without_tools": _some(["look", "find"]),
        "invocation_id": st.sampled_from([None, None, "open", "failed", "Done"]),
        "after_seq": PLACES,
        "before_seq": PLACES,
    },
)
WINDOWS: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.just({}),
    st.integers(1, 5).map(lambda n: {"last_n": n}),
    st.tuples(st.integers(0, 3), st.integers(1, 6)).map(lambda p: {"page": p[0], "page_size": p[1]}),
)


@pytest.mark.backends("sqlite", "postgres", "mariadb")
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(criteria=CRITERIA, window=WINDOWS)
def test_sql_equals_memory(
    both: tuple[SessionService, SessionService], criteria: dict[str, Any], window: dict[str, Any]
) -> None:
    memory, sql = both
    wanted = EventFilter(**criteria, **window)
    expected, found = (service.events("s1", wanted, with_total=True) for service in (memory, sql))
    assert [(event.seq, event.standing) for event in found] == [(event.seq, event.standing) for event in expected]
    assert found.total == expected.total
    onward, other = (service.events("s1", replace(wanted, last_n=None, page=None, page_size=3), cursor=page.next_cursor)
                     for service, page in ((memory, expected), (sql, found)))  # fmt: skip
    assert [event.seq for event in onward] == [event.seq for event in other]
