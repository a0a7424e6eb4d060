"""Traits of chunks that this process has read, so that a search reads no more than the words that it looks for."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from langchain_sessions._core.locks import new_lock
from langchain_sessions._recall.index.shelves import Copies, ShelfTraits, Sums, stale_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions.stores._values import StoredChunk

MOST_BYTES: Final = 16 * 2**20
"""Of packed traits; enough for a million events."""

_MOST_SETS: Final = 256
_MOST_CHUNKS: Final = 16_384
_MOST_APART: Final = 65_536

ChunkKey = tuple[int, int, int]
"""Key of a session, number of a chunk, generation of the index that wrote it."""


T = TypeVar("T")


class TraitsCache(Generic[T]):
    """Traits by key, those that were asked for last; safe to share between threads.

    A key never gets other traits: keys of sessions are not used again, and a chunk that is written anew has another
    generation. So whoever wrote last, here or in another process, what is found here is right.

    Args:
        unpack: Reads them.
        most_bytes: How much to keep, packed.
    """

    def __init__(self, unpack: Callable[[bytes], T], most_bytes: int = MOST_BYTES) -> None:
        self._unpack = unpack
        self._most = most_bytes
        self._lock = new_lock()
        self._known: OrderedDict[ChunkKey, tuple[T, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: ChunkKey) -> T | None:
        """The traits of a key; None where they are not kept. What is used is kept longer than what is not."""
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return None
            self._known.move_to_end(key)
            return known[0]

    def put(self, key: ChunkKey, packed: bytes) -> T:
        """Unpack traits and keep them."""
        traits = self._unpack(packed)
        with self._lock:
            if key not in self._known:
                self._bytes += len(packed)
            self._known[key] = (traits, len(packed))
            # One is kept however large it is: the search that asked for it is about to use it.
            while self._bytes > self._most and len(self._known) > 1:
                _, (_, size) = self._known.popitem(last=False)
                self._bytes -= size
        return traits


class LogCache:
    """Of which chunks indexes of single logs consist, of those that were asked for last; safe to share between threads.

    The chunks of a generation are always the same, so what is found here is right wherever the index is of it still.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._known: OrderedDict[SessionKey, tuple[tuple[int, int], tuple[StoredChunk, ...]]] = OrderedDict()
        self._chunks = 0

    def of(self, key: SessionKey) -> dict[tuple[int, int], tuple[StoredChunk, ...]]:
        """What is known of a log: by the key of its session and the generation of its index, its chunks."""
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return {}
            self._known.move_to_end(key)
            return {known[0]: known[1]}

    def put(self, key: SessionKey, skey: int, generation: int, chunks: Sequence[StoredChunk]) -> None:
        """Keep the chunks of a log, without their traits."""
        bare = tuple([chunk._replace(traits=b"") if chunk.traits else chunk for chunk in chunks])
        with self._lock:
            self._chunks += len(bare) - len(self._known.pop(key, ((), ()))[1])
            self._known[key] = (skey, generation), bare
            while self._chunks > _MOST_CHUNKS and len(self._known) > 1:
                _, (_, gone) = self._known.popitem(last=False)
                self._chunks -= len(gone)


class ShelfCache(TraitsCache[ShelfTraits]):
    """Traits of shelves, and which of their copies are outdated.

    Attributes:
        apart: Logs that no shelf takes as they are: keys of sessions and newest positions.
    """

    def __init__(self) -> None:
        super().__init__(ShelfTraits.unpack)
        self.apart: set[tuple[int, int]] = set()
        self._stale: OrderedDict[tuple[int, ...], Mapping[int, frozenset[int]]] = OrderedDict()
        self._sums: OrderedDict[tuple[int, ...], Sums] = OrderedDict()

    def keep_apart(self, skey: int, last_seq: int) -> None:
        """Note a log that no shelf takes before it moves on."""
        if len(self.apart) >= _MOST_APART:
            self.apart.clear()  # who asks finds them out again
        self.apart.add((skey, last_seq))

    def stale(self, shelves: Sequence[tuple[int, ShelfTraits]]) -> Mapping[int, frozenset[int]]:
        """By shelf: keys of sessions of which another of these holds more. Worked out once for the same shelves."""
        numbers = tuple(number for number, _ in shelves)
        known = self._stale.get(numbers)
        if known is None:
            known = stale_copies(shelves)
            with self._lock:
                self._stale[numbers] = known
                while len(self._stale) > _MOST_SETS:
                    self._stale.popitem(last=False)
        return known

    def copies(self, shelves: Sequence[tuple[int, ShelfTraits]]) -> Copies:
        """What these shelves hold. Added up once for the same shelves."""
        numbers = tuple([number for number, _ in shelves])
        known = self._sums.get(numbers)
        if known is None:
            stale = self.stale(shelves)
            none = frozenset[int]()
            upto = [
                log.last_seq for number, each in shelves for log in each.logs if log.skey not in stale.get(number, none)
            ]
            known = Sums(len(upto), sum(upto))
            with self._lock:
                self._sums[numbers] = known
                while len(self._sums) > _MOST_SETS:
                    self._sums.popitem(last=False)
        return Copies([shelf for _, shelf in shelves], known)
