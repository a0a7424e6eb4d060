"""A process that is killed while it appends and compacts leaves a whole log, compacted or not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from langchain_sessions import Compaction, EventFilter, EventKind, SessionService, Standing, Summarize
from tests.compaction.models import ScriptedModel

ROOT = Path(__file__).parents[2]

LOOP = """
import sys
from langchain_core.messages import AIMessage, HumanMessage
from langchain_sessions import SessionService
from langchain_sessions import (Compaction, Summarize, TurnCount)
from tests.compaction.models import ScriptedModel

service = SessionService(sys.argv[1])
compaction = Compaction(TurnCount(3), Summarize(ScriptedModel(), keep_events=2))
n = len(service.events("s1").items)
while True:
    service.append("s1", [HumanMessage(f"question {n}"), AIMessage(f"answer {n}")])
    print(n, flush=True)
    service.compact("s1", compaction)
    n += 1
"""


def test_a_killed_compactor_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    acknowledged: list[str] = []
    with SessionService(url) as service:
        service.open("s1")
        for round_ in range(3):
            command = [sys.executable, "-c", LOOP, url]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as run:  # noqa: S603
                assert run.stdout is not None
                acknowledged += [run.stdout.readline().strip() for _ in range(10)]
                time.sleep(0.003 * round_)
                run.kill()
                acknowledged += run.stdout.read().split()
            assert service.verify("s1") == []
            messages = frozenset({EventKind.MESSAGE})
            events = service.events("s1", EventFilter(kinds=messages, synthetic=False)).items
            said = [event.message.text for event in events if event.message is not None]
            assert {f"question {n}" for n in acknowledged} <= set(said)
            assert len(said) == len(set(said))
            live = [event.seq for event in events if event.standing is Standing.LIVE]
            shown = service.context("s1").events
            assert [event.seq for event in shown if not event.is_synthetic] == live
            assert len([event for event in shown if event.is_synthetic]) in (0, 2)
        # The lease of the dead does not stop anybody who asks.
        assert service.compact("s1", Compaction(None, Summarize(ScriptedModel(), keep_events=1))).outcome.value in (
            "compacted",
            "nothing_to_do",
        )
