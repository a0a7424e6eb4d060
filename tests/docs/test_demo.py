"""What newcomers run first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def run(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    done = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, str(DEMO)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_runs_without_a_key_and_shows_the_same_each_time(tmp_path: Path) -> None:
    shown = run(tmp_path)
    for part in (
        "a chain",
        "a graph",
        "an agent",
        "tokens go to the model",
        "compacted:",
        "archived",
        "resumed",
        "Next:",
    ):
        assert part in shown
    assert run(tmp_path) == shown
    assert re.search(r"\d{4}-\d", shown) is None, "what it prints is another tomorrow"
