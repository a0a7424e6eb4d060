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
    package: str, homes: Mapping[str, Sequence[str]], *, extras: Mapping[str, tuple[str, str]] | None = None
) -> Loader:
    """A module's `__getattr__` that imports a name from its home on first use: what is not used costs nothing.

    Args:
        package: The package that offers the names.
        homes: The names by the module below the package that defines them.
        extras: Names that need a package which not everybody has, with that package and the extra that brings it.
    """
    where = {name: f"{package}.{home}" for home, names in homes.items() for name in names}
    needed = extras or {}

    def load(name: str) -> Any:
        if name not in where:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        if name in needed and util.find_spec(needed[name][0]) is None:
            raise MissingDependencyError(name, needed[name][1])
        return getattr(import_module(where[name]), name)

    return load
