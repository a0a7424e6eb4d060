"""Messages of threads as objects: ours, never the caller's, and checked each time they are handed out.

An object that was served may be changed in place by whoever got it. So a list is asked whether it is untouched, in C,
before it is served again, and what changed is built again. Where nobody knows what messages held they are compared
with snapshots of their fields, which are made when they are first needed.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import nullcontext
from itertools import compress, islice, repeat
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any

from langchain_sessions._core.checkpoints import NAMES_WITHIN, MessageParts, MessageRow, blanked_at
from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._core.collecting import resting_collector
from langchain_sessions._core.locks import new_lock
from langchain_sessions._core.ranges import NO_SEQS, SeqRange, SeqSet, expand_ranges, fold_ranges, without_first
from langchain_sessions._core.rows import EDIT, NO_MESSAGE_ID, EventRow, SessionRow
from langchain_sessions._threads.given import Recognised
from langchain_sessions._threads.split import KNOWN, held, is_message_list, size_of
from langchain_sessions._threads.trees import TreeCache
from langchain_sessions._threads.untouched import Untouched, View, found_untouched, untouched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.codec.any_message import MessageCodec
    from langchain_sessions._core.piece_rows import Seal
    from langchain_sessions._threads.record import Record

_fields = attrgetter("__dict__")
_extras = attrgetter("__pydantic_extra__")
_parts = attrgetter(*MessageRow._fields)
_PER_MESSAGE = 1_500
_RECORDS = 64
_FEW = 16
"""So many messages are compared with their snapshots: of more it is found out what they hold, to ask them at once."""
_GROWING = 8
"""Threads that may have grown since they were last weighed; to weigh all would make a call cost what others hold."""
_EMPTY: dict[str, Any] = {}
_MANY = 200
"""From so many messages on the collector rests while they are made: before, it would hardly have looked."""


class ThreadCache:
    """What is known of one session's events. Keyed by a session key that is never used again."""

    def __init__(
        self, skey: int, session_id: str, codec: MessageCodec, as_of: int, molds: dict[int, dict[str, Any]]
    ) -> None:
        """Know nothing yet.

        `as_of` is the record that last overwrote texts of the session: what is known from before is outdated. `molds`
        are what messages without a body look like, by their kinds: all threads of a codec share them.
        """
        self.skey = skey
        self.as_of = as_of
        self.session_id = session_id
        self.rows: dict[int, EventRow | MessageParts] = {}
        """What was read of each."""
        self.records: OrderedDict[tuple[int, str], Record] = OrderedDict()
        self.starts: dict[tuple[int, str], Any] = {}
        self.named: set[int] = set()
        self.shapes: dict[int, bytes] = {}
        self.trees = TreeCache()
        self.seal: Seal | None = None
        self.is_rewound = False
        """Whether rewinds hide some of its events, so that an earlier revision of a message may be the one in force."""
        self._codec = codec
        self._objects: dict[int, BaseMessage] = {}
        self._snapshots: dict[int, dict[str, Any]] = {}
        self._extra_snapshots: dict[int, dict[str, Any]] = {}
        self._is_plain = True
        self._is_fresh = True
        """Nobody got an object of it yet."""
        self._molds = molds
        self._newest: dict[str, int] = {}
        self._older: dict[str, list[int]] = {}
        self._revised: set[str] = set()
        """Messages that were edited, of which all revisions are known up to the newest one that is."""
        self.unnamed: set[str] = set()  # what messages without an id are stored by: somebody may name one of them so
        self._by_size: dict[str, tuple[int, dict[int, list[int]]]] = {}
        """How many of the older revisions of a message were sorted by the length of their text, and those."""
        self._known = NO_SEQS
        self._bytes = 0
        self._last: View | None = None
        self._new: tuple[Sequence[int], Untouched] | None = None
        """Many messages that were made at once, and where they are stored."""

    @property
    def size(self) -> int:
        """Roughly how many bytes it takes."""
        return self._bytes + self.trees.size + len(self.rows) * _PER_MESSAGE

    def add(self, rows: Iterable[EventRow | MessageParts], revised: Iterable[str] = ()) -> None:
        """Take stored events in, and of which messages no revision up to the newest is missing now."""
        given, known = {row[0]: row for row in rows}, self.rows
        new = {seq: row for seq, row in given.items() if seq not in known} if known else given
        if new:
            with resting_collector() if len(new) >= _MANY else nullcontext():
                self._make(new)
        # Of two threads that do so at once one may have overwritten what the other wrote.
        self._known = self._known | SeqSet.of(given)
        self._revised.update(revised)

    def _make(self, new: dict[int, EventRow | MessageParts]) -> None:
        rows: list[Any] = [*new.values()]
        if EventRow in set(map(type, rows)):
            rows = [_parts(row) if type(row) is EventRow else row for row in rows]
        seqs, idents, kinds, flags, texts, bodies = zip(*rows, strict=True)
        none = repeat(None)
        fields: list[dict[str, Any]] = []
        extras: list[dict[str, Any]] = []
        each = zip(none, idents, kinds, flags, none, texts, bodies, strict=False)
        made, left = self._codec.cast(each, (fields, extras))
        for at in left:
            made[at] = self._build(MessageRow(*rows[at]))
        snapshots, told = self._snapshots, [*compress(range(len(rows)), map(is_not, bodies, none))]
        for at in told:
            # A snapshot of a text and an id is made when it is first needed.
            snapshots[seqs[at]] = snapshots.get(seqs[at]) or held(vars(made[at]))
        if len(made) > _FEW and not left:
            # Nobody got any of them yet.
            found = untouched(made, fields, extras, {at: snapshots[seqs[at]] for at in told})
            self._new = None if found is None else (seqs, found)
        self._objects.update(zip(seqs, made, strict=True))
        self._bytes += sum(map(len, filter(None, texts))) + sum(map(len, filter(None, bodies)))
        # In this order, since other threads look: what has a name or counts as known is there whole.
        self.rows.update(new)
        self._name(seqs, idents, flags)

    def _name(self, seqs: Sequence[int], idents: Sequence[str], flags: Sequence[int]) -> None:
        """Remember where messages with ids are stored."""
        newest, each = self._newest, zip(seqs, idents, flags, strict=True)
        named = {ident: seq for seq, ident, flag in each if not flag & NO_MESSAGE_ID}
        if len(named) == len(seqs) and (not newest or newest.keys().isdisjoint(named)):
            newest.update(named)
            return
        for seq, ident, flag in zip(seqs, idents, flags, strict=True):
            if flag & NO_MESSAGE_ID:
                self.unnamed.add(ident)
                continue
            if ident in newest:
                self._older.setdefault(ident, []).append(newest[ident])
                self._revised.discard(ident)  # one between them may not be known; who knows says so
            newest[ident] = seq

    def newest(self, ident: str) -> int | None:
        """Where the newest revision that is known of a message is stored; None where none is, or some went back."""
        seq = None if self.is_rewound else self._newest.get(ident)
        return None if seq is None else max((seq, *self._older.get(ident, ())))

    def known_since(self, ident: str) -> int | None:
        """Behind which position revisions of a message may not be known; None where some before it may not be."""
        seq = self.newest(ident)
        if seq is None or ident in self._revised or seq <= self.known_to or not self.row(seq).flags & EDIT:
            return seq
        return None  # what was read of the thread is the one that a checkpoint lists, and no earlier wording

    @property
    def known_to(self) -> int:
        """Up to which position every event is known; 0 where an earlier revision than the newest may be in force."""
        first, last = (self._known.ranges or ((0, 0),))[0]
        return last if first == 1 and not self.is_rewound else 0

    def row(self, seq: int) -> EventRow | MessageRow:
        """What is stored of a message."""
        return read if isinstance(read := self.rows[seq], (EventRow, MessageRow)) else MessageRow(*read)

    def lacks(self, seqs: SeqSet) -> SeqSet:
        """Those of some positions that are not known."""
        return seqs - self._known

    def _build(self, row: EventRow | MessageRow) -> BaseMessage:
        seq = row.seq
        self._objects[seq] = message = self._codec.decode(self.session_id, row)
        self._snapshots[seq] = held(vars(message))
        extra = message.__pydantic_extra__
        if extra:
            self._extra_snapshots[seq] = held(extra)
        if extra or extra is None or type(message) not in KNOWN:
            self._is_plain = False
        return message

    def _view(self, runs: list[SeqRange]) -> View:
        """The messages of a list; mostly it is the last one that was looked at, or goes on from there."""
        last = self._last
        if last is not None and last.runs == runs:
            if not last.is_known:
                self._last = last = last._replace(is_known=True)
            return last
        objects: list[BaseMessage] = []
        known, left = None, runs
        if (
            last is not None
            and last.runs
            and len(runs) >= len(last.runs)
            and runs[: len(last.runs) - 1] == last.runs[:-1]
        ):
            at = len(last.runs) - 1
            (first, end), (first_now, end_now) = last.runs[at], runs[at]
            if first == first_now and end <= end_now:
                objects, known = [*last.objects], last.untouched
                left = [(end + 1, end_now), *runs[at + 1 :]]
        is_known, seqs = bool(objects), expand_ranges(left)
        objects += map(self._objects.__getitem__, seqs)
        found = None if is_known else self._new  # another thread may take it
        if found is not None:
            stored, new = found
            if [*stored] == seqs[: len(stored)] and new.begins(objects):
                known, self._new = new, None
        self._last = view = View(runs, objects, known, is_known)
        return view

    def _snapshot(self, seq: int) -> dict[str, Any]:
        """The fields of a message as they are stored."""
        kept = self._snapshots.get(seq)
        return self._cast_snapshots([seq])[0] if kept is None else kept

    def _cast_snapshots(self, seqs: Sequence[int]) -> list[dict[str, Any]]:
        """Snapshots; those that are missing are of messages that say no more than their text and their id."""
        snapshots, molds = self._snapshots, self._molds
        for seq in seqs:
            if seq not in snapshots:
                row: Any = self.rows[seq]
                _, ident, kind, flags, text, _ = _parts(row) if type(row) is EventRow else row
                if kind not in molds:
                    molds[kind] = held(vars(self._codec.decode(self.session_id, self.row(seq))))
                snapshots[seq] = fields = molds[kind].copy()
                fields["content"] = text
                fields["id"] = None if flags & NO_MESSAGE_ID else ident
        return [*map(snapshots.__getitem__, seqs)]

    def serve(self, runs: list[SeqRange]) -> list[BaseMessage]:
        """The messages of a list, as they were stored."""
        view = self._view(runs)
        is_first, self._is_fresh = self._is_fresh, False
        if is_first or self._begins(view.objects, view):
            if not is_first:
                self._get_to_know(view)
            return view.objects.copy()
        self._last = None
        return [
            message if self._holds(seq, message) else self._build(self.row(seq))
            for seq, message in zip(expand_ranges(runs), view.objects, strict=True)
        ]

    def share(self, runs: list[SeqRange], checked: SeqSet) -> list[BaseMessage]:
        """`serve`, without a look at those that were checked a moment ago and reached nobody since."""
        left = SeqSet.of_runs(runs)
        left = left - checked
        if left:
            self.serve(list(left.ranges))
        return [*map(self._objects.__getitem__, expand_ranges(runs))]

    def _get_to_know(self, view: View) -> None:
        """Find out what the messages of a view hold, of which that is not known: it is about to be asked again."""
        known = view.untouched
        count = 0 if known is None else len(known.objects)
        if self._is_plain and view.is_known and len(view.objects) - count > _FEW:
            seqs = expand_ranges(without_first(view.runs, count))
            more = found_untouched(view.objects[count:], self._cast_snapshots(seqs))
            if more is not None and self._last is view:
                self._last = view._replace(untouched=more if known is None else known.and_more(more))

    def _begins(self, messages: list[BaseMessage], view: View) -> bool:
        """Whether a list begins with the messages of a view, as they were stored."""
        objects, known, count = view.objects, view.untouched, 0
        # The last ones may be objects of whoever made them; those before were served by us.
        if len(messages) < len(objects):
            return False
        if known is not None and (messages is objects or known.begins(messages)):
            if not known.stands():
                return False
            count = len(known.objects)
        rest = messages[count : len(objects)]
        return not rest or self._are_alike(rest, expand_ranges(without_first(view.runs, count)))

    def _are_alike(self, messages: list[BaseMessage], seqs: list[int]) -> bool:
        """Whether messages have the classes and the fields that were stored."""
        if not self._holds(seqs[0], messages[0]):  # often the first one differs, if any
            return False
        kinds = [type(self._objects[seq]) for seq in seqs]
        if [*map(type, messages)] != kinds or not equal([*map(_fields, messages)], self._cast_snapshots(seqs)):
            return False
        extras, stored = [*map(_extras, messages)], self._extra_snapshots
        if not stored:
            return not any(extras)
        return equal([extra or _EMPTY for extra in extras], [stored.get(seq, _EMPTY) for seq in seqs])

    def _holds(self, seq: int, message: BaseMessage) -> bool:
        if type(message) is not type(self._objects[seq]) or not equal(message.__dict__, self._snapshot(seq)):
            return False
        extra, stored = message.__pydantic_extra__, self._extra_snapshots
        # Of most threads no message has fields that its class does not know.
        return (not extra and not stored) or equal(extra or _EMPTY, stored.get(seq, _EMPTY))

    def recognise(self, messages: list[Any], before: list[SeqRange]) -> Recognised | None:
        """Where the messages of a list are stored, given the positions of the list that it came from.

        Unchanged beginnings are recognised at once; behind them each message is looked up by its id, and one
        without an id among those of the earlier list that were not recognised yet.

        Returns:
            None where the list holds something else than messages.
        """
        view = self._view(before)
        shared, count, left = before, len(view.objects), list[int]()
        if not self._begins(messages, view):
            seqs = expand_ranges(before)
            count = self._same_beginning(messages, seqs)
            shared = list(fold_ranges(seqs[:count]))
            left = [seq for seq in seqs[count:] if self.row(seq).flags & NO_MESSAGE_ID]
        others = messages[count:]
        if not is_message_list(others):
            return None
        found: list[int | None] = []
        for message in others:
            message_id = message.id
            if message_id is not None:
                seq = self.position(message)
            else:
                seq = next((seq for seq in left if self._holds(seq, message)), None)
                if seq is not None:
                    left.remove(seq)
            found.append(seq)
        return Recognised(shared, found)

    def _same_beginning(self, messages: Sequence[BaseMessage], seqs: Sequence[int]) -> int:
        """How many messages at the beginning are the same."""
        other = (at for at, pair in enumerate(zip(seqs, messages, strict=False)) if not self._holds(*pair))
        return next(other, min(len(seqs), len(messages)))

    def position(self, message: BaseMessage) -> int | None:
        """Where a message with an id is stored; None where it is not known."""
        message_id = message.id
        seq = None if message_id is None else self._newest.get(str(message_id))
        # Nearly always it is the revision that was met last, as it was stored: asked for each message of each list.
        if seq is None or self._holds(seq, message):
            return seq
        older = self._older_of_size(str(message_id), size_of(message.content))
        return next((seq for seq in older if self._holds(seq, message)), None)

    def _older_of_size(self, ident: str, size: int) -> Iterable[int]:
        """The older revisions with a text of a length, those that were met last first: there may be a thousand."""
        older = self._older.get(ident, [])
        count, by_size = self._by_size.get(ident, (0, {}))
        for seq in older[count:]:
            by_size.setdefault(size_of(self._snapshot(seq)["content"]), []).append(seq)
        if older:
            self._by_size[ident] = (len(older), by_size)
        return reversed(by_size.get(size, ()))

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
        self._lock = new_lock()
        self._threads: OrderedDict[int, ThreadCache] = OrderedDict()
        self._keys: dict[tuple[str, str], int] = {}
        self._molds: dict[int, dict[str, Any]] = {}
        self._sizes: dict[int, int] = {}
        self._held = 0

    def thread(self, session: SessionRow) -> ThreadCache:
        """What is known of a session."""
        skey, name, as_of = session.skey, (session.app, session.id), blanked_at(session)
        with self._lock:
            found = self._threads.get(skey)
            if found is None or found.as_of != as_of:
                found = self._threads[skey] = ThreadCache(skey, session.id, self._codec, as_of, self._molds)
            # Asked for once more, what others hold was weighed; else those may have grown that were asked for lately.
            count = 1 if next(reversed(self._threads)) == skey and name in self._keys else _GROWING
            self._threads.move_to_end(skey)
            self._keys[name] = skey
            for key in islice(reversed(self._threads), count):
                size = self._threads[key].size
                self._held += size - self._sizes.get(key, 0)
                self._sizes[key] = size
            while len(self._threads) > 1 and self._held > self._limit:
                gone_key, gone = self._threads.popitem(last=False)
                self._held -= self._sizes.pop(gone_key, 0)
                self._keys.pop((session.app, gone.session_id), None)
            return found

    def known(self, app: str, session_id: str) -> ThreadCache | None:
        """What is known of the session that had this id when it was last seen. It may be gone."""
        # Without the lock: what is forgotten meanwhile was known a moment ago.
        skey = self._keys.get((app, session_id))
        return None if skey is None else self._threads.get(skey)

    def forget(self, app: str, session_id: str) -> None:
        """Forget a session that turned out to be gone."""
        with self._lock:
            skey = self._keys.pop((app, session_id), None)
            if skey is not None:
                self._threads.pop(skey, None)
                self._held -= self._sizes.pop(skey, 0)


