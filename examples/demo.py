"""One conversation, remembered, compacted, searched and resumed: through a chain, a graph and an agent.

Runs without a key, on a database that is gone afterwards, or on the one whose URL is given. With OPENAI_API_KEY set,
the answers come from OpenAI (`pip install 'langchain-sessions[openai]'`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration
from langchain_core.prompts import ChatPromptTemplate
from langgraph.graph import START, MessagesState, StateGraph
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text
from scripted_model import ScriptedChatModel

from langchain_sessions import (
    Compaction,
    CompactionResult,
    EstimatedTokenCounter,
    SessionCheckpointSaver,
    SessionMemoryAdvisor,
    SessionMemoryMiddleware,
    SessionService,
    Summarize,
    TokenCount,
    create_conversation_search_tool,
)

if TYPE_CHECKING:
    from uuid import UUID

    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import LLMResult
    from langchain_core.runnables import RunnableConfig

console = Console()
console.width = min(console.width, 100)
CONFIG: RunnableConfig = {"configurable": {"thread_id": "holiday", "user_id": "ada"}}
LIMIT = 120
KIND_WIDTH = 10
INTRODUCTION = (
    "Ada plans a journey in one session. Each call shows the prompt that goes to the model. When messages, system "
    f"prompt and tools come to {LIMIT} tokens, older turns are archived and a summary takes their place. Nothing is "
    "deleted: the list at the end is the whole log.\n"
)

NEXT = """
Next:
  pip install 'langchain-sessions[agents,cli]'   the library, its middleware and its command
  README.md, "Quickstart"                        the same in 25 lines of your own
  notebooks/01_quickstart.ipynb                  step by step
  make help                                      what else there is to run"""

ANSWERS = [
    "Hello Ada! A week in Lisbon in May, with your sister Grace: noted.",
    "Then I would look for a quiet room in Alfama, away from the tram. Grace being vegetarian is noted as well.",
    "For day two: the tile museum in the morning, a picnic on the river, and fado in the evening.",
    "The tile museum closes on Mondays, so day two should be the Tuesday.",
    "Your passport is in the blue drawer: you told me so yourself, right after the first plans.",
    {"tool": "conversation_search", "args": {"query": "passport"}},
    "You keep it in the blue drawer. I found it in what we said earlier, before it was compacted.",
    "We were planning Lisbon: day two is the Tuesday, with tiles, a picnic and fado.",
]
SUMMARIES = [
    "Ada plans a week in Lisbon in May with her sister Grace, who is vegetarian. They want a quiet room in Alfama.",
    (
        "Ada plans a week in Lisbon in May with her vegetarian sister Grace: quiet room in Alfama; day two is the "
        "Tuesday with the tile museum, a picnic and fado."
    ),
]


class Meter(BaseCallbackHandler):
    """Shows what every call of the model was shown and said, with its tokens."""

    def __init__(self) -> None:
        self.counter = EstimatedTokenCounter()
        self.calls = 0
        self.summaries: set[UUID] = set()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - the signature of the callback
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Show the prompt of a call."""
        if "nostream" in (kwargs.get("tags") or ()):
            self.summaries.add(run_id)
            console.print("  [yellow]the summariser is called[/]")
            return
        self.calls += 1
        total = self.counter.count_messages(messages[0]).tokens
        size = f"{len(messages[0])} messages, [bold]{total} tokens[/]"
        console.print(f"  [cyan]call {self.calls}[/]: {size} go to the model")
        for message in messages[0]:
            show_line(f"{message.type:>{KIND_WIDTH}}  {one_line(message)}")

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002 - as above
        """Show the reply."""
        generation = response.generations[0][0]
        if run_id not in self.summaries and isinstance(generation, ChatGeneration):
            console.print(Padding(Text(f"→ {one_line(generation.message)}", style="green"), (0, 0, 0, 2)))


def show_line(text: str) -> None:
    """Show what fits on one line."""
    console.print(Text(text, style="dim"), no_wrap=True, overflow="ellipsis")


def one_line(message: BaseMessage) -> str:
    """A message on one line; its calls where it says nothing. When a thing was said is left out: it is today."""
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    said = re.sub(r'"timestamp":"[^"]*",?', "", str(message.text))
    return " ".join(said.split()) or "calls " + ", ".join(str(call["name"]) for call in calls)


