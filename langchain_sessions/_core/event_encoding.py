"""Events as rows and back: the border between what callers hold and what stores keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.codec.any_message import MessageCodec, digest, unreadable
from langchain_sessions._core.codec.text import searchable_text
from langchain_sessions._core.codec.values import as_dict, dump_exact
from langchain_sessions._core.edge import (
    UNREADABLE,
    built,
    check_aware,
    check_branch,
    check_id,
    check_optional_id,
    from_micros,
    new_id,
    require,
    to_micros,
)
from langchain_sessions._core.message_types import CODES, RECORDS
from langchain_sessions._core.rows import EventRow
from langchain_sessions._core.state import dump_delta
from langchain_sessions.errors import CorruptRowError, InvalidInputError
from langchain_sessions.events import EventKind, NewEvent, SessionEvent

if TYPE_CHECKING:
    MessageTest = Callable[[EventRow, BaseMessage], bool]
    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._tokens.base import TokenCounter

_NO_KIND = -1
_tuple = tuple.__new__
_APART = ("event_id", "position", "branch", "author", "invocation_id", "extra", "rev")
_NOTHING_APART = (*(None,) * (len(_APART) - 1), 0)
_apart: Callable[[EventRow], tuple[object, ...]] = itemgetter(*map(EventRow._fields.index, _APART))
_shown: Callable[[EventRow], tuple[int, int, int]] = itemgetter(
    *map(EventRow._fields.index, ("kind", "flags", "tokens"))
)
_TOLD = r.SYNTHETIC | r.INTERRUPTED | r.ROOTED


class EventEncoder:
    """Makes rows of new events and events of stored rows."""

    def __init__(self, codec: MessageCodec, tokens: TokenCounter) -> None:
        """Encode with a codec and count with a counter."""
        self.codec = codec
        self.tokens = tokens

    def row(self, event: NewEvent, now: int, *, ordinal: int = 0, mark: int = 0) -> EventRow:
        """The row of a new event, still without its position.

        Args:
            event: What to append.
            now: The time where the event names none.
            ordinal: Its position within its invocation, from which an id is derived where nothing else names it.
            mark: The status of its invocation that it reports.

        Raises:
            InvalidInputError: A field cannot be stored exactly.
        """
        flags = mark << r.MARK_SHIFT
        if event.synthetic:
            flags |= r.SYNTHETIC
        if event.interrupted:
            flags |= r.INTERRUPTED
        if event.message is None:
            # What only reports how far a run got is a record of its own kind, which lists can leave out.
            is_mark = mark and event.state_delta is None and event.metadata is None
            ident = check_id(event.id, "id") if event.id is not None else new_id()
            kind = k.INVOCATION if is_mark else k.STATE
            row = EventRow(0, ident, 0, None, None, kind, flags, now, 0, *[None] * 8)
        else:
            is_one = isinstance(event.message, BaseMessage)
            require(is_one, "message", "give a LangChain message, such as HumanMessage('hi')")
            row = self.message_row(event.message, now, flags, event, ordinal)
        return row._replace(
            at=now if event.timestamp is None else to_micros(check_aware(event.timestamp, "timestamp")),
            branch=None if event.branch is None else check_branch(event.branch),
            author=check_optional_id(event.author, "author"),
            invocation_id=check_optional_id(event.invocation_id, "invocation_id"),
            delta=dump_delta(event.state_delta) if event.state_delta else None,
            extra=self._extra(event),
        )

    def message_row(
        self,
        message: BaseMessage,
        now: int,
        flags: int = 0,
        event: NewEvent | None = None,
        ordinal: int = 0,
        *,
        delta: str | None = None,
    ) -> EventRow:
        """The row of a bare message: what most appends are, so it does nothing that they do not need."""
        kind, own_flags, ident, text, folded, body = self.codec.encode(message)
        flags |= own_flags
        if kind == k.HUMAN and not flags & r.SYNTHETIC:
            flags |= r.TURN
        event_id: str | None = None
        if event is not None:
            ident, event_id = self._identity(event, ident, (kind, text, body), ordinal)
        elif ident is None:
            ident = new_id()
        tokens = self.tokens.count_message(message)
        no = None  # to unpack a part of it into the tuple would make a list of it first
        row = (0, ident, 0, event_id, no, kind, flags, now, tokens, no, no, no, delta, text, folded, body, no)
        return _tuple(EventRow, row)

    @staticmethod
    def _identity(
        event: NewEvent, message_ident: str | None, body: tuple[int, str | None, str | None], ordinal: int
    ) -> tuple[str, str | None]:
        """What identifies the message, and the id of the append where that differs."""
        if event.id is not None:
            event_id = check_id(event.id, "id")
            return (event_id, None) if message_ident in (None, event_id) else (str(message_ident), event_id)
        if message_ident is not None:
            return message_ident, None
        if event.invocation_id is not None:
            # The body is part of it: a retry of the same run that comes to another answer is not a conflict.
            return digest(event.invocation_id, ordinal, *body), None
        return new_id(), None

    def _extra(self, event: NewEvent) -> str | None:
        document: dict[str, Any] = {}
        if event.metadata:
            document["metadata"] = self.seal(as_dict(event.metadata, "metadata"), "metadata")
        if event.long_running_tool_ids:
            document["long_running"] = [check_id(call, "long_running_tool_ids") for call in event.long_running_tool_ids]
        if event.error_code is not None or event.error_message is not None:
            document["error"] = self.seal([event.error_code, event.error_message], "error_message")
        if event.grounding is not None:
            document["grounding"] = self.seal(as_dict(event.grounding, "grounding"), "grounding")
        return json.dumps(document, separators=(",", ":")) if document else None

    def seal(self, value: Any, field: str) -> Any:
        """A caller's JSON value as it may be stored: encrypted where the codec encrypts."""
        text = dump_exact(value, field)
        return self.codec.seal_text(text) if self.codec.encrypts else json.loads(text)

    def event(self, session_id: str, row: EventRow, view: LogView | None) -> SessionEvent:
        """The event of a row; without a view it is new and live.

        Raises:
            SealedEventError: It was encrypted and the codec has no key for it.
            CorruptRowError: It cannot be read.
        """
        fields = self._fields(session_id, row, view)
        if row.kind < k.FIRST_RECORD:
            fields["message"] = self.codec.decode(session_id, row)
        return built(SessionEvent, fields)

    def appended(self, session_id: str, row: EventRow, view: LogView | None) -> SessionEvent:
        """The event of a row that was appended now; what few callers look at is read when it is first asked for.

        Raises:
            CorruptRowError: It was stored before, and cannot be read.
        """
        if view is None and _apart(row) == _NOTHING_APART:
            kind, flags, tokens = _shown(row)
            if kind < k.FIRST_RECORD and not flags & _TOLD:
                # What differs from its default has to be there from the start.
                return built(SessionEvent, {"tokens": tokens, "_read": (self._told, session_id, row, None)})
        return built(SessionEvent, self._told(session_id, row, view))

    def bare(self, session_id: str, row: EventRow) -> SessionEvent:
        """`appended` of a bare message that was not there before.

        Most callers throw an append's answer away: times, ids and the message are read from the row when asked for.
        """
        return built(SessionEvent, {"tokens": row.tokens, "_read": (self._told, session_id, row, None)})

    def _told(self, session_id: str, row: EventRow, view: LogView | None) -> dict[str, Any]:
        """What a row says of its event, whose message is decoded when it is first asked for."""
        fields = self._fields(session_id, row, view)
        if row.kind < k.FIRST_RECORD:
            fields["_decode"] = partial(self.codec.decode, session_id, row)
        return fields

    def _fields(self, session_id: str, row: EventRow, view: LogView | None) -> dict[str, Any]:
        """What a row says of its event, but for the message."""
        if view is None:
            return self._read(session_id, row)  # it comes from here, not from a store: nothing can have damaged it
        problem = ""
        try:
            fields = self._read(session_id, row)
        except UNREADABLE as error:
            if row.delta is None and row.extra is None and row.is_sound:
                raise  # nothing in it can be unreadable: a mistake of ours
            problem = unreadable(session_id, row.seq, error)
            fields = {}
        if problem:
            # Not within the block: what json raises quotes what was said.
            raise CorruptRowError(problem)
        fields["standing"] = view.standing(row)
        fields["archived_by"] = view.archived_by(row)
        fields["superseded_by"] = view.superseded_by(row)
        return fields

    def _read(self, session_id: str, row: EventRow) -> dict[str, Any]:
        """The fields of an event that have no default, and those that differ from it."""
        fields: dict[str, Any] = {
            # What was neither named otherwise nor edited has the id of its message: nearly everything.
            "id": row.ident if row.event_id is None and not row.flags & r.EDIT else row.id,
            "session_id": session_id,
            "seq": row.seq,
            "position": row.seq if row.position is None else row.position,
            "timestamp": from_micros(row.at),
            "state_delta": as_dict(json.loads(row.delta), "state_delta") if row.delta else {},
            "metadata": {},
            "tokens": int(row.tokens),
        }
        if row.author is not None:
            fields["author"] = row.author
        if row.branch is not None:
            fields["branch"] = row.branch
        if row.invocation_id is not None:
            fields["invocation_id"] = row.invocation_id
        if row.rev:
            fields["revision"] = row.rev
        if row.flags & (r.SYNTHETIC | r.INTERRUPTED | r.ROOTED | r.BLANKED):
            fields["is_synthetic"] = row.flags & r.SYNTHETIC != 0
            fields["is_interrupted"] = row.flags & r.INTERRUPTED != 0
            fields["is_in_thread"] = row.flags & r.ROOTED != 0
            fields["is_blanked"] = row.flags & r.BLANKED != 0
        if row.kind >= k.FIRST_RECORD:
            fields["kind"] = RECORDS.get(row.kind, EventKind.UNKNOWN)
        if row.extra:
            self._read_extra(session_id, row, fields)
        return fields

    def _read_extra(self, session_id: str, row: EventRow, fields: dict[str, Any]) -> None:
        """Fill in what few events carry."""
        extra: Mapping[str, Any] = json.loads(row.extra or "{}")
        fields["metadata"] = self._unsealed(session_id, row, extra.get("metadata")) or {}
        fields["grounding"] = self._unsealed(session_id, row, extra.get("grounding"))
        fields["long_running_tool_ids"] = tuple(extra.get("long_running", ()))
        fields["covers"] = tuple((low, high) for low, high in _covered(row, extra))
        error = self._unsealed(session_id, row, extra.get("error")) or (None, None)
        fields["error_code"], fields["error_message"] = error

    def _unsealed(self, session_id: str, row: EventRow, value: Any) -> Any:
        return self.codec.unseal_text(session_id, row.seq, value) if isinstance(value, str) else value

    def text(self, row: EventRow) -> str:
        """The searchable text of a row."""
        return searchable_text(self.codec.decode("", row))


