"""The own tests of langgraph-supervisor and langgraph-swarm, each of their graphs over our saver: a plugin of pytest.

`python -m pytest -p tests.hosts.own_suites FOLDER`. Their graphs are compiled with our saver where they have none or
LangGraph's; whatever a graph reads must be what `InMemorySaver` has, and what was stored must be whole at the end.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from tests.hosts.beside import SaverBeside

_compile: Any = StateGraph.compile
_made: list[SaverBeside] = []


def _compiled(graph: Any, checkpointer: Any = None, **options: Any) -> Any:
    if checkpointer is not None and not isinstance(checkpointer, InMemorySaver):
        return _compile(graph, checkpointer, **options)
    saver = SaverBeside()
    _made.append(saver)
    made = _compile(graph, saver, **options)
    made.config = {"configurable": {"thread_id": str(uuid.uuid4())}}
    return made


def pytest_configure(config: pytest.Config) -> None:
    """Have every graph compiled with our saver."""
    del config
    graphs: Any = StateGraph
    graphs.compile = _compiled


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look at what was stored."""
    threads = [thread for saver in _made for thread in saver.finish()]
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"\n{len(threads)} threads over our saver are what InMemorySaver has of them")
    if not threads:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
