"""What is compared: the library's ranking, a bare FTS5 table and a textbook's BM25, all behind the same four lines."""

from __future__ import annotations

import math
import re
import sqlite3
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from langchain_sessions import NewEvent, SessionService
from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.message_types import speaker_of
from langchain_sessions._recall.index.postings import EntryMaker, Segment, search_segments
from langchain_sessions._recall.meaning.nearness import NEAREST
from langchain_sessions._recall.meaning.signs import SignedPart, nearest, signs_of
from langchain_sessions._recall.meaning.vectors import QueryVector, VectorFormat, numbers_in
from langchain_sessions._recall.text.documents import make_document, searchable_text
from langchain_sessions._recall.text.grammar import parse_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.embeddings import Embeddings

    from benchmarks.recall_sets import Conversation, Said
    from langchain_sessions._recall.index.postings import Entry
    from langchain_sessions._recall.rank.ranking import RankingWeights
    from langchain_sessions._recall.text.terms import TermMaker

TOP: Final = 20
_WORD: Final = re.compile(r"\w+")


class Engine(Protocol):
    """Is told a conversation message by message, and asked in between."""

    def add(self, said: Said) -> None:
        """Take in the next message."""
        ...

    def ask(self, query: str) -> list[int]:
        """The numbers of the best messages, at most `TOP`."""
        ...


class Fts5:
    """A table of SQLite's FTS5 with its porter stemmer; any word of the question will do."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter unicode61')")
        self._size = 0

    def add(self, said: Said) -> None:
        """Take in the next message."""
        text = searchable_text(said.message).encode("utf-8", "replace").decode()
        self._database.execute("INSERT INTO said (rowid, text) VALUES (?, ?)", (self._size, text))
        self._size += 1

    def ask(self, query: str) -> list[int]:
        """The best by its own rank."""
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(query)))
        if not words:
            return []
        statement = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"
        return [rowid for (rowid,) in self._database.execute(statement, (words, TOP))]


class PlainBm25:
    """BM25 as in the textbook (k1 = 1.2, b = .75) over whole messages, with the library's terms."""

    def __init__(self, maker: TermMaker) -> None:
        self._maker = maker
        self._lengths: list[int] = []
        self._postings: dict[str, dict[int, int]] = {}

    def add(self, said: Said) -> None:
        """Take in the next message."""
        terms = self._maker.terms(searchable_text(said.message))
        for term, count in Counter(terms).items():
            self._postings.setdefault(term, {})[len(self._lengths)] = count
        self._lengths.append(len(terms))

    def ask(self, query: str) -> list[int]:
        """The best by the sum over the words of the question."""
        average = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        scores: Counter[int] = Counter()
        for group in dict.fromkeys(self._maker.query_terms(query)):
            found: Counter[int] = Counter()
            for term in group:
                found.update(self._postings.get(term, {}))
            rarity = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found.items():
                damping = 1.2 * (0.25 + 0.75 * self._lengths[number] / average)
                scores[number] += rarity * count * 2.2 / (count + damping)  # type: ignore[assignment]
        return [number for number, _ in scores.most_common(TOP)]


class Entries:
    """Index entries by message, made once for all settings that are compared."""

    def __init__(self, maker: TermMaker) -> None:
        self._maker = EntryMaker(maker)
        self._known: dict[int, tuple[Said, Entry]] = {}

    def of(self, said: Said) -> Entry:
        """The entry of a message."""
        known = self._known.get(id(said))
        if known is None:
            known = self._known[id(said)] = (said, self.made(said))
        return known[1]

    def made(self, said: Said) -> Entry:
        """The entry of a message that is met once."""
        entry = self._maker.entry(make_document(said.message, author=None, timestamp=said.at))
        return entry._replace(author=None) if said.message.type == "tool" else entry


