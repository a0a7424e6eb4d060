"""What recall keeps beside a log and what the log says: a difference is told, and made good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_sessions._log.log import log_of
from langchain_sessions._recall.index.shelves import ShelfTraits
from langchain_sessions._sql.driver.transaction_kinds import TransactionKind
from langchain_sessions._sql.store import SqlStore
from langchain_sessions._sql.tables.recall import TRAITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_sessions import SessionService
    from langchain_sessions._sql.driver.transaction import Transaction

    Harm = Callable[[Transaction], object]

on_databases = pytest.mark.backends("sqlite", "postgres", "mariadb")


def harm(service: SessionService, change: Harm) -> None:
    """Change the tables behind the back of the library; what this process knows of them is forgotten."""
    store, search = log_of(service).store, log_of(service).search
    assert isinstance(store, SqlStore)
    assert search is not None
    store._runner.run(TransactionKind.WRITE, change)
    search.index_builder._caches.clear()


def lost_words(tx: Transaction) -> None:
    terms = tx.tables.recall.terms
    tx.change(terms.delete().where(terms.c.bucket != TRAITS))


def lost_all(tx: Transaction) -> None:
    for table in (tx.tables.recall.terms, tx.tables.recall.chunks):
        tx.change(table.delete())


def lost_rows_of_chunks(tx: Transaction) -> None:
    tx.change(tx.tables.recall.chunks.delete())


def lost_traits(tx: Transaction) -> None:
    terms = tx.tables.recall.terms
    tx.change(terms.delete().where(terms.c.bucket == TRAITS))


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("change", [lost_words, lost_all, lost_rows_of_chunks, lost_traits])
@pytest.mark.parametrize("named", [True, False])
def test_an_index_that_is_lost_is_told_and_built_anew(service: SessionService, change: Harm, *, named: bool) -> None:
    ada = service.as_user("ada")
    ada.open("s1")
    ada.append("s1", [HumanMessage(f"kettle {number}") for number in range(40)])
    assert ada.reindex("s1") == 40
    assert ada.verify("s1") == []
    harm(service, change)
    assert len(ada.verify("s1")) == 1
    assert (ada.reindex("s1") if named else service.reindex()) == 40
    assert ada.verify("s1") == []
    assert ada.search("17", session_id="s1").items[0].event.seq == 18
    assert ada.reindex("s1") == 0


def lost_shelf_words(tx: Transaction) -> None:
    terms = tx.tables.recall.shelf_terms
    tx.change(terms.delete().where(terms.c.bucket != TRAITS))


def lost_shelves(tx: Transaction) -> None:
    tx.change(tx.tables.recall.shelves.delete())


def unreadable_shelves(tx: Transaction) -> None:
    terms = tx.tables.recall.shelf_terms
    tx.change(terms.update().values(data=b"x"))


def without_a_log(tx: Transaction) -> None:
    """Shelves that say they hold a log, and do not."""
    terms = tx.tables.recall.shelf_terms
    for shelf, _, data in tx.once(terms.select().where(terms.c.bucket == TRAITS)):
        known = ShelfTraits.unpack(bytes(data))
        left = ShelfTraits([log for log in known.logs if log.id != "s17"], known.names, known.traits)
        mine = (terms.c.shelf == shelf) & (terms.c.bucket == TRAITS)
        tx.change(terms.update().where(mine).values(data=left.pack()))


def with_words_of_another(tx: Transaction) -> None:
    """Shelves on which one word stands for another of the same length."""
    terms = tx.tables.recall.shelf_terms
    for shelf, bucket, data in tx.once(terms.select().where(terms.c.bucket != TRAITS)):
        mine = (terms.c.shelf == shelf) & (terms.c.bucket == bucket)
        tx.change(terms.update().where(mine).values(data=bytes(data).replace(b"\nword17\n", b"\nword99\n")))


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("change", [lost_shelf_words, unreadable_shelves, without_a_log, with_words_of_another])
def test_a_shelf_that_says_other_than_the_log_is_told_and_made_anew(service: SessionService, change: Harm) -> None:
    told_and_made_anew(service, change)


@on_databases
def test_a_shelf_that_is_lost_is_told_and_made_anew(service: SessionService) -> None:
    told_and_made_anew(service, lost_shelves)


def told_and_made_anew(service: SessionService, change: Harm) -> None:
    """What is on shelves differs from the logs until it is made anew."""
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", [HumanMessage(f"word{number} kettle"), AIMessage("blue", name="bob")])
    ada.rewind("s3", to_seq=1)
    expected = [hit.event.session_id for hit in ada.search("word17 kettle", limit=40, neighbours=0)]
    assert all(ada.verify(f"s{number}") == [] for number in range(30))
    harm(service, change)
    assert ada.verify("s17") != []
    service.reindex()
    assert all(ada.verify(f"s{number}") == [] for number in range(30))
    assert [hit.event.session_id for hit in ada.search("word17 kettle", limit=40, neighbours=0)] == expected


@on_databases
def test_a_copy_of_what_a_log_was_is_no_difference(service: SessionService) -> None:
    ada = service.as_user("ada")
    for number in range(30):
        ada.open(f"s{number}")
        ada.append(f"s{number}", HumanMessage(f"word{number} kettle"))
    ada.search("kettle")
    ada.append("s17", AIMessage("blue"))
    assert ada.verify("s17") == []
    assert ada.reindex("s17") == 2
    assert ada.verify("s17") == []


@pytest.mark.backends("sqlite")
def test_what_is_indexed_of_a_log_stays_where_a_message_cannot_be_read(service: SessionService) -> None:
    ada = service.as_user("ada")
    ada.open("s1")
    ada.append("s1", [HumanMessage(f"kettle {number}") for number in range(40)])
    ada.reindex("s1")

    def change(tx: Transaction) -> None:
        events = tx.tables.events
        tx.change(events.update().where(events.c.seq == 7).values(body="{"))

    harm(service, change)
    assert ada.verify("s1") != []
    assert ada.reindex("s1") == 0
    assert ada.search("17", session_id="s1").items[0].event.seq == 18
