"""Processes that compact the same scope at once: one of them pays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import SessionService

ROOT = Path(__file__).parents[2]
RUN = """
import sys, time
from langchain_sessions import SessionService
from langchain_sessions import (Compaction, Summarize)
from tests.compaction.models import ScriptedModel

def called():
    print("called", flush=True)
    time.sleep(0.5)

service = SessionService(sys.argv[1], table_prefix=sys.argv[2])
compaction = Compaction(None, Summarize(ScriptedModel().before_each(called), keep_events=2), where="background")
service.compact_later("s1", compaction)
service.close()
"""


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_one_of_three_processes_pays(backend: str, database_url: str, table_prefix: str) -> None:
    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        service.open("s1")
        service.append("s1", [m for n in range(6) for m in (HumanMessage(f"q{n}"), AIMessage(f"a{n}"))])
        command = [sys.executable, "-c", RUN, database_url, table_prefix]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]  # noqa: S603
        said = [run.communicate(timeout=100)[0].split() for run in runs]
        assert [run.returncode for run in runs] == [0, 0, 0]
        assert [word for words in said for word in words] == ["called"]
        assert len(service.messages("s1")) == 4
        assert service.verify("s1") == []
