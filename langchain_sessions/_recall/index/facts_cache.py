"""Facts of chunks that this process has read, so that a search reads no more than the words that it looks for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from langchain_sessions._recall.index.facts import ChunkFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES: Final = 16 * 2**20
"""Of packed facts; enough for a million events."""

Place = tuple[int, int, int]
"""Key of a session, number of a chunk, generation of the index that wrote it."""


class FactsCache:
    """Facts by place, those that were asked for last; safe to share between threads.

    A place never gets other facts: keys of sessions are not used again, and a chunk that is written anew has another
    generation. So whoever wrote last, here or in another process, what is found here is right.

    Args:
        most_bytes: How much to keep, packed.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[Place, tuple[ChunkFacts, int]] = OrderedDict()
        self._bytes = 0

    def held(self) -> Mapping[Place, ChunkFacts]:
        """All that is kept, as of now."""
        with self._lock:
            return {place: facts for place, (facts, _) in self._known.items()}

    def put(self, place: Place, packed: bytes) -> ChunkFacts:
        """Unpack facts and keep them."""
        facts = ChunkFacts.unpack(packed)
        with self._lock:
            if place not in self._known:
                self._bytes += len(packed)
            self._known[place] = (facts, len(packed))
            while self._bytes > self._most and len(self._known) > 1:
                _, (_, size) = self._known.popitem(last=False)
                self._bytes -= size
        return facts

    def touch(self, place: Place) -> None:
        """Keep what was used longer than what was not."""
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