def show_compaction(result: CompactionResult) -> None:
    """Show what a compaction did."""
    if not result.archived:
        console.print(f"  [yellow]compaction: {result.outcome.value} ({result.reason or 'only this turn is left'})[/]")
        return
    saved = f"{len(result.archived)} messages archived, {result.tokens_before} → {result.tokens_after} tokens"
    console.print(Panel(result.summary or "", title=f"compacted: {saved}", border_style="yellow"))


def make_models() -> tuple[BaseChatModel, BaseChatModel]:
    """The model that answers and the model that summarises."""
    if os.environ.get("OPENAI_API_KEY"):
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 - only for those who have a key

        model = ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"))
        return model, model
    return ScriptedChatModel(lines=ANSWERS), ScriptedChatModel(lines=SUMMARIES)


def say(text: str) -> None:
    """Show what Ada says."""
    console.print(f"\n[bold]Ada:[/] {text}")


def talk(url: str, model: BaseChatModel, compaction: Compaction, config: RunnableConfig) -> None:
    """The first sitting: a chain, a graph and an agent on one session."""
    with SessionService(url, create_schema=True) as sessions:
        memory = SessionMemoryAdvisor(sessions, compaction=compaction)
        prompt = ChatPromptTemplate([("system", "You help to plan journeys. Be brief."), ("human", "{question}")])
        chain = prompt | memory.wrap(model)

        console.rule("a chain")
        for question in (
            "I am Ada. I want to go to Lisbon for a week in May, with my sister Grace.",
            "Grace is vegetarian, and we sleep lightly. My passport is in the blue drawer, remind me of it.",
        ):
            say(question)
            for _ in chain.stream({"question": question}, config):
                pass

        console.rule("a graph, with a checkpointer over the same log")
        node = itemgetter("messages") | memory.wrap(model) | (lambda reply: {"messages": [reply]})
        builder = StateGraph(MessagesState).add_node("chat", node).add_edge(START, "chat")
        graph = builder.compile(checkpointer=SessionCheckpointSaver(sessions))
        for question in ("What shall we do on day two?", "Is the tile museum open on Mondays?"):
            say(question)
            # The checkpoint first, then the node: the order of the log is then the same each time.
            graph.invoke({"messages": question}, config, durability="sync")

        console.rule("what was compacted is still found")
        console.print("  Ada searches: passport")
        for hit in sessions.as_user("ada").search("passport", session_id="holiday", limit=1):
            console.print(Padding(Text(f"{hit.event.seq} ({hit.event.standing.value}): {hit.text}"), (0, 0, 0, 2)))


def resume(url: str, model: BaseChatModel, compaction: Compaction, config: RunnableConfig) -> None:
    """The second sitting, as another process would see it: an agent takes the conversation up."""
    with SessionService(url, create_schema=True) as sessions:
        ada = sessions.as_user("ada")

        console.rule("resumed: an agent on the same session")
        middleware = SessionMemoryMiddleware(sessions, compaction=compaction)
        agent = create_agent(
            model, [create_conversation_search_tool(sessions, 3, max_tokens=200)], middleware=[middleware]
        )
        for question in ("Where is my passport?", "Look it up, please.", "What did we plan?"):
            say(question)
            agent.invoke({"messages": question}, config)

        console.rule("the log")
        show_line(f"seq    what  {'standing':8}  text")
        for event in ada.events("holiday"):
            if event.message is not None:
                standing = event.standing.value
                show_line(f"{event.seq:3}  {event.message.type:>6}  {standing:8}  {one_line(event.message)}")
        session = ada.get("holiday")
        console.print(
            f"\n{session.message_count} messages, {session.token_count} tokens are live; nothing was deleted. "
            "Numbers that are left out are records of runs and compactions."
        )


def main() -> None:
    """Talk, close everything, and take it up again."""
    meter = Meter()
    model, summariser = make_models()
    compaction = Compaction(
        TokenCount(LIMIT), Summarize(summariser, keep_events=2, overlap=0), where="before", on_result=show_compaction
    )
    config: RunnableConfig = {**CONFIG, "callbacks": [meter]}
    console.print(INTRODUCTION, highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder) / 'demo.db'}"
        talk(url, model, compaction, config)
        resume(url, model, compaction, config)
    print(NEXT)


if __name__ == "__main__":
    main()
