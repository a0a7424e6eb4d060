"""The semantic part of recall with a real model, where its wheel is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import InMemoryStore, SearchSettings, SessionService

if TYPE_CHECKING:
    from benchmarks.minilm import MiniLM


@pytest.fixture(scope="module")
def model() -> MiniLM:
    minilm = pytest.importorskip("benchmarks.minilm", reason="needs numpy")
    if minilm.find_model() is None:
        pytest.skip(minilm.MISSING)
    made: MiniLM = minilm.MiniLM()
    return made


def test_the_model_computes_what_its_card_says(model: MiniLM) -> None:
    said = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    first, *others = model.embed_documents(said)
    near = [sum(a * b for a, b in zip(first, other, strict=True)) for other in others]
    assert near == pytest.approx([0.6946, 0.9429, 0.2569], abs=5e-4)


def test_what_is_meant_decides_among_what_is_said(
    model: MiniLM, backend: str, database_url: str, table_prefix: str
) -> None:
    said = [
        "The weather in Porto was awful, we stayed at home.",
        "I finally signed the contract, they want me from June on.",
        "We had dinner at home with the neighbours.",
        "From home it takes an hour by train.",
        "The doctor says my knee needs another month at home.",
    ]
    with SessionService(
        InMemoryStore() if backend == "memory" else database_url,
        table_prefix=table_prefix,
        create_schema=True,
        search=SearchSettings(embed=model, embed_timeout=60.0),
    ) as service:
        ada = service.as_user("ada")
        ada.open("s1")
        ada.append("s1", [HumanMessage(text) for text in said])
        assert ada.embed_pending() == len(said)
        page = ada.search("how long will my injury keep me at home", session_id="s1")
        assert page.semantic == "full"
        assert page.items[0].text == said[4]
