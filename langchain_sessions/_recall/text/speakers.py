"""Who says an event: whom its message names, or its text where conversations are stored as transcripts.

"Caroline: hello" may be a speaker, and "Note: hello" is none. One message does not tell, a log does: where at least
half of the messages begin with labels that recur, and nobody else is known to have said them, those are speakers.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._recall.text.languages import guess_language
from langchain_sessions._recall.text.terms import TOKEN, normalize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from langchain_sessions._recall.index.inverted import Group, InvertedEvents
    from langchain_sessions._recall.text.terms import TermMaker

_LONGEST_HEAD: Final = 120
_RECURS: Final = 2

# A time in brackets or in figures may stand before it, as exports of chats write; "Ada said, ..." is one too.
_LABEL: Final = re.compile(
    r"\s*(?:[\[(\u3010][^\])\u3011\n]{1,60}[\])\u3011]\s*"
    r"|[0-9][0-9/.:,\u5e74\u6708\u65e5 -]{3,30}(?:[AaPp][Mm])?[\s-]+)?"
    r"(?:\*\*|<)?(?P<name>[^\W\d_][\w.'\u2019-]{0,24}(?: [\w.'\u2019-]{1,24}){0,2}?)(?:\*\*|>)?"
    r"(?:\s?[:\uff1a](?:\*\*)?(?![0-9/])| said[,:] )\s*(?=\S)"
)


def label_of(text: str) -> str | None:
    """The name that a text begins with, if it begins as a line of a transcript does."""
    head = text[:_LONGEST_HEAD]
    # Most texts hold none of what the expression ends with, and it looks long for it.
    if not (":" in head or "\uff1a" in head or " said" in head):
        return None
    match = _LABEL.match(head)
    return match["name"] if match else None


def speakers_in(logs: Iterable[Sequence[InvertedEvents]]) -> set[str]:
    """All who speak in what counts of some logs: authors, and the labels of those logs that are transcripts."""
    found: set[str] = set()
    for log in logs:
        known = set[str]().union(*[part.speakers for part in log])
        labels: Counter[str] = Counter()
        for part in log:
            if part.labels:
                labels.update(part.labels)
        known.update(labels_in(labels, sum([part.events for part in log])))
        if [part for part in log if part.hidden]:
            known.intersection_update(chain.from_iterable([part.heard for part in log]))
        found |= known
    return found


def labels_in(labels: Counter[str], events: int) -> list[str]:
    """The labels of a log of so many events that are speakers."""
    recurring = {label: count for label, count in labels.items() if count >= _RECURS}
    # Answers that begin with headings begin with another one nearly each time.
    return list(recurring) if 2 * sum(recurring.values()) >= events else []


_FIRST_PERSON: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": "i me my mine myself i'm i've i'd i'll",
        "german": "ich mich mir mein meine meinen meinem meiner meines",
        "french": "je j'ai moi mon ma mes mien mienne",
        "spanish": "yo mi mis mío mía conmigo",
        "italian": "io mio mia miei mie mi",
        "portuguese": "eu meu minha meus minhas mim comigo",
        "dutch": "ik mij mijn me",
    }.items()
}
_OTHER_FIRST_PERSON: Final = re.compile(
    r"[我俺倉僕私]|\b(?:я|мой|моя|мое|моё|мои|моего|моей|мою|мне|меня)\b"
    r"|ฉัน|ผม|(?:^|\s)(?:내|내가|나는|나의|저는|제|제가)(?=\s)"
    r"|(?:^|\s)(?:मैं|मेरा|मेरी|मेरे|मुझे)(?=\s|$)"
)


def means_the_human(query: str) -> bool:
    """Whether a query says "I" or "my" in its language: then it is about what the human said."""
    words = normalize(query).split()
    asked = {word.strip(".,;:!?\"'()") for word in words}
    return not asked.isdisjoint(_FIRST_PERSON[guess_language(words)]) or _OTHER_FIRST_PERSON.search(query) is not None


class Person(NamedTuple):
    """Somebody whom a query names.

    Attributes:
        bearers: The authors who bear the name.
        units: The name as words: groups of those of its terms that the query looks for.
    """

    bearers: frozenset[str]
    units: tuple[Group, ...]


def names_in(authors: Collection[str], groups: Sequence[Group], maker: TermMaker) -> tuple[list[Person], list[Group]]:
    """Tell the authors whom a query names from the words it looks for.

    An author's name is a field: almost every message of a conversation could carry it, so it says who, not what.

    Returns:
        Whom the query names, and the groups that are left to look for (all of them, when nothing else would be left).
    """
    asked = frozenset(chain.from_iterable(groups))
    bearers: dict[tuple[Group, ...], set[str]] = {}
    for author in authors:
        for name in TOKEN.findall(author):
            units = maker.query_terms(name)
            if units and not any(asked.isdisjoint(unit) for unit in units):
                bearers.setdefault(units, set()).add(author)
    spent = frozenset(term for units in bearers for unit in units for term in unit)
    left = [group for group in groups if spent.isdisjoint(group)]
    # Nothing else of a name is looked for, so nothing else was read of an index.
    persons = [
        person._replace(units=tuple(tuple(term for term in unit if term in asked) for unit in person.units))
        for person in _persons(bearers)
    ]
    return persons, left or list(groups)


def _persons(names: Mapping[tuple[Group, ...], set[str]]) -> list[Person]:
    """Who is meant by each name: "Ada Byron" is one name, and not every Ada and every Byron."""
    # In an order that is the same for the same names: sets of strings have none.
    persons: list[Person] = []
    for units, bearers in sorted(names.items(), key=lambda name: (len(name[1]), sorted(name[1]), name[0])):
        shared = next((at for at, known in enumerate(persons) if known.bearers & bearers), None)
        if shared is None:
            persons.append(Person(frozenset(bearers), units))
        else:
            known = persons[shared]
            persons[shared] = Person(known.bearers & bearers, (*known.units, *units))
    return persons
