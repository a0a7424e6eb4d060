"""Rows that are not what was written: the library's own error, and all that others wrote can be read."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import create_engine, text

from langchain_sessions import EventFilter, SessionChatMessageHistory
from langchain_sessions._core.ledger import Ledger
from langchain_sessions.errors import CorruptRowError, SchemaError
from tests.faults.drills import FACES, Face, make_service, message, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langchain_sessions import SessionService

    Harm = Callable[[str], None]

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")
READS: dict[str, tuple[tuple[str, ...], ...]] = {
    "events.body": (("messages", "ada"), ("events", "ada"), ("context", "ada")),
    "events.extra": (("events", "ada"), ("context", "ada")),
    "events.delta": (("events", "ada"), ("context", "ada")),
    "sessions.metadata": (("get", "ada"),),
    "sessions.state": (("state", "ada"),),
    "sessions.ledger": (("messages", "ada"), ("events", "ada"), ("turns", "ada")),
}


@pytest.fixture
def service(database_url: str, table_prefix: str) -> Iterator[SessionService]:
    """Two sessions with all that can be harmed."""
    with opened(make_service(database_url, table_prefix=table_prefix)) as (made,):
        for name in ("ada", "grace"):
            made.create(name, user_id=name, metadata={"k": 1}, state={"k": 1})
            made.append(name, message(f"passport of {name}"), metadata={"k": 1}, state_delta={"k": 2})
            made.append(name, message("gone"))
            made.rewind(name, to_seq=1)
        yield made


@pytest.fixture
def harm(database_url: str, table_prefix: str) -> Harm:
    """Runs a statement on the tables behind the library's back; `{p}` is their prefix."""

    def run(statement: str) -> None:
        engine = create_engine(database_url)
        with engine.begin() as connection:
            connection.execute(text(statement.format(p=table_prefix)))
        engine.dispose()

    return run


def _spoil(harm: Harm, place: str, value: str) -> None:
    """Put something else into a column of ada's session, or of its first event."""
    table, column = place.split(".")
    where = "id = 'ada'"
    if table == "events":
        where = "seq = 1 AND skey = (SELECT skey FROM {p}sessions WHERE id = 'ada')"
    harm(f"UPDATE {{p}}{table} SET {column} = '{value}' WHERE {where}")


@on_databases
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("value", ["[1", "[1,2]", "7"])
@pytest.mark.parametrize("place", READS)
def test_a_corrupt_value_is_named_and_stays_alone(
    service: SessionService, harm: Harm, face: str, place: str, value: str
) -> None:
    _spoil(harm, place, value)
    call = Face(face)
    try:
        for name, *arguments in READS[place]:
            with pytest.raises(CorruptRowError, match="cannot be read") as caught:
                call(service, name, *arguments)
            assert "passport" not in str(caught.value)
            if place.startswith("events"):
                assert caught.value.__context__ is None  # which would quote what was said
        assert [found.content for found in call(service, "messages", "grace")] == ["passport of grace"]
        assert len(call(service, "events", "grace").items) == 3
        assert call(service, "state", "grace") == {"k": 2}
        assert call(service, "search", "passport", session_id="grace").items
        assert call(service, "delete", "ada") is True
        assert [found.id for found in call(service, "list_sessions")] == ["grace"]
    finally:
        call.close(service)


@on_databases
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("value", ["[1", "7"])
def test_a_repeat_of_what_cannot_be_read_is_no_conflict(
    service: SessionService, harm: Harm, face: str, value: str
) -> None:
    """Nothing conflicts: whether it is the same nobody can tell. An edit puts another one in its place."""
    _spoil(harm, "events.body", value)
    call = Face(face)
    said = message("passport of ada")
    try:
        with pytest.raises(CorruptRowError, match="Event 1 of session 'ada'"):
            call(service, "append", "ada", said)
        assert call(service, "fork", "ada", new_id="copy").version == 3
        for name in ("ada", "copy"):
            assert call(service, "verify", name) == ["event 1 cannot be read"]
        call(service, "edit", "ada", said)
        assert call(service, "messages", "ada") == [said]
        assert call(service, "append", "ada", said)[0].seq == 4
        assert call(service, "verify", "grace") == []
    finally:
        call.close(service)


