"""An account that may do less than is asked of it: what it lacks is told, and what it has is enough for sessions."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from sqlalchemy import create_engine, exc, make_url, text

from langchain_sessions import SessionCheckpointSaver, SessionService, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

pytestmark = pytest.mark.backends("postgres", "mariadb")
TOLD = r"account of the database may not do this; nothing was written\. Grant it SELECT, INSERT, UPDATE and DELETE"
PASSWORD = secrets.token_hex(8)
RIGHTS = "SELECT, INSERT, UPDATE, DELETE"


@pytest.fixture
def owner(fresh_database_url: str) -> Iterator[Connection]:
    engine = create_engine(fresh_database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def account(owner: Connection, fresh_database_url: str) -> Iterator[URL]:
    """Somebody who may connect, and nothing else."""
    name, url = f"poor_{secrets.token_hex(4)}", make_url(fresh_database_url)
    is_postgres = owner.dialect.name == "postgresql"
    create = (
        f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"
        if is_postgres
        else f"CREATE USER {name} IDENTIFIED BY '{PASSWORD}'"
    )
    try:
        owner.execute(text(create))
    except exc.DBAPIError:
        pytest.skip("the account of the tests may create no accounts")
    if not is_postgres:
        # Without a right on any table of a database nobody may even name it.
        owner.execute(text("CREATE TABLE neighbours (id INT)"))
        owner.execute(text(f"GRANT SELECT ON neighbours TO {name}"))
    yield url.set(username=name, password=PASSWORD)
    if is_postgres:
        owner.execute(text(f"DROP OWNED BY {name}"))
    with suppress(exc.DBAPIError):
        owner.execute(text(f"DROP {'ROLE' if is_postgres else 'USER'} {name}"))


@pytest.fixture
def granted(owner: Connection, account: URL) -> Callable[[str], None]:
    def grant(rights: str) -> None:
        everything = "ALL TABLES IN SCHEMA public" if owner.dialect.name == "postgresql" else f"{account.database}.*"
        owner.execute(text(f"GRANT {rights} ON {everything} TO {account.username}"))

    return grant


def test_what_an_account_may_not_do_is_told(
    fresh_database_url: str, account: URL, granted: Callable[[str], None]
) -> None:
    with SessionService(account) as poor, pytest.raises(StoreError, match=TOLD) as caught:
        poor.create_schema()
    assert PASSWORD not in str(caught.value)
    with SessionService(fresh_database_url) as operator:
        operator.create_schema()
        operator.append(operator.create("s1").id, HumanMessage("What may I?"))
    granted("SELECT")
    with SessionService(account) as reader:
        assert [message.text for message in reader.messages("s1")] == ["What may I?"]
        for refused in (lambda: reader.append("s1", HumanMessage("?")), lambda: reader.delete("s1")):
            with pytest.raises(StoreError, match=TOLD):
                refused()
        assert [message.text for message in reader.messages("s1")] == ["What may I?"]


async def test_the_rights_that_are_told_are_enough(
    fresh_database_url: str, account: URL, granted: Callable[[str], None]
) -> None:
    with SessionService(fresh_database_url) as operator:
        operator.create_schema()
    granted(RIGHTS)
    async with SessionService(account) as sessions:
        sessions.create_schema()  # there is nothing to do
        ada = sessions.as_user("ada")
        builder = StateGraph(MessagesState).add_node(
            "model", lambda state: {"messages": [AIMessage("Write and read.")]}
        )
        graph: Any = builder.add_edge(START, "model").compile(checkpointer=SessionCheckpointSaver(ada))
        await graph.ainvoke({"messages": [("user", "What may I?")]}, {"configurable": {"thread_id": "t1"}})
        ada.append(ada.create("s1").id, [HumanMessage(f"note {n}") for n in range(60)])
        assert (await ada.asearch("write")).items[0].event.seq == 2
        assert ada.rewind("s1", to_seq=1).seq == 61
        await ada.adelete("t1")
        assert sessions.delete_user("ada") == 1
