"""Every example of the README and of docs/ stands alone: it runs in an empty folder, and once more in the same one."""

from __future__ import annotations

import gc
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.docs.blocks import BLOCKS, Block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = re.compile(r"[\w-]+\.(?:db|jsonl)\b")
NEEDS = {
    "langchain-sessions[agents]": ("from langchain.", "SessionMemoryMiddleware"),
    "numpy": ("InMemoryVectorStore",),
    "fastapi": ("from fastapi",),
}
"""What an example says that it needs, and the words that show that it does."""


EXAMPLES = [block for block in BLOCKS if block.kind == "example"]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """An example may say what is logged; the tests after it want all."""
    log = logging.getLogger("langchain_sessions")
    before = log.level
    yield
    log.setLevel(before)


# Examples leave it to the end of their process to close things; Python 3.13 tells on the connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs_alone_and_twice(
    example: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Blank lines in front: a traceback names the page and its line.
    code = compile("\n" * (example.line - 1) + example.code, str(example.page), "exec")
    for time in ("first", "second"):
        names: dict[str, object] = {"__name__": "example"}
        exec(code, names)  # noqa: S102 - our own documentation
        if time == "first" and example.printed is not None:
            assert capsys.readouterr().out == example.printed
        names.clear()
        gc.collect()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_says_what_it_needs(example: Block) -> None:
    needed = {need for need, signs in NEEDS.items() if any(sign in example.code for sign in signs)}
    assert {need for need in needed if need not in example.before + example.code} == set()


def test_examples_do_not_share_files() -> None:
    used = Counter(name for example in EXAMPLES for name in set(FILE.findall(example.code)))
    assert {name: count for name, count in used.items() if count > 1} == {}
