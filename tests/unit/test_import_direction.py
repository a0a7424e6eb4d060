"""The tree is the architecture: which part may import which, in one table, and where optional packages belong."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "langchain_sessions"

# What each part may import besides itself. A part is a folder or a module of the package; the longest name that fits
# counts. What only a type checker reads counts too: an architecture is what a reader has to know.
VALUES = {"errors", "events", "filters", "page", "session", "turns"}
CORE = {*VALUES, "_core"}
CONTRACT = {*CORE, "stores"}
SERVICE = {*CONTRACT, "_log", "_recall", "_compaction", "invocation", "search", "service", "_tokens"}
CHAT = {*SERVICE, "_chat", "long_term", "modes", "selectors"}
EDGES = {
    "errors": {"_core.lazy", "_compaction.plan"},
    "events": CORE,
    "filters": CORE,
    "page": CORE,
    "session": CORE,
    "turns": CORE,
    "search": {*CORE, "_recall"},
    "_tokens": CORE,
    "_core": {*CORE, "stores", "_tokens"},
    "stores": CONTRACT,
    "_sql": CONTRACT,
    "_compaction": {*CONTRACT, "_log.log", "_recall.text", "_tokens", "service"},
    "_recall": {*CONTRACT, "search"},
    "_log": {*SERVICE, "_sql.store"},
    "invocation": SERVICE,
    "service": SERVICE,
    "_chat": CHAT,
    "history": CHAT,
    "long_term": CHAT,
    "memory": CHAT,
    "middleware": {*CHAT, "tools"},
    "modes": CHAT,
    "selectors": CHAT,
    "tools": CHAT,
    "_threads": CHAT,
    "checkpointer": {*CHAT, "_threads"},
    "_exporting": SERVICE,
    "exporting": {*SERVICE, "_exporting"},
    "_importing": {*SERVICE, "_exporting", "checkpointer"},
    "importing": {*SERVICE, "_importing", "checkpointer"},
    "cli": {*SERVICE, "_exporting", "_importing", "exporting", "importing", "memory", "schema_sql"},
    "testing": {*SERVICE},
    "": set[str](),
}
# Whoever wants these has to install them, or is an adapter to them. All else may need only the base dependencies.
HOMES = {
    "cassandra": {"stores._cassandra"},
    "langchain": {"cli._models", "middleware"},
    "langchain_openai": set[str](),
    "langgraph": {
        "_chat",
        "_core.codec",
        "_exporting",
        "_importing",
        "_log",
        "_threads",
        "checkpointer",
        "cli",
        "importing",
        "middleware",
        "service",
        "testing",
        "tools",
    },
    "pytest": {"testing"},
    "rich": {"cli"},
    "snowballstemmer": {"_recall.text"},
    "sqlalchemy": {"_importing", "_log", "_sql", "cli", "importing", "service"},
    "tiktoken": {"_tokens"},
    "typer": {"cli"},
    "wcwidth": {"cli"},
}


def _modules() -> dict[str, Path]:
    """Every module below the package by its name inside it, with the package itself as ''."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path) -> set[str]:
    """The full names that a module imports, inside functions and for type checkers too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its direction"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _part(name: str) -> str:
    """The part that a module belongs to: the longest name of the table that fits."""
    fits = [part for part in EDGES if part and _is_within(name, part)]
    assert fits, f"{name} belongs to no part of the table"
    return max(fits, key=len)


def _is_allowed(importer: str, imported: str) -> bool:
    part = _part(importer)
    return any(_is_within(imported, other) for other in {part, *EDGES[part]})


# Package files and the list of public names only hand on names, so the names they hand on are not theirs.
MODULES = {name: path for name, path in _modules().items() if path.name not in {"__init__.py", "_public_names.py"}}


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_along_allowed_edges(module: str) -> None:
    inside = (name.removeprefix(f"{PACKAGE}.") for name in _imports(MODULES[module]) if _is_within(name, PACKAGE))
    assert [name for name in sorted(inside) if not _is_allowed(module, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_packages_are_imported_where_they_belong(module: str) -> None:
    roots = {name.partition(".")[0] for name in _imports(MODULES[module])}
    strays = [
        root for root in sorted(roots & HOMES.keys()) if not any(_is_within(module, home) for home in HOMES[root])
    ]
    assert strays == []


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("service", "stores._base", True),
        ("checkpointer", "service", True),
        ("_sql.store", "stores._base.SessionStore", True),
        ("stores._memory", "events.SessionEvent", True),
        ("service", "history", False),
        ("_sql.store", "stores_desk", False),
        ("stores._base", "service", False),
        ("events", "stores._base", False),
        ("tools", "middleware", False),
    ],
)
def test_the_direction_is_told_apart(importer: str, imported: str, allowed: bool) -> None:  # noqa: FBT001
    assert _is_allowed(importer, imported) is allowed
