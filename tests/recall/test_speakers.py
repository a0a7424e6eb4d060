"""Who says what, however a conversation is stored: as author, name, role of a chat message, or in the text alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage

from langchain_sessions import EventFilter, NewEvent
from langchain_sessions._core.message_types import speaker_of
from langchain_sessions._recall.text.speakers import label_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions import SearchPage, SessionService

TALK = [
    ("Grace", "I adopted a kitten from the shelter."),
    ("Lin", "I adopted a puppy from the shelter."),
    ("Grace", "Work was long and the trains were late."),
    ("Lin", "Rain all day over here, I stayed in."),
] * 3

FORMS: dict[str, Callable[[str, str], NewEvent]] = {
    "author": lambda who, text: NewEvent(message=HumanMessage(text), author=who),
    "name": lambda who, text: NewEvent(message=HumanMessage(text, name=who)),
    "chat": lambda who, text: NewEvent(message=ChatMessage(content=text, role=who)),
    "prefix": lambda who, text: NewEvent(message=HumanMessage(f"{who}: {text}")),
    "dated": lambda who, text: NewEvent(message=AIMessage(f"[1:56 pm on 8 May, 2023] {who}: {text}")),
    "said": lambda who, text: NewEvent(message=HumanMessage(f'{who} said, "{text}"')),
}


def scores(page: SearchPage) -> list[tuple[bool, bool]]:
    """Of the hits: whether Grace said it, and whether that counted."""
    return [("kitten" in hit.text or "Work" in hit.text, "author" in hit.parts) for hit in page]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("indexed", [False, True])
def test_the_speaker_who_is_named_counts(ada: SessionService, form: str, *, indexed: bool) -> None:
    ada.append("s1", [FORMS[form](who, text) for who, text in TALK])
    if indexed:
        ada.reindex()
    page = ada.search("what did Grace adopt from the shelter", session_id="s1")
    assert "kitten" in page.items[0].text
    assert all(by_grace == counted for by_grace, counted in scores(page))
    assert ada.verify("s1") == []


@pytest.mark.parametrize("indexed", [False, True])
def test_a_label_here_and_there_is_no_speaker(ada: SessionService, *, indexed: bool) -> None:
    said = ["Note: the shelter closes at six", *(text for _, text in TALK)]
    ada.append("s1", [HumanMessage(text) for text in said])
    if indexed:
        ada.reindex()
    page = ada.search("note about the shelter", session_id="s1")
    assert page.items[0].text.startswith("Note")
    assert not any("author" in hit.parts for hit in page)


@pytest.mark.parametrize("indexed", [False, True])
def test_headings_of_which_one_recurs_are_no_speakers(ada: SessionService, *, indexed: bool) -> None:
    """An assistant begins its answers with headings, nearly always with another one."""
    for at, (_, text) in enumerate(TALK):
        heading = "Summary" if at in (2, 6) else f"Step {at}"
        ada.append("s1", [HumanMessage(f"go on with the shelter {at}"), AIMessage(f"{heading}: {text}")])
    if indexed:
        ada.reindex()
    page = ada.search("summary of the shelter", session_id="s1")
    assert len(page) > 1
    assert not any("author" in hit.parts for hit in page)


@pytest.mark.parametrize("indexed", [False, True])
def test_filters_go_by_who_is_known_not_by_labels(ada: SessionService, *, indexed: bool) -> None:
    ada.append("s1", [FORMS[form]("Grace", "the shelter") for form in FORMS])
    if indexed:
        ada.reindex()
    page = ada.search("shelter", session_id="s1", where=EventFilter(authors=frozenset({"Grace"})))
    assert len(page) == 3


@pytest.mark.parametrize("indexed", [False, True])
def test_a_name_that_is_all_of_a_query_that_was_said_is_a_word(ada: SessionService, *, indexed: bool) -> None:
    ada.append("s1", [NewEvent(message=HumanMessage("Hello Grace"), author="Lin"), FORMS["author"]("Grace", "hello")])
    if indexed:
        ada.reindex()
    assert "Hello Grace" in [hit.text for hit in ada.search("Grace xylophone", session_id="s1")]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Caroline: hi", "Caroline"),
        ("**Fahim Khan**: hi", "Fahim Khan"),
        ("<lin> hi: there", None),
        ("<lin>: hi", "lin"),
        ("12/03/2021, 14:05 - Grace: hi", "Grace"),
        ("小雨\uff1a早啊", "小雨"),
        ("小雨:早啊", "小雨"),
        ("【2024-03-02】小雨\uff1a早啊", "小雨"),
        ("https://example.com/a", None),
        ("at 10:30 we meet", None),
        ("10:30 we meet", None),
        ("no label here", None),
        ("Caroline:", None),
        ("", None),
    ],
)
def test_labels(text: str, label: str | None) -> None:
    assert label_of(text) == label


@pytest.mark.parametrize(
    ("message", "speaker"),
    [
        (HumanMessage("hi", name="Grace"), "Grace"),
        (ChatMessage(content="hi", role="Grace"), "Grace"),
        (ChatMessage(content="hi", role="Assistant"), None),
        (AIMessage("hi"), None),
    ],
)
def test_a_role_is_nobody(message: BaseMessage, speaker: str | None) -> None:
    assert speaker_of(message) == speaker


@pytest.mark.parametrize("indexed", [False, True])
def test_a_name_that_several_bear_means_any_of_them(ada: SessionService, *, indexed: bool) -> None:
    ada.append("s1", [NewEvent(message=HumanMessage(text), author=f"{who} Hopper") for who, text in TALK])
    if indexed:
        ada.reindex()
    page = ada.search("what did Hopper adopt from the shelter", session_id="s1")
    assert all("author" in hit.parts for hit in page)
    page = ada.search("what did Grace Hopper adopt from the shelter", session_id="s1")
    assert all(by_grace == counted for by_grace, counted in scores(page))


@pytest.mark.parametrize("sessions", [3, 30])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_session_in_which_who_is_named_speaks_is_meant(ada: SessionService, sessions: int, *, indexed: bool) -> None:
    # Thirty sessions lie on a shelf, where it is told from slot to slot who speaks in which of them.
    for number in range(sessions):
        friend = "Grace" if number == 1 else "Lin"
        ada.open(f"t{number}")
        said = [HumanMessage("Well?", name=friend), HumanMessage("I adopted a kitten from the shelter.", name="Ada")]
        ada.append(f"t{number}", said)
    if indexed:
        ada.reindex()
    page = ada.search("what did Ada tell Grace of the shelter")
    assert page.items[0].event.session_id == "t1"


@pytest.mark.parametrize("indexed", [False, True])
def test_how_rare_a_word_is_is_told_by_the_sessions_of_who_is_named(ada: SessionService, *, indexed: bool) -> None:
    # Jon talks of hardly anything but dancing; in others' sessions nobody does, and all talk of mentors.
    for number in range(16):
        ada.open(f"jon{number}")
        told = [f"Dance dance, the dance number {number} went on", f"We danced and {number} more of the dance came"]
        ada.append(f"jon{number}", [FORMS["author"]("Jon", text) for text in told])
    ada.open("jon")
    ada.append("jon", FORMS["author"]("Jon", "A mentor helped me with the plans for the studio, and I was glad"))
    query = "when did Jon get a mentor for the dance"
    alone = ada.search(query).items[0].text
    for number in range(60):
        ada.open(f"lin{number}")
        ada.append(
            f"lin{number}", FORMS["author"]("Lin", f"Some mentor called number {number} came to the office today")
        )
    if indexed:
        ada.reindex()
    assert alone.startswith("A mentor")
    assert ada.search(query).items[0].text == alone


@pytest.mark.parametrize("indexed", [False, True])
def test_who_is_spoken_of_takes_part_too(ada: SessionService, *, indexed: bool) -> None:
    ada.open("grace")
    ada.append("grace", FORMS["author"]("Grace", "The garden is full of slugs after all that rain"))
    for number in range(40):
        ada.open(f"other{number}")
        about = (
            "Grace sold the blue boat in the harbour" if number == 30 else f"The boat number {number} left the harbour"
        )
        ada.append(f"other{number}", FORMS["author"]("Lin", about))
    if indexed:
        ada.reindex()
    assert ada.search("what did Grace do with the boat in the harbour").items[0].text.startswith("Grace sold")


@pytest.mark.parametrize("sessions", [1, 30])
@pytest.mark.parametrize("indexed", [False, True])
def test_the_name_of_a_tool_names_nobody(ada: SessionService, sessions: int, *, indexed: bool) -> None:
    for number in range(sessions):
        ada.open(f"tools{number}")
        said = [
            HumanMessage("The beech in the yard looks dry"),
            ToolMessage("soil moisture 12 percent, battery fine", tool_call_id="c1", name="read_sensors"),
            HumanMessage("On Sundays we read aloud in the yard"),
        ]
        ada.append(f"tools{number}", said)
    if indexed:
        ada.reindex()
    page = ada.search("how often do we read in the yard")
    assert page.items[0].text.startswith("On Sundays")
    assert not any("author" in hit.parts for hit in page)
    assert [hit.text[:4] for hit in ada.search("soil", where=EventFilter(authors={"read_sensors"}))][:1] == ["read"]


def ranked(page: SearchPage) -> list[tuple[str, int, float]]:
    return [(hit.event.session_id, hit.event.seq, round(hit.score, 9)) for hit in page]


def test_shelves_stay_where_the_last_log_of_one_has_moved_on(
    ada: SessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        ada.open(f"s{number}")
        who = "Grace" if number == 3 else "Lin"
        ada.append(f"s{number}", [FORMS["name"](who, f"stone {number} and water {at}") for at in range(4)])
    ada.append("s3", FORMS["name"]("Grace", "I saw the volcano"))
    # A text of several passages, in the log that lies last on a shelf.
    ada.append("s29", FORMS["name"]("Lin", "volcano " + " ".join(f"word{at}" for at in range(1500))))
    ada.search("stone")
    ada.append("s29", FORMS["name"]("Lin", "one more"))

    def dropped(*_: object) -> None:
        pytest.fail("the shelves were thrown away")

    monkeypatch.setattr("langchain_sessions._recall.search.Searcher.drop_shelves", dropped)
    page = ada.search("when did Grace see the volcano")
    assert page.items[0].text == "I saw the volcano"
    assert page.items[0].event.session_id == "s3"


def test_of_a_name_only_what_is_asked_is_looked_for(ada: SessionService) -> None:
    # "Ohler" is one way to write "Oehler", and who reads an index for it does not read where "oehler" is.
    for number in range(12):
        ada.open(f"s{number}")
        who = "Oehler" if number == 3 else f"Lin{number}"
        said = [f"we talked of the stone {number} and of the water at the station {at}" for at in range(4)]
        said += ["Yesterday evening we met Oehler at the station with a stone"] if number == 7 else []
        ada.append(f"s{number}", [FORMS["name"](who, text) for text in said])
    query = "what did Ohler say of the station and the stone"
    unread = ranked(ada.search(query, limit=60))
    ada.reindex()
    assert ranked(ada.search(query, limit=60)) == unread


def take_back(ada: SessionService, session_id: str, how: str) -> None:
    if how == "rewound":
        ada.rewind(session_id, to_seq=4)
    else:
        ada.edit(session_id, HumanMessage("the stone again", id="late", name="Lin1"))


@pytest.mark.parametrize(("how", "form", "others"), [("rewound", "name", True), ("replaced", "prefix", False)])
@pytest.mark.parametrize("sessions", [4, 30])
@pytest.mark.parametrize("indexed", ["not", "before", "after"])
def test_who_spoke_only_in_what_was_taken_back_does_not_take_part(
    service: SessionService, how: str, form: str, sessions: int, indexed: str, *, others: bool
) -> None:
    found: list[list[tuple[str, int, float]]] = []
    for owner, late in (("ada", "Grace"), ("bob", "Lin1")):
        view = service.as_user(owner)
        for number in range(sessions):
            view.open(f"{owner}{number}")
            who = "Grace" if number == 3 and others else f"Lin{number}"
            said = [FORMS[form](who, f"the stone {number} and the water {at}") for at in range(4)]
            view.append(f"{owner}{number}", said)
        view.append(f"{owner}1", HumanMessage("the stone and the water", id="late", name=late))
        if indexed == "before":
            view.reindex()
        take_back(view, f"{owner}1", how)
        if indexed == "after":
            view.reindex()
        page = view.search("what did Grace say of the stone and the water", limit=200, neighbours=0)
        found.append([(session_id[3:], seq, score) for session_id, seq, score in ranked(page)])
    assert found[0] == found[1]


def test_one_session_is_one_in_however_many_parts(ada: SessionService) -> None:
    said = [FORMS["name"]("Grace" if at % 2 else "Lin", f"stone {at} and water") for at in range(120)]
    query = "what did Grace say of stone 77"
    ada.append("s1", said[:119])
    ada.reindex()
    ada.append("s1", said[119:])
    parts = [(seq, score) for _, seq, score in ranked(ada.search(query, session_id="s1", limit=60))]
    ada.open("s2")
    ada.append("s2", said)
    ada.reindex()
    assert [(seq, score) for _, seq, score in ranked(ada.search(query, session_id="s2", limit=60))] == parts
