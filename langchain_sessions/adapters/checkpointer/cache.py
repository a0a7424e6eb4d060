"""Messages of threads as objects: ours, never the caller's, and checked each time they are handed out.

An object that was served may be changed in place by whoever got it. So each has a snapshot of its fields; a list is
compared with its snapshots in C (0.2 µs per message) before it is served, and what changed is built again.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from langchain_sessions.rows import NO_MESSAGE_ID, EventRow, SessionRow
from langchain_sessions.runs import SeqSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions.adapters.checkpointer.records import Record
    from langchain_sessions.codec.messages import MessageCodec

_fields = attrgetter("__dict__")
_extras = attrgetter("__pydantic_extra__")
_PER_MESSAGE = 1_500
_RECORDS = 64
_EMPTY: dict[str, Any] = {}
_SCALARS = frozenset({str, int, float, bool, type(None), bytes})


def snapshot(value: Any) -> Any:
    """A copy of a value that shares what cannot change."""
    kind = type(value)
    if kind is dict:
        # Scalars are not worth a call: this runs for each field of each message that is loaded.
        return {key: item if type(item) in _SCALARS else snapshot(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _SCALARS else snapshot(item) for item in value]
    if kind in _SCALARS:
        return value
    if kind is tuple:
        return tuple(snapshot(item) for item in value)
    return copy.deepcopy(value)


def clone_message(message: BaseMessage) -> BaseMessage:
    """A copy of a message that nobody else holds. Each field is read once."""
    kind = type(message)
    clone = kind.__new__(kind)
    object.__setattr__(clone, "__dict__", snapshot(dict(message.__dict__)))
    object.__setattr__(clone, "__pydantic_fields_set__", set(message.__pydantic_fields_set__))
    object.__setattr__(clone, "__pydantic_extra__", snapshot(message.__pydantic_extra__ or {}))
    object.__setattr__(clone, "__pydantic_private__", None)
    return clone


class ThreadCache:
    """What is known of one session's events. Keyed by a session key that is never used again."""

    def __init__(self, skey: int, session_id: str, codec: MessageCodec) -> None:
        """Know nothing yet."""
        self.skey = skey
        self.session_id = session_id
        self.rows: dict[int, EventRow] = {}
        self.records: OrderedDict[tuple[int, str], Record] = OrderedDict()
        self.starts: dict[tuple[int, str], Any] = {}
        self.named: set[int] = set()
        self.shapes: dict[int, bytes] = {}
        self._codec = codec
        self._objects: dict[int, BaseMessage] = {}
        self._fields: dict[int, dict[str, Any]] = {}
        self._extra: dict[int, dict[str, Any]] = {}
        self._bases: dict[int, dict[str, Any]] = {}
        self._types: dict[int, type] = {}
        self._idents: dict[str, list[int]] = {}
        self._bytes = 0

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        return self._bytes + len(self.rows) * _PER_MESSAGE

    def add(self, rows: Iterable[EventRow]) -> None:
        """Take stored events in."""
        known, idents = self.rows, self._idents
        for row in rows:
            seq = row.seq
            if seq in known:
                continue
            self._build(row)
            known[seq] = row
            self._bytes += len(row.text or "") + len(row.body or "")
            if not row.flags & NO_MESSAGE_ID:
                idents.setdefault(row.ident, []).append(seq)

    def _build(self, row: EventRow) -> BaseMessage:
        message = self._codec.decode(self.session_id, row)
        seq = row.seq
        fields = message.__dict__
        if row.body is None:
            # Messages of one class without a body differ in two fields; what else a snapshot holds is shared.
            base = self._bases.get(row.kind)
            if base is None:
                base = self._bases[row.kind] = snapshot(fields)
            self._fields[seq] = {**base, "content": fields["content"], "id": fields["id"]}
        else:
            self._fields[seq] = snapshot(fields)
            if message.__pydantic_extra__:
                self._extra[seq] = snapshot(message.__pydantic_extra__)
        self._types[seq] = type(message)
        self._objects[seq] = message
        return message

    def serve(self, seqs: Sequence[int], checked: set[int] | None = None) -> list[BaseMessage]:
        """The messages at some positions, as they were stored.

        Args:
            seqs: The positions.
            checked: Those that were checked a moment ago and reached nobody since; the others are added.
        """
        if checked is not None:
            left = [seq for seq in seqs if seq not in checked]
            self.serve(left)
            checked.update(left)
            return [*map(self._objects.__getitem__, seqs)]
        found = [*map(self._objects.__getitem__, seqs)]
        if [*map(_fields, found)] == [*map(self._fields.__getitem__, seqs)] and self._same_extras(found, seqs):
            return found
        return [
            message if self._holds(seq, message) else self._build(self.rows[seq])
            for seq, message in zip(seqs, found, strict=True)
        ]

    def _holds(self, seq: int, message: BaseMessage) -> bool:
        return (
            type(message) is self._types[seq]
            and message.__dict__ == self._fields[seq]
            and (message.__pydantic_extra__ or {}) == self._extra.get(seq, _EMPTY)
        )

    def positions(self, messages: Sequence[BaseMessage], before: Sequence[int]) -> tuple[int, list[int | None]]:
        """Where the messages of a list are stored, given the positions of the list that it came from.

        Unchanged beginnings are recognised at once; behind them each message is looked up by its id, and one
        without an id among those of the earlier list that were not recognised yet.

        Returns:
            How many at the beginning are the same, and the positions of the others; None for a new one.
        """
        count = self._same_beginning(messages, before)
        found: list[int | None] = []
        left = [seq for seq in before[count:] if self.rows[seq].flags & NO_MESSAGE_ID]
        for message in messages[count:]:
            message_id = message.id
            candidates = left if message_id is None else reversed(self._idents.get(str(message_id), ()))
            seq = next((seq for seq in candidates if self._holds(seq, message)), None)
            if seq is not None and message_id is None:
                left.remove(seq)
            found.append(seq)
        return count, found

    def _same_extras(self, messages: Sequence[BaseMessage], seqs: Sequence[int]) -> bool:
        """Whether fields that the classes do not have are the same; nearly no message has any."""
        if not self._extra:
            return not any(map(_extras, messages))
        wanted = [self._extra.get(seq, _EMPTY) for seq in seqs]
        return [extra or _EMPTY for extra in map(_extras, messages)] == wanted

    def _same_beginning(self, messages: Sequence[BaseMessage], before: Sequence[int]) -> int:
        """How many messages at the beginning are the same."""
        count = min(len(messages), len(before))
        seqs, some = before[:count], messages[:count]
        if (
            [*map(type, some)] == [*map(self._types.__getitem__, seqs)]
            and [*map(_fields, some)] == [*map(self._fields.__getitem__, seqs)]
            and self._same_extras(some, seqs)
        ):
            return count
        for at, (seq, message) in enumerate(zip(seqs, some, strict=True)):
            if not self._holds(seq, message):
                return at
        return count

    def position(self, message: BaseMessage) -> int | None:
        """Where a message with an id is stored; None where it is not known."""
        message_id = message.id
        if message_id is None:
            return None
        seqs = reversed(self._idents.get(str(message_id), ()))
        return next((seq for seq in seqs if self._holds(seq, message)), None)

    def keep(self, record: Record) -> None:
        """Remember a checkpoint, since the next one will come from it."""
        self.records[record.ns, record.cid] = record
        self.records.move_to_end((record.ns, record.cid))
        while len(self.records) > _RECORDS:
            gone, _ = self.records.popitem(last=False)
            self.starts.pop(gone, None)


