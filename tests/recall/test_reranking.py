"""A judge of the application's own decides on the order of the best hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import HumanMessage

from langchain_sessions import InMemoryStore, NewEvent, SearchSettings, SessionService

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.callbacks import Callbacks

SAID = ["the kettle is red", "a kettle", "the old kettle leaks", "nothing"]


class Backwards(BaseDocumentCompressor):
    """Keeps two documents, the last ones first."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        assert query == "kettle"
        return list(reversed(documents))[:2]


def view(rerank: Callable[[str, list[str]], Sequence[float]] | BaseDocumentCompressor | None) -> SessionService:
    ada = SessionService(InMemoryStore(), search=SearchSettings(rerank=rerank)).as_user("ada")
    ada.open("s1")
    ada.append("s1", [NewEvent(message=HumanMessage(text), author="Ada") for text in SAID])
    return ada


def found(ada: SessionService) -> list[str]:
    return [hit.text for hit in ada.search("kettle")]


def test_a_function_orders_by_its_numbers() -> None:
    asked: list[tuple[str, list[str]]] = []

    def longest(query: str, texts: list[str]) -> list[float]:
        asked.append((query, texts))
        return [float(len(text)) for text in texts]

    assert found(view(longest)) == sorted(SAID, key=len, reverse=True)
    [(query, texts)] = asked
    assert query == "kettle"
    assert sorted(texts) == sorted(f"Ada: {text}" for text in SAID)


def test_a_compressor_orders_and_what_it_leaves_out_comes_last() -> None:
    plain = found(view(None))
    assert found(view(Backwards())) == [plain[3], plain[2], plain[0], plain[1]]


@pytest.mark.parametrize("answer", [[1.0], [float("nan")] * 4, "none"])
def test_a_judge_that_fails_changes_nothing(answer: list[float], caplog: pytest.LogCaptureFixture) -> None:
    assert found(view(lambda _, __: answer)) == found(view(None))
    assert "The reranker failed" in caplog.text
    assert "kettle" not in caplog.text


async def test_async_searches_ask_it_too() -> None:
    page = await view(lambda _, texts: [float(len(text)) for text in texts]).asearch("kettle")
    assert [hit.text for hit in page] == sorted(SAID, key=len, reverse=True)
