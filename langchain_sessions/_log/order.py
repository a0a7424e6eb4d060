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
    """A place behind others: by loop and session.

    Attributes:
        where: The loop and the session.
        key: The session as its caller sees it.
        travels: Whether the store takes it along with others that do, in their order, in one transaction.
        before: The place before it, where there was one.
        sent: A future that is done when the store has been asked.
        gone: One that is done when the store has answered, and those before it have gone.
    """

    where: tuple[Any, str, str]
    key: SessionKey
    travels: bool
    before: Any
    sent: Any
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

    def enter(self, key: SessionKey, *, travels: bool = False) -> Place | None:
        """Have what is appended from now on wait. Of threads nobody waits."""
        del key, travels
        return None

    async def aenter(self, key: SessionKey, *, travels: bool = False) -> Place | None:
        """Have what this loop appends from now on wait."""
        import asyncio

        loop = asyncio.get_running_loop()
        where = loop, key.app, key.id
        for other in [*self._last]:
            if other[0].is_closed():  # nobody was left there to go
                self._last.pop(other, None)
        last = self._last.get(where)
        before = last and last._replace(before=None)  # of those before it nobody keeps a chain
        place = Place(where, key, travels, before, loop.create_future(), loop.create_future())
        self._last[where] = place
        return place

    def follow(self, place: Place | None) -> None:
        """Wait until those before have gone: nobody did."""

    async def afollow(self, place: Place | None) -> None:
        """Wait until those before have gone; or until they were sent, where this one travels with them."""
        if place is not None and place.before is not None:
            import asyncio

            before = place.before
            together = place.travels and before.travels and before.key == place.key
            # Which leaves it as it is where this is cancelled.
            await asyncio.wait([before.sent if together else before.gone])

    def leave(self, place: Place | None) -> None:
        """Let those behind go on, once those before have gone."""
        if place is None:
            return
        import asyncio

        loop = place.where[0]
        if loop.is_closed():
            self._last.pop(place.where, None)
        elif asyncio._get_running_loop() is loop:
            self._leave(place)
        else:  # what was left half done may be collected in any thread
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._leave, place)

    def _leave(self, place: Place) -> None:
        if place.before is None or place.before.gone.done():
            self._end(place)
        else:
            place.before.gone.add_done_callback(lambda _: self._end(place))

    def _end(self, place: Place) -> None:
        if self._last.get(place.where) is place:
            self._last.pop(place.where, None)
        with suppress(RuntimeError):  # the loop has ended, and nobody waits in it
            self._tell(place.sent)
            self._tell(place.gone)

    def _tell(self, future: Any) -> None:
        if not future.done():
            future.set_result(None)

    def in_turn(self, key: SessionKey, place: Place | None, work: Flow[T], *, travels: bool) -> Flow[T]:
        """Do some work after what was called before. Who has a place already keeps it until the work is done."""
        is_long = place is not None
        if not is_long:
            place = yield from ask(self.enter, key, travels=travels)
        try:
            yield from ask(self.follow, place)
            if place is not None:
                self._tell(place.sent)  # those behind may travel with it
            return (yield from work)
        finally:
            self.leave(place)
