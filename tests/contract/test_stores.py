"""The whole contract on every store: memory, SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langchain_sessions.testing import PrivateLoop, StoreContract

if TYPE_CHECKING:
    from langchain_sessions.stores.base import SessionStore


class TestStores(StoreContract):
    """Each backend, each face."""

    @pytest.fixture
    def store(self, shared_store: SessionStore) -> SessionStore:
        return shared_store

    @pytest.fixture
    def loop(self, shared_loop: PrivateLoop) -> PrivateLoop:
        return shared_loop
