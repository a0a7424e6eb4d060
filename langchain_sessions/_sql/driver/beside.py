"""What takes long and needs no database, made in a thread where an operation runs on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy.util.concurrency import await_only, in_greenlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
_MUCH: Final = 1 << 14
"""Bytes, deflated. So many mostly take as long as handing them over; with more a loop would be held up."""


def beside(sizes: Iterable[int], call: Callable[[], T]) -> T:
    """What a call makes of deflated texts of these sizes. Reads keep their connection for it, and lock nothing."""
    if in_greenlet() and sum(sizes) >= _MUCH:
        import asyncio

        return await_only(asyncio.to_thread(call))
    return call()