def _covered(row: EventRow, extra: Mapping[str, Any]) -> Sequence[Sequence[int]]:
    """The runs that an entry is about; of a rewind what it went back over, which its record says by where it went."""
    if row.kind == k.REWIND and (first := int(extra["mark"]) + 1) < row.seq:
        return ((first, row.seq - 1),)
    found: Sequence[Sequence[int]] = extra.get("covers", ())
    return found


def new_record(kind: int, now: int) -> EventRow:
    """A record of something that happens to a log."""
    name = new_id()
    return EventRow(0, name, 0, None, None, kind, 0, now, 0, None, None, None, None, None, None, None, None)


def as_events(
    messages: BaseMessage | NewEvent | Sequence[BaseMessage | NewEvent], shared: NewEvent | None
) -> list[BaseMessage | NewEvent]:
    """What a caller passed to append, checked, with the shared fields filled in where an event has none.

    Streaming chunks are left out. Bare messages stay bare where nothing is shared.

    Raises:
        InvalidInputError: Something in it is neither a message nor an event.
    """
    if shared is None and type(messages) in CODES:
        one: Any = messages
        return [one]  # nearly always, and sooner known than by asking for a base class
    items = [messages] if isinstance(messages, (BaseMessage, NewEvent)) else messages
    if type(items) is not list and (isinstance(items, str) or not isinstance(items, Sequence)):
        raise InvalidInputError("messages", "give messages or events, for example [HumanMessage('hi')]")
    found: list[BaseMessage | NewEvent] = []
    for at, item in enumerate(items):
        if isinstance(item, BaseMessage):
            found.append(item if shared is None else replace(shared, message=item))
        elif isinstance(item, NewEvent):
            if not item.partial:
                found.append(item if shared is None else _with_shared(item, shared))
        else:
            problem = f"item {at} is a {type(item).__name__}; give messages, for example [HumanMessage('hi')]"
            raise InvalidInputError("messages", problem)
    return found


_SHARED = ("author", "branch", "invocation_id", "metadata", "timestamp")


def _with_shared(event: NewEvent, shared: NewEvent) -> NewEvent:
    changes = {name: getattr(shared, name) for name in _SHARED if getattr(event, name) is None}
    return replace(event, **changes)