class MessageCache:
    """The threads that were used lately, bounded by their size."""

    def __init__(self, codec: MessageCodec, limit: int) -> None:
        """Hold about `limit` bytes."""
        self._codec = codec
        self._limit = limit
        self._lock = threading.Lock()
        self._threads: OrderedDict[int, ThreadCache] = OrderedDict()
        self._keys: dict[tuple[str, str], int] = {}

    def thread(self, skey: int, app: str, session_id: str) -> ThreadCache:
        """What is known of a session."""
        with self._lock:
            found = self._threads.get(skey)
            if found is None:
                found = self._threads[skey] = ThreadCache(skey, session_id, self._codec)
            self._threads.move_to_end(skey)
            self._keys[app, session_id] = skey
            while len(self._threads) > 1 and sum(thread.size for thread in self._threads.values()) > self._limit:
                _, gone = self._threads.popitem(last=False)
                self._keys.pop((app, gone.session_id), None)
            return found

    def known(self, app: str, session_id: str) -> ThreadCache | None:
        """What is known of the session that had this id when it was last seen. It may be gone."""
        with self._lock:
            skey = self._keys.get((app, session_id))
            return None if skey is None else self._threads.get(skey)

    def forget(self, app: str, session_id: str) -> None:
        """Forget a session that turned out to be gone."""
        with self._lock:
            skey = self._keys.pop((app, session_id), None)
            if skey is not None:
                self._threads.pop(skey, None)


class Needs:
    """Which events one reader lacks. It holds on to what is known, whatever the cache lets go meanwhile."""

    def __init__(self, cache: MessageCache) -> None:
        """Ask a cache."""
        self.threads: dict[int, ThreadCache] = {}
        self.checked: dict[int, set[int]] = {}
        self._cache = cache

    def __call__(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """Those of some events that are not known."""
        rows = self._thread(session).rows
        return SeqSet.of(set[int]().union(*(range(low, high + 1) for low, high in seqs.runs)).difference(rows))

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """The names behind a digest, where they are known."""
        return self._thread(session).shapes.get(shape)

    def _thread(self, session: SessionRow) -> ThreadCache:
        thread = self.threads.get(session.skey)
        if thread is None:
            thread = self.threads[session.skey] = self._cache.thread(session.skey, session.app, session.id)
        return thread
