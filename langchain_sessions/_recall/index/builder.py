"""From rows of a log to entries of its index, for one choice of settings."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.any_message import unreadable
from langchain_sessions._core.collecting import resting_collector
from langchain_sessions._core.edge import UNREADABLE, from_micros
from langchain_sessions._core.flow import Flow, computed
from langchain_sessions._core.message_types import only_tool_of, tools_of
from langchain_sessions._core.rows import bytes_of
from langchain_sessions._recall.index.chunks import LAYOUT_VERSION
from langchain_sessions._recall.index.directories import DirectoryTraits
from langchain_sessions._recall.index.inverted import LEFT_OUT
from langchain_sessions._recall.index.postings import Entry, EntryMaker
from langchain_sessions._recall.index.ranking_traits import ChunkTraits, EventTraits
from langchain_sessions._recall.index.traits_cache import LogCache, ShelfCache, TraitsCache
from langchain_sessions._recall.text.documents import make_document, plain_text
from langchain_sessions._recall.text.terms import TermMaker
from langchain_sessions.errors import CorruptRowError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._recall.settings import SearchSettings
    from langchain_sessions.stores._base import SessionStore

T = TypeVar("T")

SYNTHETIC: Final = 4
SUMMARY: Final = 8
_LONG: Final = 1_000
"""Characters of a text from which on the words of a revision that was replaced are worth leaving out."""
_PLAIN: Final = frozenset((k.HUMAN, k.AI, k.SYSTEM))
_SPECIAL: Final = r.SEALED | r.SYNTHETIC | r.SUMMARY
_tuple = tuple.__new__


class Caches(NamedTuple):
    """What a process has read of the indexes of a store: of chunks, of shelves, of directories, and of single logs."""

    chunks: TraitsCache[ChunkTraits]
    shelves: ShelfCache
    directories: TraitsCache[DirectoryTraits]
    logs: LogCache


def tool_term(name: str) -> str:
    """The term under which uses of a tool are indexed; no word is written like it."""
    return f"tool:{'_'.join(name.split())[:64]}"


def only_term(name: str) -> str:
    """The term of events that hold nothing but a use of one tool."""
    return f"only:{tool_term(name)[5:]}"


class IndexBuilder:
    """Makes terms and entries.

    Args:
        settings: The choice.
    """

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings
        self.maker = TermMaker(settings.language)
        self.entries = EntryMaker(self.maker)
        self.taken_apart: OrderedDict[tuple[int, int], dict[int, bytes]] = OrderedDict()
        # Weak: settings may outlive the stores that they were used with.
        self._caches: WeakKeyDictionary[SessionStore, Caches] = WeakKeyDictionary()
        # Whatever changes an entry changes the name of the index, which is then built anew log by log.
        named = f"{LAYOUT_VERSION}:{self.maker.fingerprint}"
        self.fingerprint = hashlib.sha256(named.encode()).hexdigest()[:32]

    def entry(self, row: EventRow, message: BaseMessage) -> Entry:
        """What the index keeps of an event."""
        document = make_document(message, author=row.author, timestamp=from_micros(row.at))
        entry = self.entries.entry(document)
        tags = list(dict.fromkeys(map(tool_term, tools_of(message))))
        if tags and (only := only_tool_of(message)) is not None:
            tags.append(only_term(only))
        if not tags and not row.flags & (r.SYNTHETIC | r.SUMMARY):
            return entry
        flags = entry.flags | (SYNTHETIC if row.flags & r.SYNTHETIC else 0) | (SUMMARY if row.flags & r.SUMMARY else 0)
        return entry._replace(passages=([*entry.passages[0], *tags], *entry.passages[1:]), flags=flags)

    def stored_entry(self, session_id: str, row: EventRow, codec: MessageCodec) -> Entry:
        """What the index keeps of an event as it is stored: of one that is nothing but a text no message is made."""
        is_plain = type(row.text) is str and row.body is None and row.kind in _PLAIN and not row.flags & _SPECIAL
        if not is_plain:
            return self.entry(row, codec.decode(session_id, row))
        return self.entries.entry_of(plain_text(row.text or ""), row.author, row.at, is_human=row.kind == k.HUMAN)

    def replaced_entry(self, session_id: str, row: EventRow, codec: MessageCodec) -> Entry:
        """What the index keeps of an event that an edit replaced: of a long one no words, only that it is there."""
        is_long = type(row.text) is str and len(row.text) >= _LONG and not row.flags & _SPECIAL
        return self.without_words(row) if is_long else self.stored_entry(session_id, row, codec)

    @staticmethod
    def without_words(row: EventRow) -> Entry:
        """An entry that holds no words."""
        return Entry(((),), (0,), LEFT_OUT, row.author, from_micros(row.at).timestamp())

    def caches(self, store: SessionStore) -> Caches:
        """What this process has read of the indexes of a store."""
        known = self._caches.get(store)
        if known is None:
            directories = TraitsCache(DirectoryTraits.unpack)
            made = Caches(TraitsCache(ChunkTraits.unpack), ShelfCache(), directories, LogCache())
            known = self._caches.setdefault(store, made)
        return known

    @staticmethod
    def traits(row: EventRow, entry: Entry) -> EventTraits:
        """The part of an entry that is no term."""
        traits = row.seq, row.at, row.kind, entry.lengths, entry.flags, entry.author, row.branch
        return _tuple(EventTraits, traits)


def made(session_id: str, rows: Sequence[EventRow], make: Callable[[], T]) -> Flow[T]:
    """What is made of some rows; of long ones beside an event loop.

    Raises:
        CorruptRowError: It cannot be made, and a row is not what was written; without such a row it is a mistake.
    """
    try:
        return (yield from computed(bytes_of(rows), resting_collector()(make)))
    except UNREADABLE as error:
        wrong = next((row.seq for row in rows if not row.is_sound), None)
        if wrong is None:
            raise
        problem = unreadable(session_id, wrong, error)
    raise CorruptRowError(problem)
