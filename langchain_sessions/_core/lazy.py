"""Names of a package that are loaded when they are first asked for."""

from __future__ import annotations

from importlib import import_module, util
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_sessions.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Loader: TypeAlias = "Callable[[str], Any]"
"""What finds a name of a module that is asked for by that name."""


def lazy_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    *,
    extras: Mapping[str, tuple[str, str]] | None = None,
    meant: Mapping[str, str] | None = None,
) -> Loader:
    """A module's `__getattr__` that imports a name from its home on first use: what is not used costs nothing.

    Args:
        package: The package that offers the names.
        homes: The names by the module below the package that defines them.
        extras: Names that need a package which not everybody has, with that package and the extra that brings it.
        meant: Names that other libraries have, and the one that takes their place here.
    """
    where = {name: f"{package}.{home}" for home, names in homes.items() for name in names}
    needed = extras or {}

    def load(name: str) -> Any:
        if name not in where:
            _suggest(package, name, [*where], meant or {})
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        if name in needed and util.find_spec(needed[name][0]) is None:
            raise MissingDependencyError(name, needed[name][1])
        return getattr(import_module(where[name]), name)

    return load


def at_the_top(module: str) -> Loader:
    """A module's `__getattr__` that tells who asks it for a public name where that name is.

    Args:
        module: The module that is asked.
    """

    def load(name: str) -> Any:
        package = module.partition(".")[0]
        if name in import_module(package).__all__:
            problem = f"There is no {name!r} in {module}. Write: from {package} import {name}"
            raise ImportError(problem, name=name)
        message = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(message)

    return load


def _suggest(package: str, name: str, known: Sequence[str], meant: Mapping[str, str]) -> None:
    """Tell what was probably meant by the name of a class.

    An `AttributeError` would do for `package.name`; but `from package import name` forgets its words.

    Raises:
        ImportError: There is something like it.
    """
    if not name[:1].isupper():
        return
    from difflib import get_close_matches  # noqa: PLC0415 - for those who mistyped

    likely = [meant[name]] if name in meant else get_close_matches(name, known, 1, 0.75)
    if likely:
        problem = f"There is no {name!r} in {package}. Write: from {package} import {likely[0]}"
        raise ImportError(problem, name=name)
