"""One append-only event log per conversation, and every kind of memory as a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions import _public_names
from langchain_sessions._core.lazy import Loader, lazy_names, put_up_signpost

if TYPE_CHECKING:
    from langchain_sessions._public_names import *

    __all__: list[str] = []
    __all__ += _public_names.__all__

__version__ = "0.1.0"

__getattr__: Loader = lazy_names(
    __name__, _public_names.HOMES, extras={"SessionMemoryMiddleware": ("langchain", "agents")}
)
put_up_signpost(__name__)


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted([*globals(), *__getattr__("__all__")])
