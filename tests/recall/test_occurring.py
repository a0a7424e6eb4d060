"""Where the units of a query occur: what is counted is what a search would find, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from langchain_sessions._recall.index.chunks import OpenChunk, PackedEvents
from langchain_sessions._recall.index.ranking_traits import ChunkTraits, EventTraits
from langchain_sessions._recall.rank.occurring import Postings

if TYPE_CHECKING:
    from langchain_sessions._recall.rank.zone import Lookup

COUNTS = st.dictionaries(st.sampled_from(["kettle", "kettles", "lid"]), st.integers(1, 200), max_size=3)
# Where most hold a word it is packed with a byte for each; where one is several passages it is counted by event.
CHUNK = st.lists(st.lists(COUNTS, min_size=1, max_size=2), min_size=1, max_size=20) | st.lists(
    st.tuples(COUNTS), min_size=1, max_size=20
)


def part_of(events: list[list[dict[str, int]]], hidden: set[int]) -> PackedEvents:
    chunk = OpenChunk()
    for at, passages in enumerate(events):
        lengths = tuple(sum(counts.values()) for counts in passages)
        terms = [[term for term, count in counts.items() for _ in range(count)] for counts in passages]
        chunk.add(EventTraits(at, 0, 1, lengths, 0, None, None), terms)
    part = PackedEvents(ChunkTraits.of(chunk.traits), chunk.terms, chunk.postings.pack())
    part.hidden = hidden
    return part


def held(lookup: Lookup | None) -> dict[int, int]:
    pairs = enumerate(lookup) if isinstance(lookup, bytes) else (lookup or {}).items()
    return {index: count for index, count in pairs if count}


@given(
    st.lists(st.tuples(CHUNK, st.sets(st.integers(0, 19), max_size=3)), min_size=1, max_size=4),
    st.sampled_from([("kettle",), ("kettle", "kettles"), ("kettle", "lid", "pan"), ("ket*",), ("pan",)]),
)
def test_what_is_counted_is_what_is_looked_up(
    chunks: list[tuple[list[list[dict[str, int]]], set[int]]], group: tuple[str, ...]
) -> None:
    postings = Postings([part_of(events, hidden) for events, hidden in chunks], group)
    total = 0
    for number, (events, hidden) in enumerate(chunks):
        expected: dict[int, int] = {}
        for at, passages in enumerate(events):
            for counts in passages:
                for term, count in counts.items():
                    if at not in hidden and (term in group or (group == ("ket*",) and term.startswith("ket"))):
                        expected[at] = min(255, expected.get(at, 0) + count)
        assert held(postings.lookup(number)) == expected
        total += len(expected)
    assert postings.frequency == total
