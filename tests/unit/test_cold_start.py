"""What a process does not use it does not import: a cold start is felt more than any append."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ASKED = """
import json, sys
from langchain_core.messages import HumanMessage
known = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - known)))
"""
IMPORT = "from langchain_sessions import SessionService"
TURN = f"{IMPORT}\nwith SessionService(sys.argv[1]) as s: s.open('s'); s.append('s', HumanMessage('hi'))"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (IMPORT, ["asyncio", "concurrent.futures", "html", "sqlalchemy", "langgraph", "ormsgpack"]),
        (IMPORT, ["langchain_sessions.stores._base", "langchain_sessions.stores._partitioned"]),
        (TURN, ["sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql", "sqlalchemy.ext.asyncio", "langgraph"]),
        (TURN, ["langchain_sessions.stores._partitioned", "tiktoken", "snowballstemmer", "numpy"]),
    ],
    ids=["import", "import: stores", "turn", "turn: parts"],
)
def test_what_is_not_used_is_not_imported(code: str, unwanted: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKED.format(code=code), f"sqlite:///{tmp_path / 'cold.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    loaded = json.loads(done.stdout)
    assert "langchain_sessions.service" in loaded
    assert [name for name in unwanted if name in loaded] == []
