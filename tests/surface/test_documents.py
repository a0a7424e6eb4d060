"""What newcomers run first: the demo and the notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


def test_the_demo_runs_without_a_key() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    done = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for part in ("a chain", "a graph", "an agent", "tokens go to the model", "compacted:", "archived", "resumed"):
        assert part in done.stdout


# What a notebook brings along warns about itself: sockets of the kernel, event loops of other platforms.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["01_quickstart", "05_branches"])
def test_the_notebook_runs(name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}})
    client.execute()
