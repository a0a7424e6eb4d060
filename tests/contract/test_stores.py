"""The whole contract on every store: memory, SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from langchain_sessions.testing import PrivateLoop, StoreContract

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_sessions.stores._base import SessionStore


class TestStores(StoreContract):
    """Each backend, each face."""

    @pytest.fixture
    def store(self, shared_store: SessionStore) -> SessionStore:
        return shared_store

    @pytest.fixture
    def loop(self, shared_loop: PrivateLoop) -> PrivateLoop:
        return shared_loop


def test_a_store_tells_of_itself(shared_store: SessionStore, shared_loop: PrivateLoop, backend: str) -> None:
    told = shared_store.describe()
    assert replace(shared_loop.run(shared_store.adescribe()), bytes=told.bytes) == told
    assert told.schema == told.newest_schema
    has_steps = backend in {"sqlite", "postgres", "mariadb"}
    assert {told.schema is None, told.server is None, told.driver is None} == {not has_steps}
    assert (told.bytes or 0) > 0 if has_steps else told.bytes is None


def test_no_theme_hides_a_test_of_another() -> None:
    names = [name for suite in StoreContract.__mro__ for name in vars(suite) if name.startswith("test_")]
    assert len(names) == len(set(names))


MINE = """
import pytest
from langchain_sessions.stores._memory import InMemoryStore
from langchain_sessions.testing import StoreContract

class TestMine(StoreContract):
    @pytest.fixture
    def store(self):
        return InMemoryStore()

class TestWithout(StoreContract):
    pass
"""


def test_a_store_author_needs_one_fixture(tmp_path: Path) -> None:
    """The documented use, and what a subclass without a store is told."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_mine.py").write_text(MINE)
    command = [sys.executable, "-m", "pytest", "-q", "-k", "test_a_list_is_newest_first"]
    plugins = ["-p", "no:asyncio", "-p", "no:randomly", "-p", "no:benchmark", "-p", "no:codspeed", "-p", "no:xdist"]
    done = subprocess.run([*command, *plugins], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert "2 passed" in done.stdout
    assert "2 errors" in done.stdout
    assert "supplies a `store` fixture" in done.stdout
