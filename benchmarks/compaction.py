"""How many facts of a conversation a summariser is shown, and how many can still be found afterwards.

Ninety facts are planted in the first 180 of 200 messages; the newest 20 stay. The framework's
`SummarizationMiddleware` with its defaults is shown the same messages. Both summarise with a model that keeps no
fact at all, the worst case, so what is found later was kept by the log and not by luck. The literal search is the
log's own: `events(EventFilter(keyword=...))`.

The second table is what compactions cost: how long deciding takes, compacting a window of a log of any age, and
reading the context after many of them.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from langchain_sessions import Compaction, EventFilter, SessionService, Summarize, TurnCount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FACTS, TURNS, KEPT = 90, 100, 20
_FILLER = (
    "I have been meaning to write this down for a while, since it keeps coming up whenever we plan the week and "
    "nobody remembers what was agreed. Please keep it in mind when we get to the budget and to the travel dates, "
    "because last time we had to start over, and that cost everybody half a day and most of their patience. "
)
_REPLY = (
    "Thank you, that is noted. I will take it into account from here on and come back to it as soon as it matters. "
    "If anything about it changes, just say so in passing and I will go by the newer version. In the meantime I "
    "suggest that we go on with the next point on the list and leave the details for the end of the week. "
)


class Forgetful(BaseChatModel):
    """Remembers what it was shown, and writes summaries that hold none of it."""

    _shown: list[str] = PrivateAttr(default_factory=list)

    @property
    def shown(self) -> str:
        """All prompts as one text."""
        return "\n".join(self._shown)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        del args, kwargs
        self._shown += [str(message.text) for message in messages]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("They made plans."))])

    @property
    def _llm_type(self) -> str:
        return "forgetful"


def fact(number: int) -> str:
    """A fact that occurs nowhere else."""
    return f"locker {number:02d} opens with {(number * 7919) % 90_000 + 10_000}"


def turn(number: int) -> list[BaseMessage]:
    """A question and its answer; the first ninety questions hold a fact each."""
    planted = f"Remember that {fact(number)}. " if number < FACTS else ""
    return [HumanMessage(f"{planted}{_FILLER}"), AIMessage(_REPLY)]


def count_facts(text: str) -> int:
    """How many of the facts a text holds."""
    return sum(fact(number) in text for number in range(FACTS))


def measure_sessions(compactions: int) -> tuple[int, int, int]:
    """Facts shown, facts found afterwards, and messages in the context, with so many compactions on the way."""
    model = Forgetful()
    with SessionService("sqlite://") as operator:
        ada = operator.as_user("ada")
        ada.open("s1")
        compaction = Compaction(None, Summarize(model, keep_events=KEPT))
        for number in range(TURNS):
            ada.append("s1", turn(number))
            if (number + 1) % (TURNS // compactions) == 0:
                result = ada.compact("s1", compaction)
                assert result.is_compacted, result  # noqa: S101 - the benchmark's own premise
        found = sum(
            bool(ada.events("s1", EventFilter(keyword=fact(number), synthetic=False)).items) for number in range(FACTS)
        )
        return count_facts(model.shown), found, len(ada.messages("s1"))


def measure_middleware(compactions: int) -> tuple[int, int, int]:
    """The same for the framework's middleware, whose state is all that is left to search."""
    from langchain.agents.middleware import SummarizationMiddleware  # noqa: PLC0415 - an optional extra
    from langgraph.runtime import Runtime  # noqa: PLC0415

    model = Forgetful()
    middleware: Any = SummarizationMiddleware(model, trigger=("messages", 1))
    messages: list[BaseMessage] = []
    for number in range(TURNS):
        messages += turn(number)
        if (number + 1) % (TURNS // compactions) == 0:
            update = middleware.before_model({"messages": messages}, Runtime())
            if update is not None:
                messages = [message for message in update["messages"] if not isinstance(message, RemoveMessage)]
    left = "\n".join(str(message.text) for message in messages)
    return count_facts(model.shown), count_facts(left), len(messages)


def _print_facts() -> None:
    print(f"{FACTS} facts in {2 * TURNS} messages, the newest {KEPT} messages stay")
    print(f"{'':44}{'shown':>7}{'found':>7}{'context':>9}")
    for compactions in (1, 5):
        times = f"{compactions} compaction{'s' if compactions > 1 else ''}"
        rows = [("langchain_sessions", measure_sessions)]
        try:
            import langchain.agents.middleware  # noqa: F401, PLC0415 - an optional extra
        except ImportError:
            print("SummarizationMiddleware: install the extra 'agents' to compare")
        else:
            rows.append(("SummarizationMiddleware, defaults", measure_middleware))
        for name, measure in rows:
            shown, found, size = measure(compactions)
            print(f"{name + ', ' + times:<44}{shown:>7}{found:>7}{size:>9}")


def _clock(act: Callable[[], object], times: int) -> float:
    """The median time of an act in milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return median(taken) * 1000


def _print_costs() -> None:
    model = Forgetful()
    with TemporaryDirectory() as directory, SessionService(f"sqlite:///{directory}/chat.db") as operator:
        ada = operator.as_user("ada")
        ada.open("s1")
        how = Summarize(model, keep_events=KEPT)
        print("\nSQLite file, median of 20")
        print(f"{'events in the log':>18}{'compactions':>13}{'not due ms':>12}{'100 events ms':>15}{'context ms':>12}")
        for done in range(1, 101):
            ada.append("s1", [message for number in range(50) for message in turn(number)])
            start = time.perf_counter()
            ada.compact("s1", Compaction(None, how))
            compacting = (time.perf_counter() - start) * 1000
            if done in (1, 10, 100):
                idle = _clock(lambda: ada.compact("s1", Compaction(TurnCount(10**6), how)), 20)
                reading = _clock(lambda: ada.messages("s1"), 20)
                version = ada.get("s1").version
                print(f"{version:>18}{done:>13}{idle:>12.2f}{compacting:>15.1f}{reading:>12.2f}")


def main(argv: Sequence[str] = ()) -> None:
    """Print both tables."""
    del argv
    _print_facts()
    _print_costs()


if __name__ == "__main__":
    main(sys.argv[1:])