@dataclass(frozen=True)
class Ours:
    """The library's ranking, as every store ranks; `--service URL` measures the way through a database.

    Attributes:
        entries: Makes the entries.
        maker: Makes the terms.
        weights: What counts how much.
        with_author: Whether it is told who speaks.
        meaning: How near messages are to a query in meaning; None to go by words.
    """

    entries: Entries
    maker: TermMaker
    weights: RankingWeights
    with_author: bool = True
    meaning: Meaning | None = None

    def __call__(self, _: Conversation) -> Engine:
        """Begin with an empty log."""
        return _Ours(self)


class _Ours:
    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._said: list[Said] = []
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        self._session: int | None = None

    def add(self, said: Said) -> None:
        """Take in the next message."""
        if said.session != self._session:
            self._session = said.session
            self._segments.append(Segment())
            self._starts.append(len(self._said))
        entry = self._ours.entries.of(said)
        self._segments[-1].add(entry if self._ours.with_author else entry._replace(author=None))
        self._said.append(said)

    def ask(self, query: str) -> list[int]:
        """The best by words, and by meaning where that is known."""
        maker, meaning = self._ours.maker, self._ours.meaning
        cosine: Callable[[int, int], float | None] | None = None
        closest: list[tuple[int, int]] = []
        vector = None if meaning is None else meaning.of_query(query)
        if meaning is not None and vector is not None:
            closest = meaning.nearest(vector, self._said, self._place)

            def near(segment: int, index: int) -> float | None:
                return meaning.cosine(vector, self._said[self._starts[segment] + index])

            cosine = near
        found = search_segments(
            self._segments, parse_query(query, maker), maker, weights=self._ours.weights, cosine=cosine, near=closest
        )
        return [self._starts[each.segment] + each.index for each in found[:TOP]]

    def _place(self, _: int, number: int) -> tuple[int, int]:
        """Segment of a message, and its index there."""
        segment = bisect_right(self._starts, number) - 1
        return segment, number - self._starts[segment]


class Meaning:
    """Cosines as the library computes them, from vectors as it stores them.

    Args:
        embed: Makes the vectors.
    """

    def __init__(self, embed: Embeddings) -> None:
        self._embed = embed
        self._form = VectorFormat(MessageCodec())
        self._known: dict[int, tuple[Said, bytes, int]] = {}

    def nearest(
        self, vector: QueryVector, said: list[Said], place: Callable[[int, int], tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Where the messages are whose signs differ least from a query's."""
        part = SignedPart(len(vector.numbers), range(len(said)), [self._made(each)[2] for each in said])
        return nearest([(0, part)], vector, place, NEAREST)

    def of_query(self, query: str) -> QueryVector | None:
        """The vector of a query."""
        return QueryVector.of(self._embed.embed_query(query))

    def cosine(self, vector: QueryVector | None, said: Said) -> float | None:
        """How near a message is."""
        return None if vector is None else vector.cosine(self._made(said)[1])

    def _made(self, said: Said) -> tuple[Said, bytes, int]:
        """A message, its vector, and the signs of that."""
        known = self._known.get(id(said))
        if known is None:
            text, speaker = searchable_text(said.message), speaker_of(said.message)
            [made] = self._embed.embed_documents([f"{speaker}: {text}" if speaker else text])
            packed = self._form.pack(made)
            known = self._known[id(said)] = (said, packed, signs_of(numbers_in(packed)))
        return known


class Service:
    """The way through a service on a database: what an application gets.

    Args:
        url: The database.
    """

    def __init__(self, url: str) -> None:
        self._service = SessionService(url, create_schema=True, table_prefix="bench_recall_")
        self._service.delete_user("ada")
        self._ada = self._service.as_user("ada")
        self._numbers: dict[tuple[str, int], int] = {}

    def add(self, said: Said) -> None:
        """Append the next message."""
        name = f"bench-{said.session}"
        self._ada.open(name)
        for event in self._ada.append(name, NewEvent(message=said.message, timestamp=said.at)):
            self._numbers[name, event.seq] = len(self._numbers)

    def ask(self, query: str) -> list[int]:
        """The first page of a search over all sessions."""
        found = self._ada.search(query, limit=TOP, neighbours=0)
        return [self._numbers[hit.event.session_id, hit.event.seq] for hit in found]
