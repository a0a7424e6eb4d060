"""Long chats of two people with an assistant, made of what `assistant_chats.txt` holds: ours, and never tuned on.

Ada and Grace tell facts in a sentence or two; the assistant answers at length, with headings, lists, tables and code,
from what was written for the topic. Tools return JSON. Some facts are corrected later: then both messages are evidence.
Topics are taken up again in turns, so that what belongs together lies weeks apart. The same text makes the same chats.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from benchmarks.recall_sets import Conversation, Question, QuestionSet, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT: Final = Path(__file__).with_name("assistant_chats.txt")
_BEGIN: Final = datetime(2024, 1, 8, 9, tzinfo=timezone.utc)
_OPENINGS: Final = (
    "Thanks for telling me, I will keep it in mind. Here is how I would go on from there.",
    "That helps. Before you decide anything, a few thoughts in the order in which they matter.",
    "Good to know! Let me put this together with what you have said so far.",
    "Understood. I have sorted the next steps and added what people usually forget.",
)
_GENERAL: Final = (
    "Take one thing at a time and write down what you decided, with the date beside it.",
    "If two of these points contradict each other, the one that cannot be undone goes first.",
    "You need not settle all of this today; the second half can wait until next week.",
    "Ask somebody who has done it once before, and ask what they would leave out.",
    "Where I am guessing I say so: treat figures here as a starting point and not as advice of an expert.",
    "What costs little and can be reversed is worth trying before it is discussed any further.",
    "Set a limit for time and money now, while you are calm, and look at it again when you are not.",
    "A list that nobody reads again is a diary; put the three open points where you see them.",
)
_CLOSINGS: Final = (
    "Would you like me to turn this into a checklist with dates?",
    "Shall I go deeper into one of these points, or is there something that I missed so far?",
    "Tell me how it went, and we take the next step from there.",
    "Let me know which of these you want to begin with.",
)


_YOU: Final = {"I": "you", "my": "your", "me": "you"}
_SILENT: Final = 0.5
_ECHOED: Final = 5


@dataclass
class _Topic:
    """One topic of one person, as written."""

    person: str
    name: str
    facts: list[list[str]] = field(default_factory=list[list[str]])
    updates: list[list[str]] = field(default_factory=list[list[str]])
    advice: list[str] = field(default_factory=list[str])
    tool: list[str] = field(default_factory=list[str])
    asks: list[list[str]] = field(default_factory=list[list[str]])
    code: list[str] = field(default_factory=list[str])


def _topics(text: str) -> Iterator[_Topic]:
    for block in text.removeprefix("# ").split("\n# "):
        head, *lines = block.splitlines()
        person, _, name = head.partition(": ")
        topic = _Topic(person, name)
        for line in lines:
            kind, _, rest = line.partition(": ")
            parts = [part.strip() for part in rest.split(" | ")]
            if kind == "advice":
                topic.advice.append(rest)
            elif kind in ("tool", "code"):
                setattr(topic, kind, parts)
            else:
                {"fact": topic.facts, "update": topic.updates, "ask": topic.asks}[kind].append(parts)
        yield topic


def assistant_chats() -> QuestionSet:
    """The chats, one conversation for each person."""
    topics = list(_topics(TEXT.read_text(encoding="utf-8")))
    people = dict.fromkeys(topic.person for topic in topics)
    chats = [_Chat(person, [topic for topic in topics if topic.person == person]).written() for person in people]
    return QuestionSet("Assistant chats of our own", chats)


class _Chat:
    """Writes the conversation of one person.

    Args:
        person: Who.
        topics: What about.
    """

    def __init__(self, person: str, topics: list[_Topic]) -> None:
        self._topics = topics
        self._chance = random.Random(person)  # noqa: S311 - reproducible
        self._conversation = Conversation(person)
        self._questions: list[tuple[str, set[int]]] = []
        self._session = 0

    def written(self) -> Conversation:
        """All sessions: each topic is taken up once in every round."""
        rounds = max(len(topic.facts) for topic in self._topics)
        for number in range(rounds):
            for topic in self._chance.sample(self._topics, len(self._topics)):
                self._session += 1
                self._sit(topic, number, rounds)
        size = len(self._conversation.said)
        self._conversation.questions = [Question(text, frozenset(at), size) for text, at in self._questions]
        return self._conversation

    def _sit(self, topic: _Topic, number: int, rounds: int) -> None:
        """One session about a topic."""
        if number < len(topic.facts):
            said, question = topic.facts[number]
            self._questions.append((question, {self._say(HumanMessage(said))}))
            self._reply(topic, f"You said that this matters: {' '.join(said.split()[-_ECHOED:])}\n\n")
        for at, (first, later, question) in enumerate(topic.updates):
            if number == at:
                self._questions.append((question, {self._say(HumanMessage(first))}))
                self._reply(topic)
            elif number == rounds - 1 - at:
                told = self._say(HumanMessage(later))
                next(evidence for text, evidence in self._questions if text == question).add(told)
                self._reply(topic)
        if number == 2 % rounds:
            self._call(topic)
        if number == 4 % rounds:
            body, question = topic.code
            self._say(HumanMessage(f"Can you write that down as a small program? It is about the {topic.name} again."))
            block = body.replace("\\n", "\n")
            told = self._reply(topic, f"```python\n{block}\n```\n\n")
            self._questions.append((question, {told}))

    def _call(self, topic: _Topic) -> None:
        """Have a tool called; each row of what it returns is asked for."""
        name, columns, *rows = topic.tool
        names = [column.strip() for column in columns.split(",")]
        table = [dict(zip(names, map(str.strip, row.split(",")), strict=True)) for row in rows]
        self._say(HumanMessage(f"Please look that up for the {topic.name}."))
        call = {"name": name, "args": {"about": topic.name}, "id": f"call-{self._session}"}
        self._say(AIMessage("", tool_calls=[call]))
        noise = [{names[0]: f"{words.split(',')[0]}", names[1]: "-"} for words in topic.advice]
        told = self._say(ToolMessage(json.dumps([*noise, *table, *noise]), tool_call_id=str(call["id"]), name=name))
        asked = {row: question for question, row in topic.asks}
        for row in table:
            key = row[names[0]]
            self._questions.append((asked.get(key, f"What did the tool say about {key}?"), {told}))
        self._reply(topic)

    def _reply(self, topic: _Topic, before: str = "") -> int:
        """A long answer from what was written for the topic."""
        chance = self._chance
        points = chance.sample(topic.advice, 8)
        listed = "\n".join(f"{number}. **{point.split(' ')[0]}** {point}" for number, point in enumerate(points[:4], 1))
        table = "\n".join(f"| {number} | {point} | open |" for number, point in enumerate(points[4:], 1))
        others = [each for each in self._topics if each is not topic]
        aside = chance.choice(others)
        text = (
            f"{chance.choice(_OPENINGS)}\n\n## Your {topic.name}\n\n{' '.join(chance.sample(_GENERAL, 3))}\n\n"
            f"{before}{listed}\n\n### What is open\n\n| no | point | state |\n|---|---|---|\n{table}\n\n"
            f"### In general\n\n{' '.join(chance.sample(topic.advice, 4))}\n\n"
            f"{' '.join(chance.sample(_GENERAL, 4))}\n\n"
            f"### Beside it\n\nThis also touches your {aside.name}: {' '.join(chance.sample(aside.advice, 4))}\n\n"
            f"{' '.join(chance.sample(topic.advice, 5))}\n\n{' '.join(chance.sample(_GENERAL, 3))}\n\n"
            f"{chance.choice(_CLOSINGS)}{self._asked_back(topic)}"
        )
        return self._say(AIMessage(text))

    def _asked_back(self, topic: _Topic) -> str:
        """What the assistant wants to know: it says the words of a question long before they are answered."""
        told = {question for question, _ in self._questions}
        open_ = [question for _, question in topic.facts if question not in told]
        if not open_ or self._chance.random() < _SILENT:
            return ""
        asked = re.sub(r"\b(I|my|me)\b", lambda match: _YOU[match[0]], self._chance.choice(open_))
        return f" And one thing that I do not know yet: {asked}"

    def _say(self, message: HumanMessage | AIMessage | ToolMessage) -> int:
        at = _BEGIN + timedelta(days=2 * self._session)
        self._conversation.said.append(Said(message, self._session, at))
        return len(self._conversation.said) - 1
