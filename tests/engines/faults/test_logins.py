"""A node that asks for a password: a wrong one is refused, and never shown."""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING

import pytest

from langchain_sessions import SessionService, StoreUnavailableError
from tests.servers.cassandra import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def guarded() -> Iterator[Nodes]:
    """A node of its own that knows the user `cassandra`."""
    nodes = Nodes.prepare(1, password=True)
    try:
        nodes.start(1)
        yield nodes
    finally:
        nodes.close()


def test_wrong_credentials_are_refused_and_never_shown(guarded: Nodes) -> None:
    for login in ("", "ada:s3cret-word@", "cassandra:s3cret-word@"):
        url = guarded.url.replace("//", f"//{login}", 1)
        with SessionService(url) as sessions, pytest.raises(StoreUnavailableError, match="refused") as refused:
            sessions.open("s1")
        assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def test_the_right_ones_are_let_in(guarded: Nodes) -> None:
    url = guarded.url.replace("//", "//cassandra:cassandra@", 1)
    deadline = time.monotonic() + 60
    while True:
        with SessionService(url) as sessions, pytest.raises(StoreUnavailableError) as refused:
            sessions.open("s1")
        if "no such keyspace" in str(refused.value):
            return
        assert time.monotonic() < deadline  # the user is made a moment after the start
        time.sleep(1)
