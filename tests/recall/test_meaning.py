"""The semantic part of recall: what it adds, and that an embedder costs nobody a search or an append."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from sqlalchemy import make_url

from benchmarks.measure import CountingProxy
from langchain_sessions import (
    EventFilter,
    InMemoryStore,
    InvalidInputError,
    SearchSettings,
    SessionNotFoundError,
    SessionService,
)
from langchain_sessions._core.codec.any_message import MessageCodec
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import SessionKey
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.meaning.embedder import LONGEST_TEXT, Embedder
from langchain_sessions._recall.meaning.embedding import EMBED_BATCH
from langchain_sessions._recall.meaning.nearness import NEAREST
from langchain_sessions._recall.meaning.signs import SignedPart, nearest
from langchain_sessions._recall.meaning.vectors import QueryVector, VectorFormat, numbers_in, signature_of
from langchain_sessions.errors import EmbeddingError
from langchain_sessions.stores._partitioned import keys
from langchain_sessions.stores._partitioned.access import name_of
from langchain_sessions.stores._partitioned.heads import dump_head
from langchain_sessions.stores._values import SearchedLogs
from langchain_sessions.stores._vectors import NewSigns, VectorChange, VectorProgress
from tests.recall.embedders import AsyncWords, Words, cosine, vector_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from langchain_core.embeddings import Embeddings

    from langchain_sessions import SearchPage
    from langchain_sessions._recall.meaning.embedder import Embed
    from langchain_sessions.stores._base import SessionStore
    from langchain_sessions.stores._partitioned.heads import SessionHead
    from langchain_sessions.stores.engine import Head

TALK = [
    "my cat sat on the sofa and broke the vase",
    "the report about the weather is ready",
    "the sofa is green and the vase was blue",
    "a train to Lisbon leaves at nine",
    "the sofa of the office is broken",
]


class Maker:
    """Makes services on one database."""

    def __init__(self, database: str | SessionStore, table_prefix: str) -> None:
        self._database = database
        self._prefix = table_prefix
        self.made: list[SessionService] = []

    def __call__(
        self, embed: Embed | Embeddings | None = None, *, timeout: float = 20.0, **options: Any
    ) -> SessionService:
        service = SessionService(
            self._database,
            table_prefix=self._prefix,
            create_schema=True,
            synchronous="NORMAL",
            search=SearchSettings(embed=embed, embed_timeout=timeout),
            **options,
        )
        self.made.append(service)
        return service


@pytest.fixture
def make(backend: str, database_url: str, table_prefix: str) -> Iterator[Maker]:
    maker = Maker(InMemoryStore() if backend == "memory" else database_url, table_prefix)
    yield maker
    for service in maker.made:
        service.close()


def fill(service: SessionService, texts: list[str], session_id: str = "s1", user: str = "ada") -> SessionService:
    view = service.as_user(user)
    view.open(session_id)
    if texts:
        view.append(session_id, [HumanMessage(text) for text in texts])
    return view


def filled(maker: Maker, embed: Embed | Embeddings, said: list[str] = TALK, **options: Any) -> SessionService:
    view = fill(maker(embed, **options), said)
    view.embed_pending()
    return view


def texts(page: SearchPage) -> list[str]:
    return [hit.text for hit in page]


def by_words(query: str, said: list[str] = TALK) -> list[str]:
    """What a service without an embedder finds."""
    with SessionService(InMemoryStore()) as service:
        return texts(fill(service, said).search(query, session_id="s1"))


def vectors_of(service: SessionService, session_id: str = "s1") -> dict[int, bytes]:
    """What is stored for a session."""
    store = log_of(service).store
    now = log_of(service).now()
    scope = SearchedLogs(app=service.app, owner=service.owner, session_id=session_id, now=now)
    (place,) = store.list_vectors(scope)
    return {
        seq: data for (_, seq), data in store.load_vectors(scope, {place: SeqSet.between(1, place.last_seq)}).items()
    }


# -- what it adds ------------------------------------------------------------------------------------------


def test_a_word_that_means_the_same_decides_among_hits(make: Maker) -> None:
    view = filled(make, Words())
    page = view.search("the feline and the sofa", session_id="s1", neighbours=0)
    assert texts(page)[0] == TALK[0]
    assert page.semantic == "full"
    assert page.items[0].parts["meaning"] > 0
    assert page.items[0].score == pytest.approx(sum(page.items[0].parts.values()))


def test_what_shares_no_word_with_the_query_is_found_by_its_meaning(make: Maker) -> None:
    said = ["the weather was fine", "we bought a car", "dinner is at nine", "the garden needs water", "good night"]
    assert by_words("automobile", said) == []
    view = filled(make, Words(), said)
    page = view.search("automobile", session_id="s1")
    assert texts(page)[0] == "we bought a car"
    assert page.items[0].parts["words"] == 0
    assert page.items[0].words == ()
    assert page.nearest == fill(make(app="other"), said).search("automobile", session_id="s1").nearest
    assert view.search('"automobile"', session_id="s1").items == ()
    assert view.search("automobile AND car", session_id="s1").items == ()
    assert view.search("-automobile", session_id="s1").semantic is None
    only = EventFilter(roles=frozenset({"ai"}))
    assert view.search("automobile", session_id="s1", where=only).items == ()
    view.append("s1", AIMessage("which vehicle is it"))
    view.embed_pending()
    assert texts(view.search("automobile", session_id="s1", where=only)) == ["which vehicle is it"]
    view.rewind("s1", to_seq=1)
    assert "we bought a car" not in texts(view.search("automobile", session_id="s1"))


def test_the_nearest_follow_where_words_find_little(make: Maker) -> None:
    view = filled(make, Words(), [f"car number {number} of the street" for number in range(200)])
    page = view.search("vehicle", session_id="s1", limit=100)
    # Of the fifty nearest those that are nearer than most of what was compared.
    assert 10 <= len({hit.event.seq for hit in page}) <= NEAREST
    assert page.total == len(page.items)


def test_the_nearest_of_all_is_found_beside_many_that_hold_the_words(make: Maker) -> None:
    others = [*("dinner is at nine" for _ in range(6)), *(f"number {number} goes up the hill" for number in range(300))]
    said = ["we bought a car", *others]
    view = filled(make, Words(), said)
    page = view.search("vehicle number", session_id="s1", limit=400)
    (hit,) = [hit for hit in page if hit.text == said[0]]
    assert (hit.parts["words"], "meaning" in hit.parts, hit.why) == (0, True, "context")
    # What a filter leaves out takes no place of what it admits.
    view.append("s1", AIMessage("a car it is"))
    view.embed_pending()
    only = EventFilter(roles=frozenset({"ai"}))
    assert texts(view.search("vehicle number", session_id="s1", where=only)) == ["a car it is"]
    view.rewind("s1", to_seq=len(said))
    assert list(view.search("vehicle number", session_id="s1", where=only)) == []


def test_a_model_without_numbers_below_zero_finds_the_nearest_too(make: Maker) -> None:
    def embed(batch: list[str]) -> list[list[float]]:
        return [[abs(value) for value in vector_of(text)] for text in batch]

    others = [f"number {number} goes up the hill" for number in range(300)]
    view = filled(make, embed, [*others[:10], "a car", *others])
    assert texts(view.search("vehicle", session_id="s1"))[0] == "a car"


def test_the_nearest_is_found_on_a_shelf(make: Maker) -> None:
    view = make(Words()).as_user("ada")
    for number in range(40):
        text = "we bought a car" if number == 7 else f"number {number} goes up the hill"
        fill(make(), [text, "good night"], f"s{number}")
    make(Words()).as_user("ada").embed_pending()
    for _ in range(2):
        page = view.search("automobile")
        assert texts(page)[0] == "we bought a car"
        assert page.semantic == "full"
    view.delete("s7")
    assert "we bought a car" not in texts(view.search("automobile"))


def test_without_an_embedder_nothing_is_said_of_meaning(make: Maker) -> None:
    view = fill(make(), TALK)
    page = view.search("sofa", session_id="s1")
    assert page.semantic is None
    assert "meaning" not in page.items[0].parts
    with pytest.raises(InvalidInputError, match="embed"):
        view.embed_pending()


@pytest.mark.parametrize("mode", ["literal", "pattern"])
def test_searches_in_time_order_ask_no_embedder(make: Maker, mode: str) -> None:
    words = Words()
    view = filled(make, words)
    page = (
        view.search("sofa", session_id="s1", mode="literal") if mode == "literal" else view.search(re.compile("sofa"))
    )
    assert page.total == 3
    assert page.semantic is None
    assert words.queries == []
    assert view.search(" ", session_id="s1").semantic is None


def test_events_that_are_not_embedded_yet_are_found_by_words(make: Maker) -> None:
    view = filled(make, Words())
    view.append("s1", HumanMessage("the sofa went to the attic"))
    page = view.search("attic", session_id="s1")
    assert texts(page)[0] == "the sofa went to the attic"
    assert page.semantic == "partial"
    log_of(view).background.drain()
    assert view.search("attic", session_id="s1").semantic == "full"


def test_operators_and_what_they_exclude_are_not_embedded(make: Maker) -> None:
    words = Words()
    view = filled(make, words)
    view.search('"the sofa" AND green -broken', session_id="s1")
    assert words.queries == ["the sofa green"]


def test_the_two_faces_and_all_kinds_of_embedders_agree(make: Maker) -> None:
    async def coroutine(batch: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return [vector_of(text) for text in batch]

    def function(batch: list[str]) -> tuple[list[float], ...]:
        return tuple(vector_of(text) for text in batch)

    async def asynchronously(view: SessionService) -> SearchPage:
        await view.aembed_pending()
        return await view.asearch("feline sofa", session_id="s1", neighbours=0)

    pages: list[SearchPage] = []
    embedders: list[Embed | Embeddings] = [Words(), AsyncWords(), coroutine, function]
    for number, embed in enumerate(embedders):
        for face in ("sync", "async"):
            service = make(embed, app=f"app{number}{face}")
            view = fill(service, TALK)
            if face == "sync":
                view.embed_pending()
                pages.append(view.search("feline sofa", session_id="s1", neighbours=0))
            else:
                pages.append(asyncio.run(_closing(service, asynchronously(view))))
    scores = [[(hit.text, hit.score) for hit in page] for page in pages]
    assert all(page.semantic == "full" for page in pages)
    assert scores == [scores[0]] * len(scores)


async def _closing(service: SessionService, work: Awaitable[SearchPage]) -> SearchPage:
    try:
        return await work
    finally:
        await service.aclose()


def test_filters_and_what_is_hidden_count_as_for_words(make: Maker) -> None:
    view = filled(make, Words())
    view.append("s1", AIMessage("the cat again on the sofa"))
    view.append("s1", HumanMessage("a feline is a cat is a kitten"))
    view.embed_pending()
    page = view.search("feline cat", session_id="s1", where=EventFilter(roles=frozenset({"ai"})))
    assert texts(page) == ["the cat again on the sofa"]
    assert texts(view.search("feline cat", session_id="s1"))[0] == "a feline is a cat is a kitten"
    view.rewind("s1", to_seq=6)
    assert set(texts(view.search("feline cat", session_id="s1"))[:2]) == {TALK[0], "the cat again on the sofa"}
    assert "a feline is a cat is a kitten" not in texts(view.search("feline cat", session_id="s1"))


def test_users_do_not_see_each_other(make: Maker) -> None:
    service = make(Words())
    ada = fill(service, TALK)
    grace = fill(service, ["the cat of grace on the sofa"], "s2", "grace")
    assert service.embed_pending() == 6
    assert texts(ada.search("feline sofa"))[0] == TALK[0]
    assert texts(grace.search("feline sofa")) == ["the cat of grace on the sofa"]
    found = service.search("feline sofa", whole_app=True)
    assert {hit.event.session_id for hit in found.items[:2]} == {"s1", "s2"}


def test_pages_neither_repeat_nor_skip_while_vectors_appear(make: Maker) -> None:
    view = fill(make(Words()), [f"the cat number {number} on the sofa" for number in range(30)])
    seen: list[str] = []
    cursor = None
    for turn in range(10):
        page = view.search("feline sofa", session_id="s1", limit=4, cursor=cursor)
        seen += texts(page)
        cursor = page.next_cursor
        if turn == 2:
            view.embed_pending()
        if cursor is None:
            break
    assert sorted(seen) == sorted(f"the cat number {number} on the sofa" for number in range(30))


# -- building ----------------------------------------------------------------------------------------------


def test_appends_have_it_done_in_the_background(make: Maker) -> None:
    words = Words()
    view = fill(make(words), [f"message {number} about the sofa" for number in range(3 * EMBED_BATCH)])
    log_of(view).background.drain()
    assert len(vectors_of(view)) == 3 * EMBED_BATCH
    assert len([text for text in words.texts if "message" in text]) == 3 * EMBED_BATCH


def test_what_was_embedded_is_not_embedded_again(make: Maker) -> None:
    words = Words()
    view = filled(make, words)
    before = vectors_of(view)
    view.append("s1", HumanMessage("one more"))
    assert view.embed_pending("s1", progress=lambda name, added: None) == 1
    assert view.embed_pending() == 0
    assert [text for text in words.texts if text in TALK] == TALK
    assert vectors_of(view).items() > before.items()


def test_a_build_that_was_cut_short_goes_on_where_it_was(make: Maker) -> None:
    words = Words()
    view = fill(make(), [f"message {number}" for number in range(5 * EMBED_BATCH)])
    words.refuses = "message 70"
    broken = make(_failing_after(words, 2)).as_user("ada")
    with pytest.raises(EmbeddingError):
        broken.embed_pending()
    assert len(vectors_of(view)) == 2 * EMBED_BATCH
    words.refuses = "\0"
    words.texts.clear()
    assert make(words).as_user("ada").embed_pending() == 3 * EMBED_BATCH
    assert len([text for text in words.texts if text.startswith("message")]) == 3 * EMBED_BATCH
    assert len(vectors_of(view)) == 5 * EMBED_BATCH


def _failing_after(words: Words, batches: int) -> Callable[[list[str]], list[list[float]]]:
    """Answers some batches and the probe before them, then nothing."""
    answered = [0]

    def embed(batch: list[str]) -> list[list[float]]:
        if answered[0] > batches:
            raise ConnectionError
        answered[0] += 1
        return [vector_of(text) for text in batch]

    return embed


def test_two_builders_at_once_store_each_vector_once(make: Maker) -> None:
    view = fill(make(), [f"message {number}" for number in range(4 * EMBED_BATCH)])
    services = [make(Words()).as_user("ada") for _ in range(2)]
    threads = [threading.Thread(target=service.embed_pending) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = vectors_of(view)
    assert sorted(stored) == list(range(1, 4 * EMBED_BATCH + 1))


def test_in_the_background_one_process_at_a_time_pays(make: Maker) -> None:
    first, second = Words(), Words()
    view = fill(make(), [f"message {number}" for number in range(2 * EMBED_BATCH)])
    slow = make(first).as_user("ada")
    slow.search("message", session_id="s1")
    first.open.clear()
    other = make(second).as_user("ada")
    log_of(slow).background.drain(0.2)
    other.search("message", session_id="s1")
    log_of(other).background.drain()
    first.open.set()
    log_of(slow).background.drain()
    assert len(vectors_of(view)) == 2 * EMBED_BATCH
    asked = [text for text in first.texts + second.texts if text.startswith("message")]
    assert len(asked) == 2 * EMBED_BATCH


def test_another_model_makes_them_anew(make: Maker) -> None:
    view = filled(make, Words())
    old = vectors_of(view)
    changed = make(Words(turned=True)).as_user("ada")
    page = changed.search("feline sofa", session_id="s1")
    assert page.semantic == "partial"
    assert all("meaning" not in hit.parts for hit in page)
    log_of(changed).background.drain()
    new = vectors_of(view)
    assert new.keys() == old.keys()
    assert new != old
    assert texts(changed.search("feline sofa", session_id="s1"))[0] == TALK[0]


def test_close_leaves_the_rest_for_another_time(make: Maker) -> None:
    words = Words()
    service = make(words)
    view = fill(service, [f"message {number}" for number in range(20 * EMBED_BATCH)])
    service.close()
    stored = len(vectors_of(make().as_user("ada")))
    assert stored % EMBED_BATCH == 0
    again = make(words).as_user("ada")
    assert again.embed_pending() == 20 * EMBED_BATCH - stored
    assert log_of(view).background.is_closed


_BUILDER = """
import sys
from langchain_sessions import SearchSettings, SessionService
from tests.recall.embedders import vector_of

