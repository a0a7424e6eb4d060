"""How recall works for a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.edge import helpful, require
from langchain_sessions._core.once import kept
from langchain_sessions._core.showing import brief
from langchain_sessions._recall.rank.ranking import RankingWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings

    from langchain_sessions._recall.index.builder import IndexBuilder
    from langchain_sessions._recall.meaning.embedder import Embed, Embedder
    from langchain_sessions._recall.rank.reranking import Reranker

MOST_BYTES: Final = 1_000_000
"""Of text that may wait for the index of a log: a search scans what waits, at about a second of CPU for 5 MB."""


INDEX_EVERY: Final = 512
"""An append that crosses a multiple of this brings the index up to date: one in hundreds pays for all."""


EMBED_EVERY: Final = 32
"""An append that crosses a multiple of this has what is new embedded in the background, where an embedder is used."""


@helpful
@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """What a service may be told about recall.

    Attributes:
        language: The language of words in Latin script, or `auto`: guessed text by text, English when in doubt.
            An index is built for one; changing it builds the index anew, session by session, at the next search.
        weights: What counts how much in ranking.
        candidates: How many events a search ranks in full. Fewer is quicker and finds less in large logs.
        scanned: How many events may be left out of the index and scanned by a search; above that it catches up first.
        embed: LangChain `Embeddings`, or a function from a list of texts to their vectors, sync or async: then events
            count by meaning too. What is said is given to it, by searches and in the background, from several threads
            at once; without one no text leaves the process.
        embed_timeout: Seconds that a search waits for it; after that it goes by words.
        rerank: A function from a query and the texts of the 50 best hits to a number for each, or LangChain's
            `BaseDocumentCompressor`: it decides on their order. Called from a thread of its own by async searches.
    """

    language: str = "auto"
    weights: RankingWeights = field(default_factory=RankingWeights)
    candidates: int = 300
    scanned: int = 128
    embed: Embeddings | Embed | None = field(default=None, repr=False)
    embed_timeout: float = 5.0
    rerank: Callable[[str, list[str]], Sequence[float]] | BaseDocumentCompressor | None = field(
        default=None, repr=False
    )

    def __repr__(self) -> str:
        """Short: what was given."""
        return brief(self)

    def __post_init__(self) -> None:
        """Refuse the name of a model where the model is wanted."""
        wanted = "give LangChain Embeddings, such as OpenAIEmbeddings(), or a function from texts to vectors"
        is_embedder = callable(self.embed) or callable(getattr(self.embed, "embed_documents", None))
        require(self.embed is None or is_embedder, "embed", wanted)
        judges = "give a function from a query and texts to numbers, or a BaseDocumentCompressor of LangChain's"
        is_judge = callable(self.rerank) or callable(getattr(self.rerank, "compress_documents", None))
        require(self.rerank is None or is_judge, "rerank", judges)

    @kept
    def index_builder(self) -> IndexBuilder:
        """What makes terms and entries; built on first use, since the tables behind it take a while to load."""
        from langchain_sessions._recall.index.builder import IndexBuilder  # noqa: PLC0415

        return IndexBuilder(self)

    @kept
    def reranker(self) -> Reranker | None:
        """What asks `rerank`; None where there is nothing to ask."""
        if self.rerank is None:
            return None
        from langchain_sessions._recall.rank.reranking import Reranker  # noqa: PLC0415

        return Reranker(self.rerank)

    @kept
    def embedder(self) -> Embedder | None:
        """The door to `embed`, the same for all services of these settings; None where there is none."""
        if self.embed is None:
            return None
        from langchain_sessions._recall.meaning.embedder import Embedder  # noqa: PLC0415

        return Embedder(self.embed, timeout=self.embed_timeout)
