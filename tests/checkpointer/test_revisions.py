"""Issue 12: a message that is edited again and again costs what is new in each revision, and reads as if whole."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import Text, delete, func, select
from sqlalchemy import cast as sql_cast

from langchain_sessions import EventFilter, SessionCheckpointSaver, SessionService
from langchain_sessions._log.log import log_of
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Callable

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
CONFIG: Any = {"configurable": {"thread_id": "t"}}
PLAIN = "The harbour lies where the river ends. "
FOREIGN = "Straße am Öresund, İstanbul, 🦜 und ein e\u0301 dazu. "
LONG = 60


def edited(service: SessionService, texts: list[str], thread: str = "t") -> Any:
    """A graph that gave one message each of some texts in turn."""
    left = iter(texts)
    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": [AIMessage(next(left), id="draft")]})
    builder.add_edge(START, "model")
    graph = builder.compile(checkpointer=SessionCheckpointSaver(service))
    for _ in texts:
        graph.invoke({"messages": []}, {"configurable": {"thread_id": thread}})
    return graph


def revisions(seed: int, count: int = 12) -> list[str]:
    """A text that is changed at its beginning, within, at its end, thoroughly, and back."""
    draw = random.Random(seed)
    text, found = (FOREIGN if seed % 2 else PLAIN) * LONG, list[str]()
    for number in range(count):
        at = draw.choice((0, draw.randrange(len(text)), len(text)))
        new = draw.choice((f"No. {number} ÄÖ", "", f"{number}", "é"))
        text = text[:at] + new + text[at + draw.choice((0, 3, 40)) :]
        if draw.random() < 0.15:
            text = f"anew {number} " + (PLAIN * LONG)[: draw.choice((1_000, 2_000))]
        if draw.random() < 0.15 and found:
            text = draw.choice(found)
        found.append(text)
    return found


def said(service: SessionService, thread: str = "t", **wanted: Any) -> list[str]:
    """The revisions that a log has."""
    events = service.events(thread, EventFilter(**wanted)).items
    return [str(event.message.text) for event in events if event.message is not None]


def stored(service: SessionService) -> list[tuple[int, str]]:
    """The rows of a log: by which other one each is told, and what it holds itself."""
    e = store_of(service).tables.events.c
    found: list[tuple[int, str]] = asked(service, select(func.coalesce(e.base, 0), e.text).order_by(e.skey, e.seq))
    return [tuple(row) for row in found]  # type: ignore[misc]


def store_of(service: SessionService) -> Any:
    return log_of(service).store


def asked(service: SessionService, statement: Any) -> Any:
    return store_of(service).run(TransactionKind.READ, lambda tx: tx.once(statement))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.backends("memory", "sqlite", "postgres", "mariadb")
def test_every_revision_reads_as_it_was_written(open_service: Callable[..., SessionService], seed: int) -> None:
    texts = revisions(seed)
    graph = edited(open_service(), texts)
    # What was said before is the same event again, so the log has each wording once.
    wordings = list(dict.fromkeys(texts))
    fresh = open_service()
    assert said(fresh) == wordings
    states = [state.values["messages"][0].text for state in graph.get_state_history(CONFIG) if state.values["messages"]]
    cold = SessionCheckpointSaver(fresh)
    seen = [
        found.checkpoint["channel_values"]["messages"][0].text
        for found in cold.list(CONFIG)
        if found.checkpoint["channel_values"].get("messages")
    ]
    assert seen == states
    assert list(dict.fromkeys(seen[::-1])) == wordings
    assert fresh.messages("t")[0].text == texts[-1]
    for keyword in ("No. 3 äö", "straße", "i̇stanbul", "RIVER", "anew", "11"):
        expected = [text for text in wordings if keyword.casefold() in text.casefold()]
        assert said(fresh, keyword=keyword) == expected, keyword
    assert fresh.verify("t") == []


@pytest.mark.parametrize("length", [1, LONG])
@pytest.mark.backends("memory", "files", "sqlite", "postgres", "mariadb")
def test_a_log_is_the_same_whatever_the_process_knows(open_service: Callable[..., SessionService], length: int) -> None:
    first, second, third = (f"{name} " + PLAIN * length for name in "ABC")
    texts = [first, second, first, third, second, second, third, first]
    warm, cold = open_service(), open_service()
    edited(warm, texts, "warm")
    for text in texts:
        edited(cold, [text], "cold")
    said_by_cold = said(cold, "cold")
    assert said_by_cold == said(warm, "warm") == [first, second, third]
    assert cold.messages("cold")[0].text == warm.messages("warm")[0].text == first
    standings = [[event.standing for event in warm.events(thread).items] for thread in ("warm", "cold")]
    assert standings[0] == standings[1]
    assert warm.verify("cold") == []


@on_databases
def test_a_revision_costs_what_is_new_in_it(service: SessionService) -> None:
    texts = [(PLAIN * LONG) + "".join(f"line {line}. " for line in range(number)) for number in range(20)]
    texts += [(FOREIGN * LONG) + f"line {number}" for number in range(5)]
    edited(service, texts)
    bases, own = zip(*stored(service), strict=True)
    # The first one is no revision yet: it is packed, and nothing is told by it.
    assert own[0] is None
    assert bases == (0, 0, *[2] * 18, 0, *[21] * 4)
    assert max(map(len, own[2:20])) <= len("line 10. ") * 20
    assert {len(text) for text in own[21:]} == {1}
    e = store_of(service).tables.events.c
    folded = asked(service, select(func.length(e.folded)).where(e.seq > 21))
    assert {length for (length,) in folded} == {1}


@on_databases
def test_a_copy_is_told_likewise(service: SessionService) -> None:
    texts = [(PLAIN * LONG) + str(number) for number in range(6)]
    edited(service, texts)
    service.fork("t", at_seq=5, new_id="copy")
    assert said(service, "copy") == texts[:5]
    assert stored(service)[6:] == stored(service)[:5]
    service.delete("t")
    assert said(service, "copy") == texts[:5]


@on_databases
def test_what_is_overwritten_is_told_by_no_other(service: SessionService) -> None:
    words = "the combination is 3141592"
    texts = [PLAIN * 30 + words + PLAIN * 30, *(PLAIN * 30 + f"No. {number}" + PLAIN * 30 for number in range(4))]
    texts[1:1] = [texts[0] + "!", texts[0] + "?"]
    texts.insert(0, "a draft")
    edited(service, texts)
    assert [base for base, _ in stored(service)] == [0, 0, 2, 2, 2, 2, 2, 2]
    service.blank("t", seqs=[2, 3, 4])
    assert said(service)[4:] == texts[4:]
    assert [base for base, _ in stored(service)][:8] == [0, 0, 0, 0, 0, 5, 5, 5]
    e = store_of(service).tables.events.c
    left = asked(service, select(func.count()).where(sql_cast(e.text, Text()).contains("3141592")))
    assert [tuple(row) for row in left] == [(0,)]
    assert service.verify("t") == []


@on_databases
def test_a_base_that_is_gone_is_named_and_the_others_are_read(
    service: SessionService, open_service: Callable[..., SessionService]
) -> None:
    texts = [(PLAIN * LONG) + str(number) for number in range(3)]
    edited(service, [*texts, "short"])
    e = store_of(service).tables.events
    store_of(service).run(TransactionKind.WRITE, lambda tx: tx.change(delete(e).where(e.c.seq == 2)))
    fresh = open_service()
    with pytest.raises(CorruptRowError, match=r"Event 3 .*'t'"):
        said(fresh)
    assert said(fresh, after_seq=3) == ["short"]
    saver = SessionCheckpointSaver(fresh)
    newest = saver.get_tuple(CONFIG)
    assert newest is not None
    assert newest.checkpoint["channel_values"]["messages"][0].text == "short"
    with pytest.raises(CorruptRowError, match="'t'"):
        list(saver.list(CONFIG))
    assert any("told by" in problem for problem in fresh.verify("t"))
