"""Long texts lie deflated in databases: they read, search, repeat and fork as if they lay there whole."""

from __future__ import annotations

import asyncio
import random
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from sqlalchemy import null, select, update
from sqlalchemy.util.concurrency import greenlet_spawn

from langchain_sessions import EventFilter, NewEvent, SessionService
from langchain_sessions._core import packed_texts
from langchain_sessions._core.event_encoding import EventEncoder
from langchain_sessions._core.flow import LARGE
from langchain_sessions._core.packed_texts import PACKED_FROM, pack_text, unpack_text
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index.indexing import Indexer
from langchain_sessions._sql.driver.runner import Runner
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.index.deflated import opened as inflated
from langchain_sessions._sql.index.deflated import rows_of
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import CorruptRowError, EventConflictError
from langchain_sessions.stores._values import StoredChunk
from tests.checkpointer.talking import CONFIG, talking
from tests.faults.drills import FACES, Face, make_service, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
ASCII = "The Harbour lies where the River ends. " * 60
FOREIGN = "Straße am Öresund, İstanbul, 🦜 und ein e\u0301 dazu. " * 60
CALL: Any = {"name": "look", "args": {"q": "Lighthouse"}, "id": "c", "type": "tool_call"}
SAID: tuple[BaseMessage, ...] = (
    HumanMessage(ASCII, id="m1"),
    AIMessage(FOREIGN, tool_calls=[CALL], id="m2"),
    ToolMessage(FOREIGN + "the only Needle", tool_call_id="c", id="m3"),
    HumanMessage("a short river", id="m4"),
    AIMessage("x" * (PACKED_FROM - 1), id="m5"),
    AIMessage(ASCII + "with a \0 and \ud83d, which no database holds", id="m6"),
    HumanMessage([{"type": "text", "text": ASCII}], id="m7"),
    HumanMessage(ASCII + "needle", id="m8"),
)


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """A log of long texts: some appended together, others alone."""
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        made.create("s")
        made.append("s", SAID[0])
        made.append("s", SAID[1:6])
        made.append("s", SAID[6])
        made.append("s", SAID[7], invocation_id="r")
        yield made


