"""Names of channels and nodes lie in the first checkpoint that has them; beside them once they come again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import select

from langchain_sessions._core.checkpoints import NAMES_WITHIN, lengthened, shortened
from langchain_sessions._core.packed_names import packed_names, unpacked_names
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.checkpointer import SessionCheckpointSaver

if TYPE_CHECKING:
    from langchain_sessions.service import SessionService

everywhere = pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def graph_over(service: SessionService, *nodes: str) -> Any:
    builder: Any = StateGraph(MessagesState)
    for before, name in zip((START, *nodes), nodes, strict=False):
        builder.add_node(name, lambda state: {"messages": [AIMessage("re")]})
        builder.add_edge(before, name)
    return builder.compile(checkpointer=SessionCheckpointSaver(service))


def say(graph: Any, text: str) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, CONFIG)


def shapes(service: SessionService) -> tuple[set[int], list[int]]:
    """The names that are stored beside the checkpoints, and what each checkpoint says of its own."""
    store: Any = log_of(service).store
    s, c = store.tables.threads.shapes.c, store.tables.threads.checkpoints.c

    def read(tx: Any) -> tuple[set[int], list[int]]:
        beside = {row[0] for row in tx.once(select(s.shape))}
        return beside, [row[0] for row in tx.once(select(c.shape).order_by(c.cid))]

    found: tuple[set[int], list[int]] = store.run(TransactionKind.READ, read)
    return found


@on_databases
def test_a_thread_of_one_turn_stores_no_names_beside_it(service: SessionService) -> None:
    graph = graph_over(service, "model")
    say(graph, "one")
    assert shapes(service) == (set(), [NAMES_WITHIN] * 3)
    for text in ("two", "three"):
        say(graph, text)
    beside, named = shapes(service)
    assert NAMES_WITHIN not in beside
    # Each at its first checkpoint alone.
    assert named.count(NAMES_WITHIN) == 5
    assert beside == {*named} - {NAMES_WITHIN}


@everywhere
def test_a_fresh_saver_reads_forks_and_goes_on(service: SessionService) -> None:
    graph = graph_over(service, "model")
    say(graph, "one")
    for number in range(3):
        graph = graph_over(service, "model")
        say(graph, f"more {number}")
        history = list(graph_over(service, "model").get_state_history(CONFIG))
        assert [state.metadata["step"] for state in history] == [*range(3 * number + 4, -2, -1)]
        assert history[0].values == graph.get_state(CONFIG).values
    first = list(graph.get_state_history(CONFIG))[-2]
    forked = graph_over(service, "model").invoke(None, first.config)
    assert [message.content for message in forked["messages"]] == ["one", "re"]
    graph.checkpointer.copy_thread("t", "copy")
    copied = graph_over(service, "model").get_state({"configurable": {"thread_id": "copy"}})
    assert copied.values == graph.get_state(CONFIG).values


@everywhere
def test_they_go_with_their_checkpoint_and_come_back(service: SessionService) -> None:
    say(graph_over(service, "model"), "one")
    graph_over(service, "model").checkpointer.prune(["t"])
    graph = graph_over(service, "model")
    say(graph, "two")
    assert [message.content for message in graph.get_state(CONFIG).values["messages"]] == ["one", "re", "two", "re"]
    assert len(list(graph_over(service, "model").get_state_history(CONFIG))) == 4


@on_databases
def test_many_names_are_stored_once(service: SessionService) -> None:
    nodes = [f"a node of a long name, number {number}" for number in range(30)]
    graph = graph_over(service, *nodes)
    say(graph, "one")
    beside, named = shapes(service)
    assert len(beside) > 20
    assert NAMES_WITHIN in named  # the input alone
    assert len(list(graph_over(service, *nodes).get_state_history(CONFIG))) == 32


def test_what_was_altered_is_not_read() -> None:
    names = ormsgpack.packb([["__start__"], [["__input__", []]], ["__start__"]])
    packed = packed_names(names)
    assert len(packed) < len(names) // 2
    assert unpacked_names(packed) == names
    for bad in (b"", packed[:-1], b"\xff" * 9):
        with pytest.raises(ValueError, match="altered"):
            unpacked_names(bad)


def test_metadata_comes_back_whatever_bytes_it_holds() -> None:
    draw = random.Random(7)
    usual = ormsgpack.packb({"source": "loop", "step": 3, "parents": {}})
    assert len(shortened(usual)) <= 8
    for _ in range(5_000):
        step = draw.choice([-1, 3, 193, 0xC101, 0xC1C1, [193, 1], [193, 2], [193, 3], b"\xc1\1"])
        metadata = {
            "source": draw.choice(["loop", "input", "fork"]),
            "step": step,
            "parents": draw.choice([{}, {"a": 1}]),
        }
        if draw.random() < 0.5:
            metadata = {"user": step, **metadata}
        packed = ormsgpack.packb(metadata)
        assert lengthened(shortened(packed)) == packed
