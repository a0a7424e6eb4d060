"""Whatever the package imports is declared, by the package itself or by one of its extras."""

from __future__ import annotations

import ast
import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2] / "langchain_sessions"


def _imported() -> dict[str, str]:
    """Every foreign package that some module imports, with one module that does."""
    found: dict[str, str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            found.update({name.partition(".")[0]: path.name for name in names})
    return {name: by for name, by in found.items() if name not in {*sys.stdlib_module_names, ROOT.name}}


def _declared() -> set[str]:
    requirements = metadata.requires("langchain-sessions") or []
    return {re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower().replace("_", "-") for each in requirements}


def test_every_imported_package_is_declared() -> None:
    homes = metadata.packages_distributions()
    declared = _declared()
    strays = {
        name: by
        for name, by in _imported().items()
        if not {each.lower().replace("_", "-") for each in homes.get(name, [name])} & declared
    }
    assert strays == {}
