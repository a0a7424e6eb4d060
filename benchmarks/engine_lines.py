"""How many lines of code each engine is: all Python in its folder or module, its schema included.

python -m benchmarks.engine_lines

A line counts if there is code on it: no blank ones, no comments, no docstrings. An engine may have `MOST` of them, so
that who wants another one knows what it takes.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

STORES = Path(__file__).parents[1] / "langchain_sessions" / "stores"
MOST = 400
_SILENT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
_WITH_DOCSTRINGS = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)


def lines_of(source: str) -> int:
    """How many lines of a module have code on them."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - _documentation(ast.parse(source)))


def _documentation(tree: ast.Module) -> set[int]:
    """The lines of texts that stand alone: docstrings, and those below attributes."""
    texts = (
        statement
        for node in ast.walk(tree)
        if isinstance(node, _WITH_DOCSTRINGS)
        for statement in node.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
    return {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}


def engines() -> dict[str, list[Path]]:
    """The modules of each engine: a module or a folder of `stores` that defines a `PartitionEngine`."""
    found: dict[str, list[Path]] = {}
    for path in sorted(STORES.rglob("*.py")):
        if any(_is_engine(node) for node in ast.walk(ast.parse(path.read_text()))):
            home = path if path.parent == STORES else path.parent
            found[home.stem.strip("_")] = [path] if home is path else sorted(home.rglob("*.py"))
    return found


def _is_engine(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id == "PartitionEngine" for base in node.bases
    )


def count() -> dict[str, int]:
    """Lines of code by engine."""
    return {name: sum(lines_of(path.read_text()) for path in paths) for name, paths in engines().items()}


def main() -> int:
    """Print what there is; 1 where an engine is too long."""
    found = count()
    for name, lines in found.items():
        print(f"{name:<12}{lines:>5} of {MOST}")
    return int(any(lines > MOST for lines in found.values()))


if __name__ == "__main__":
    sys.exit(main())
