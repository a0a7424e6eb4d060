"""A mistake of ours anywhere in a call is told as what it is: as corruption only what decodes stored bytes is told."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from langchain_sessions import (
    Compaction,
    CorruptRowError,
    SessionCheckpointSaver,
    SessionService,
    TurnCount,
    TurnWindow,
)
from tests.faults.drills import make_service, opened
from tests.faults.mistaken import entered, made_of, mistaken, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.runnables import RunnableConfig

    Ready = Callable[[SessionService, str], Callable[[], object]]

pytestmark = pytest.mark.backends("memory", "sqlite", "files")

# What takes stored bytes apart, by what a call reads. Nobody can say of these whose fault it was.
DECODERS = {
    "append": set[str](),
    "put": set[str](),
    "get_tuple": {
        "_chat/address:_made_at",
        "_chat/address:whole_time",
        "_chat/address:whole_versions",
        "_core/checkpoints:lengthened",
        "_core/checkpoints:opened",
        "_threads/rebuild:_body",
        "_threads/rebuild:_unpack_slot",
        "_threads/rebuild:load_slot",
    },
    "search": set[str](),
    "compact": {"_core/ledger:decode"},
}
# Decoders from the first line to the last: they put a value together from its pieces, as each piece says. And what SQL
# asks of the columns that hold runs, where something went wrong.
_OF_PARTS = ("_core/pieces:", "_core/piece_rows:", "_core/ranges:decode_ranges")


_LARGE = 200_000  # in pieces beside its row


def _spoken(service: SessionService, session_id: str) -> None:
    service.open(session_id)
    for at in range(4):
        service.append(session_id, [HumanMessage(f"hello {at}", id=f"h{at}"), AIMessage(f"answer {at}", id=f"a{at}")])


def _append(service: SessionService, session_id: str) -> Callable[[], object]:
    _spoken(service, session_id)

    def append() -> object:
        (event,) = service.append(session_id, HumanMessage("and now?"), author="ada", metadata={"k": 1})
        return event.message, event.timestamp, event.metadata

    return append


def _search(service: SessionService, session_id: str) -> Callable[[], object]:
    _spoken(service, session_id)
    return lambda: service.search("hello", session_id=session_id)


def _compact(service: SessionService, session_id: str) -> Callable[[], object]:
    _spoken(service, session_id)
    return lambda: service.compact(session_id, Compaction(TurnCount(1), TurnWindow(2)))


def _put(service: SessionService, session_id: str) -> Callable[[], object]:
    saver = SessionCheckpointSaver(service)

    def put(config: RunnableConfig, version: int) -> RunnableConfig:
        checkpoint = empty_checkpoint()
        said = [HumanMessage(f"hello {at}", id=f"h{at}") for at in range(version)]
        values = {"messages": said, "plan": ["step by step"] * version, "report": "a" * _LARGE}
        checkpoint["channel_values"], versions = values, dict.fromkeys(values, version)
        checkpoint["channel_versions"] = {**versions}
        return saver.put(config, checkpoint, {"source": "loop", "step": version}, {**versions})

    first = put({"configurable": {"thread_id": session_id, "checkpoint_ns": ""}}, 1)
    return lambda: put(first, 3)


def _get_tuple(service: SessionService, session_id: str) -> Callable[[], object]:
    thread: RunnableConfig = {"configurable": {"thread_id": session_id, "checkpoint_ns": ""}}
    _put(service, session_id)()
    # A saver of its own: what another one wrote it has to read.
    return lambda: SessionCheckpointSaver(service).get_tuple(thread)


CALLS: dict[str, Ready] = {
    "append": _append,
    "put": _put,
    "get_tuple": _get_tuple,
    "search": _search,
    "compact": _compact,
}
# A mistake in what a call can do without is logged, not told.
_MOST_SILENT = 0.1


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        yield made


def _told(call: Callable[[], object]) -> str:
    try:
        call()
    except CorruptRowError:
        return "corrupt"
    except Exception as error:  # noqa: BLE001 - whatever it is: the test names it
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize("name", CALLS)
def test_a_mistake_in_any_function_of_a_call_is_no_corruption(name: str, service: SessionService) -> None:
    ready: Any = CALLS[name]
    ready(service, "warm")()
    codes = entered(ready(service, "followed"))
    told: Counter[str] = Counter()
    corrupt: set[str] = set()
    for at, (code, owners) in enumerate(made_of(codes).items()):
        call = ready(service, f"s{at}")
        with mistaken(code, owners) as is_made:
            said = _told(call) if is_made else "not made"
        told[said] += 1
        if said == "corrupt":
            corrupt.add(name_of(code))
    assert {each for each in corrupt if name != "get_tuple" or not each.startswith(_OF_PARTS)} == DECODERS[name]
    made = sum(told.values()) - told["not made"]
    assert told["ZeroDivisionError"] + told["corrupt"] + told["nothing"] == made, told
    assert told["nothing"] <= _MOST_SILENT * made, told
