"""Every example of the README and of docs/ stands alone: it runs in an empty folder, and once more in the same one."""

from __future__ import annotations

import gc
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^( *)```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"[\w-]+\.(?:db|jsonl)\b")
NEEDS = {
    "langchain-sessions[agents]": ("from langchain.", "SessionMemoryMiddleware"),
    "numpy": ("InMemoryVectorStore",),
    "fastapi": ("from fastapi",),
}
"""What an example says that it needs, and the words that show that it does."""


class Example(NamedTuple):
    """A block of code, where it stands and what is said in its section before it."""

    page: Path
    line: int
    code: str
    before: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def examples() -> list[Example]:
    """All of them, page by page."""
    found = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text()
        for block in EXAMPLE.finditer(text):
            indent = block[1]
            code = "".join(line.removeprefix(indent) for line in block[2].splitlines(keepends=True))
            before = text[: block.start()]
            section = before[max(before.rfind("\n## "), before.rfind("\n# "), 0) :]
            found.append(Example(page, before.count("\n") + 2, code, section))
    return found


EXAMPLES = examples()


# Examples leave it to the end of their process to close things; Python 3.13 tells on the connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_alone_and_twice(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Blank lines in front: a traceback names the page and its line.
    code = compile("\n" * (example.line - 1) + example.code, str(example.page), "exec")
    for _ in range(2):
        names: dict[str, object] = {"__name__": "example"}
        exec(code, names)  # noqa: S102 - our own documentation
        names.clear()
        gc.collect()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_says_what_it_needs(example: Example) -> None:
    needed = {need for need, signs in NEEDS.items() if any(sign in example.code for sign in signs)}
    assert {need for need in needed if need not in example.before + example.code} == set()


def test_examples_do_not_share_files() -> None:
    used = Counter(name for example in EXAMPLES for name in set(FILE.findall(example.code)))
    assert {name: count for name, count in used.items() if count > 1} == {}
