"""The notebook runs without a key, and a trigger or a strategy of one's own stays short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


def test_a_trigger_and_a_strategy_take_ten_lines_each() -> None:
    page = (ROOT / "docs" / "compaction.md").read_text(encoding="utf-8")
    for name in ("AtNight", "ForgetToolChatter"):
        found = re.search(rf"@dataclass\(frozen=True\)\nclass {name}:\n(?:(?: .*)?\n)+?(?=\n\n|\S)", page)
        assert found is not None
        assert len(found[0].strip().splitlines()) <= 10


# What a notebook brings along warns about itself: sockets of the kernel, event loops of other platforms.
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs() -> None:
    notebook: Any = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "notebooks" / "03_compaction.ipynb", as_version=4
    )
    client = NotebookClient(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}})
    client.execute()
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))
