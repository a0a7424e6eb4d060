"""How long prompts get as a conversation grows, with and without compaction: ``python -m benchmarks.prompt_growth``.

Every prompt of a conversation with a scripted model, counted by the estimate; no clock is involved. Written to
`docs/figures/` as JSON, and drawn by `figures`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda

from benchmarks.figures import FIGURES, draw
from benchmarks.measure import show
from langchain_sessions import (
    Compaction,
    EstimatedTokenCounter,
    InMemoryStore,
    SessionMemoryAdvisor,
    SessionService,
    Summarize,
    TokenCount,
)

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

TURNS = 200
LIMIT = 4_000
CONFIG: RunnableConfig = {"configurable": {"session_id": "s1", "user_id": "ada"}}
SUMMARY = "Ada plans her journeys by train. " * 12
SAID = "Which train shall I take to the {} meeting, and where did I put the ticket for it?"
ANSWER = "Take the one at {}:40 from platform 4; the ticket is in the blue folder, as you told me."


def prompts(compaction: Compaction | None) -> tuple[list[int], int]:
    """The tokens of each prompt, and how many of the messages that were said are found by a search at the end."""
    counter, sizes = EstimatedTokenCounter(), list[int]()

    def answer(state: dict[str, list[BaseMessage]]) -> AIMessage:
        sizes.append(counter.count_messages(state["messages"]).tokens)
        return AIMessage(" ".join([ANSWER.format(len(sizes))] * 2))

    with SessionService(InMemoryStore()) as sessions:
        chat = SessionMemoryAdvisor(sessions, compaction=compaction).wrap(RunnableLambda(answer), input_key="messages")
        for turn in range(TURNS):
            chat.invoke({"messages": " ".join([SAID.format(f"no. {turn}")] * 2)}, CONFIG)
        ada = sessions.as_user("ada")
        found = sum(bool(ada.search(f'"no. {turn}"', session_id="s1", limit=1).items) for turn in range(TURNS))
    return sizes, found


def main() -> None:
    """Measure, print and draw."""
    how = Summarize(FakeListChatModel(responses=[SUMMARY]), keep_events=10, overlap=2)
    whole, found_whole = prompts(None)
    short, found_short = prompts(Compaction(TokenCount(LIMIT), how))
    compacted = f"Compaction(TokenCount({LIMIT:_}), Summarize(model))"
    at = (1, 10, 50, 100, TURNS)
    rows: list[tuple[str, ...]] = [("tokens of the prompt at so many turns", *map(str, at), "found by search")]
    for name, sizes, found in (("everything", whole, found_whole), (compacted, short, found_short)):
        rows.append((name, *(f"{sizes[turn - 1]:,}" for turn in at), f"{found} of {TURNS}"))
    show(rows)
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / "prompts.json").write_text(json.dumps({"everything": whole, compacted: short}) + "\n")
    draw()


if __name__ == "__main__":
    main()
