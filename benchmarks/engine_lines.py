"""How many lines of code each engine is: all Python in its folder or module, its schema included.

python -m benchmarks.engine_lines

A line counts if there is code on it: no blank ones, no comments, no docstrings. An engine may have `MOST` of them, so
that who wants another one knows what it takes. What engines of one kind stand on is shown too, and is no engine.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

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


class Room(NamedTuple):
    """A module or a folder of `stores` that defines a `PartitionEngine`.

    Attributes:
        paths: Its modules.
        users: The engines over it, where it is what several databases of one kind have in common and none itself.
    """

    paths: list[Path]
    users: set[str]


def rooms() -> dict[str, Room]:
    """Every room with a class below `PartitionEngine`."""
    homes: dict[str, str] = {}
    bases: dict[str, set[str]] = {}
    found: dict[str, Room] = {}
    for path in sorted(STORES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
                home = path if path.parent == STORES else path.parent
                homes[node.name] = home.stem.strip("_")
                paths = [path] if home is path else sorted(home.rglob("*.py"))
                found.setdefault(homes[node.name], Room(paths, set()))
    engines = {"PartitionEngine"}
    while more := {name for name, above in bases.items() if above & engines} - engines:
        engines |= more
    engines.remove("PartitionEngine")
    for name in engines:
        for base in bases[name] & engines:
            if homes[base] != homes[name]:
                found[homes[base]].users.add(homes[name])
    return {name: room for name, room in found.items() if name in {homes[each] for each in engines}}


def engines() -> list[str]:
    """The engines themselves."""
    return [name for name, room in rooms().items() if not room.users]


def count() -> dict[str, int]:
    """Lines of code by room."""
    return {name: sum(lines_of(path.read_text()) for path in room.paths) for name, room in rooms().items()}


def main() -> int:
    """Print what there is; 1 where an engine is too long."""
    found, each = count(), rooms()
    for name, lines in sorted(found.items(), key=lambda item: bool(each[item[0]].users)):
        users = ", ".join(sorted(each[name].users))
        print(f"{name:<12}{lines:>5} {f'no engine itself; over it: {users}' if users else f'of {MOST}'}")
    return int(any(found[name] > MOST for name in engines()))


if __name__ == "__main__":
    sys.exit(main())
