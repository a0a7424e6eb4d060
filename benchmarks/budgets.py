"""How well a budget of tokens is kept with the default counter, as a user would see it.

A conversation of one kind of text, or of all kinds in turn, goes on under `TokenCount(8_000)`, with and without usage
reports; the model counts each prompt with a real vocabulary. Shown are how many prompts exceeded the budget and by how
much, and how full the prompt was when a compaction fired. The last columns are the same with an exact counter.

It needs `o200k_base`: run it with `--cache-dir` where tiktoken keeps its files, or where another package ships them.
"""

from __future__ import annotations

import argparse
import inspect
import pydoc_data.topics
import random
import re
import sys
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks.tokens import _random_json, _sources
from langchain_sessions import SessionMemoryAdvisor, SessionService, TiktokenCounter, TokenCount
from langchain_sessions.compaction import Compaction, TokenWindow
from langchain_sessions.errors import VocabularyMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions import TokenCounter
    from langchain_sessions.compaction import CompactionResult

BUDGET, TURNS = 8_000, 144
TEXTS = Path(__file__).parents[1] / "tests" / "unit" / "token_texts"


class Counting(BaseChatModel):
    """Counts each prompt exactly and answers with the next text; reports its count, times a factor, or nothing."""

    counter: Any
    texts: Any
    factor: float | None = None
    seen: list[int] = []  # noqa: RUF012 - a field of pydantic, copied for each model

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        del args, kwargs
        tokens = self.counter.count_messages(messages).tokens
        self.seen.append(tokens)
        usage: Any = None
        if self.factor is not None:
            reported = round(tokens * self.factor)
            usage = {"input_tokens": reported, "output_tokens": 1, "total_tokens": reported + 1}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(next(self.texts), usage_metadata=usage))])

    @property
    def _llm_type(self) -> str:
        return "counting"


def corpora() -> dict[str, list[str]]:
    """Texts by kind, none of which took part in fitting the estimate, but for the standard library's style."""
    english = [part for topic in pydoc_data.topics.topics.values() for part in re.split(r"\n\s*\n", topic)]
    code = [part for source in _sources() for part in re.split(r"\n\n+", source)]
    chinese = [f"{part}。" for part in (TEXTS / "chinese.txt").read_text(encoding="utf-8").split("。") if part.strip()]
    found = {
        "English": [part for part in english if len(part) > 80],
        "code": [part for part in code if len(part) > 60],
        "JSON": [_random_json(seed) for seed in range(300)],
        "Chinese": chinese,
    }
    return {**found, "mixture": [text for texts in found.values() for text in random.Random(1).sample(texts, 40)]}  # noqa: S311


def speaking(texts: Sequence[str], seed: int) -> Iterator[str]:
    """Turns of some hundred characters each, without end."""
    dice = random.Random(seed)  # noqa: S311 - a seed makes a scenario
    while True:
        parts = dice.choices(texts, k=dice.choice([1, 1, 2, 3]))
        yield "\n".join(parts)[:4_000]


def run(
    texts: Sequence[str], seed: int, exact: TiktokenCounter, factor: float | None, counter: TokenCounter | None
) -> tuple[list[float], list[float]]:
    """One conversation: what its prompts counted for, and how full they were when a compaction fired."""
    fills: list[float] = []
    with SessionService("sqlite://", tokens=counter) as sessions:
        model = Counting(counter=exact, texts=speaking(texts, seed), factor=factor)
        said = speaking(texts, seed + 1_000)

        def fired(result: CompactionResult) -> None:
            if result.is_compacted:
                before = exact.count_messages([e.message for e in result.archived if e.message is not None]).messages
                fills.append(before)

        compaction = Compaction(TokenCount(BUDGET), TokenWindow(max_tokens=3_000), on_result=fired)
        chat = SessionMemoryAdvisor(sessions, compaction=compaction).wrap(model)
        config: Any = {"configurable": {"session_id": "s", "user_id": "ada"}}
        full: list[float] = []
        for _ in range(TURNS):
            known = len(fills)
            chat.invoke(next(said), config)
            if len(fills) > known:
                full.append((sum(fills[known:]) + model.seen[-1]) * (factor or 1) / BUDGET)
        return [tokens * (factor or 1) for tokens in model.seen], full


def main(argv: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--cache-dir", type=Path, help="where tiktoken keeps its downloads")
    parser.add_argument("--conversations", type=int, default=5)
    options = parser.parse_args(argv)
    try:
        exact = TiktokenCounter("o200k_base", cache_dir=options.cache_dir)
    except VocabularyMissingError:
        print("skipped: no vocabulary o200k_base on this machine (see --cache-dir)")
        return
    modes: dict[str, tuple[float | None, TokenCounter | None]] = {
        "no reports": (None, None),
        "reports": (1.0, None),
        "reports x 1.3": (1.3, None),
        "exact": (None, exact),
    }
    print(f"{'text':10}{'counter':16}{'prompts':>8}{'over':>6}{'worst':>8}{'fired':>7}{'fill':>7}")
    for kind, texts in corpora().items():
        for mode, (factor, counter) in modes.items():
            seen: list[float] = []
            full: list[float] = []
            for seed in range(options.conversations):
                tokens, fills = run(texts, seed, exact, factor, counter)
                seen += tokens
                full += fills
            over = [tokens for tokens in seen if tokens > BUDGET]
            worst = max(over, default=BUDGET) / BUDGET - 1
            filled = f"{mean(full):6.0%}" if full else "     -"
            print(f"{kind:10}{mode:16}{len(seen):8}{len(over):6}{worst:8.1%}{len(full):7} {filled}")


if __name__ == "__main__":
    main(sys.argv[1:])
