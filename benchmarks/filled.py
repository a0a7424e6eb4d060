"""One SQLite file of five million events, filled through the service, and what calls cost in it.

    python -m benchmarks.filled FILE --fill        goes on where it stopped; some gigabytes, and most of an hour
    python -m benchmarks.filled FILE               measures; leaves some events more behind

A log of a million events, thirty of a hundred thousand, and 250 users with a thousand sessions of four. Beside each
figure stands the same call in a file of a fiftieth, made for the occasion. CPU is of this process, the least of some
rounds. (`beside --only lists --sessions 1000000` lists a million sessions.)
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from benchmarks.measure import show
from benchmarks.recall_speed import Language
from langchain_sessions import SessionMemoryAdvisor, SessionNotFoundError, SessionService

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import BaseMessage

USERS, SESSIONS, EVENTS = 250, 1_000, 4
LONG = 1_000_000
SHORTER = 30
BATCH = 1_000
LONG_LOG = "long"
ROUNDS = 15


def said(language: Language, number: int) -> BaseMessage:
    """A question or an answer of some 350 characters; the word `topic` with its number occurs once in a log."""
    text = " ".join(language.message() for _ in range(3))
    return (HumanMessage, AIMessage)[number % 2](f"topic{number} {text}")


def events_of(sessions: SessionService, session_id: str) -> int:
    """How many events there are; none where there is no session."""
    try:
        return sessions.count(session_id).events
    except SessionNotFoundError:
        return 0


def fill(sessions: SessionService, share: int = 1) -> None:
    """Whatever is still missing of such a share of it all."""
    language, begun = Language(7), time.monotonic()
    ada = sessions.as_user("ada")
    logs = [(LONG_LOG, LONG), *((f"log-{number}", LONG // 10) for number in range(SHORTER))]
    for session_id, whole in logs:
        ada.open(session_id)
        for at in range(events_of(ada, session_id), whole // share, BATCH):
            ada.append(session_id, [said(language, number) for number in range(at, at + BATCH)])
        print(f"{session_id}: {whole // share} events, {time.monotonic() - begun:.0f} s", flush=True)
    for user in range(USERS // share):
        view = sessions.as_user(f"user-{user}")
        if events_of(view, f"{user}-{SESSIONS - 1}"):
            continue
        for number in range(SESSIONS):
            at = number * EVENTS
            view.open(f"{user}-{number}")
            view.append(f"{user}-{number}", [said(language, at + each) for each in range(EVENTS)])
        print(f"{user}: {SESSIONS} sessions, {time.monotonic() - begun:.0f} s", flush=True)


def least(call: Callable[[], object]) -> float:
    """Milliseconds of CPU of one call."""
    found: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found) * 1000


def begin(sessions: SessionService, session_id: str, language: Language) -> None:
    """A new session with a question and its answer."""
    sessions.open(session_id)
    sessions.append(session_id, [said(language, 0), said(language, 1)])


def measure(path: Path) -> dict[str, float]:
    """What calls cost in this file."""
    language, numbers = Language(11), itertools.count(10_000_000)
    with SessionService(f"sqlite:///{path}") as sessions:
        ada, one = sessions.as_user("ada"), sessions.as_user("user-3")
        chat = SessionMemoryAdvisor(sessions, last_n=20).wrap(FakeListChatModel(responses=["Yes."]))
        config = {"configurable": {"session_id": LONG_LOG, "user_id": "ada"}}
        word, common = f"topic{4 * SESSIONS // 2}", language.words[3]
        calls: dict[str, Callable[[], object]] = {
            "append to the longest log": lambda: ada.append(LONG_LOG, [said(language, next(numbers))]),
            "append to one of the sessions": lambda: one.append("3-7", [said(language, next(numbers))]),
            "a new session and its first turn": lambda: begin(one, f"new-{next(numbers)}", language),
            "the last 20 of the longest log": lambda: ada.messages(LONG_LOG, last_n=20),
            "a turn of `wrap(model)`, `last_n=20`, there": lambda: chat.invoke("And now?", config),
            "50 sessions of one user": one.list_sessions,
            "50 of all sessions": sessions.list_sessions,
            "one session's head": lambda: one.get("3-7"),
            "a word said once, in the longest log": lambda: ada.search(word, session_id=LONG_LOG),
            "a common word, in the longest log": lambda: ada.search(common, session_id=LONG_LOG),
            "a word said once, in a user's sessions": lambda: one.search(word),
            "a common word, in a user's sessions": lambda: one.search(common),
        }
        return {name: least(call) for name, call in calls.items()}


def main() -> None:
    """Fill, or measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--fill", action="store_true")
    given = parser.parse_args()
    if given.fill:
        with SessionService(f"sqlite:///{given.file}") as sessions:
            fill(sessions)
        return
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.db"
        with SessionService(f"sqlite:///{small}") as sessions:
            fill(sessions, 50)
        few, many = measure(small), measure(given.file)
    rows = [("ms of CPU", "a fiftieth", "all")]
    rows += [(name, f"{few[name]:.2f}", f"{cost:.2f}") for name, cost in many.items()]
    show(rows)
    print(f"{given.file.stat().st_size / 1e6:,.0f} MB, {datetime.now(timezone.utc):%Y-%m-%d}")


if __name__ == "__main__":
    main()
