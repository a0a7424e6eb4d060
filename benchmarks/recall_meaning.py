"""The semantic part of recall on the same questions: `python -m benchmarks.recall --embed minilm`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import minilm, recall
from langchain_sessions._core.codec.messages import MessageCodec
from langchain_sessions._recall.meaning.vectors import QueryVector, VectorFormat
from langchain_sessions._recall.rank.ranking import RankingWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.embeddings import Embeddings

    from langchain_sessions._recall.text.terms import TermMaker

WORTHS = (0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)


def similarities(embed: Embeddings) -> recall.Similarities:
    """Cosines as the library computes them, from vectors as it stores them."""
    form = VectorFormat(MessageCodec())
    known: dict[str, list[bytes]] = {}

    def of(conversation: recall.Conversation) -> Callable[[str], Callable[[int], float | None]]:
        if conversation.name not in known:
            texts = [document.text for session in conversation.sessions for document in session]
            known[conversation.name] = [form.pack(vector) for vector in embed.embed_documents(texts)]
        stored = known[conversation.name]

        def ask(query: str) -> Callable[[int], float | None]:
            vector = QueryVector.of(embed.embed_query(query))
            return lambda number: None if vector is None else vector.cosine(stored[number])

        return ask

    return of


def report(conversations: Sequence[recall.Conversation], maker: TermMaker, *, quick: bool, urls: Sequence[str]) -> None:
    """Print what meaning adds, for several weights, and with the weight chosen on the other conversations."""
    if minilm.find_model() is None:
        print(f"\n--embed minilm: skipped, {minilm.MISSING}")
        return
    embed = minilm.MiniLM()
    cosines = similarities(embed)
    print(f"\nwith all-MiniLM-L6-v2\n{recall.HEADER}")
    outcomes: dict[float, list[recall.Outcome]] = {}
    for worth in WORTHS:
        weights = replace(RankingWeights(), meaning=worth)
        outcomes[worth] = recall.measure(conversations, recall.ranked_search(weights, maker, cosines=cosines))
        mark = ", the default" if worth == RankingWeights().meaning else ""
        print(recall.row(f"words + {worth:g} · meaning{mark}", outcomes[worth]), flush=True)
    print(recall.row("leave one conversation out, this weight", _leave_one_out(conversations, outcomes)))
    if not quick:
        grid = {**recall.GRID, "meaning": WORTHS}
        print(recall.row("leave one out, all weights", recall.leave_one_out(conversations, maker, grid, cosines)))
    for url in urls:
        label = f"through the service on {url.partition(':')[0]}"
        print(recall.row(label, recall.measure(conversations, recall.service_search(url, embed))), flush=True)


def _leave_one_out(
    conversations: Sequence[recall.Conversation], outcomes: dict[float, list[recall.Outcome]]
) -> list[recall.Outcome]:
    result: list[recall.Outcome] = []
    for left_out in conversations:

        def goodness(worth: float, name: str = left_out.name) -> float:
            others = [each for each in outcomes[worth] if each.conversation != name]
            return recall.mean(each.recall for each in others) + recall.mean(each.ndcg for each in others)

        best = max(outcomes, key=goodness)
        result.extend(each for each in outcomes[best] if each.conversation == left_out.name)
    return result
