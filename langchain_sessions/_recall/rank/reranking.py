"""A judge of the application's own over the best hits: a model that reads query and passage together."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, ClassVar, Final

from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_sessions._core.twins import threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RERANKED: Final = 50
"""How many of the best hits a judge is asked about."""

_log = logging.getLogger(__name__)


class Reranker:
    """Asks a judge.

    Args:
        judge: Told a query and some texts it returns a number for each, the more the better; or a compressor of
            LangChain, which returns documents in its order and may leave some out.
    """

    waits: ClassVar[bool] = True

    def __init__(self, judge: Callable[[str, list[str]], Sequence[float]] | BaseDocumentCompressor) -> None:
        self._judge = judge

    def order(self, query: str, texts: list[str]) -> list[int] | None:
        """The texts by their numbers, the best first; those that the judge leaves out come last, as they came.

        None where it fails: a search does not fail with it.
        """
        try:
            first = self._compressed(query, texts) if isinstance(self._judge, BaseDocumentCompressor) else None
            if first is None:
                first = self._scored(self._judge(query, list(texts)), len(texts))  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - whatever a model raises
            _log.warning("The reranker failed: %s. Hits are in the order of their words.", type(error).__name__)
            return None
        # What a compressor leaves out was found all the same.
        return [*first, *(number for number in range(len(texts)) if number not in set(first))]

    @threaded(order)
    def aorder(self) -> None:
        """Async `order`."""

    def _compressed(self, query: str, texts: list[str]) -> list[int]:
        assert isinstance(self._judge, BaseDocumentCompressor)  # noqa: S101 - asked by `order`
        given = [Document(page_content=text, metadata={"hit": number}) for number, text in enumerate(texts)]
        found = (document.metadata.get("hit") for document in self._judge.compress_documents(given, query))
        return list(dict.fromkeys(each for each in found if type(each) is int and 0 <= each < len(texts)))

    @staticmethod
    def _scored(scores: Sequence[float], size: int) -> list[int]:
        numbers = [float(score) for score in scores]
        if len(numbers) != size or not all(map(math.isfinite, numbers)):
            problem = "a number for each text was asked for"
            raise ValueError(problem)
        return sorted(range(size), key=lambda number: -numbers[number])
