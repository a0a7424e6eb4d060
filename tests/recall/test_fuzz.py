"""No query can break a search: fuzzed strings through the service, on every backend."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import EventFilter

if TYPE_CHECKING:
    from langchain_sessions import SessionService

WORDS = """
AND OR NOT NEAR kettle kett* * ** a* -kettle -- "kettle when May 2023-13-45 tool: only:find author: OR 1=1
{{x}} ${x} %s DROP 0 007 1,000,000 3rd 2023 ada Ada's l'homme
café ß İ ǅ ﬁ کتاب שלום الكتاب नमस्ते 北京 什么时候 カバ 한국어 ไทย 😀 👩‍👩‍👧
"""
PIECES = [
    *WORDS.split(),
    *"\"'%_\\*()[]{}^$.+?|-:;,/<>=!@#&~` \t\n\0\x1b\u0131\u017f\u201c\u201d\ud83d\udc00\u202e\u200f\u2028\ufeff\u0301",
    "9" * 70,
    "\U0010ffff",
    "\\u0000",
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"mode": "literal"},
    {"order": "time"},
    {"limit": 1, "page": 2},
    {"limit": 100, "neighbours": 3},
    {"where": EventFilter(roles=frozenset({"user"}), branch=None)},
    {"where": EventFilter(tools=frozenset({"find"}), synthetic=False, archived=False)},
    {"recency": 1.0, "session_id": "s1"},
]


def query(chance: random.Random) -> str:
    """A string that somebody or something may type."""
    kind = chance.random()
    if kind < 0.1:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(1, 40)))
    if kind < 0.12:
        return "".join([chance.choice(PIECES)] * chance.choice((300, 12_000)))
    return "".join(chance.choices([*PIECES, " ", " ", " "], k=chance.randrange(0, 16)))


def fill(view: SessionService) -> None:
    """A log with an index and a tail, in which some of it occurs."""
    chance = random.Random(1)  # noqa: S311 - reproducible
    view.open("s1")
    view.append("s1", [HumanMessage(query(chance)[:500] + " kettle") for _ in range(160)])
    view.append("s1", [AIMessage("the kettle is 100% _hot_ \\ in May"), HumanMessage("北京的茶壶 \0 \ud83d kettles?")])


def search_all(view: SessionService, count: int, seed: int = 7) -> None:
    """Search for so many strings; whatever is found has to be well formed."""
    chance = random.Random(seed)  # noqa: S311 - reproducible
    for number in range(count):
        text = query(chance)
        page = view.search(text, **OPTIONS[number % len(OPTIONS)])
        assert page.total is not None
        for hit in page:
            assert all(0 <= start < end <= len(hit.text) for start, end in hit.highlights)
        if page.next_cursor is not None:
            view.search(text, cursor=page.next_cursor, **{**OPTIONS[number % len(OPTIONS)], "page": 0})


def test_no_query_raises(service: SessionService) -> None:
    view = service.as_user("ada")
    fill(view)
    search_all(view, 80)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_no_query_of_ten_thousand_raises(service: SessionService, seed: int) -> None:
    view = service.as_user("ada")
    fill(view)
    search_all(view, 1000, seed)
