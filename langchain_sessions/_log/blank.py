"""Overwriting what was said."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, ToolMessage

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.blanking import Words
from langchain_sessions._core.codec.any_message import ident_of
from langchain_sessions._core.codec.silencing import BLANK_TEXT, strings_of
from langchain_sessions._core.edge import require
from langchain_sessions._core.event_encoding import new_record
from langchain_sessions._core.flow import Flow, ask
from langchain_sessions._core.message_types import CLASSES
from langchain_sessions._log.values import BlankResult
from langchain_sessions.errors import CorruptRowError, SealedEventError
from langchain_sessions.stores._erasing import BlankPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_sessions._core.event_encoding import EventEncoder
    from langchain_sessions._core.rows import EventRow
    from langchain_sessions._log.log import Log

_KEPT: Final = ("mark", "covers", "long_running")
_UNKNOWN: Final = "unknown"


def blank_events(
    log: Log, session_id: str, message_id: str | None, *, seqs: Sequence[int], superseded: bool
) -> Flow[BlankResult]:
    """`SessionService.blank`."""
    named, at = message_id is not None, tuple(seqs)
    require(not (named and at), "seqs", "give either a message's id or positions")
    require(named or bool(at) or superseded, "message_id", "name a message, or positions, or pass superseded=True")
    require(message_id != "", "message_id", "must not be blank")
    require(all(type(seq) is int and seq > 0 for seq in at), "seqs", "give positions of the log")
    ident = None if message_id is None else ident_of(message_id)[0]
    return (yield from overwrite(log, session_id, new_record(k.BLANK, log.now()), ident, at, superseded=superseded))


def overwrite(
    log: Log, session_id: str, record: EventRow, ident: str | None, seqs: tuple[int, ...], *, superseded: bool
) -> Flow[BlankResult]:
    """Overwrite messages at the time of a record, and append it."""
    plan = BlankPlan(
        record=record,
        now=record.at,
        row=partial(_blanked, log.encoder, session_id),
        words=partial(_words, log.encoder, session_id),
        ident=ident,
        seqs=seqs,
        superseded=superseded,
    )
    done = yield from ask(log.store.blank_events, log.key(session_id), plan)
    for copies in log.shared.copies if done.rows else ():
        # Also of what said nothing before: the last call may have been cut short here.
        yield from copies.forget(log.app, session_id, [row.id for row in done.rows])
    return BlankResult(seq=None if done.record is None else done.record.seq, seqs=done.seqs, summaries=done.summaries)


def _blanked(encoder: EventEncoder, session_id: str, row: EventRow) -> EventRow:
    """An event that says nothing any more."""
    message = _shell(row, _read(encoder, session_id, row))
    _, own_flags, _, text, folded, body = encoder.codec.encode(message)
    flags = row.flags & ~(r.SEALED | r.DIGEST_ID) | own_flags | r.BLANKED
    kept = {name: value for name, value in json.loads(row.extra or "{}").items() if name in _KEPT}
    if row.kind == k.OTHER:
        # Of somebody's own class only its base is known: it is read as a chat message.
        body = json.dumps({"type": message.role}) if isinstance(message, ChatMessage) else body
    anew: dict[str, Any] = {
        "flags": flags,
        "tokens": encoder.tokens.count_message(message),
        "delta": row.delta,
        "text": text,
        "folded": folded,
        "body": body,
        "extra": json.dumps(kept, separators=(",", ":")) if kept else None,
    }
    # Of what says something, whatever is not said anew here is gone.
    return row._replace(**{**dict.fromkeys(r.WORDED), **anew})


def _read(encoder: EventEncoder, session_id: str, row: EventRow) -> BaseMessage | None:
    """The message of a row; None where it cannot be read, which is no reason to leave it there."""
    try:
        return encoder.codec.decode(session_id, row)
    except (CorruptRowError, SealedEventError):
        return None


def _shell(row: EventRow, said: BaseMessage | None) -> BaseMessage:
    """A message with what a conversation needs of another one: its place among calls, not a word of it."""
    cls = CLASSES.get(row.kind, ChatMessage)
    message_id = None if row.flags & r.NO_MESSAGE_ID else row.ident
    fields: dict[str, Any] = {"id": message_id if said is None else said.id}
    if said is not None and said.name is not None:
        fields["name"] = said.name
    if cls is AIMessage and isinstance(said, AIMessage):
        fields["tool_calls"] = [{**call, "args": {}} for call in said.tool_calls]
        invalid = [{**call, "args": "", "error": None} for call in said.invalid_tool_calls]
        fields |= {"invalid_tool_calls": invalid, "usage_metadata": said.usage_metadata}
    elif cls is ToolMessage:
        fields["status"] = getattr(said, "status", "success")
    # What a class cannot be made without: who says it, or which call it answers.
    for name, field in cls.model_fields.items():
        if field.is_required() and name not in {"content", *fields}:
            fields[name] = getattr(said, name, None) or _UNKNOWN
    return cls(content=BLANK_TEXT, **fields)


def _words(encoder: EventEncoder, session_id: str, row: EventRow) -> Words:
    """What an event says."""
    message = _read(encoder, session_id, row)
    if message is None:
        return Words(row, (row.text,) if row.text else ())
    calls = (*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ()))
    given = ([call["args"] for call in calls], getattr(message, "artifact", None))
    said = (*strings_of([message.content, message.additional_kwargs]), *strings_of(given, names=True))
    return Words(row, tuple(dict.fromkeys(said)))
