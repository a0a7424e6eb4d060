"""What recall loses as a user's logs grow: other people's conversations mixed in among those that hold the answers.

The ones that are mixed in are the other conversations of the set, and copies of them whose words are those of the same
texts in another order, said by others, so that every word stays as common as it is. They lie as a store lays out an
owner's sessions: end to end on shelves, so that a search does not ask log by log. Of their words only those are kept
that some question of the set asks for: the others change no score, and a hundred times the events fit into memory.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from benchmarks.recall_engines import TOP
from benchmarks.recall_scores import line, outcome
from langchain_sessions._recall.index.postings import Entry, Segment
from langchain_sessions._recall.index.shelves import GAP
from langchain_sessions._recall.rank.many_logs import search_logs
from langchain_sessions._recall.text.grammar import parse_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.recall_engines import Ours
    from benchmarks.recall_scores import Outcome
    from benchmarks.recall_sets import QuestionSet, Said
    from langchain_sessions._recall.index.inverted import InvertedEvents

TIMES: Final = (1, 10, 100)
_ASKED: Final = 40
_BEGINNING: Final = 5
_EMPTY: Final = Entry(((),), (0,), 0, None, 0.0)


def report(sets: Sequence[QuestionSet], ours: Ours) -> None:
    """Print recall among 1, 10 and 100 times the events, for a sample of the questions."""
    for questions in sets:
        print(f"\n{questions.name}, others' conversations mixed in")
        haystack = Haystack(questions, ours)
        for times in TIMES:
            print(line(f"{times} x the events", haystack.outcomes(times)), flush=True)


class Haystack:
    """A set whose conversations can be asked among copies of the others.

    Args:
        questions: The set.
        ours: The ranking.
    """

    def __init__(self, questions: QuestionSet, ours: Ours) -> None:
        self.questions = questions
        self.ours = ours
        texts = [each.text for conversation in questions.conversations for each in conversation.questions]
        queries = {text: parse_query(text, ours.maker) for text in texts}
        self._asked = {term for query in queries.values() for group in query.groups for term in group}
        self._beginnings = {term[:_BEGINNING] for term in self._asked if len(term) >= _BEGINNING}
        self._shelves: defaultdict[tuple[int, int], list[_Shelf]] = defaultdict(list)

    def outcomes(self, times: int) -> list[Outcome]:
        """How a sample of the questions goes among so many times the events."""
        found: list[Outcome] = []
        for number, conversation in enumerate(self.questions.conversations):
            chance = random.Random(conversation.name)  # noqa: S311 - reproducible
            asked = chance.sample(conversation.questions, min(_ASKED, len(conversation.questions)))
            last = max(question.as_of for question in conversation.questions)
            shelves = list(self._others(number, (times - 1) * last))
            own: list[Segment] = []
            told: list[tuple[int, int]] = []
            for question in sorted(asked, key=lambda each: each.as_of):
                for said in conversation.said[len(told) : question.as_of]:
                    if not told or said.session != conversation.said[len(told) - 1].session:
                        own.append(Segment())
                    told.append((len(own) - 1, own[-1].add(self.ours.entries.of(said))))
                answered = self.ask(question.text, shelves, own)
                places = [told.index(place) if place else -1 for place in answered]
                found.append(outcome(self.questions, conversation, question, places))
        return found

    def ask(self, text: str, shelves: Sequence[_Shelf], own: Sequence[Segment]) -> list[tuple[int, int] | None]:
        """The best, by segment of the conversation's own and index; None for what others said."""
        query = parse_query(text, self.ours.maker)
        logs: list[Sequence[InvertedEvents]] = [*([shelf] for shelf in shelves), *([segment] for segment in own)]
        found = search_logs(logs, query, self.ours.maker, weights=self.ours.weights)[:TOP]
        first = len(shelves)
        return [(each.segment - first, each.index) if each.segment >= first else None for each in found]

    def _others(self, left_out: int, events: int) -> Iterator[_Shelf]:
        """Whole conversations of others until there are so many events of them."""
        made, round_ = 0, 0
        others = [number for number in range(len(self.questions.conversations)) if number != left_out]
        while True:
            for number in others:
                if made >= events:
                    return
                shelf = self._shelf(number, round_)
                made += shelf.said
                yield shelf
            round_ += 1

    def _shelf(self, number: int, round_: int) -> _Shelf:
        known = self._shelves[number, round_]
        if not known:
            conversation = self.questions.conversations[number]
            chance = random.Random(f"{conversation.name} {round_}")  # noqa: S311 - reproducible
            shelf = _Shelf()
            for _, sayings in groupby(conversation.said, key=lambda said: said.session):
                shelf.extend(self._kept(_retold(said, round_, chance)) for said in sayings)
            known.append(shelf)
        return known[0]

    def _kept(self, said: Said) -> Entry:
        """An entry with the words that are asked for."""
        entry = self.ours.entries.made(said)
        asked, beginnings = self._asked, self._beginnings
        passages = tuple(
            [term for term in passage if term in asked or term[:_BEGINNING] in beginnings] for passage in entry.passages
        )
        return entry._replace(passages=passages)


class _Shelf(Segment):
    """Many sessions in one part, as on a shelf of a store: some slots between two stay empty."""

    def __init__(self) -> None:
        super().__init__()
        self._where: tuple[list[int], list[int]] = ([], [])
        self._is_taken = bytearray()
        self._spoken: defaultdict[str, set[int]] = defaultdict(set)

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add a session."""
        while self._is_taken and (len(self._is_taken) % 2 or any(self._is_taken[-GAP:])):
            self.add(_EMPTY)
            self._is_taken.append(0)
        start = len(self._is_taken)
        for entry in entries:
            self.add(entry)
            self._is_taken.append(255)
            if entry.author:
                self._spoken[entry.author].add(start)
        self._where[0].append(start)
        self._where[1].append(len(self._is_taken) - start)

    @property
    def said(self) -> int:
        """Without the empty slots."""
        return sum(self._where[1])

    @property
    def passages(self) -> int:
        """Without those of the empty slots."""
        return len(self.passage_lengths) - self._is_taken.count(0)

    @property
    def logs(self) -> tuple[Sequence[int], Sequence[int]]:
        """Where each session begins, and how many events it has."""
        return self._where

    def spoken(self, authors: frozenset[str]) -> set[int]:  # type: ignore[override]
        """Where the sessions begin in which any of some authors speaks."""
        return set[int]().union(*[self._spoken[author] for author in authors.intersection(self._spoken)])

    @property
    def taken(self) -> bytearray:  # type: ignore[override]
        """0 where a slot is empty."""
        return self._is_taken


def _retold(said: Said, round_: int, chance: random.Random) -> Said:
    if not round_:
        return said
    words = str(said.message.content).split(" ")
    chance.shuffle(words)
    name = f"{said.message.name} {round_}" if said.message.name else None
    message = said.message.model_copy(update={"content": " ".join(words), "name": name})
    return replace(said, message=message)
