"""Values that an object works out when they are first asked for, and keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class kept(Generic[T]):  # noqa: N801 - a decorator
    """A property that is worked out once for each object: what `functools.cached_property` is from Python 3.12 on.

    Before that, it holds a lock of the whole class while it works one out: threads wait for those of other objects, and
    a child that was forked meanwhile waits for ever. Here two threads may both work a value out; all see the same one.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> kept[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> kept[T] | T:
        """The value; it lies in the object from then on, where Python finds it without asking here."""
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._work_out(instance))
        return value
