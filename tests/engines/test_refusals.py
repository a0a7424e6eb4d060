"""What cannot be: URLs that say nothing, keyspaces that are not there, tables of another release, foreign objects."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy

from langchain_sessions import (
    InvalidInputError,
    SchemaMissingError,
    SchemaVersionError,
    SessionService,
    StoreUnavailableError,
)
from langchain_sessions.stores._cassandra.address import read_url
from langchain_sessions.stores._cassandra.engine import CassandraEngine
from tests.engines.conftest import URL
from tests.servers.cassandra import PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cassandra.cluster import Session

    from tests.servers.cassandra import Nodes


@pytest.fixture
def session(nodes: Nodes) -> Iterator[Session]:
    """A session of the driver that a caller made."""
    level = ConsistencyLevel.QUORUM
    profiles = {EXEC_PROFILE_DEFAULT: ExecutionProfile(RoundRobinPolicy(), request_timeout=60, consistency_level=level)}
    cluster = Cluster(["127.0.0.1"], port=nodes.port, protocol_version=5, execution_profiles=profiles, **PATIENT)
    yield cluster.connect("sessions")
    cluster.shutdown()


@pytest.fixture
def prefix(session: Session) -> Iterator[str]:
    """A prefix of tables that are dropped afterwards."""
    made = f"t{secrets.token_hex(4)}_"
    yield made
    for name in ("rows", "shelves", "lists", "meta"):
        session.execute(f'DROP TABLE IF EXISTS "{made}sessions_{name}"')


@pytest.mark.parametrize(
    "url",
    [
        "cassandra:",
        "cassandra://",
        "cassandra://host",
        "cassandra://host/",
        "cassandra:///keyspace",
        "cassandra://host,/keyspace",
        "cassandra://host:port/keyspace",
        "cassandra://host/key/space",
        'cassandra://host/key"space',
        "cassandra://ada:secret@host/keyspace?ssl=1",
        "cassandra://ada:secret@/keyspace",
    ],
)
def test_a_url_that_says_nothing_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^database: ") as refused:
        SessionService(url)
    assert "secret" not in str(refused.value)


def test_the_parts_of_a_url() -> None:
    found = read_url("cassandra://ada:p%40ss@one,two:19042/chat?datacenter=dc1")
    assert found == ([("one", 9042), ("two", 19042)], "chat", ("ada", "p@ss"), "dc1")


def test_a_keyspace_that_is_missing_is_named_as_such() -> None:
    with pytest.raises(StoreUnavailableError, match="no such keyspace"):
        SessionService(URL.replace("/sessions", "/nowhere")).get("s1")


def test_nobody_there() -> None:
    with pytest.raises(StoreUnavailableError, match="could not be reached"):
        SessionService("cassandra://127.0.0.9:1/sessions").get("s1")


def test_tables_that_are_missing_and_made_by_many_at_once(prefix: str) -> None:
    with pytest.raises(SchemaMissingError):
        SessionService(URL, table_prefix=prefix).get("s1")
    made = [CassandraEngine(URL, table_prefix=prefix) for _ in range(3)]
    threads = [threading.Thread(target=engine.create_schema) for engine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in made:
        engine.close()
    with SessionService(URL, table_prefix=prefix) as sessions:
        sessions.open("s1")
        assert [each.id for each in sessions.list_sessions()] == ["s1"]


def test_tables_of_a_newer_release_are_left_alone(prefix: str, session: Session) -> None:
    with SessionService(URL, table_prefix=prefix, create_schema=True) as sessions:
        sessions.open("s1")
    session.execute(f'UPDATE "{prefix}sessions_meta" SET "value" = \'99\' WHERE "name" = \'version\'')
    for creates in (True, False):
        with (
            SessionService(URL, table_prefix=prefix, create_schema=creates) as sessions,
            pytest.raises(SchemaVersionError),
        ):
            sessions.open("s1")


async def test_a_session_that_is_given_stays_open(session: Session, engine: CassandraEngine) -> None:
    del engine  # its tables
    app = f"app-{secrets.token_hex(6)}"
    async with SessionService(session, app=app) as sessions:
        await sessions.aopen("s1")
    with SessionService(session, app=app) as sessions:
        assert sessions.get("s1").id == "s1"
    assert session.execute("SELECT release_version FROM system.local").one() is not None
    session.keyspace = None
    with pytest.raises(InvalidInputError, match="keyspace"):
        SessionService(session)


@pytest.mark.parametrize("prefix", ["a b", 'a"', "x" * 31, "é"])
def test_a_prefix_that_is_none(prefix: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^table_prefix"):
        SessionService(URL, table_prefix=prefix)
