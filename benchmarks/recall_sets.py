"""Conversations with questions and labelled evidence, in one shape, whatever file they come from.

What is not ours (LoCoMo CC BY-NC, RealMem Apache-2.0, QMSum MIT) lies beside the project and is read from there.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, HumanMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_core.messages import BaseMessage

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
_EPOCH: Final = datetime(2024, 1, 1, tzinfo=timezone.utc)
_LOCOMO_CATEGORIES: Final = (1, 2, 3, 4)


@dataclass(frozen=True)
class Said:
    """One message of a conversation: in which of its sessions, when, by whom."""

    message: BaseMessage
    session: int
    at: datetime


@dataclass(frozen=True)
class Question:
    """One question and the messages that answer it; only those before `as_of` may be searched."""

    text: str
    evidence: frozenset[int]
    as_of: int
    category: str = ""


@dataclass
class Conversation:
    """All that was said between the same people, in order, and the questions about it."""

    name: str
    said: list[Said] = field(default_factory=list["Said"])
    questions: list[Question] = field(default_factory=list["Question"])


@dataclass(frozen=True)
class QuestionSet:
    """Conversations of one kind.

    Attributes:
        name: What the tables call it.
        conversations: All of them.
        is_span: Whether evidence is a stretch of many turns, of which a page can only hold some: then what counts is
            the share of a page that lies in it, not the share of it that lies in a page.
    """

    name: str
    conversations: list[Conversation]
    is_span: bool = False

    @property
    def questions(self) -> int:
        """How many there are."""
        return sum(len(each.questions) for each in self.conversations)


def locomo(path: Path) -> QuestionSet:
    """Two friends in short turns, both with their names: one becomes the human, the other the assistant."""
    return QuestionSet("LoCoMo", [_friends(raw) for raw in json.loads(path.read_text(encoding="utf-8"))])


def _friends(raw: dict[str, Any]) -> Conversation:
    talk = raw["conversation"]
    conversation = Conversation(name=raw["sample_id"])
    numbers: dict[str, int] = {}
    for key in sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])):
        when = datetime.strptime(talk[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=timezone.utc)
        for turn in talk[key]:
            kind = HumanMessage if turn["speaker"] == talk["speaker_a"] else AIMessage
            numbers[turn["dia_id"]] = len(numbers)
            # A photo that was sent is a message too: what it shows is told by its caption.
            text = "\n".join(filter(None, (turn["text"], turn.get("blip_caption"))))
            message = kind(text, name=turn["speaker"])
            conversation.said.append(Said(message, int(key[8:]), when))
    for item in raw["qa"]:
        named = re.findall(r"D(\d+):(\d+)", " ".join(item["evidence"]))
        evidence = frozenset(numbers[key] for key in (f"D{int(a)}:{int(b)}" for a, b in named) if key in numbers)
        if item["category"] in _LOCOMO_CATEGORIES and evidence:
            text, category = item["question"], str(item["category"])
            conversation.questions.append(Question(text, evidence, len(numbers), category))
    return conversation


def realmem(path: Path) -> QuestionSet:
    """Four users with their assistant over months, without names; what the users say later asks for what was before."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    kinds: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
    return QuestionSet(
        "RealMem", [_turns(each, lambda turn: kinds[turn["speaker"]](turn["text"])) for each in raw["conversations"]]
    )


def qmsum(path: Path) -> QuestionSet:
    """Meetings of many speakers, and questions answered by stretches of them."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    found = [
        _turns(each, lambda turn: HumanMessage(turn["text"], name=turn["speaker"])) for each in raw["conversations"]
    ]
    return QuestionSet("QMSum", found, is_span=True)


def _turns(raw: dict[str, Any], make: Callable[[dict[str, Any]], BaseMessage]) -> Conversation:
    conversation = Conversation(name=raw["id"])
    for turn in raw["turns"]:
        at = datetime.fromisoformat(turn["date"]).replace(tzinfo=timezone.utc) if turn["date"] else _EPOCH
        conversation.said.append(Said(make(turn), int(turn["session"]), at))
    for item in raw["questions"]:
        as_of = int(item.get("as_of", len(conversation.said)))
        evidence = frozenset(number for number in item["evidence"] if number < as_of)
        if evidence:
            conversation.questions.append(Question(item["question"], evidence, as_of))
    return conversation


READERS: Final[dict[str, Callable[[Path], QuestionSet]]] = {
    "locomo-dev.json": locomo,
    "realmem-dev.json": realmem,
    "qmsum-dev.json": qmsum,
}


def load(folder: Path) -> Iterator[QuestionSet]:
    """The sets whose files are there; the others are named as skipped."""
    for name, read in READERS.items():
        path = folder / name
        if path.is_file():
            yield read(path)
        else:
            print(f"skipped: {folder / name} is not there")
