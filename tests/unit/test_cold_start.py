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
# Our own modules, packages included: each takes a third of a millisecond or more.
# One more than it was: to read by criteria and to read a context are two modules.
MOST_OF_OURS = 147
TURN = f"{IMPORT}\nwith SessionService(sys.argv[1]) as s: s.open('s'); s.append('s', HumanMessage('hi'))"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (IMPORT, ["asyncio", "concurrent.futures", "html", "sqlalchemy", "langgraph", "ormsgpack"]),
        (IMPORT, ["langchain_sessions.stores._base", "langchain_sessions.stores._partitioned"]),
        (TURN, ["sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql", "sqlalchemy.ext.asyncio", "langgraph"]),
        (TURN, ["langchain_sessions.stores._partitioned", "tiktoken", "snowballstemmer", "numpy"]),
        (TURN, ["langchain_core.messages.utils", "langchain_core.documents", "filetype", "xml.sax"]),
    ],
    ids=["import", "import: stores", "turn", "turn: parts", "turn: LangChain"],
)
def test_what_is_not_used_is_not_imported(code: str, unwanted: list[str], tmp_path: Path) -> None:
    loaded = _loaded(code, tmp_path)
    assert "langchain_sessions.service" in loaded
    assert [name for name in unwanted if name in loaded] == []


def test_no_more_of_ours_is_loaded_for_a_first_turn(tmp_path: Path) -> None:
    own = [name for name in _loaded(TURN, tmp_path) if name.startswith("langchain_sessions")]
    assert len(own) <= MOST_OF_OURS


def _loaded(code: str, directory: Path) -> list[str]:
    command = [sys.executable, "-c", ASKED.format(code=code), f"sqlite:///{directory / 'cold.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    loaded: list[str] = json.loads(done.stdout)
    return loaded
