"""The notebook runs without a key, and its agent answers from what was compacted away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


# What a notebook brings along warns about itself: sockets of the kernel, event loops of other platforms.
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs() -> None:
    notebook: Any = nbformat.read(ROOT / "notebooks" / "04_recall.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}})
    client.execute()
    shown = [str(output.get("text")) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("blue drawer in the hall" in text and '"results"' in text for text in shown)
