"""PostgreSQL changes a session's state, and finds what was appended before, in the one statement of an append."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions import SessionService, StaleSessionError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.backends("postgres")
FULL_WAY = "langchain_sessions._sql.log.appending.append_locked"


@pytest.fixture
def ada(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    with SessionService(database_url, table_prefix=table_prefix, create_schema=True) as service:
        yield service.as_user("ada")


@pytest.fixture
def no_full_way(ada: SessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is appended under a lock."""

    def refuse(*_: object) -> None:
        pytest.fail("took the full way")

    ada.create("s", state={"count": 1, "float": 1.0, "great": 1e22, "name": "Ædå", "gone": None})
    monkeypatch.setattr(FULL_WAY, refuse)


@pytest.mark.usefixtures("no_full_way")
def test_a_change_of_state_leaves_every_other_value_as_it_was(ada: SessionService) -> None:
    before = ada.state("s")
    ada.append("s", HumanMessage("one"), state_delta={"count": None, "list": [1, {"deep": None}], "名": "é"})
    changed = {
        **{key: value for key, value in before.items() if key != "count"},
        "list": [1, {"deep": None}],
        "名": "é",
    }
    assert repr(ada.state("s")) == repr(changed)
    more = [HumanMessage("two"), AIMessage("three", id="a3")]
    ada.append("s", more, state_delta={"list": "x" * 2_000}, metadata={"of": "two"})
    ada.append("s", [], state_delta={"list": 2, "float": 2})
    assert ada.state("s") == {**changed, "list": 2, "float": 2}
    assert [event.metadata for event in ada.events("s")] == [{}, {"of": "two"}, {"of": "two"}, {}]
    ada.rewind("s", to_seq=1)
    assert repr(ada.state("s")) == repr(changed)
    ada.rewind("s", to_seq=0)
    assert ada.state("s") == before
    assert ada.verify("s") == []


@pytest.mark.usefixtures("no_full_way")
def test_what_is_there_already_is_told_as_it_stands(ada: SessionService) -> None:
    asked, answered = HumanMessage("Where?", id="q1"), AIMessage("There.", id="a1")
    told = ada.append("s", [asked, answered], state_delta={"count": 2})
    ada.append("s", HumanMessage("And now?"), state_delta={"count": 3})
    again = ada.append("s", asked) + ada.append("s", answered)
    assert (again, ada.append("s", [asked, answered], state_delta={"count": 2})) == (told, told)
    assert ada.append("s", [asked, answered], expected_version=0) == told
    with pytest.raises(StaleSessionError):
        ada.append("s", asked, expected_version=1)
    assert ada.get("s").version == 3
    assert ada.state("s")["count"] == 3


def test_writers_at_the_same_time_lose_no_change(ada: SessionService) -> None:
    ada.create("s")

    def write(writer: int) -> None:
        for number in range(20):
            message = HumanMessage(f"{number}", id=f"{writer % 2} {number}")
            ada.append("s", message, state_delta={f"of {writer}": number, "last": [writer, number]})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    state: dict[str, object] = {}
    for event in ada.events("s"):
        state.update(event.state_delta)
    assert (ada.state("s"), ada.get("s").version) == (state, 40)


@pytest.mark.parametrize("odd", ["\0", "\ud800", "😀", "\\u0000"])
def test_characters_that_postgresql_cannot_read_come_back(ada: SessionService, odd: str) -> None:
    ada.create("s")
    ada.append("s", HumanMessage("one"), state_delta={odd: [odd], "b": 1})
    ada.append("s", HumanMessage("two"), state_delta={"b": 2})
    assert ada.state("s") == {odd: [odd], "b": 2}
