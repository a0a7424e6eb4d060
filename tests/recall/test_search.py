"""Search on every backend: what is found, what is not, and how it is paged."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langchain_sessions import (
    EventFilter,
    InMemoryStore,
    InvalidInputError,
    NewEvent,
    SealedEventError,
    SessionNotFoundError,
    SessionService,
    Standing,
)
from langchain_sessions._log.indexing import indexer_of
from langchain_sessions._log.log import log_of
from langchain_sessions._recall.settings import SearchSettings
from langchain_sessions.testing.archiving import archive

if TYPE_CHECKING:
    from langchain_sessions.search import SearchPage

MAY = datetime(2024, 5, 8, 12, tzinfo=timezone.utc)


def talk(view: SessionService, count: int, session_id: str = "s1") -> None:
    """Append small talk, enough of it that an index is built."""
    view.append(session_id, [HumanMessage(f"weather report {n}") for n in range(count)])


def texts(page: SearchPage) -> list[str]:
    return [hit.text for hit in page]


def found(view: SessionService, query: str, **options: Any) -> list[str]:
    """The texts that hold a word of the query; neighbours are hits of another kind."""
    return sorted(hit.text for hit in view.search(query, limit=100, **options) if hit.highlights)


@pytest.mark.parametrize("before", [0, 130, 600])
def test_what_was_just_appended_is_found(ada: SessionService, before: int) -> None:
    talk(ada, before)
    ada.append("s1", [HumanMessage("Where is my passport?"), AIMessage("In the blue drawer.")])
    page = ada.search("passport", session_id="s1")
    assert page[0].event.seq in {before + 1, before + 2}
    assert "Where is my passport?" in texts(page)
    ada.append("s1", HumanMessage("The passport is red."))
    assert "The passport is red." in texts(ada.search("passport", session_id="s1"))


async def test_both_faces_find_the_same(ada: SessionService) -> None:
    talk(ada, 200)
    ada.append("s1", [HumanMessage("Where is my passport?"), AIMessage("In the blue drawer.")])
    page = ada.search("passport drawer")
    other = await ada.asearch("passport drawer")
    assert [(hit.event.seq, hit.score) for hit in page] == [(hit.event.seq, hit.score) for hit in other]
    assert await ada.areindex() >= 0


def test_every_backend_ranks_alike(ada: SessionService) -> None:
    reference = SessionService(InMemoryStore()).as_user("ada")
    reference.open("s1")
    for view in (ada, reference):
        for n in range(400):
            message = (HumanMessage if n % 2 else AIMessage)(f"note {n % 17} about topic {n % 23} and {n % 5} more")
            view.append("s1", NewEvent(message=message, timestamp=MAY + timedelta(hours=n)))
    for query in ("topic 3", "note 4 topic 5", "more", "when was note 7?", "may 2024 topic"):
        ours, theirs = (
            [(hit.event.seq, round(hit.score, 6)) for hit in view.search(query, limit=30)] for view in (ada, reference)
        )
        assert ours == theirs


def test_a_user_finds_nothing_of_others(service: SessionService, ada: SessionService) -> None:
    ada.append("s1", HumanMessage("my passport is red"))
    grace = service.as_user("grace")
    grace.open("s2")
    grace.append("s2", HumanMessage("her passport is green"))
    assert texts(grace.search("passport")) == ["her passport is green"]
    assert texts(service.as_user(None).search("passport")) == []
    for session_id in ("s1", "missing"):
        with pytest.raises(SessionNotFoundError):
            grace.search("passport", session_id=session_id)
    assert len(service.search("passport", whole_app=True)) == 2
    with pytest.raises(InvalidInputError, match="whole_app"):
        service.search("passport")
    with pytest.raises(InvalidInputError, match="whole_app"):
        ada.search("passport", whole_app=True)


def test_all_sessions_of_a_user_are_searched_at_once(ada: SessionService) -> None:
    for n in range(12):
        ada.open(f"t{n}")
        ada.append(f"t{n}", [HumanMessage(f"kettle number {n}"), *(AIMessage(f"filler {m}") for m in range(30))])
    page = ada.search("kettle", limit=50)
    assert {hit.event.session_id for hit in page if hit.highlights} == {f"t{n}" for n in range(12)}
    one = ada.search("kettle", session_id="t3")
    assert {hit.event.session_id for hit in one} == {"t3"}
    assert texts(ada.search("kettle", mode="literal", limit=50)) == [f"kettle number {n}" for n in range(12)]


@pytest.mark.parametrize("before", [0, 200])
def test_every_filter(ada: SessionService, before: int) -> None:
    talk(ada, before)
    call = {"name": "find_flight", "args": {"to": "kettle"}, "id": "c1"}
    events = [
        NewEvent(message=HumanMessage("kettle one"), author="ada", timestamp=MAY),
        NewEvent(message=AIMessage("kettle two"), author="bot", branch="orch", timestamp=MAY + timedelta(days=1)),
        NewEvent(message=AIMessage("kettle three"), branch="orch.sub", timestamp=MAY + timedelta(days=2)),
        NewEvent(message=AIMessage("", tool_calls=[call]), timestamp=MAY + timedelta(days=3)),
        NewEvent(message=ToolMessage("kettle four", tool_call_id="c1", name="find_flight"), timestamp=MAY),
        NewEvent(message=HumanMessage("kettle five"), synthetic=True, timestamp=MAY + timedelta(days=4)),
        NewEvent(message=SystemMessage("kettle six"), timestamp=MAY + timedelta(days=5)),
        NewEvent(message=AIMessage("kettle seven", name="cleo"), timestamp=MAY + timedelta(days=6, microseconds=1)),
    ]
    ada.append("s1", events)
    expected: dict[EventFilter, set[str]] = {
        EventFilter(roles=frozenset({"human"})): {"one", "five"},
        EventFilter(roles=frozenset({"user", "system"})): {"one", "five", "six"},
        EventFilter(roles=frozenset({"tool"})): {"four"},
        EventFilter(authors=frozenset({"bot"})): {"two"},
        EventFilter(authors=frozenset({"ada", "cleo"})): {"one", "seven"},
        EventFilter(branch=None): {"one", "call", "four", "five", "six", "seven"},
        EventFilter(branch="orch"): {"one", "two", "call", "four", "five", "six", "seven"},
        EventFilter(branch="orchestra"): {"one", "call", "four", "five", "six", "seven"},
        EventFilter(branch="orch.sub"): {"one", "two", "three", "call", "four", "five", "six", "seven"},
        EventFilter(since=MAY + timedelta(days=5)): {"six", "seven"},
        EventFilter(since=MAY + timedelta(days=1), until=MAY + timedelta(days=2)): {"two", "three"},
        EventFilter(until=MAY): {"one", "four"},
        EventFilter(since=MAY + timedelta(days=6, microseconds=1)): {"seven"},
        EventFilter(since=MAY + timedelta(days=6, microseconds=2)): set(),
        EventFilter(tools=frozenset({"find_flight"})): {"call", "four"},
        EventFilter(tools=frozenset({"find"})): set(),
        EventFilter(synthetic=True): {"five"},
        EventFilter(synthetic=False): {"one", "two", "three", "call", "four", "six", "seven"},
        EventFilter(archived=True): set(),
        EventFilter(standings=frozenset({Standing.FAILED})): set(),
    }
    for where, words in expected.items():
        for options in ({}, {"mode": "literal"}):
            names = {
                text.rsplit(" ", 1)[-1] if text.startswith("kettle") or "kettle " in text else "call"
                for text in found(ada, "kettle", session_id="s1", where=where, **options)
            }
            assert names == words, (where, options)


def test_a_rewound_event_is_found_only_when_asked_for(ada: SessionService) -> None:
    talk(ada, 150)
    ada.append("s1", HumanMessage("the kettle is broken"))
    ada.search("kettle")
    ada.rewind("s1", to_seq=150)
    assert found(ada, "kettle") == found(ada, "kettle", mode="literal") == []
    asked = EventFilter(standings=frozenset(Standing))
    assert found(ada, "kettle", where=asked) == found(ada, "kettle", mode="literal", where=asked)
    assert found(ada, "kettle", where=asked) == ["the kettle is broken"]
    ada.undo_rewind("s1")
    assert found(ada, "kettle") == ["the kettle is broken"]


def test_the_newest_revision_alone_is_found(ada: SessionService) -> None:
    ada.append("s1", HumanMessage("the kettle is red", id="m1"))
    talk(ada, 150)
    ada.search("kettle")
    ada.edit("s1", HumanMessage("the kettle is blue", id="m1"))
    assert found(ada, "kettle") == found(ada, "kettle", mode="literal") == ["the kettle is blue"]
    everything = found(ada, "kettle", where=EventFilter(standings=frozenset(Standing)))
    assert everything == ["the kettle is blue", "the kettle is red"]


def test_a_failed_invocation_can_be_told_apart(ada: SessionService) -> None:
    def explode() -> None:
        with ada.invocation("s1") as run:
            run.append(HumanMessage("the kettle exploded"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        explode()
    ada.append("s1", HumanMessage("the kettle is fine"))
    talk(ada, 150)
    assert found(ada, "kettle") == ["the kettle exploded", "the kettle is fine"]
    assert found(ada, "kettle", where=EventFilter(standings=frozenset({Standing.FAILED}))) == ["the kettle exploded"]
    assert found(ada, "kettle", where=EventFilter(standings=frozenset(Standing) - {Standing.FAILED})) == [
        "the kettle is fine"
    ]


@pytest.mark.parametrize("before", [0, 300])
def test_what_was_compacted_is_found_until_it_is_deleted(ada: SessionService, before: int) -> None:
    ada.append("s1", [HumanMessage("my secret is xyzzy"), AIMessage("noted")])
    talk(ada, before)
    context = ada.context("s1")
    summary = NewEvent(message=AIMessage("Summary: there is a secret."))
    assert archive(ada, "s1", [event.seq for event in context.events], base=context, summary=[summary]) is not None
    assert "my secret is xyzzy" not in [str(message.text) for message in ada.messages("s1")]
    assert found(ada, "xyzzy") == ["my secret is xyzzy"]
    assert found(ada, "xyzzy", where=EventFilter(archived=True)) == ["my secret is xyzzy"]
    assert found(ada, "xyzzy", where=EventFilter(archived=False)) == []
    assert found(ada, "secret", where=EventFilter(synthetic=True)) == ["Summary: there is a secret."]
    hit = next(hit for hit in ada.search("summary secret") if hit.event.is_synthetic)
    assert "my secret is xyzzy" in [str(event.message.text) for event in hit.covered if event.message]
    assert ada.delete("s1")
    with pytest.raises(SessionNotFoundError):
        ada.search("xyzzy", session_id="s1")
    assert found(ada, "xyzzy") == []


def test_pages_of_a_literal_search(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"100% of a_b\\{n}") if n % 2 else AIMessage(f"other {n}") for n in range(14)])
    for query in ("100%", "A_B", "b\\"):
        pages = [ada.search(query, mode="literal", limit=3, page=page) for page in range(4)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert [page.total for page in pages] == [7] * 4
        assert [hit.event.seq for page in pages for hit in page] == [2, 4, 6, 8, 10, 12, 14]
        assert [page.next_cursor is None for page in pages] == [False, False, True, True]
        assert pages[0][0].highlights
    assert len(ada.search("100%", mode="literal", page=10**12)) == 0
    assert texts(ada.search("%", limit=20)) == texts(ada.search("100%", mode="literal", limit=20))
    assert len(ada.search("1_0", mode="literal")) == len(ada.search("a%b", mode="literal")) == 0


@pytest.mark.parametrize("mode", ["ranked", "literal"])
def test_a_cursor_survives_appends(ada: SessionService, mode: Literal["ranked", "literal"]) -> None:
    ada.append("s1", [HumanMessage(f"kettle {n} " + "word " * (n % 7)) for n in range(40)])
    seen: list[int] = []
    cursor = None
    while True:
        page = ada.search("kettle", session_id="s1", mode=mode, limit=7, cursor=cursor)
        seen.extend(hit.event.seq for hit in page)
        cursor = page.next_cursor
        if cursor is None:
            break
        ada.append("s1", HumanMessage(f"kettle again {len(seen)}"))
    assert len(seen) == len(set(seen))
    assert set(range(1, 41)) <= set(seen)
    for wrong in ("rubbish", "e30", ada.events("s1").next_cursor):
        with pytest.raises(InvalidInputError, match="cursor"):
            ada.search("kettle", cursor=wrong, mode=mode)


def test_neighbours_and_passages(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"line {n}") for n in range(5)] + [AIMessage("kettle")])
    ada.append("s1", [HumanMessage(f"line {n}") for n in range(5, 10)])
    page = ada.search("kettle", mode="literal", neighbours=2)
    (hit,) = page
    assert [event.seq for event in hit.before] == [4, 5]
    assert [event.seq for event in hit.after] == [7, 8]
    assert [[event.seq for event in passage] for passage in page.passages] == [[4, 5, 6, 7, 8]]
    both = ada.search("line 3", mode="literal", neighbours=0)
    assert both[0].before == both[0].after == ()
    merged = ada.search("line", mode="literal", neighbours=1)
    assert [[event.seq for event in passage] for passage in merged.passages] == [list(range(1, 12))]


def test_a_pattern_finds_from_code(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage("order 4711"), AIMessage("order abc"), HumanMessage("order 42")])
    page = ada.search(re.compile(r"order \d+"))
    assert texts(page) == ["order 4711", "order 42"]
    assert page[0].highlights == ((0, 10),)


def test_nothing_found_answers_with_the_nearest_words(ada: SessionService) -> None:
    talk(ada, 150)
    ada.append("s1", HumanMessage("the passport is red"))
    page = ada.search("passprt")
    assert page.items == ()
    assert page.total == 0
    assert "passport" in page.nearest
    blank = ada.search("  ")
    assert blank.items == ()
    assert blank.hint


def test_operators_decide_on_the_text(ada: SessionService) -> None:
    talk(ada, 150)
    ada.append(
        "s1", [HumanMessage("red kettle on the stove"), HumanMessage("blue kettle"), HumanMessage("stove kettle")]
    )
    assert found(ada, "kettle AND stove") == ["red kettle on the stove", "stove kettle"]
    assert found(ada, "kettle -blue -red") == ["stove kettle"]
    assert found(ada, '"kettle on the stove"') == ["red kettle on the stove"]
    assert found(ada, "kett* AND bl*") == ["blue kettle"]
    assert found(ada, '"red kettle" OR "blue kettle"') == ["blue kettle", "red kettle on the stove"]
    assert found(ada, "s*") == ["red kettle on the stove", "stove kettle"]


def test_a_title_in_a_question_need_not_be_said_word_for_word(ada: SessionService) -> None:
    talk(ada, 150)
    ada.append("s1", HumanMessage("I finished the lake book, a story of lighthouses"))
    page = ada.search('did you like the book "A Lake of Stories"?')
    assert page[0].event.seq == 151
    assert page.is_relaxed
    ada.append("s1", [HumanMessage("book book book"), HumanMessage("a book about nothing else")])
    exact = ada.search('book "story of lighthouses"')
    assert (len(exact), exact.is_relaxed) == (1, False)
    assert len(ada.search('"A Lake of Stories"')) == len(ada.search('book AND "A Lake of Stories"')) == 0


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我昨天去了北京的故宫", "故宫"),
        ("東京で寿司を食べました", "寿司"),
        ("부산에서 바다를 보았다", "바다"),
        ("ผมชอบกินข้าวผัด", "ข้าวผัด"),
        ("ذهبت إلى المكتبة أمس", "المكتبة"),
        ("मुझे किताबें पढ़ना पसंद है", "किताबें"),
        ("Das Café an der Straße", "cafe"),
        ("Das Café an der Straße", "STRASSE"),
    ],
)
def test_any_script_is_found(ada: SessionService, text: str, query: str) -> None:
    talk(ada, 150)
    ada.append("s1", HumanMessage(text))
    ada.reindex()
    assert found(ada, query) == [text]


def test_what_is_said_in_tools_reasoning_and_files_is_found(ada: SessionService) -> None:
    ada.append(
        "s1",
        [
            AIMessage("", tool_calls=[{"name": "bookFlight", "args": {"city": "Lisbon"}, "id": "call-9"}]),
            AIMessage([{"type": "reasoning", "reasoning": "the visitor likes porridge"}]),
            HumanMessage([{"type": "file", "base64": "QUJDREVG", "mime_type": "a/b", "filename": "invoice.pdf"}]),
        ],
    )
    assert [hit.event.seq for hit in ada.search("lisbon", session_id="s1") if hit.highlights] == [1]
    assert [hit.event.seq for hit in ada.search("porridge", session_id="s1") if hit.highlights] == [2]
    assert [hit.event.seq for hit in ada.search("invoice", session_id="s1") if hit.highlights] == [3]
    assert len(ada.search("QUJDREVG")) == len(ada.search("call-9 AND call-9")) == 0


def test_long_logs_are_indexed_on_the_way_and_compare_with_the_log(ada: SessionService, backend: str) -> None:
    for start in range(0, 1400, 100):
        talk(ada, 100)
        ada.append("s1", NewEvent(state_delta={"n": start}))
    place = log_of(ada).store.find_index(
        log_of(ada).key("s1"), indexer_of(log_of(ada)).builder.fingerprint, log_of(ada).now()
    )
    if backend != "memory":
        assert 1024 <= place.indexed_to <= place.last_seq
    ada.append("s1", HumanMessage("one kettle"))
    assert found(ada, "kettle") == ["one kettle"]
    assert ada.verify("s1") == []


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_verify_sees_an_index_that_differs(ada: SessionService) -> None:
    talk(ada, 300)
    ada.reindex()
    store: Any = log_of(ada).store
    tables = store.tables.recall
    from langchain_sessions._sql.driver.transaction_kinds import TransactionKind  # noqa: PLC0415

    store.run(TransactionKind.WRITE, lambda tx: tx.change(tables.terms.delete().where(tables.terms.c.bucket == "we")))
    assert any("index" in line for line in ada.verify("s1"))


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_another_language_builds_the_index_anew(ada: SessionService, database_url: str, table_prefix: str) -> None:
    talk(ada, 300)
    ada.append("s1", HumanMessage("organizations"))
    seen: list[tuple[str, int]] = []
    assert ada.reindex(progress=lambda session_id, added: seen.append((session_id, added))) == 301
    assert seen == [("s1", 301)]
    assert ada.reindex() == 0
    german = SearchSettings(language="german")
    with SessionService(database_url, table_prefix=table_prefix, search=german) as other:
        assert texts(other.as_user("ada").search("organizations"))[0] == "organizations"
        assert other.as_user("ada").verify("s1") == []
    assert found(ada, "organization") == ["organizations"]
    assert ada.verify("s1") == []


@pytest.mark.backends("sqlite", "postgres", "mariadb")
def test_a_stale_index_of_a_short_log_is_not_trusted(ada: SessionService, database_url: str, table_prefix: str) -> None:
    ada.append("s1", [HumanMessage("a red kettle"), AIMessage("noted")])
    ada.reindex()
    with SessionService(database_url, table_prefix=table_prefix, search=SearchSettings(language="german")) as other:
        assert texts(other.as_user("ada").search("kettle"))[0] == "a red kettle"


def test_a_fork_has_an_index_of_its_own(ada: SessionService) -> None:
    talk(ada, 200)
    ada.append("s1", HumanMessage("a red kettle"))
    ada.search("kettle")
    ada.fork("s1", new_id="s2", at_seq=200)
    assert found(ada, "kettle", session_id="s2") == []
    assert len(found(ada, "report", session_id="s2")) == 100


def test_sealed_messages_are_searched_with_the_key_alone(backend: str, database_url: str, table_prefix: str) -> None:
    database: Any = InMemoryStore() if backend == "memory" else database_url
    codec = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16)
    with SessionService(database, table_prefix=table_prefix, create_schema=True, codec=codec) as sealed:
        view = sealed.as_user("ada")
        view.open("s1")
        talk(view, 600)
        view.append("s1", [HumanMessage("my kettle is red"), AIMessage("noted")])
        assert texts(view.search("kettle"))[0] == "my kettle is red"
        assert texts(view.search("kettle", mode="literal")) == ["my kettle is red"]
    with SessionService(database, table_prefix=table_prefix) as keyless:
        for mode in ("ranked", "literal"):
            with pytest.raises(SealedEventError):
                keyless.as_user("ada").search("kettle", mode=mode)


def test_search_can_be_left_out() -> None:
    view = SessionService(InMemoryStore(), search=False)
    with pytest.raises(InvalidInputError, match="search=False"):
        view.search("kettle", whole_app=True)


def test_what_cannot_be_asked_is_refused_by_name(ada: SessionService) -> None:
    asked: list[dict[str, Any]] = [{"limit": 0}, {"page": "1"}, {"order": "up"}, {"mode": "magic"}, {"neighbours": -1}]
    asked += [{"limit": 10**9}, {"neighbours": 10**9}]
    for options in asked:
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            ada.search("kettle", **options)
    for query in (None, b"kettle", re.compile(b"kettle")):
        with pytest.raises(InvalidInputError, match="query"):
            ada.search(query)  # type: ignore[arg-type]
    refused: list[dict[str, Any]] = [{"roles": {"robot"}}, {"since": datetime(2024, 1, 1)}, {"tools": "one"}]  # noqa: DTZ001
    for wrong in refused:
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            EventFilter(**wrong)


HOSTILE = [
    "*", "-", '"', '""', "(", ")", "AND", "OR NOT", "NEAR(a b)", "a:b", "kettle*", "^kettle", "{}", "%", "_", "\\", "'",
    "; DROP TABLE events", "kettle' OR '1'='1", "\x00", "\ud800", "\U0001f600", "a" * 10_000, "kettle " * 2000, "",
]  # fmt: skip


def test_hostile_queries_mean_themselves(ada: SessionService) -> None:
    talk(ada, 130)
    ada.append("s1", HumanMessage("a red kettle"))
    for query in HOSTILE:
        for mode in ("ranked", "literal"):
            ada.search(query, mode=mode)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60) | st.text(alphabet='kettle red*"-ANDOR()', max_size=40))
def test_no_query_is_an_error(ada: SessionService, query: str) -> None:
    if not ada.get("s1").version:
        talk(ada, 140)
    ada.search(query)


def test_what_a_filter_leaves_out_is_no_neighbour_either(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage("before"), AIMessage("hidden one"), HumanMessage("the kettle"), AIMessage("hidden")])
    (hit, *_) = ada.search("kettle", where=EventFilter(roles=frozenset({"user"})), neighbours=2)
    assert [event.seq for event in (*hit.before, *hit.after)] == [1]
    (hit,) = ada.search("kettle", where=EventFilter(roles=frozenset({"user"})), neighbours=2, mode="literal")
    assert [event.seq for event in (*hit.before, *hit.after)] == [1]


@pytest.mark.parametrize(
    "text", ["", "  ", ",", " , ;\n", "\u3000", ", ".join(map(str, range(21))), " OR ".join("x" * 21)]
)
def test_a_query_that_cannot_be_answered_says_what_to_write(ada: SessionService, text: str) -> None:
    ada.append("s1", HumanMessage("x, 1, 2"))
    page = ada.search(text)
    assert page.items == ()
    assert page.hint
    with pytest.raises(SessionNotFoundError):
        ada.search(text, session_id="missing")


def test_a_long_sentence_is_a_query_and_twenty_terms_are(ada: SessionService) -> None:
    ada.append("s1", HumanMessage("word3 and nothing else"))
    for text in (" ".join(f"word{n}" for n in range(40)), ",".join(f"word{n}" for n in range(20))):
        page = ada.search(text)
        assert (page.hint, len(page)) == (None, 1)
    assert ada.search("%").hint is None


def test_pages_of_every_size_end(ada: SessionService) -> None:
    ada.append("s1", [HumanMessage(f"kettle {n}") for n in range(7)])
    asked: list[dict[str, Any]] = [{}, {"mode": "literal"}, {"order": "time"}]
    for options in asked:
        pages = [ada.search("kettle", limit=3, page=page, **options) for page in range(4)]
        assert [len(page) for page in pages] == [3, 3, 1, 0]
        assert {page.total for page in pages} == {7}
        assert [page.next_cursor is not None for page in pages] == [True, True, False, False]
        assert len(ada.search("kettle", limit=3, page=10**30, **options)) == 0
        assert ada.search("kettle", limit=3, page=-5, **options).items == pages[0].items


@pytest.mark.parametrize("before", [0, 200])
def test_similar_words_are_those_in_sight(ada: SessionService, before: int) -> None:
    talk(ada, before)
    ada.append("s1", NewEvent(message=HumanMessage("my passport"), branch="orch"))
    ada.append("s1", HumanMessage("a passage"), invocation_id="i1")
    ada.reindex()
    assert set(ada.search("passpart").nearest) >= {"passport", "passag"}
    assert "passport" not in ada.search("passpart", where=EventFilter(branch="other")).nearest
    ada.rewind("s1", before_invocation="i1")
    assert "passag" not in ada.search("passpart").nearest


@pytest.mark.parametrize("where", [{"after_seq": 3}, {"before_seq": 3}, {"after_seq": 1, "before_seq": 4}])
def test_positions_of_a_filter_mean_the_same_to_a_search(service: SessionService, where: dict[str, int]) -> None:
    service.create("s1")
    talk(service, 5)
    wanted = EventFilter(**where)  # type: ignore[arg-type]
    expected = [event.seq for event in service.events("s1", wanted).items]
    literal = service.search("weather", session_id="s1", where=wanted, mode="literal")
    assert [hit.event.seq for hit in literal.items] == expected
    by_pattern = service.search(re.compile("weather"), session_id="s1", where=wanted)
    assert [hit.event.seq for hit in by_pattern.items] == expected
    ranked = service.search("weather", session_id="s1", where=wanted)
    assert sorted(hit.event.seq for hit in ranked.items) == expected


def test_a_filter_that_is_none_is_refused_by_name(service: SessionService) -> None:
    service.create("s1")
    wrong: Any = {"roles": {"human"}}
    with pytest.raises(InvalidInputError, match="EventFilter"):
        service.search("weather", session_id="s1", where=wrong)
