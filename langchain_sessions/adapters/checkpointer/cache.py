"""Messages of threads as objects: ours, never the caller's, and checked each time they are handed out.

An object that was served may be changed in place by whoever got it. So each has a snapshot of its fields; a list is
compared with its snapshots in C (0.2 µs per message) before it is served, and what changed is built again.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions.rows import NO_MESSAGE_ID, EventRow, SessionRow
from langchain_sessions.runs import NO_SEQS, Run, SeqSet, expand_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions.adapters.checkpointer.records import Record
    from langchain_sessions.codec.messages import MessageCodec
    from langchain_sessions.stores.threads import MessageRow

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


class _View(NamedTuple):
    """The messages of a list with their snapshots, side by side."""

    runs: list[Run]
    objects: list[BaseMessage]
    fields: list[dict[str, Any]]


def _alike(messages: Sequence[BaseMessage], others: Sequence[BaseMessage]) -> bool:
    """Whether two lists hold messages of the same classes."""
    return [*map(type, messages)] == [*map(type, others)]


class ThreadCache:
    """What is known of one session's events. Keyed by a session key that is never used again."""

    def __init__(self, skey: int, session_id: str, codec: MessageCodec) -> None:
        """Know nothing yet."""
        self.skey = skey
        self.session_id = session_id
        self.rows: dict[int, EventRow | MessageRow] = {}
        self.records: OrderedDict[tuple[int, str], Record] = OrderedDict()
        self.starts: dict[tuple[int, str], Any] = {}
        self.named: set[int] = set()
        self.shapes: dict[int, bytes] = {}
        self._codec = codec
        self._objects: dict[int, BaseMessage] = {}
        self._fields: dict[int, dict[str, Any]] = {}
        self._extra: dict[int, dict[str, Any]] = {}
        self._bases: dict[int, dict[str, Any]] = {}
        self._newest: dict[str, int] = {}
        self._older: dict[str, list[int]] = {}
        self._bytes = 0
        self._last: _View | None = None

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        return self._bytes + len(self.rows) * _PER_MESSAGE

    def add(self, rows: Iterable[EventRow | MessageRow]) -> None:
        """Take stored events in."""
        known, newest = self.rows, self._newest
        size = 0
        for row in rows:
            seq = row.seq
            if seq in known:
                continue
            if row.body is None:
                self._build_plain(row)
                size += len(row.text or "")
            else:
                self._build(row)
                size += len(row.text or "") + len(row.body)
            known[seq] = row
            if not row.flags & NO_MESSAGE_ID:
                ident = row.ident
                if ident in newest:
                    self._older.setdefault(ident, []).append(newest[ident])
                newest[ident] = seq
        self._bytes += size

    def _stored_as(self, message_id: str) -> Iterator[int]:
        """Where the revisions of a message are stored, those that were met last first."""
        seq = self._newest.get(message_id)
        if seq is not None:
            yield seq
            yield from reversed(self._older.get(message_id, ()))

    def lacks(self, seqs: SeqSet) -> SeqSet:
        """Those of some positions that are not known."""
        if not self.rows:
            return seqs
        last = self._last
        if last is not None and len(seqs.runs) == 1:
            first, end = seqs.runs[0]
            if any(low <= first and end <= high for low, high in last.runs):
                return NO_SEQS
        return SeqSet.of(set[int]().union(*(range(low, high + 1) for low, high in seqs.runs)).difference(self.rows))

    def _build(self, row: EventRow | MessageRow) -> BaseMessage:
        if row.body is None:
            return self._build_plain(row)
        seq = row.seq
        self._objects[seq] = message = self._codec.decode(self.session_id, row)
        self._fields[seq] = snapshot(message.__dict__)
        if message.__pydantic_extra__:
            self._extra[seq] = snapshot(message.__pydantic_extra__)
        return message

    def _build_plain(self, row: EventRow | MessageRow) -> BaseMessage:
        """Messages of one class without a body differ in two fields; what else a snapshot holds is shared."""
        kind, seq = row.kind, row.seq
        self._objects[seq] = message = self._codec.decode(self.session_id, row)
        fields = message.__dict__
        base = self._bases.get(kind)
        if base is None:
            base = self._bases[kind] = snapshot(fields)
        self._fields[seq] = kept = base.copy()
        kept["content"] = fields["content"]
        kept["id"] = fields["id"]
        return message

    def _view(self, runs: list[Run]) -> _View:
        """The messages of a list; mostly it is the last one that was looked at, or goes on from there."""
        last = self._last
        if last is not None and last.runs == runs:
            return last
        objects: list[BaseMessage] = []
        fields: list[dict[str, Any]] = []
        left = runs
        if (
            last is not None
            and last.runs
            and len(runs) >= len(last.runs)
            and runs[: len(last.runs) - 1] == last.runs[:-1]
        ):
            at = len(last.runs) - 1
            (first, end), (first_now, end_now) = last.runs[at], runs[at]
            if first == first_now and end <= end_now:
                objects, fields = last.objects.copy(), last.fields.copy()
                left = [(end + 1, end_now), *runs[at + 1 :]]
        seqs = expand_runs(left)
        objects += map(self._objects.__getitem__, seqs)
        fields += map(self._fields.__getitem__, seqs)
        self._last = view = _View(runs, objects, fields)
        return view

    def serve(self, runs: list[Run]) -> list[BaseMessage]:
        """The messages of a list, as they were stored."""
        view = self._view(runs)
        if self._same(view.objects, view):
            return view.objects.copy()
        self._last = None
        return [
            message if self._holds(seq, message) else self._build(self.rows[seq])
            for seq, message in zip(expand_runs(runs), view.objects, strict=True)
        ]

    def share(self, runs: list[Run], checked: SeqSet) -> list[BaseMessage]:
        """`serve`, without a look at those that were checked a moment ago and reached nobody since."""
        left = SeqSet(tuple(sorted(runs))) | NO_SEQS if runs else NO_SEQS
        left = left - checked
        if left:
            self.serve(list(left.runs))
        return [*map(self._objects.__getitem__, expand_runs(runs))]

    def _same(self, messages: list[BaseMessage], view: _View) -> bool:
        """Whether messages are as those of a view were stored."""
        return (
            (messages is view.objects or all(map(is_, messages, view.objects)) or _alike(messages, view.objects))
            and [*map(_fields, messages)] == view.fields
            and self._same_extras(messages, view.runs)
        )

    def _same_extras(self, messages: Sequence[BaseMessage], runs: list[Run]) -> bool:
        """Whether fields that the classes do not have are the same; nearly no message has any."""
        if not self._extra:
            return not any(map(_extras, messages))
        wanted = [self._extra.get(seq, _EMPTY) for seq in expand_runs(runs)]
        return [extra or _EMPTY for extra in map(_extras, messages)] == wanted

    def _holds(self, seq: int, message: BaseMessage) -> bool:
        return (
            type(message) is type(self._objects[seq])
            and message.__dict__ == self._fields[seq]
            and (message.__pydantic_extra__ or {}) == self._extra.get(seq, _EMPTY)
        )

    def positions(self, messages: list[BaseMessage], before: list[Run]) -> tuple[int, list[int | None]]:
        """Where the messages of a list are stored, given the positions of the list that it came from.

        Unchanged beginnings are recognised at once; behind them each message is looked up by its id, and one
        without an id among those of the earlier list that were not recognised yet.

        Returns:
            How many at the beginning are the same, and the positions of the others; None for a new one.
        """
        view = self._view(before)
        size = len(view.objects)
        if len(messages) >= size and self._same(messages[:size], view):
            count, left = size, list[int]()
        else:
            seqs = expand_runs(before)
            count = self._same_beginning(messages, seqs)
            left = [seq for seq in seqs[count:] if self.rows[seq].flags & NO_MESSAGE_ID]
        found: list[int | None] = []
        for message in messages[count:]:
            message_id = message.id
            candidates = left if message_id is None else self._stored_as(str(message_id))
            seq = next((seq for seq in candidates if self._holds(seq, message)), None)
            if seq is not None and message_id is None:
                left.remove(seq)
            found.append(seq)
        return count, found

    def _same_beginning(self, messages: Sequence[BaseMessage], seqs: Sequence[int]) -> int:
        """How many messages at the beginning are the same."""
        count = 0
        for seq, message in zip(seqs, messages, strict=False):
            if not self._holds(seq, message):
                break
            count += 1
        return count

    def position(self, message: BaseMessage) -> int | None:
        """Where a message with an id is stored; None where it is not known."""
        message_id = message.id
        if message_id is None:
            return None
        seqs = self._stored_as(str(message_id))
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
        self._checked: dict[int, SeqSet] = {}
        self._cache = cache

    def __call__(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """Those of some events that are not known."""
        return self._thread(session).lacks(seqs)

    def serve(self, thread: ThreadCache, runs: list[Run]) -> list[BaseMessage]:
        """The messages of a list. What one reader is told at once is checked once."""
        checked = self._checked.get(thread.skey, NO_SEQS)
        self._checked[thread.skey] = checked | SeqSet(tuple(sorted(runs)))
        return thread.share(runs, checked) if checked else thread.serve(runs)

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """The names behind a digest, where they are known."""
        return self._thread(session).shapes.get(shape)

    def _thread(self, session: SessionRow) -> ThreadCache:
        thread = self.threads.get(session.skey)
        if thread is None:
            thread = self.threads[session.skey] = self._cache.thread(session.skey, session.app, session.id)
        return thread
