"""What docs/comparison.md says of peers that are installed here, tried on the versions that it names."""

from __future__ import annotations

import asyncio
import inspect
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langchain_sessions import Compaction, InMemoryStore, SessionCheckpointSaver, SessionService, TurnWindow
from tests.docs.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = (ROOT / "docs" / "comparison.md").read_text()
TIDYING = ("prune", "delete_for_runs", "copy_thread")
CONFIG: Any = {"configurable": {"thread_id": "t1"}}


def of_version(package: str, words: str) -> Callable[[Any], Any]:
    """Run a test with the version that the page names; of another one it says nothing."""
    named = re.search(rf"{words} (\d+\.\d+)", PAGE)
    assert named is not None, f"{words} with its version is no longer on the page"
    here = ".".join(metadata.version(package).split(".")[:2])
    return pytest.mark.skipif(here != named[1], reason=f"the page speaks of {package} {named[1]}, here is {here}")


def offers(saver: type, method: str) -> bool:
    return getattr(saver, method) is not getattr(BaseCheckpointSaver, method)


@of_version("langgraph-checkpoint-sqlite", "langgraph-checkpoint-sqlite")
def test_sqlite_saver_has_two_classes_and_does_not_tidy() -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver, pytest.raises(NotImplementedError):
        asyncio.run(saver.aget_tuple(CONFIG))
    assert [name for name in TIDYING if offers(SqliteSaver, name)] == []


@of_version("langgraph-checkpoint-postgres", "langgraph-checkpoint-postgres")
def test_postgres_saver_prunes_and_no_more() -> None:
    assert [name for name in TIDYING if offers(PostgresSaver, name)] == ["prune"]
    assert "DeltaChannel" in (PostgresSaver.prune.__doc__ or "")


def test_ours_does_both_in_one_class() -> None:
    assert [name for name in TIDYING if offers(SessionCheckpointSaver, name)] == list(TIDYING)
    assert asyncio.run(SessionCheckpointSaver(SessionService(InMemoryStore())).aget_tuple(CONFIG)) is None


@of_version("langchain", "LangChain")
def test_what_langchains_middleware_summarises_is_removed_from_the_state() -> None:
    model = FakeListChatModel(responses=["Hello."])
    agent: Any = create_agent(
        model,
        middleware=[SummarizationMiddleware(model, trigger=("messages", 4), keep=("messages", 2))],
        checkpointer=InMemorySaver(),
    )
    for number in range(4):
        agent.invoke({"messages": f"Question {number}"}, CONFIG)
    kept = agent.get_state(CONFIG).values["messages"]
    assert "Question 0" not in [message.text for message in kept]
    assert inspect.signature(SummarizationMiddleware).parameters["trim_tokens_to_summarize"].default == 4_000


def test_what_ours_compacts_stays_in_the_log_and_in_search() -> None:
    with SessionService(InMemoryStore()) as sessions:
        ada = sessions.as_user("ada")
        ada.open("s1")
        for number in range(4):
            ada.append("s1", [HumanMessage(f"Question {number}"), AIMessage("Hello.")])
        ada.compact("s1", Compaction(None, TurnWindow(1)))
        assert "Question 0" not in [message.text for message in ada.messages("s1")]
        assert ada.search('"question 0"', session_id="s1").items