def embed(batch):
    print(len(batch), flush=True)
    if len(batch) > 1:
        sys.stdin.readline()
    return [vector_of(text) for text in batch]

SessionService(sys.argv[1], search=SearchSettings(embed=embed)).embed_pending()
"""


def test_a_killed_build_leaves_whole_batches(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    with SessionService(url) as service:
        view = fill(service, [f"message {number}" for number in range(4 * EMBED_BATCH)])
        command = [sys.executable, "-c", _BUILDER, url]
        with subprocess.Popen(  # noqa: S603 - this interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            # The sentence that names the model, then two batches, of which the second is never answered.
            assert [int(process.stdout.readline()) for _ in range(2)] == [1, EMBED_BATCH]
            process.stdin.write("\n")
            process.stdin.flush()
            assert int(process.stdout.readline()) == EMBED_BATCH
            process.kill()
        assert sorted(vectors_of(view)) == list(range(1, EMBED_BATCH + 1))
    words = Words()
    with SessionService(url, search=SearchSettings(embed=words)) as service:
        assert service.embed_pending() == 3 * EMBED_BATCH
        assert len(vectors_of(service.as_user("ada"))) == 4 * EMBED_BATCH


async def test_asynchronous_appends_have_it_done_by_a_task(make: Maker) -> None:
    async with make(AsyncWords()) as service:
        view = service.as_user("ada")
        await view.aopen("s1")
        await view.aappend("s1", [HumanMessage(f"message {number}") for number in range(2 * EMBED_BATCH)])
        await log_of(view).background.adrain()
        assert (await view.asearch("message", session_id="s1")).semantic == "full"


def test_a_failure_is_made_good_by_the_next_search(make: Maker) -> None:
    words = Words()
    words.fails = True
    view = fill(make(words), [f"message {number}" for number in range(EMBED_BATCH)])
    log_of(view).background.drain()
    words.fails = False
    assert view.search("message", session_id="s1").semantic == "partial"
    log_of(view).background.drain()
    assert view.search("message", session_id="s1").semantic == "full"


def test_events_without_words_have_no_vector(make: Maker) -> None:
    view = fill(make(Words()), ["a cat", "", "  ", "?!", "a sofa"])
    assert view.embed_pending() == 2
    assert sorted(vectors_of(view)) == [1, 5]
    assert view.embed_pending() == 0


def test_long_texts_are_cut(make: Maker) -> None:
    words = Words()
    filled(make, words, ["cat " * 10_000] * 10)
    assert max(map(len, words.texts)) == LONGEST_TEXT
    assert words.calls == 1 + 3  # the model's name; ten long texts are no single question


# -- signs -------------------------------------------------------------------------------------------------


def signs_in(service: SessionService, session_id: str = "s1") -> tuple[VectorProgress, dict[int, bytes]]:
    """How far the vectors of a session go, and the parts of their signs as stored."""
    store, now = log_of(service).store, log_of(service).now()
    scope = SearchedLogs(app=service.app, owner=service.owner, session_id=session_id, now=now)
    (place,) = store.list_vectors(scope)
    found = store.load_vectors(scope, {place.of_signs: SeqSet.of(place.signs)})
    return place, {upto: data for (_, upto), data in found.items()}


def signed(service: SessionService, session_id: str = "s1") -> dict[int, int]:
    """The signs of the events of a session."""
    parts = [SignedPart.unpack(data) for _, data in sorted(signs_in(service, session_id)[1].items())]
    return {seq: signs for part in parts for seq, signs in zip(part.seqs, part.signs, strict=True)}


def test_signs_are_those_of_the_vectors_in_few_parts(make: Maker) -> None:
    view = fill(make(Words()), [])
    for number in range(40):
        view.append("s1", HumanMessage(f"cat {number}"))
        view.embed_pending()
    place, parts = signs_in(view)
    assert place.signed_to == place.embedded_to == 40
    assert len(parts) == len(place.signs) <= 6
    vectors = {seq: SignedPart.of({seq: numbers_in(data)}).signs[0] for seq, data in vectors_of(view).items()}
    assert signed(view) == vectors


def test_vectors_of_an_older_release_get_signs_when_they_are_searched(make: Maker) -> None:
    words = Words()
    view = filled(make, words, ["we bought a car", *(f"number {number}" for number in range(80))])
    log_of(view).background.drain()
    place, _ = signs_in(view)
    before = signed(view)
    store, now = log_of(view).store, log_of(view).now()
    key = SessionKey(view.app, "s1", "ada")
    old = VectorChange(
        progress=place, fingerprint=place.fingerprint, embedded_to=81, vectors=vectors_of(view), anew=True
    )
    assert store.write_vectors(key, old, now)
    assert signs_in(view)[0].signs == ()
    words.texts.clear()
    page = view.search("number 7", session_id="s1")
    assert (page.semantic, texts(page)[0]) == ("partial", "number 7")
    log_of(view).background.drain()
    page = view.search("automobile", session_id="s1")
    assert (page.semantic, texts(page)[0]) == ("full", "we bought a car")
    assert signed(view) == before
    assert words.texts == []
    assert view.verify("s1") == []


def test_what_is_overwritten_leaves_no_signs(make: Maker) -> None:
    view = filled(make, Words(), [f"number {number}" for number in range(40)])
    log_of(view).background.drain()
    view.blank("s1", seqs=[7])
    assert signs_in(view)[1] == {}
    assert view.search("number", session_id="s1").semantic == "partial"
    log_of(view).background.drain()
    assert sorted(signed(view)) == [seq for seq in range(1, 41) if seq != 7]
    assert view.search("number", session_id="s1").semantic == "full"


def test_another_model_makes_signs_anew(make: Maker) -> None:
    view = filled(make, Words())
    old = signed(view)
    other = make(Words(turned=True)).as_user("ada")
    other.embed_pending()
    assert signed(view).keys() == old.keys()
    assert signed(view) != old


def test_verify_sees_signs_that_are_not_those_of_the_vectors(make: Maker) -> None:
    view = filled(make, Words())
    place, _ = signs_in(view)
    wrong = SignedPart.of({seq: bytes([1] * 64) for seq in (1, 2)}).pack()
    change = VectorChange(
        progress=place,
        fingerprint=place.fingerprint,
        embedded_to=place.embedded_to,
        vectors={},
        signs=NewSigns(place.embedded_to, wrong, SeqSet.of((1, 2)), place.signs),
    )
    assert log_of(view).store.write_vectors(SessionKey(view.app, "s1", "ada"), change, log_of(view).now())
    assert view.verify("s1") == ["signs of 5 events are not those of their vectors"]


def replaced(service: SessionService, data: bytes, seqs: SeqSet) -> None:
    """Store other signs in place of those of a session."""
    place, _ = signs_in(service)
    signs = NewSigns(place.embedded_to, data, seqs, place.signs)
    change = VectorChange(
        progress=place, fingerprint=place.fingerprint, embedded_to=place.embedded_to, vectors={}, signs=signs
    )
    assert log_of(service).store.write_vectors(SessionKey(service.app, "s1", "ada"), change, log_of(service).now())


DAMAGED = [b"", b"\1", b"\1" * 20, SignedPart.of(dict.fromkeys(range(1, 7), b"\1" * 64)).pack()[:-8]]


@pytest.mark.parametrize("data", DAMAGED, ids=["empty", "of a byte", "altered", "cut"])
def test_damaged_signs_are_told_and_made_again_by_hand(make: Maker, data: bytes) -> None:
    view = filled(make, Words())
    log_of(view).background.drain()
    before = signed(view)
    replaced(view, data, SeqSet())
    assert view.verify("s1") == ["the signs up to event 5 cannot be read"]
    assert view.embed_pending("s1") == 0
    assert view.verify("s1") == []
    assert signed(view) == before


def test_damaged_signs_stop_no_search_and_are_made_again_after_it(make: Maker) -> None:
    view = filled(make, Words())
    log_of(view).background.drain()
    before = signed(view)
    replaced(view, b"\1", SeqSet())
    page = view.search("the green sofa", session_id="s1")
    assert (page.semantic, texts(page)[0]) == ("partial", TALK[2])
    log_of(view).background.drain()
    assert view.search("the green sofa", session_id="s1").semantic == "full"
    assert signed(view) == before


def test_damaged_signs_are_made_again_by_the_part_that_takes_them_in(make: Maker) -> None:
    view = filled(make, Words())
    log_of(view).background.drain()
    replaced(view, b"\1", SeqSet())
    view.append("s1", [HumanMessage(f"number {number}") for number in range(6)])
    view.embed_pending("s1")
    log_of(view).background.drain()
    assert view.verify("s1") == []
    assert sorted(signed(view)) == [*range(1, 12)]


def test_only_damaged_parts_and_those_behind_them_are_made_again(make: Maker) -> None:
    view = filled(make, Words(), [f"number {number}" for number in range(81)])
    log_of(view).background.drain()
    before, place = signed(view), signs_in(view)[0]
    assert place.signs == (64, 81)
    for upto, left in ((64, (64, 81)), (81, (64, 81))):
        signs = NewSigns(upto, b"", SeqSet(), place.signs[place.signs.index(upto) :])
        change = VectorChange(
            progress=signs_in(view)[0], fingerprint=place.fingerprint, embedded_to=81, vectors={}, signs=signs
        )
        assert log_of(view).store.write_vectors(SessionKey(view.app, "s1", "ada"), change, log_of(view).now())
        view.embed_pending("s1")
        assert signs_in(view)[0].signs == left
        assert signed(view) == before


@pytest.mark.parametrize("size", [0, 3, 4])
def test_vectors_without_numbers_have_no_signs(make: Maker, size: int) -> None:
    view = filled(make, Words())
    log_of(view).background.drain()
    place, vectors = signs_in(view)[0], vectors_of(view)
    change = VectorChange(
        progress=place,
        fingerprint=place.fingerprint,
        embedded_to=place.embedded_to,
        vectors=vectors | {1: vectors[1][:size]},
        anew=True,
    )
    assert log_of(view).store.write_vectors(SessionKey(view.app, "s1", "ada"), change, log_of(view).now())
    view.embed_pending("s1")
    assert sorted(signed(view)) == [2, 3, 4, 5]
    assert not [line for line in view.verify("s1") if "signs" in line]
    assert view.search("the green sofa", session_id="s1").semantic == "full"


def test_signs_that_were_known_before_an_overwriting_are_not_used_after_it(make: Maker) -> None:
    said = ["kitten tail", *("kitten" for _ in range(63))]
    view = filled(make, Words(), said)
    log_of(view).background.drain()
    assert texts(view.search("feline", session_id="s1"))
    view.blank("s1", seqs=[*range(2, 65)])
    view.embed_pending("s1")
    log_of(view).background.drain()
    assert texts(view.search("feline", session_id="s1")) == ["kitten tail"]


def test_parts_that_end_where_others_ended_are_not_taken_for_these(make: Maker) -> None:
    view = filled(make, Words(), [f"number {number}" if number != 5 else "kitten" for number in range(100)])
    log_of(view).background.drain()
    assert texts(view.search("feline", session_id="s1"))[0] == "kitten"
    view.blank("s1", seqs=[50])
    view.embed_pending("s1")
    log_of(view).background.drain()
    assert texts(view.search("feline", session_id="s1"))[0] == "kitten"


def test_what_a_filter_admits_is_found_however_much_it_leaves_out() -> None:
    query = QueryVector.of([1.0, -1.0] * 8)
    assert query is not None
    near, far = bytes([1, 255] * 8), bytes([255, 1] * 8)
    part = SignedPart.of({0: far} | dict.fromkeys(range(1, 20_000), near))
    assert nearest([(7, part)], query, lambda _, seq: None if seq else seq, NEAREST) == [0]


class Between(InMemoryStore):
    """Lets something happen before signs are read, once."""

    happens: Callable[[], object] | None = None

    def load_vectors(
        self, searched: SearchedLogs, places: Mapping[VectorProgress, SeqSet]
    ) -> dict[tuple[int, int], bytes]:
        if self.happens is not None and any(place.generation < 0 for place in places):
            happens, self.happens = self.happens, None
            happens()
        return super().load_vectors(searched, places)


@pytest.fixture
def between() -> Iterator[tuple[Between, SessionService]]:
    store = Between()
    told = SearchSettings(embed=Words())
    with SessionService(store, search=told) as service, SessionService(store, search=told) as other:
        view = fill(service, [f"number {number}" for number in range(64)])
        view.embed_pending("s1")
        log_of(view).background.drain()
        by_other = other.as_user("ada")

        def more() -> None:
            by_other.append("s1", [HumanMessage(f"later {number}") for number in range(64)])
            by_other.embed_pending("s1")
            log_of(by_other).background.drain()

        store.happens = more
        yield store, view


@pytest.mark.backends("memory")
def test_verify_says_nothing_false_while_somebody_embeds(between: tuple[Between, SessionService]) -> None:
    store, view = between
    assert view.verify("s1") == []
    assert store.happens is None


@pytest.mark.backends("memory")
def test_a_search_says_that_signs_were_gone_when_it_read_them(between: tuple[Between, SessionService]) -> None:
    store, view = between
    assert view.search("number 7", session_id="s1").semantic == "partial"
    assert store.happens is None
    assert view.search("number 7", session_id="s1").semantic == "full"


class WithoutSigns(InMemoryStore):
    """Keeps no signs."""

    steps = 0

    def write_vectors(self, key: SessionKey, change: VectorChange, now: int) -> bool:
        self.steps += 1
        assert self.steps < 20
        return super().write_vectors(key, replace(change, signs=None), now)


@pytest.mark.backends("memory")
def test_a_store_that_keeps_no_signs_gets_all_its_vectors() -> None:
    with SessionService(WithoutSigns(), search=SearchSettings(embed=Words())) as service:
        view = fill(service, [f"number {number}" for number in range(70)])
        log_of(view).background.drain()
        view.embed_pending("s1")
        assert len(vectors_of(view)) == 70


@pytest.mark.backends("memory")
@pytest.mark.parametrize("anew", [False, True])
def test_signs_that_an_older_release_forgot_go_with_what_was_said(
    monkeypatch: pytest.MonkeyPatch, *, anew: bool
) -> None:
    def old(head: SessionHead, token: str) -> Head:
        return dump_head(replace(head, vectors=head.vectors._replace(signs=())), token)

    store = InMemoryStore()
    with SessionService(store, search=SearchSettings(embed=Words())) as service:
        view = fill(service, TALK)
        view.embed_pending("s1")
        log_of(view).background.drain()
        place, key = signs_in(view)[0], SessionKey(view.app, "s1", "ada")
        of_signs = keys.under(keys.at(place.skey, keys.VECTOR, -place.generation))
        with monkeypatch.context() as patched:
            patched.setattr("langchain_sessions.stores._partitioned.access.dump_head", old)
            view.append("s1", AIMessage(""))
        left = signs_in(view)[0]
        assert left.signs == ()
        assert store.engine.read_rows(name_of(key), [of_signs]) != [[]]
        if anew:
            change = VectorChange(progress=left, fingerprint="e2", embedded_to=5, vectors={}, anew=True)
            assert store.write_vectors(key, change, log_of(view).now())
        else:
            view.blank("s1", seqs=[1])
        assert store.engine.read_rows(name_of(key), [of_signs]) == [[]]


def _above(numbers: list[int]) -> list[bool]:
    return [number > (0 if min(numbers) < 0 else sum(numbers) / len(numbers)) for number in numbers]


@given(
    st.lists(st.integers(-2, 2), min_size=8, max_size=8),
    st.lists(st.lists(st.integers(-2, 2), min_size=8, max_size=8), max_size=60),
    st.integers(1, 9),
)
def test_the_nearest_by_signs_are_those_that_differ_least(asked: list[int], said: list[list[int]], most: int) -> None:
    query = QueryVector.of([float(number) for number in asked])
    if query is None:
        return
    vectors = [bytes(number & 0xFF for number in each) for each in said]
    parts = [
        (7, SignedPart.of({seq: vectors[seq] for seq in range(at, min(at + 20, len(said)))}))
        for at in range(0, len(said), 20)
    ]
    parts = [(skey, SignedPart.unpack(part.pack())) for skey, part in parts]
    bits = [_above(each) for each in said]
    apart = {seq: sum(a != b for a, b in zip(_above(asked), each, strict=True)) for seq, each in enumerate(bits)}
    admitted = [seq for seq in sorted(apart, key=lambda seq: (apart[seq], -seq)) if seq % 3]
    found = nearest(parts, query, lambda skey, seq: (skey, seq) if seq % 3 else None, most)
    assert found == [(7, seq) for seq in admitted[:most]]


@pytest.mark.backends("postgres")
def test_a_page_is_as_many_round_trips_for_many_sessions_as_for_few(database_url: str, table_prefix: str) -> None:
    target = make_url(database_url)
    proxy = CountingProxy(str(target.host), int(target.port or 0))
    url = target.set(host="127.0.0.1", port=proxy.port)
    told = SearchSettings(embed=Words())
    counted: list[int] = []
    with SessionService(url, table_prefix=table_prefix, create_schema=True, search=told) as service:
        for number in range(30):
            fill(service, [f"number {number} is a cat", "good night"], f"s{number}")
            if number not in {2, 29}:
                continue
            service.embed_pending()
            trips: list[int] = []
            for _ in range(8):  # a driver prepares what comes back
                assert service.as_user("ada").search("the feline number").semantic == "full"
                trips.append(proxy.round_trips)
            counted.append(trips[-1] - trips[-2])
    proxy.close()
    assert counted == [3, 3]


# -- what may go wrong -------------------------------------------------------------------------------------


def test_an_embedder_that_raises_costs_no_search(make: Maker, caplog: pytest.LogCaptureFixture) -> None:
    words = Words()
    view = filled(make, words)
    words.fails = True
    with caplog.at_level(logging.WARNING, "langchain_sessions"):
        pages = [view.search(query, session_id="s1") for query in ("sofa", "vase", "train")]
    assert [page.semantic for page in pages] == ["unavailable"] * 3
    assert [texts(page) for page in pages] == [by_words(query) for query in ("sofa", "vase", "train")]
    assert len(caplog.records) == 1
    assert "sofa" not in caplog.text
    words.fails = False
    assert view.search("sofa", session_id="s1").semantic == "full"


def test_an_embedder_that_raises_costs_no_append(make: Maker) -> None:
    words = Words()
    words.fails = True
    view = fill(make(words), [f"message {number}" for number in range(2 * EMBED_BATCH)])
    log_of(view).background.drain()
    assert view.get("s1").version == 2 * EMBED_BATCH
    assert vectors_of(view) == {}


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        7,
        [[1.0], [1.0]],
        [[]],
        [["a"]],
        [[math.nan, 1.0]],
        [[math.inf, 1.0]],
        [None],
        [[0.0, 0.0]],
        [["1e999"]],
    ],
    ids=repr,
)
@pytest.mark.parametrize("face", ["sync", "async"])
def test_nonsense_is_no_answer(answer: object, face: str) -> None:
    service = SessionService(InMemoryStore(), search=SearchSettings(embed=cast("Embed", lambda _: answer)))
    view = fill(service, TALK)
    if face == "sync":
        page = view.search("sofa", session_id="s1")
        service.close()
    else:
        page = asyncio.run(_closing(service, view.asearch("sofa", session_id="s1")))
    assert texts(page) == by_words("sofa")
    assert page.semantic == "unavailable"


@pytest.mark.parametrize("face", ["sync", "async"])
def test_an_embedder_that_hangs_is_waited_for_once(face: str) -> None:
    hangs = threading.Event()
    calls: list[int] = []

    def embed(batch: list[str]) -> list[list[float]]:
        calls.append(len(batch))
        hangs.wait(60)
        return [vector_of(text) for text in batch]

    service = SessionService(InMemoryStore(), search=SearchSettings(embed=embed, embed_timeout=0.05))
    view = fill(service, TALK)

    async def twice() -> list[SearchPage]:
        try:
            return [await view.asearch(word, session_id="s1") for word in ("sofa", "vase")]
        finally:
            await service.aclose()

    if face == "sync":
        pages = [view.search("sofa", session_id="s1"), view.search("vase", session_id="s1")]
        service.close()
    else:
        pages = asyncio.run(twice())
    hangs.set()
    assert [page.semantic for page in pages] == ["unavailable"] * 2
    assert [texts(page) for page in pages] == [by_words("sofa"), by_words("vase")]
    assert calls == [1]


async def test_a_coroutine_that_hangs_is_given_up() -> None:
    async def embed(batch: list[str]) -> list[list[float]]:
        await asyncio.sleep(3600)
        return []

    async with SessionService(InMemoryStore(), search=SearchSettings(embed=embed, embed_timeout=0.05)) as service:
        view = fill(service, TALK)
        assert (await view.asearch("sofa", session_id="s1")).semantic == "unavailable"
        assert (await view.asearch("sofa", session_id="s1")).semantic == "unavailable"


def test_a_text_that_the_embedder_refuses_holds_up_no_other(make: Maker) -> None:
    words = Words()
    words.refuses = "weather"
    view = fill(make(words), TALK)
    assert view.embed_pending() == 4
    assert sorted(vectors_of(view)) == [1, 3, 4, 5]
    page = view.search("weather report sofa", session_id="s1")
    assert page.semantic == "full"
    assert TALK[1] in texts(page)


def test_an_error_by_hand_is_told_without_a_word_of_the_text(make: Maker) -> None:
    words = Words()
    words.fails = True
    view = fill(make(words), TALK)
    with pytest.raises(EmbeddingError) as caught:
        view.embed_pending()
    assert "RuntimeError" in str(caught.value)
    assert "cat" not in str(caught.value)
    words.fails = False
    with pytest.raises(SessionNotFoundError):
        view.embed_pending("absent")


# -- what is kept ------------------------------------------------------------------------------------------


def test_vectors_go_with_their_session(make: Maker) -> None:
    service = make(Words())
    view = filled(make, Words())
    fill(service, ["another cat"], "s2").embed_pending()
    view.delete("s1")
    store = log_of(service).store
    scope = SearchedLogs(app=service.app, owner=service.owner, session_id=None, now=log_of(service).now())
    assert [place.session_id for place in store.list_vectors(scope)] == ["s2"]
    fill(service, ["a new cat"])
    assert vectors_of(service.as_user("ada")) == {}


def test_after_a_delete_no_byte_of_a_vector_is_left(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SessionService(f"sqlite:///{path}", search=SearchSettings(embed=Words())) as service:
        view = fill(service, [f"{text} {number}" for number in range(20) for text in TALK])
        fill(service, ["a sofa that stays"] * 50, "s2").embed_pending()
        view.embed_pending()
        stored = [*vectors_of(view).values(), *signs_in(view)[1].values()]
        assert [data for data in stored if data[-40:] not in _bytes(path)] == []
        view.delete("s1")
        left = _bytes(path)
    assert [data for data in stored if data[-40:] in left] == []


def _bytes(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*") if not each.name.endswith("-shm"))


def test_an_encrypting_codec_seals_vectors_too(make: Maker) -> None:
    codec = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    sealed = filled(make, Words(), codec=codec)
    page = sealed.search("the feline and the sofa", session_id="s1")
    assert page.semantic == "full"
    assert texts(page)[0] == TALK[0]
    plain = VectorFormat(MessageCodec()).pack(vector_of(TALK[0]))
    stored = vectors_of(sealed)
    assert len(stored) == len(TALK)
    assert all(plain[4:] not in data for data in stored.values())
    (part,) = signs_in(sealed)[1].values()
    assert SignedPart.of({1: plain[4:]}).pack()[-8:] not in part
    # A service without the key neither reads them nor spoils them.
    blind = make(Words()).as_user("ada")
    log_of(blind).background.drain()
    assert vectors_of(sealed) == stored


# -- vectors -----------------------------------------------------------------------------------------------

NUMBERS = st.integers(-(10**6), 10**6).map(float)
VECTORS = st.lists(NUMBERS, min_size=8, max_size=40)


@given(st.data(), VECTORS)
def test_a_stored_vector_keeps_its_direction(data: st.DataObject, values: list[float]) -> None:
    asked = data.draw(st.lists(NUMBERS, min_size=len(values), max_size=len(values)))
    packed = VectorFormat(MessageCodec()).pack(values)
    query = QueryVector.of(asked)
    if not any(values) or not any(asked) or query is None:
        return
    found = query.cosine(packed)
    assert found is not None
    assert found == pytest.approx(cosine(asked, values), abs=0.05)


def test_vectors_of_another_size_are_not_compared() -> None:
    query = QueryVector.of([1.0, 2.0])
    assert query is not None
    assert query.cosine(VectorFormat(MessageCodec()).pack([1.0, 2.0, 3.0])) is None
    assert query.cosine(b"") is None
    assert VectorFormat(MessageCodec()).pack([0.0, 0.0]) == b""


def test_signatures_bear_noise_and_tell_models_apart() -> None:
    form = VectorFormat(MessageCodec())
    vector = [math.sin(at * at) for at in range(384)]
    noisy = [value + 1e-3 * math.cos(7 * at) for at, value in enumerate(vector)]
    other = [math.cos(3 * at * at) for at in range(384)]
    named = [form.fingerprint(signature_of(each)) for each in (vector, noisy, other, vector[:-1])]
    assert [form.same(named[0], each) for each in named] == [True, True, False, False]
    assert max(map(len, named)) <= 128


def test_the_signature_is_asked_once() -> None:
    words = Words()
    embedder = Embedder(words, timeout=5.0)
    assert embedder.signature() == embedder.signature()
    assert words.calls == 1
    assert asyncio.run(embedder.asignature()) == embedder.signature()


def test_an_embedder_that_comes_back_is_asked_again() -> None:
    words = Words()
    words.open.clear()
    embedder = Embedder(words, timeout=0.05)
    assert embedder.query("cat") is None
    words.open.set()
    assert embedder._hanging is not None
    embedder._hanging.result(10)
    assert embedder.query("cat") is not None


def test_the_same_query_is_embedded_once(make: Maker) -> None:
    words = Words()
    view = filled(make, words)
    for _ in range(3):
        view.search("feline sofa", session_id="s1")
    assert words.queries == ["feline sofa"]


# -- verify --------------------------------------------------------------------------------------------------


def test_verify_is_content_with_vectors_of_the_texts(make: Maker) -> None:
    words = Words()
    view = filled(make, words, [*TALK, "", "do not embed \0 this"])
    assert view.verify("s1") == []
    view.append("s1", HumanMessage("not embedded yet"))
    assert view.verify("s1") == []
    words.fails = True
    assert view.verify("s1") == []


def test_verify_asks_an_embedder_for_no_more_than_a_few_texts(make: Maker) -> None:
    filled(make, Words(), [f"word{number} and more" for number in range(200)])
    other = Words()
    assert make(other).as_user("ada").verify("s1") == []
    assert 1 < len(other.texts) <= 32


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_verify_sees_vectors_that_differ_from_the_texts(make: Maker) -> None:
    from langchain_sessions._sql.driver.transaction_kinds import TransactionKind  # noqa: PLC0415

    view = filled(make, Words())
    store: Any = log_of(view).store
    vectors = store.tables.recall.vectors
    other = VectorFormat(MessageCodec()).pack(vector_of("something else entirely"))
    store.run(TransactionKind.WRITE, lambda tx: tx.change(vectors.delete().where(vectors.c.seq == 2)))
    store.run(
        TransactionKind.WRITE, lambda tx: tx.change(vectors.update().where(vectors.c.seq == 3).values(data=other))
    )
    assert view.verify("s1") == [
        "signs of 2 events are not those of their vectors",
        "event 2 has no vector",
        "the vector of event 3 is not that of its text",
    ]
    store.run(TransactionKind.WRITE, lambda tx: tx.change(vectors.update().where(vectors.c.seq == 3).values(seq=900)))
    assert "1 vectors belong to nothing that is embedded" in view.verify("s1")


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_verify_sees_vectors_of_an_older_set(make: Maker) -> None:
    from langchain_sessions._sql.driver.transaction_kinds import TransactionKind  # noqa: PLC0415

    view = filled(make, Words())
    store: Any = log_of(view).store
    vectors = store.tables.recall.vectors
    store.run(
        TransactionKind.WRITE, lambda tx: tx.change(vectors.update().where(vectors.c.seq == 1).values(generation=7))
    )
    assert view.verify("s1")[0] == "1 vectors belong to nothing that is embedded"
