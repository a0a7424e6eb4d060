"""The notebooks run without a key, from anywhere, and show what they are kept with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.notebooks import NOTEBOOKS, read, run, shown

if TYPE_CHECKING:
    from pathlib import Path


# What a notebook brings along warns about itself: sockets of the kernel, event loops of other platforms.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_a_fresh_run_shows(notebook: Path) -> None:
    kept = read(notebook)
    assert shown(run(notebook)) == shown(kept), f"python -m tests.docs.notebooks keeps what {notebook.name} shows now"
    assert any(texts != [""] for _, texts in shown(kept))