def rows(service: SessionService, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of the events that a database holds."""
    store: Any = log_of(service).store
    e = store.tables.events.c
    asked = select(*(e[name] for name in names)).order_by(e.skey, e.seq)
    return [tuple(row) for row in store.run(TransactionKind.READ, lambda tx: tx.once(asked))]


def put(service: SessionService, seq: int, **values: Any) -> None:
    """Write into the row of an event, behind the library's back."""
    store: Any = log_of(service).store
    e = store.tables.events
    given = {name: null() if value is None else value for name, value in values.items()}
    store.run(TransactionKind.WRITE, lambda tx: tx.change(update(e).where(e.c.seq == seq).values(given)))


def found(service: SessionService, **wanted: Any) -> list[int]:
    return [event.seq for event in service.events("s", EventFilter(**wanted))]


def test_they_read_search_and_count_as_if_they_were_whole(service: SessionService) -> None:
    assert service.messages("s") == [*SAID]
    assert [event.message for event in service.events("s")] == [*SAID]
    assert [event.message for event in service.context("s", last_n=2).events] == [*SAID[-2:]]
    for words, seqs in {
        ("harbour",): [1, 6, 7, 8],
        ("LIGHTHOUSE",): [2],
        ("STRASSE",): [2, 3],
        ("needle",): [3, 8],
        ("needle", "harbour"): [8],
        ("xyz",): [],
        ("xx",): [5],
    }.items():
        assert found(service, keywords=words, match="all") == seqs, words
        assert found(service, keyword=words[0], last_n=1) == found(service, keyword=words[0])[-1:]
    either = EventFilter(keywords=("needle", "river"), match="any", page=0, page_size=2)
    page = service.events("s", either, with_total=True)
    assert ([event.seq for event in page], page.total) == ([1, 3], 6)
    assert [event.seq for event in service.events("s", either, cursor=page.next_cursor)] == [4, 6]
    assert service.search("needle", session_id="s").items[0].event.seq in {3, 8}
    assert service.verify("s") == []


def test_they_are_found_again_and_taken_along(service: SessionService) -> None:
    assert [event.seq for event in service.append("s", SAID[1])] == [2]
    assert [event.seq for event in service.append("s", SAID[:4])] == [1, 2, 3, 4]
    with pytest.raises(EventConflictError):
        service.append("s", HumanMessage(ASCII + "another", id="m1"))
    service.edit("s", HumanMessage(ASCII + "edited", id="m1"))
    service.edit("s", HumanMessage(ASCII + "edited again", id="m1"))
    service.fork("s", new_id="copy")
    assert service.messages("copy") == service.messages("s")
    assert [event.message for event in service.events("copy")] == [event.message for event in service.events("s")]
    service.blank("s", message_id="m3")
    assert service.messages("s")[2].content == "[blanked]"
    assert found(service, keyword="needle") == [8]
    assert service.verify("s") == service.verify("copy") == []


@on_databases
def test_a_database_holds_them_deflated(service: SessionService) -> None:
    service.edit("s", HumanMessage(ASCII + "edited", id="m1"))
    service.blank("s", message_id="m3")
    held = rows(service, "seq", "text", "folded", "packed")
    lengths = {seq: None if packed is None else len(bytes(packed)) for seq, *_, packed in held}
    assert [seq for seq, length in lengths.items() if length is not None] == [1, 2, 8]
    # What takes the place of another is what others are told by, and is not packed.
    assert [seq for seq, text, *_ in held if text is None] == [1, 2, 6, 7, 8, 10]
    assert sum(length or 0 for length in lengths.values()) < len(ASCII) / 3
    assert [folded for seq, _, folded, _ in held if seq in {1, 2, 8}] == [None] * 3


@on_databases
def test_what_was_stored_before_is_read_beside_them(service: SessionService) -> None:
    for seq, said in ((1, SAID[0]), (3, SAID[2])):
        put(service, seq, text=said.content, folded=str(said.content).casefold(), packed=None)
    test_they_read_search_and_count_as_if_they_were_whole(service)
    test_they_are_found_again_and_taken_along(service)


@on_databases
@pytest.mark.parametrize("how", ["altered", "cut", "longer", "a bomb", "nothing", "text", "of no kind"])
def test_a_damaged_one_is_named_and_stays_alone(service: SessionService, how: str) -> None:
    packed = bytes(rows(service, "packed")[1][0])
    middle = len(packed) // 2
    put(
        service,
        2,
        packed={
            "altered": packed[:middle] + bytes([packed[middle] ^ 1]) + packed[middle + 1 :],
            "cut": packed[:-3],
            "longer": packed + b"x",
            "a bomb": packed[:1] + zlib.compress(bytes(1 << 26), 9),
            "nothing": b"",
            "text": FOREIGN.encode(),
            "of no kind": b"\x09" + packed[1:],
        }[how],
    )
    for read in (service.messages, service.context):
        with pytest.raises(CorruptRowError, match=r"Event 2 .*'s'") as caught:
            read("s")
        assert "resund" not in str(caught.value)
    assert service.verify("s") == ["event 2 cannot be read"]
    with pytest.raises(CorruptRowError, match=r"Event 2 .*'s'"):
        service.append("s", SAID[1])
    service.fork("s", new_id="copy")
    assert service.verify("copy") == ["event 2 cannot be read"]
    assert found(service, keyword="needle") == [3, 8]
    assert [event.message for event in service.events("s", EventFilter(after_seq=2))] == [*SAID[2:]]
    assert service.messages("s", last_n=3) == [*SAID[-3:]]
    service.blank("s", message_id="m2")
    assert service.verify("s") == []


@on_databases
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("run", [None, "r"])
def test_large_ones_are_packed_before_the_lock_and_nobody_waits_for_it(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch, face: str, run: str | None
) -> None:
    """Neither a transaction nor an event loop is held up by what takes long to count, to pack and to index."""
    done: list[tuple[str, bool, bool]] = []
    here, held = threading.get_ident(), threading.local()

    def watch(place: object, name: str) -> None:
        function = getattr(place, name)

        def watched(*args: object, **kwargs: object) -> object:
            done.append((name, threading.get_ident() == here, getattr(held, "is_held", False)))
            return function(*args, **kwargs)

        monkeypatch.setattr(place, name, watched)

    transacted = Runner._in_transaction

    def transacting(*args: Any) -> object:
        held.is_held = True
        try:
            return transacted(*args)
        finally:
            held.is_held = False

    call = Face(face)
    monkeypatch.setattr(Runner, "_in_transaction", transacting)
    large = [HumanMessage(ASCII * (LARGE // len(ASCII) + 1), id=f"m{at}") for at in range(4)]
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        call(made, "create", "s")
        watch(packed_texts, "pack_text")
        watch(EventEncoder, "message_row")
        watch(Indexer, "_entries")
        call(made, "append", "s", large[0], invocation_id=run)
        call(made, "append", "s", large[:2], invocation_id=run)
        call(made, "append", "s", [NewEvent(message=each) for each in large[2:]], invocation_id=run)
        assert call(made, "messages", "s") == large
        assert call(made, "reindex", "s") == len(large)
        assert {name for name, *_ in done} == {"pack_text", "message_row", "_entries"}
        assert {is_here for _, is_here, _ in done} == {face == "sync"}
        assert {is_held for *_, is_held in done} == {False}
        done.clear()
        call(talking(SessionCheckpointSaver(made)), "invoke", {"messages": [large[0]]}, CONFIG)
        call.close(made)
    # LangGraph saves in a thread of its own, or on its loop.
    assert [each for each in done if each[0] == "pack_text"] == [("pack_text", False, False)]


@on_databases
@pytest.mark.parametrize("face", FACES)
def test_large_ones_are_inflated_beside_an_event_loop(
    database_url: str, table_prefix: str, monkeypatch: pytest.MonkeyPatch, face: str
) -> None:
    threads: list[int] = []
    inflated = packed_texts._inflated

    def watched(packed: bytes) -> tuple[bytes, str, str]:
        threads.append(threading.get_ident())
        return inflated(packed)

    call = Face(face)
    large = HumanMessage(random.Random(5).randbytes(LARGE).hex(), id="m")  # noqa: S311 - of no more use than to shrink a little
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        call(talking(SessionCheckpointSaver(made)), "invoke", {"messages": [large]}, CONFIG)
        monkeypatch.setattr(packed_texts, "_inflated", watched)
        ada = made.as_user("ada")
        assert call(ada, "messages", "t")[0] == large
        assert call(ada, "context", "t").events[0].message == large
        assert next(iter(call(ada, "events", "t"))).message == large
        saver = SessionCheckpointSaver(made)
        assert call(saver, "get_tuple", CONFIG).checkpoint["channel_values"]["messages"][0] == large
        call.close(made)
    assert len(threads) >= 4
    assert {thread == threading.get_ident() for thread in threads} == {face == "sync"}


async def test_tools_may_hold_every_thread_of_the_loop(database_url: str, table_prefix: str) -> None:
    """As those that call us from the loop's executor and wait for what we answer."""
    large = HumanMessage(random.Random(5).randbytes(LARGE).hex(), id="m")  # noqa: S311 - of no more use than to shrink a little
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        await made.acreate("s")

        def tool() -> list[BaseMessage]:
            for call in (made.aappend("s", large), made.aappend("s", HumanMessage("short"))):
                asyncio.run_coroutine_threadsafe(call, loop).result(timeout=20)
            return asyncio.run_coroutine_threadsafe(made.amessages("s"), loop).result(timeout=20)

        assert (await asyncio.to_thread(tool))[0] == large
        await made.aclose()


@pytest.mark.backends("sqlite")
async def test_somebody_elses_greenlet_is_not_left_in_the_middle_of_a_read(service: SessionService) -> None:
    service.open("s")
    service.append("s", HumanMessage(random.Random(5).randbytes(LARGE).hex()))  # noqa: S311 - as above
    done: list[str] = []

    async def other() -> None:
        done.append("other")

    task = asyncio.create_task(other())

    def read() -> None:
        service.messages("s")
        done.append("read")

    await greenlet_spawn(read)
    await task
    assert done == ["read", "other"]


@on_databases
def test_a_text_beside_a_packed_one_was_written_later(service: SessionService) -> None:
    """A process of a release before blanks the column that it knows of."""
    store: Any = log_of(service).store
    e = store.tables.events.c
    change = update(store.tables.events).where(e.ident == "m1").values(text="", folded=null())
    store.run(TransactionKind.WRITE, lambda tx: tx.change(change))
    assert service.messages("s")[0].content == ""
    assert next(iter(service.events("s"))).message.content == ""  # type: ignore[union-attr]
    assert service.verify("s")[0] == "event 1 has a text beside its packed one"


@on_databases
def test_a_keyword_holds_a_few_long_texts_at_once(database_url: str, table_prefix: str) -> None:
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        made.create("s")
        made.append("s", [HumanMessage("word " * 100_000) for _ in range(60)])
        for act in (
            lambda: made.events("s", EventFilter(keyword="nowhere", last_n=1)),
            lambda: made.search("nowhere", session_id="s", mode="literal", order="time"),
        ):
            act()
            tracemalloc.start()
            act()
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert most < 25_000_000  # of 30, and as much again in lower case


@pytest.mark.parametrize("folded", [None, FOREIGN.casefold(), FOREIGN.casefold() + " lighthouse"])
def test_both_texts_come_out_as_they_went_in(folded: str | None) -> None:
    packed = pack_text(FOREIGN, folded)
    assert packed is not None
    assert unpack_text(packed) == (FOREIGN, folded)
    as_some_drivers_give_it: Any = memoryview(packed)
    assert unpack_text(as_some_drivers_give_it) == (FOREIGN, folded)


def test_what_does_not_shrink_stays_as_it_is() -> None:
    draw = random.Random(7)  # noqa: S311 - the same text each time
    assert pack_text("".join(chr(draw.randrange(1, 128)) for _ in range(PACKED_FROM)), None) is None


@on_databases
def test_the_index_of_long_messages_is_deflated(service: SessionService) -> None:
    draw = random.Random(3)  # noqa: S311 - the same words each time
    words = ["".join(draw.choices("abcdefg", k=4)) for _ in range(900)]
    service.append("s", [HumanMessage(" ".join(draw.choices(words, k=250))) for _ in range(600)])
    assert service.search("needle", session_id="s").items[0].event.seq in {3, 8}
    terms = log_of(service).store.tables.recall.terms  # type: ignore[attr-defined]
    store: Any = log_of(service).store
    asked = select(terms.c.chunk, terms.c.bucket, terms.c.data)
    stored = {tuple(row[:2]): bytes(row[2]) for row in store.run(TransactionKind.READ, lambda tx: tx.once(asked))}
    small = {place for place, data in stored.items() if len(inflated(data)) > len(data)}
    assert {bucket for _, bucket in small} > {"", "aa", "gg"}
    assert sum(map(len, stored.values())) < sum(len(inflated(data)) for data in stored.values()) * 2 / 3
    assert service.verify("s") == []
    place = max(small)
    bad = stored[place][:60] + b"?" + stored[place][61:]
    gone = update(terms).where(terms.c.chunk == place[0], terms.c.bucket == place[1]).values(data=bad)
    store.run(TransactionKind.WRITE, lambda tx: tx.change(gone))
    assert service.verify("s") != []


@pytest.mark.parametrize(("flavour", "terms", "are_small"), [("sqlite", 9_999, False), ("sqlite", 90_000, True),
                                                             ("postgresql", 9_999, True)])  # fmt: skip
def test_words_of_short_messages_stay_as_a_search_reads_them(flavour: str, terms: int, *, are_small: bool) -> None:
    traits, words = b"[1]\n" + bytes(3_000), {"aa": b"\3\0\0\0\na\n" + bytes(3_000), "bb": b"\3\0\0\0\nb\n"}
    stored = dict(rows_of(flavour, StoredChunk(1, 100, 100, terms, 1, traits), words))
    assert {name: inflated(memoryview(data)) for name, data in stored.items()} == {"": traits, **words}
    assert {name: len(data) < 1_000 for name, data in stored.items()} == {"": True, "aa": are_small, "bb": True}
    for damaged in (stored[""][:-1], stored[""][:9]):
        assert inflated(damaged) == damaged
