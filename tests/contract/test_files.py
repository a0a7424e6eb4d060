"""The engine over a folder: what it must do as an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from langchain_sessions.stores._files.engine import FilesEngine
from langchain_sessions.testing import EngineContract

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_sessions.stores.engine import PartitionEngine


class TestFilesEngine(EngineContract):
    """Partitions in folders."""

    @pytest.fixture
    def engine(self, scratch_directory: Path) -> PartitionEngine:
        return FilesEngine(f"file://{scratch_directory}/engine")
