"""The house stays one that can be read: rooms of a size, functions of a screen, ways that do not grow."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.walks import ways

ROOT = Path(__file__).parents[2]
LINES, SCREEN = 450, 64
# How many modules a call passes, counted by `python -m benchmarks.walks`. They may only go down; what is promised is
# 12 for an append, 20 for a checkpoint and 30 for a turn.
MOST = {
    "append": 12,
    "messages": 14,
    "first turn": 34,
    "turn": 30,
    "put_writes": 18,
    "put": 20,
    "get_tuple": 20,
    # Four more than it was: `zone` is an idea of its own, where a run stands is a criterion of SQL (decision 106), and
    # a long log is looked at before it is read, where its words occur one by one (129).
    "search": 56,
}
# Of all lines those that say why, in comments and in strings under constants. It may only go up.
LEAST_WHY = 0.02
_DIRECTIVES = ("# noqa", "# type:", "# pyright:", "# pragma:", "# --")
MODULES = sorted((ROOT / "langchain_sessions").rglob("*.py"))
# Words that do not say what they name. `standing` has the glossary's meaning and names no module.
UNTOLD = {
    "corpus", "ends", "exchange", "facts", "hasattr", "keeping", "keyed", "living", "loaded", "parts", "placing",
    "recalling", "running", "scoped", "settle", "settled", "settles", "settling",
}  # fmt: skip
DEEP = 2


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "langchain_sessions")))
def test_a_module_and_its_functions_have_a_size_that_can_be_read(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LINES
    functions = (
        node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    sizes = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: size for name, size in sizes.items() if size > SCREEN} == {}


def test_no_way_through_the_package_has_become_longer() -> None:
    longer = {}
    for _ in range(6):  # what is collected, or ends beside a call, may fall into it: then it is counted again
        found = {name: len(way["modules"]) for name, way in ways(ROOT).items()}
        longer = {name: modules for name, modules in found.items() if modules > MOST[name]}
        if not longer:
            break
    assert longer == {}


def test_what_a_reader_would_ask_is_answered_beside_the_code() -> None:
    lines = whys = 0
    for path in MODULES:
        if "testing" not in path.parts:
            text = path.read_text()
            lines += len(text.splitlines())
            whys += _comments(text) + _strings_under_constants(ast.parse(text))
    assert whys / lines >= LEAST_WHY, f"{whys / lines:.2%} of the lines say why"


def _comments(text: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and not token.string.startswith(_DIRECTIVES) for token in tokens)


def _strings_under_constants(tree: ast.Module) -> int:
    found = 0
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, after in pairwise(body) if isinstance(body, list) else ():
            if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(after, ast.Expr):
                value = after.value
                is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
                found += is_text and (after.end_lineno or after.lineno) - after.lineno + 1
    return found


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))


def _named(tree: ast.Module) -> set[str]:
    """The functions, methods and classes of a module, but what has an underscore in front."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {
        node.name for node in ast.walk(tree) if isinstance(node, kinds) and not node.name.startswith(("_", "test_"))
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "langchain_sessions")))
def test_names_say_what_they_name(path: Path) -> None:
    named = _named(ast.parse(path.read_text()))
    assert {name for name in named if _words(name) & UNTOLD} == set()
    assert not _words(path.stem) & {*UNTOLD, "standing"}


Found = dict[tuple[Path, str], tuple[ast.ClassDef, list[tuple[Path, str]]]]
STORES = ROOT / "langchain_sessions" / "stores"


def _classes() -> Found:
    """Our classes by module and name, each with its bases among ours."""
    trees = {path: ast.parse(path.read_text()) for path in MODULES}
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in MODULES}
    found: Found = {}
    for path, tree in trees.items():
        known = {node.name: (path, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                known |= {each.asname or each.name: (modules[node.module], each.name) for each in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base).partition("[")[0] for base in node.bases]
                found[path, node.name] = node, [known[name] for name in names if name in known]
    return found


def test_nothing_inherits_from_far_away() -> None:
    """At most two of our own classes stand above one another over any; errors alone are a tree on purpose."""
    found = _classes()

    def depth(key: tuple[Path, str]) -> int:
        return max((depth(base) + 1 for base in found[key][1]), default=0)

    def is_error(key: tuple[Path, str]) -> bool:
        return key[1].endswith("Error")

    assert depth((STORES / "_memory.py", "InMemoryStore")) == DEEP
    assert {
        name: depth((path, name)) for path, name in found if not is_error((path, name)) and depth((path, name)) > DEEP
    } == {}


def test_locks_are_made_where_forks_know_of_them() -> None:
    """One that is made elsewhere would be held for ever in a child, by a thread that is not there."""
    made = re.compile(r"threading\.R?Lock\(\)")
    # A line of callers holds one for its turn, and a caller one to be told by; the queue of lines is empty in a child.
    found = {str(path.relative_to(ROOT)): len(made.findall(path.read_text())) for path in MODULES}
    elsewhere = {name: number for name, number in found.items() if number and "/testing/" not in name}
    assert elsewhere == {"langchain_sessions/_core/locks.py": 3, "langchain_sessions/_threads/save.py": 2}
