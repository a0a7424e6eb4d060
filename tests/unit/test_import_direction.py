"""The tree is the architecture: imports point inwards, and optional packages stay where they belong."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "langchain_sessions"

# From the outside in. A part may import its own and every later layer; what is not named is the core, the innermost.
# Parts of one layer do not know each other, except around the contract of the stores, which is one thing.
LAYERS = (
    ("testing", "cli"),
    ("adapters",),
    ("service",),
    ("compaction", "recall", "stores.memory", "stores.sql"),
    ("encoding",),
    (
        "stores.base",
        "stores._twins",
        "stores.indexing",
        "stores.logs",
        "stores.matching",
        "stores.placing",
        "stores.scanning",
        "stores.sessions",
        "stores.threads",
        "stores.values",
        "stores.vectors",
    ),
)
CONTRACT = len(LAYERS) - 1
# Whoever wants these has to install them, or is an adapter to them. All else may need only the base dependencies.
HOMES = {
    "langchain": {"adapters"},
    "langchain_openai": set[str](),
    "langgraph": {"adapters", "codec", "cli", "service", "testing"},
    "pytest": {"testing"},
    "rich": {"cli"},
    "snowballstemmer": {"recall"},
    "sqlalchemy": {"adapters", "cli", "compaction", "recall", "service", "stores", "testing"},
    "tiktoken": {"tokens"},
    "typer": {"cli"},
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


def _layer(name: str) -> tuple[int, str]:
    """Where a module stands: the number of its layer and the part; the core is the innermost."""
    for number, parts in enumerate(LAYERS):
        for part in parts:
            if _is_within(name, part):
                return number, part
    return len(LAYERS), "core"


def _points_inwards(importer: str, imported: str) -> bool:
    (here, part), (there, other) = _layer(importer), _layer(imported)
    return there > here or (there == here and (part == other or here == CONTRACT))


# Package files only hand on names, so the names they hand on are not theirs.
MODULES = {name: path for name, path in _modules().items() if path.name != "__init__.py"}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_inwards(module: str) -> None:
    inside = (name.removeprefix(f"{PACKAGE}.") for name in _imports(MODULES[module]) if _is_within(name, PACKAGE))
    assert [name for name in sorted(inside) if not _points_inwards(module, name)] == []


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
        ("service", "stores.base", True),
        ("adapters.checkpointer.saver", "service", True),
        ("stores.sql.store", "stores.base.SessionStore", True),
        ("stores.memory.store", "events.SessionEvent", True),
        ("service", "adapters.history", False),
        ("stores.sql.store", "stores.memory.store", False),
        ("stores.base", "service", False),
        ("events", "stores.base", False),
        ("service_desk", "adapters", False),
    ],
)
def test_the_direction_is_told_apart(importer: str, imported: str, allowed: bool) -> None:  # noqa: FBT001
    assert _points_inwards(importer, imported) is allowed
