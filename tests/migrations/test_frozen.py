"""V01: what an earlier release has written is read back equal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions import SessionService
from tests.migrations.make_frozen import seen

FROZEN = sorted((Path(__file__).parent / "frozen").glob("version_*.db"))


@pytest.mark.parametrize("frozen", FROZEN, ids=lambda path: path.stem)
def test_a_frozen_database_is_read_back_equal_and_goes_on(frozen: Path, tmp_path: Path) -> None:
    shutil.copy(frozen, path := tmp_path / "chat.db")
    with SessionService(f"sqlite:///{path}") as service:
        assert seen(service) == json.loads(frozen.with_suffix(".json").read_text())
        version = service.get("talk").version
        assert [event.seq for event in service.append("talk", HumanMessage("on"))] == [version + 1]
        assert service.verify("talk") == []
        assert service.verify("thread") == []


def test_there_is_a_frozen_database() -> None:
    assert FROZEN
