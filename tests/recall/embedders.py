"""Embedders that need no model: words become directions, and words that mean the same become the same one."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from zlib import crc32

from langchain_core.embeddings import Embeddings

SIZE = 64
SYNONYMS = {"feline": "cat", "kitten": "cat", "automobile": "car", "vehicle": "car", "physician": "doctor"}


def vector_of(text: str) -> list[float]:
    """The sum of the directions of its words."""
    values = [0.0] * SIZE
    words: list[str] = re.findall(r"[a-z0-9]+", text.lower())
    for word in words:
        meant: str = SYNONYMS.get(word, word)
        seed = crc32(meant.encode())
        for at in range(4):
            values[(seed >> 6 * at) % SIZE] += 1.0 if seed >> (24 + at) & 1 else -1.0
    return values


class Words(Embeddings):
    """LangChain embeddings that count how they were asked, and that misbehave when told to."""

    def __init__(self, *, turned: bool = False) -> None:
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.calls = 0
        self.fails = False
        self.refuses = "\0"
        self.open = threading.Event()
        self.open.set()
        self._turned = turned

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        self.open.wait(30)
        if self.fails or any(self.refuses in text for text in texts):
            problem = f"a stranger's error that quotes {texts[0]}"
            raise RuntimeError(problem)
        self.texts += texts
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.open.wait(30)
        if self.fails:
            raise RuntimeError
        self.queries.append(text)
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = vector_of(text)
        return vector[::-1] if self._turned else vector


class AsyncWords(Words):
    """The same with an asynchronous half of its own."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        await asyncio.sleep(0)
        return self.embed_query(text)


def cosine(one: list[float], other: list[float]) -> float:
    """Similarity, computed plainly."""
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / (math.hypot(*one) * math.hypot(*other))
