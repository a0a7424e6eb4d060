"""The notebook about LangGraph runs as it is, without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


# What a notebook brings along warns about itself: sockets of the kernel, event loops of other platforms.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs() -> None:
    notebook: Any = nbformat.read(  # type: ignore[no-untyped-call]
        ROOT / "notebooks" / "02_langgraph.ipynb", as_version=4
    )
    NotebookClient(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "detached" in "".join(output.get("text", "") for output in outputs)
