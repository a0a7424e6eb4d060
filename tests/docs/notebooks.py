"""Run the notebooks: `python -m tests.docs.notebooks` keeps what they show now."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    """A notebook as it is kept."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run(path: Path) -> Any:
    """A notebook after a fresh run, in an empty folder."""
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("language_info", None)
    return notebook


def shown(notebook: Any) -> list[tuple[str, list[str]]]:
    """What each cell shows: its texts, and of pictures that they are there."""
    return [
        (cell["id"], ["".join(_texts(cell)).strip(), *_pictures(cell)])
        for cell in notebook.cells
        if cell["cell_type"] == "code"
    ]


def _texts(cell: Any) -> list[str]:
    return [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell["outputs"]]


def _pictures(cell: Any) -> list[str]:
    return [kind for output in cell["outputs"] for kind in output.get("data", {}) if kind.startswith("image/")]


if __name__ == "__main__":
    for each in NOTEBOOKS:
        nbformat.write(run(each), each)  # type: ignore[no-untyped-call]
        print(each.name)  # noqa: T201 - a command