class CacheReader:
    """What one call reads with the help of the cache. It holds on to what is known, whatever the cache lets go."""

    def __init__(self, cache: MessageCache) -> None:
        """Ask a cache."""
        self.threads: dict[int, ThreadCache] = {}
        self._checked: dict[int, SeqSet] = {}
        self._cache = cache

    def lacks(self, session: SessionRow, seqs: SeqSet) -> SeqSet:
        """Those of some events that are not known."""
        return self._thread(session).lacks(seqs)

    def serve(self, thread: ThreadCache, runs: list[SeqRange]) -> list[BaseMessage]:
        """The messages of a list. What one reader is told at once is checked once."""
        checked = self._checked.get(thread.skey, NO_SEQS)
        self._checked[thread.skey] = checked | SeqSet.of_runs(runs)
        return thread.share(runs, checked) if checked else thread.serve(runs)

    def shape(self, session: SessionRow, shape: int) -> bytes | None:
        """The names behind a digest, where they are known."""
        return b"" if shape == NAMES_WITHIN else self._thread(session).shapes.get(shape)

    def pieces(self, session: SessionRow, digests: Collection[bytes]) -> Collection[bytes]:
        """The names of the pieces of those values that are known."""
        return self._thread(session).trees.pieces(digests) if digests else ()

    def _thread(self, session: SessionRow) -> ThreadCache:
        thread = self.threads.get(session.skey)
        if thread is None:
            thread = self.threads[session.skey] = self._cache.thread(session)
        return thread