@on_databases
@pytest.mark.parametrize("face", FACES)
def test_what_is_said_again_under_the_id_of_what_cannot_be_read_is_kept(
    service: SessionService, harm: Harm, face: str
) -> None:
    """An advisor and a history say it under another id; and a filter that reads messages names the session."""
    _spoil(harm, "events.body", "7")
    call = Face(face)
    said = message("passport of ada")
    history = SessionChatMessageHistory("ada", service, user_id="ada")
    try:
        call(history, "add_messages", [said, message("and her ticket")])
        stored = call(service, "events", "ada", EventFilter(after_seq=3)).items
        assert [event.message.text for event in stored] == ["passport of ada", "and her ticket"]
        assert stored[0].message.id is None
        call(history, "add_messages", [said, message("and her ticket")])
        assert call(service, "events", "ada", EventFilter(after_seq=3)).items == stored
        harm("UPDATE {p}events SET body = '8' WHERE seq = 4 AND skey = (SELECT skey FROM {p}sessions WHERE id = 'ada')")
        call(history, "add_messages", [said])
        call(history, "add_messages", [said])
        assert [event.seq for event in call(service, "events", "ada", EventFilter(after_seq=5))] == [6]
        with pytest.raises(CorruptRowError, match="Event 1 of session 'ada'"):
            call(service, "events", "ada", EventFilter(pattern=re.compile("port")))
    finally:
        call.close(service)


@on_databases
def test_a_list_leaves_out_what_cannot_be_read_and_says_so(
    service: SessionService, harm: Harm, caplog: pytest.LogCaptureFixture
) -> None:
    harm("UPDATE {p}sessions SET metadata = '[1' WHERE id = 'ada'")
    with caplog.at_level(logging.ERROR, "langchain_sessions"):
        assert [found.id for found in service.list_sessions()] == ["grace"]
    assert "'ada'" in caplog.text


@on_databases
def test_a_corrupt_index_is_named(service: SessionService, harm: Harm, database_url: str, table_prefix: str) -> None:
    service.append("ada", [message(f"passport {number}") for number in range(600)])
    assert service.search("passport", session_id="ada").items
    harm("UPDATE {p}recall_terms SET data = 'x'")
    with opened(make_service(database_url, table_prefix=table_prefix)) as (fresh,):
        with pytest.raises(CorruptRowError):
            fresh.search("passport", session_id="ada")
        assert "the index, or what it is made of, cannot be read" in fresh.verify("ada")
        assert fresh.search("passport", session_id="grace").items


@on_databases
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError])
def test_a_mistake_is_not_told_as_a_corrupt_database(
    service: SessionService, monkeypatch: pytest.MonkeyPatch, face: str, error: type[Exception]
) -> None:
    """What Python raises over a wrong value is damage only where something that was read cannot be read."""

    def mistaken(*_: object, **__: object) -> None:
        raise error("of ours")

    call = Face(face)
    view = service.as_user("grace")
    call(view, "append", "grace", message("m"))
    monkeypatch.setattr(Ledger, "with_edit", mistaken)
    try:
        with pytest.raises(error, match="of ours"):
            call(view, "edit", "grace", HumanMessage("changed", id="m"))
        monkeypatch.undo()
        monkeypatch.setattr("langchain_sessions._sql.log.appending._numbered", mistaken)
        with pytest.raises(error, match="of ours"):
            call(view, "append", "grace", message("x"))
        monkeypatch.undo()
        monkeypatch.setattr("langchain_sessions._recall.rank.ranked.RankedSearch.find", mistaken)
        with pytest.raises(error, match="of ours"):
            call(view, "search", "passport")
        monkeypatch.undo()
        assert call(view, "append", "grace", message("x"))
    finally:
        call.close(service)


@on_databases
@pytest.mark.parametrize("edit", ["[2,1]", "[2,1,1,0,0]", "7"])
def test_an_edit_of_another_length_is_told_by_the_call_that_reads_it(
    service: SessionService, harm: Harm, edit: str
) -> None:
    view = service.as_user("ada")
    view.open("edited")
    view.append("edited", [message("one"), message("two")])
    ledger = '{{"h":[],"e":[EDIT],"c":[]}}'.replace("EDIT", edit)
    harm(f"UPDATE {{p}}sessions SET ledger = '{ledger}' WHERE id = 'edited'")
    with pytest.raises(CorruptRowError, match="cannot be read"):
        view.messages("edited")


@on_databases
def test_a_missing_column_is_a_matter_of_the_schema(service: SessionService, harm: Harm) -> None:
    harm("ALTER TABLE {p}events DROP COLUMN tokens")
    with pytest.raises(SchemaError, match="column"):
        service.append("ada", message("x"))
