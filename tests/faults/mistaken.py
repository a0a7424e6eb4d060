"""Functions of the package made to fail one at a time, as a mistake in them would."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import langchain_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, FrameType

PACKAGE = Path(langchain_sessions.__file__).parent


def name_of(code: CodeType) -> str:
    """The module of a function below the package, and the function's name."""
    return f"{Path(code.co_filename).relative_to(PACKAGE).with_suffix('').as_posix()}:{code.co_name}"


def entered(call: Callable[[], object]) -> list[CodeType]:
    """The functions of the package that a call enters on its thread, each once."""
    found: dict[CodeType, None] = {}

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found[frame.f_code] = None

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
    return list(found)


def made_of(codes: Iterable[CodeType]) -> dict[CodeType, list[FunctionType]]:
    """All functions that are made of some code; looked for once, since it goes through all that the process holds."""
    found: dict[CodeType, list[FunctionType]] = {code: [] for code in codes}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__ in found:
            found[each.__code__].append(each)
    return found


@contextmanager
def mistaken(code: CodeType, owners: Sequence[FunctionType]) -> Iterator[bool]:
    """Every function made of some code raises `ZeroDivisionError`; False where none can be told to.

    The code is exchanged, not the name: whoever has imported the function, or bound it as a method, gets it too.
    """
    fails = _failing(code.co_freevars)
    for each in owners:
        each.__code__ = fails
    try:
        yield len(owners) > 0
    finally:
        for each in owners:
            each.__code__ = code


def _failing(captured: tuple[str, ...]) -> CodeType:
    """Code that fails, with the captured variables that those of another function may stand for."""
    lines = [
        "def outer():",
        *(f"    {name} = None" for name in captured),
        "    def fails(*_given, **_named):",
        f"        ({''.join(f'{name}, ' for name in captured)}),",
        "        raise ZeroDivisionError('a mistake')",
        "    return fails",
    ]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)  # noqa: S102 - the lines above, with names of variables
    found: CodeType = made["outer"]().__code__
    return found
