"""The site has a page for everything: what is public is in the reference, what is written can be found."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import langchain_sessions
from benchmarks import figures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAV = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = Counter(re.findall(r"^::: langchain_sessions\.(\w+)$", pages, re.MULTILINE))
    assert shown == Counter(langchain_sessions.__all__)


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    linked = set(re.findall(r"[\w/.-]+\.md", NAV))
    assert {page for page in pages - linked if not re.match(r"decisions/\d", page)} == set()
    assert linked <= pages


def test_every_link_of_the_readme_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_pictures_are_there_and_are_what_is_drawn_from_the_figures() -> None:
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        shown = re.findall(r'\bsrc(?:set)?="([^"]+)"', page.read_text())
        assert [name for name in shown if not (page.parent / name).exists()] == [], page
    for name, picture in figures.all_of_them().items():
        assert (figures.FIGURES / name).read_text() == picture, f"python -m benchmarks.figures draws {name} anew"


def test_what_a_page_includes_is_there() -> None:
    pages = {page: page.read_text() for page in DOCS.rglob("*.md")}
    included = [name for text in pages.values() for name in re.findall(r'^--8<-- "(.+)"$', text, re.MULTILINE)]
    assert included == ["examples/fastapi_app.py"]
    assert [name for name in included if not (ROOT / name).exists()] == []
    assert [page for page, text in pages.items() if re.search(r"-8 < -", text)] == []  # a formatter was at it
