"""The blocks of code in the README and the docs, by what becomes of each: `KINDS` says who runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"\n\n```output\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_NOT_RUN = re.compile(r"# not run: (?=\S)")


class Block(NamedTuple):
    """A block of code, where it stands, what is said in its section before it, and what it prints if that follows."""

    page: Path
    line: int
    info: str
    code: str
    before: str
    printed: str | None

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def kind(self) -> str:
        """What becomes of it, which its first words say to readers, too.

        - `example`: Python that runs as it is, twice in an empty folder.
        - `file`: Python that begins with the name of a file: the files of a page run together.
        - `include`: a file of the repository, which has a test of its own.
        - `commands`: what is typed at a terminal.
        - `data`: JSON, which is read.
        - `output`: what the example before it prints when it runs for the first time.
        - `picture`: text that is neither: a layout, a diagram.
        - `not run`: begins with the words `# not run:` and why.
        """
        if _NOT_RUN.match(self.code):
            return "not run"
        if self.code.startswith("--8<--"):
            return "include"
        if self.info == "python":
            return "file" if _FILE.match(self.code) else "example"
        kinds = {"console": "commands", "json": "data", "output": "output", "text": "picture"}
        return kinds.get(self.info, f"unknown: {self.info!r}")

    @property
    def commands(self) -> list[str]:
        """What is typed, line by line."""
        return [line.removeprefix("$ ") for line in self.code.splitlines() if line.startswith("$ ")]


def blocks() -> list[Block]:
    """All of them, page by page."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for block in _BLOCK.finditer(text):
            indent = block[1]
            code = "".join(line.removeprefix(indent) for line in block[3].splitlines(keepends=True))
            before = text[: block.start()]
            section = before[max(before.rfind("\n## "), before.rfind("\n# "), 0) :]
            printed = _OUTPUT.match(text, block.end())
            found.append(
                Block(page, before.count("\n") + 2, block[2].strip(), code, section, printed[1] if printed else None)
            )
    return found


BLOCKS = blocks()
