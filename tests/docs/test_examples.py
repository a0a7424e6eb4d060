"""Every Python example of the README and of docs/ runs, top to bottom, in an empty directory."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if EXAMPLE.search(page.read_text())
]


# Examples leave it to the end of their process to close things; Python 3.13 tells on the connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    for example in EXAMPLE.findall(page.read_text()):
        exec(compile(example, page.name, "exec"), names)  # noqa: S102 - our own documentation
    names.clear()
    gc.collect()
