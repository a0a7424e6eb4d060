"""Who calls first is logged first: appends of one event loop to one session, where some take long to encode.

A long append leaves the loop while it is encoded and packed. What the same loop appends meanwhile to the same session
waits until it is stored, and then goes in the order of its calls. Threads that append at once have no such order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from langchain_sessions._core.flow import Flow, ask

if TYPE_CHECKING:
    from langchain_sessions._core.rows import SessionKey

T = TypeVar("T")


class Place(NamedTuple):
    """A place behind others: by loop and session, with futures that are done when the one before and this one go."""

    where: tuple[Any, str, str]
    before: Any
    gone: Any


class CallOrder:
    """The order of what loops append beside long appends.

    Args:
        last: Who came last, by loop and session, while somebody is there.
    """

    __slots__ = ("_last",)

    def __init__(self, last: dict[tuple[Any, str, str], Any]) -> None:
        """See the class."""
        self._last = last

    def enter(self, key: SessionKey) -> Place | None:
        """Have what is appended from now on wait. Of threads nobody waits."""
        del key
        return None

    async def aenter(self, key: SessionKey) -> Place | None:
        """Have what this loop appends from now on wait."""
        import asyncio

        loop = asyncio.get_running_loop()
        where = loop, key.app, key.id
        place = Place(where, self._last.get(where), loop.create_future())
        self._last[where] = place.gone
        return place

    def follow(self, place: Place | None) -> None:
        """Wait until those before have gone: nobody did."""

    async def afollow(self, place: Place | None) -> None:
        """Wait until those before have gone."""
        if place is not None and place.before is not None:
            import asyncio

            await asyncio.wait([place.before])  # which leaves it as it is where this is cancelled

    def leave(self, place: Place | None) -> None:
        """Let those behind go on, once those before have gone."""
        if place is None:
            return
        if place.before is None or place.before.done():
            self._end(place)
        else:
            place.before.add_done_callback(lambda _: self._end(place))

    def _end(self, place: Place) -> None:
        if self._last.get(place.where) is place.gone:
            del self._last[place.where]
        if not place.gone.done():
            with suppress(RuntimeError):  # the loop has ended, and nobody waits in it
                place.gone.set_result(None)

    def in_turn(self, key: SessionKey, place: Place | None, work: Flow[T]) -> Flow[T]:
        """Do some work after what was called before. Who has a place already keeps it until the work is done."""
        is_long = place is not None
        if not is_long:
            place = yield from ask(self.enter, key)
        try:
            yield from ask(self.follow, place)
            if not is_long:
                self.leave(place)  # those behind may travel with it
            return (yield from work)
        finally:
            self.leave(place)
