"""What recall loses as a user's logs grow: other people's conversations mixed in among those that hold the answers.

The ones that are mixed in are the other conversations of the set, and copies of them whose words are those of the same
texts in another order, said by others, so that every word stays as common as it is.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from benchmarks.recall_engines import Forgetful
from benchmarks.recall_scores import line, measure
from benchmarks.recall_sets import Conversation, Question, QuestionSet, Said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.recall_engines import Ours
    from benchmarks.recall_scores import Outcome

TIMES: Final = (1, 10, 100)
_ASKED: Final = 40


def report(sets: Sequence[QuestionSet], ours: Ours) -> None:
    """Print recall among 1, 10 and 100 times the events, for a sample of the questions."""
    for questions in sets:
        print(f"\n{questions.name}, others' conversations mixed in")
        for times in TIMES:
            outcomes: list[Outcome] = []
            for conversation in questions.conversations:
                # One at a time: a hundred times the events of all of them would not fit into memory.
                one = replace(questions, conversations=[mixed(questions, conversation, times)])
                outcomes += measure(one, replace(ours, entries=ours.entries if times == 1 else Forgetful(ours.maker)))
            print(line(f"{times} x the events", outcomes), flush=True)


def mixed(questions: QuestionSet, conversation: Conversation, times: int) -> Conversation:
    """A conversation behind as much of other people's as makes it so many times as long."""
    chance = random.Random(f"{conversation.name}")  # noqa: S311 - reproducible
    asked = chance.sample(conversation.questions, min(_ASKED, len(conversation.questions)))
    last = max(question.as_of for question in conversation.questions)
    noise = list(_noise(questions, conversation, (times - 1) * last, chance))
    # All of the noise is older in log order, so that every question meets all of it, whenever it is asked.
    moved = [
        Question(each.text, frozenset(len(noise) + at for at in each.evidence), len(noise) + each.as_of)
        for each in asked
    ]
    return Conversation(conversation.name, [*noise, *conversation.said], moved)


def _noise(questions: QuestionSet, conversation: Conversation, events: int, chance: random.Random) -> Iterator[Said]:
    others = [each for each in questions.conversations if each is not conversation]
    made = 0
    round_ = 0
    while made < events:
        for other in others:
            for said in other.said[: events - made]:
                yield _retold(said, round_, chance)
                made += 1
        round_ += 1


def _retold(said: Said, times: int, chance: random.Random) -> Said:
    words = str(said.message.content).split(" ")
    if times:
        chance.shuffle(words)
    name = f"{said.message.name} {times}" if said.message.name else None
    message = said.message.model_copy(update={"content": " ".join(words), "name": name})
    return Said(message, -1 - 1000 * times - said.session, said.at + timedelta(days=times))
