"""What memory costs per call: CPU beside the model, in young and old sessions, and the time of the import.

Run with `python -m benchmarks.surface`. Figures are CPU time of this process on SQLite in a file, without the model:
the same fake model is measured alone and taken off.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_sessions import SessionMemoryAdvisor, SessionService
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.runnables import RunnableConfig

WORDS = "We were talking about the harbour, the boats and what the weather might bring in the morning. "
CONTEXT = 20


def cpu_per_call(act: Callable[[int], object], calls: int) -> float:
    """The CPU milliseconds per call."""
    gc.collect()
    gc.disable()
    try:
        before = time.process_time()
        for number in range(calls):
            act(number)
        return (time.process_time() - before) * 1000 / calls
    finally:
        gc.enable()


def conversation(messages: int) -> list[BaseMessage]:
    """So many messages, questions and answers in turn."""
    kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
    return [kinds[number % 2](f"{number} {WORDS}") for number in range(messages)]


def prepared(sessions: SessionService, session_id: str, events: int) -> None:
    """A session of so many events, of which the newest stand in the context."""
    ada = sessions.as_user("ada")
    ada.open(session_id)
    written = conversation(events)
    for at in range(0, events, 500):
        ada.append(session_id, written[at : at + 500])
    if events > CONTEXT:
        base = ada.context(session_id)
        archive(ada, session_id, range(1, events - CONTEXT + 1), base=base)


def overhead(sessions: SessionService, session_ids: list[str], calls: int) -> float:
    """CPU milliseconds that memory adds to a call at `CONTEXT` messages, in the least disturbed session."""
    model = FakeListChatModel(responses=["Fair weather, I think."])
    chat = SessionMemoryAdvisor(sessions).wrap(model)
    prompt = [*sessions.as_user("ada").messages(session_ids[0]), HumanMessage("And now?")]

    def alone(_: int) -> None:
        model.invoke(prompt)

    found: list[float] = []
    for session_id in session_ids:
        config: RunnableConfig = {"configurable": {"session_id": session_id, "user_id": "ada"}}

        def remembered(number: int, config: RunnableConfig = config) -> None:
            chat.invoke(f"And now, {number}?", config)

        found.append(cpu_per_call(remembered, calls) - cpu_per_call(alone, calls))
    return min(found)


def import_seconds(*statements: str, runs: int) -> list[float]:
    """The fastest of some imports in fresh processes; each in turn, so that a noisy neighbour disturbs all alike."""

    def once(statement: str) -> float:
        code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
        return float(done.stdout)

    rounds = [[once(statement) for statement in statements] for _ in range(runs)]
    return [min(times) for times in zip(*rounds, strict=True)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, SessionService(f"sqlite:///{Path(folder) / 'b.db'}") as sessions:
        young_ids = [f"young {number}" for number in range(given.rounds)]
        old_ids = [f"old {number}" for number in range(given.rounds)]
        for session_id in (*young_ids, "warm"):
            prepared(sessions, session_id, CONTEXT)
        for session_id in old_ids:
            prepared(sessions, session_id, 10_000)
        overhead(sessions, ["warm"], 10)
        young = overhead(sessions, young_ids, given.calls)
        old = overhead(sessions, old_ids, given.calls)
    print(f"per call at {CONTEXT} messages        {young:6.2f} ms CPU   (at most 1.5)")
    print(f"the same at 10 000 events      {old:6.2f} ms CPU   x{old / young:.2f} (at most x1.2)")
    base, ours = import_seconds("import langchain_core.messages, sqlalchemy", "import langchain_sessions", runs=9)
    print(f"import langchain_sessions      {ours * 1000:6.0f} ms CPU   x{ours / base:.2f} (at most x1.15)")


if __name__ == "__main__":
    main()
