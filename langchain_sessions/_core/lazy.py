"""Names of a package that are loaded when they are first asked for."""

from __future__ import annotations

import sys
from importlib import import_module, util
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_sessions.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

Loader: TypeAlias = "Callable[[str], Any]"
"""What finds a name of a module that is asked for by that name."""


def lazy_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    *,
    extras: Mapping[str, tuple[str, str]] | None = None,
) -> Loader:
    """A module's `__getattr__` that imports a name from its home on first use: what is not used costs nothing.

    Args:
        package: The package that offers the names.
        homes: The names by the module below the package that defines them.
        extras: Names that need a package which not everybody has, with that package and the extra that brings it. Who
            asks for all names, as `import *` and `help` do, is given the others where it is missing.
    """
    where = {name: f"{package}.{home}" for home, names in homes.items() for name in names}
    needed = extras or {}

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(each for each in where if each not in needed or _is_here(needed[each][0]))
        if name not in where:
            _suggest(package, name)
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        if name in needed and not _is_here(needed[name][0]):
            raise MissingDependencyError(name, needed[name][1])
        return getattr(import_module(where[name]), name)

    return load


def _is_here(package: str) -> bool:
    try:
        return util.find_spec(package) is not None
    except (ImportError, ValueError):  # a finder or a stub of somebody's who cannot tell
        return package in sys.modules


def at_the_top(module: str) -> Loader:
    """A module's `__getattr__` that tells who asks it for a public name where that name is.

    Args:
        module: The module that is asked.
    """

    def load(name: str) -> Any:
        _suggest(module, name)
        message = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(message)

    return load


def _suggest(module: str, name: str) -> None:
    """Tell what was probably meant by a name that a module does not have.

    An `AttributeError` would do for `module.name`; but `from module import name` forgets its words.

    Raises:
        ImportError: There is something like it.
    """
    if name.startswith("_") or _is_module(module, name):
        return
    from langchain_sessions._core.telling import import_told  # noqa: PLC0415 - for those who mistyped

    told = import_told(module, name, import_module(module.partition(".")[0]).__all__)
    if told is not None:
        raise ImportError(told, name=name)


def _is_module(package: str, name: str) -> bool:
    """Whether a name is that of a module which was not imported yet: the import system asks for it here first."""
    try:
        return util.find_spec(f"{package}.{name}") is not None
    except ModuleNotFoundError:
        return False


class _Signpost(MetaPathFinder):
    """Stands behind all finders: a module of this package that none of them has found is told what to import."""

    def __init__(self, package: ModuleType) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, for modules of others."""
        del path, target
        name = self._package.__name__
        if not fullname.startswith(f"{name}.") or fullname.rpartition(".")[2].startswith("_"):
            return None
        from langchain_sessions._core.telling import module_told  # noqa: PLC0415 - for those who mistyped

        raise ModuleNotFoundError(module_told(fullname, self._package.__all__), name=fullname)


def put_up_signpost(package: str) -> None:
    """Have imports of modules that a package does not have told what to write.

    It is the only thing here that stands outside of this package, in Python's list of finders: what fails there is
    heard nowhere else. It answers for names of this package alone, after everybody else.
    """
    if not any(isinstance(finder, _Signpost) for finder in sys.meta_path):
        sys.meta_path.append(_Signpost(sys.modules[package]))
