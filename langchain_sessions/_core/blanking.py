"""Overwriting what was said: which events a call means, and the copies of their words in a thread's stored bytes.

A thread refers to messages by their positions, so that overwriting an event is enough for every checkpoint that lists
it. What else may hold a copy is opaque to a store: values of other channels, and messages that a task left until the
next checkpoint. There words are replaced by as many bytes, so that every length that stands around them stays true.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import ormsgpack

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.checkpoints import (
    CheckpointRow,
    PackedWrites,
    digests_in,
    opened,
    squeezed,
    unpack_staged,
    unpack_writes,
)
from langchain_sessions._core.codec.silencing import filler, silenced
from langchain_sessions._core.edge import UNREADABLE
from langchain_sessions._core.ledger import decode_cover
from langchain_sessions._core.piece_removal import staying_values
from langchain_sessions._core.piece_rows import is_piece, value_digest
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._core.rows import with_extra
from langchain_sessions.errors import EventNotFoundError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_sessions._core.ledger import LogView
    from langchain_sessions._core.rows import EventRow, Mark

SHORTEST: Final = 16
"""Shorter words are no copy by themselves: what a value says in as few characters it may say on its own account."""

# -- which events -------------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """The events that a call means.

    Attributes:
        all: Every one of them.
        left: Those that still say something.
    """

    all: list[EventRow]
    left: list[EventRow]

    @property
    def seqs(self) -> SeqSet:
        """Where those are that still say something."""
        return SeqSet.of(row.seq for row in self.left)


def replaced_seqs(view: LogView) -> SeqSet:
    """The positions of which some may be superseded: both sides of every edit."""
    return SeqSet.of(seq for edit in view.ledger.edits for seq in (edit.seq, edit.replaces))


def choose(
    session_id: str, rows: Iterable[EventRow], view: LogView, asked: str, seqs: Sequence[int], *, superseded: bool
) -> Chosen:
    """Those of some rows that a call means.

    Args:
        session_id: For error messages.
        rows: What was found under the name, at the positions, or on either side of an edit.
        view: Where these stand.
        asked: What was asked for, for error messages; blank where nothing was named.
        seqs: The positions that were named.
        superseded: Only those that another revision took the place of.

    Raises:
        EventNotFoundError: There is no such message.
        InvalidInputError: A position holds a record, which says nothing.
    """
    found = sorted({row.seq: row for row in rows}.values())
    records = [row.seq for row in found if row.kind >= k.FIRST_RECORD]
    if records and seqs:
        raise InvalidInputError("seqs", f"position {records[0]} holds a record and no message")
    found = [row for row in found if row.kind < k.FIRST_RECORD]
    missing = sorted({*seqs} - {row.seq for row in found})
    if missing or (asked and not found):
        raise EventNotFoundError(session_id, f"position {missing[0]}" if missing else f"message {asked!r}")
    if superseded:
        found = [row for row in found if view.superseded_by(row) is not None]
    return Chosen(found, [row for row in found if not row.flags & r.BLANKED])


def blank_record(record: EventRow, seq: int, chosen: Chosen) -> EventRow:
    """The record of what was overwritten, in its place."""
    runs = chosen.seqs.ranges
    return record._replace(seq=seq, extra=with_extra(with_extra(None, "covers", runs), "mark", runs))


def summaries_of(rows: Iterable[EventRow], marks: Iterable[Mark]) -> tuple[int, ...]:
    """The summaries that were made of some events: they may repeat what these said."""
    covers = [decode_cover(json.loads(mark.data)) for mark in marks if mark.kind == "compaction"]
    asked = list(rows)
    found = {
        seq
        for cover in covers
        if any(row.scope == cover.scope and cover.covers(row) for row in asked)
        for seq in cover.summaries
    }
    return tuple(sorted(found - {row.seq for row in asked}))


# -- words in bytes -----------------------------------------------------------------------------------------


class Words(NamedTuple):
    """What a message said, as far as copies of it can be told.

    Attributes:
        row: Its row, as it was.
        parts: The strings in what it said: its text, those of its blocks, arguments and artifact.
    """

    row: EventRow
    parts: tuple[str, ...]


class Overwriting:
    """Replaces words in bytes by as many others."""

    def __init__(self, said: Iterable[Words]) -> None:
        """Replace what some messages said."""
        self._exact: dict[bytes, bytes] = {}
        parts: set[bytes] = set()
        names: set[bytes] = set()
        for words in said:
            self._exact.update(_whole_forms(words))
            if not words.row.flags & r.NO_MESSAGE_ID:
                names.add(ormsgpack.packb(words.row.ident))
            for part in words.parts:
                if len(part) >= SHORTEST:
                    parts.update(_written(part))
        longest_first = sorted(parts, key=len, reverse=True)
        self._parts = re.compile(b"|".join(map(re.escape, longest_first))) if parts else None
        self._beginnings = [re.compile(_LIES_WHOLE + re.escape(name)) for name in names]

    def __call__(self, data: bytes) -> bytes:
        """The bytes without the words; themselves where none stands in them."""
        for old, new in self._exact.items():
            if old in data:
                data = data.replace(old, new)
        if self._parts is not None and self._parts.search(data):
            data = self._parts.sub(lambda found: filler(len(found[0])), data)
        for beginning in self._beginnings:
            for found in beginning.finditer(data):
                data = _without_message(data, found.end())
        return data


def _written(text: str) -> set[bytes]:
    """A text as it may stand in bytes: by itself, and within JSON."""
    forms = {json.dumps(text)[1:-1].encode()}
    try:
        forms.update((text.encode(), json.dumps(text, ensure_ascii=False)[1:-1].encode()))
    except UnicodeEncodeError:
        return forms
    # JSON within JSON: what a tool returned, or the arguments of a call.
    return forms | {json.dumps(form.decode())[1:-1].encode() for form in (*forms,)}


# A message that lies whole in a value: six fields, of which the word, two small numbers, its id, its text and its body.
_LIES_WHOLE: Final = rb"\x96" + re.escape(ormsgpack.packb("message")) + rb"(?s:[\x00-\x7f]|\xcc.|\xcd..){2}"

_SHORT: Final = range(0xA0, 0xC0)
_LONGER: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
"""How msgpack begins a string: with its length up to 31, or with how many bytes say it."""


def _without_message(data: bytes, at: int) -> bytes:
    """The bytes without what a message says whose text stands there: what a hook made of it for the model alone."""
    for is_body in (False, True):
        low, at = _string_at(data, at)
        said = data[low:at]
        kept = silenced(said) if is_body else filler(len(said))
        if len(kept) == len(said):
            data = data[:low] + kept + data[at:]
    return data


def _string_at(data: bytes, at: int) -> tuple[int, int]:
    """Where a string of msgpack stands that begins there; nowhere where none does."""
    kind = data[at]
    if kind in _SHORT:
        return at + 1, at + 1 + kind - _SHORT.start
    size = _LONGER.get(kind, 0)
    begin = at + 1 + size
    return begin, begin + int.from_bytes(data[at + 1 : begin], "big")


def _whole_forms(words: Words) -> dict[bytes, bytes]:
    """A message that lies whole in a value: its id, its text and its body behind each other."""
    row = words.row
    if row.flags & r.SEALED:
        return {}
    text = None if row.text is None else filler(len(row.text.encode(errors="surrogatepass"))).decode()
    body = None if row.body is None else silenced(row.body.encode()).decode()
    try:
        old, new = (b"".join(map(ormsgpack.packb, each)) for each in ([row.text, row.body], [text, body]))
        ids = [row.ident] if not row.flags & r.NO_MESSAGE_ID else [row.ident, ""]
        return {ormsgpack.packb(each) + old: ormsgpack.packb(each) + new for each in ids}
    except (TypeError, ValueError):  # half an emoji: such a message is stored in another form
        return {}


# -- threads ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ThreadBytes:
    """What a thread stores, or what of it changes.

    Attributes:
        checkpoints: Its checkpoints.
        writes: Writes that are stored for good.
        staged: Those that wait, by their number.
        values: Values beside the checkpoints by name; of what changes None for those that go.
    """

    checkpoints: list[CheckpointRow] = field(default_factory=list[CheckpointRow])
    writes: list[PackedWrites] = field(default_factory=list[PackedWrites])
    staged: dict[int, bytes] = field(default_factory=dict[int, bytes])
    values: dict[bytes, bytes | None] = field(default_factory=dict[bytes, "bytes | None"])


def overwrite_thread(found: ThreadBytes, overwritten: Callable[[bytes], bytes]) -> ThreadBytes:
    """What changes in a thread when words are overwritten in it.

    Names of values follow their content, and so do those that name them. What an encrypting serializer sealed says
    nothing to anybody without its key, and stays.
    """
    stored = {name: data for name, data in found.values.items() if data is not None}
    renamed, made = _renamed(_roots(found), stored, overwritten)
    names = re.compile(b"|".join(map(re.escape, sorted(renamed)))) if renamed else None

    def mended(data: bytes) -> bytes:
        data = overwritten(data)
        return data if names is None else names.sub(lambda name: renamed[name[0]], data)

    def mended_body(body: bytes) -> bytes:
        plain = opened(body)
        new = mended(plain)
        return body if new == plain else squeezed(new)

    change = ThreadBytes()
    for row in found.checkpoints:
        named = b"".join(renamed.get(name, name) for name in row.digests) if row.outside else row.outside
        if (new := row._replace(body=mended_body(row.body), outside=named)) != row:
            change.checkpoints.append(new)
    for part in found.writes:
        if (kept := part._replace(body=mended_body(part.body))) != part:
            change.writes.append(kept)
    change.staged = {n: left for n, body in found.staged.items() if (left := mended_body(body)) != body}
    if renamed:
        listed = {(row.ns, row.cid): row for row in (*found.checkpoints, *change.checkpoints)}
        packed = {row[:4]: row for row in (*found.writes, *change.writes)}
        after = ThreadBytes([*listed.values()], [*packed.values()], {**found.staged, **change.staged})
        everything = {**stored, **made}
        stays = staying_values(everything, _roots(after))
        change.values = {name: data for name, data in stays.items() if stored.get(name) != data}
        change.values.update((name, None) for name in stored if name not in stays)
    return change


def _roots(found: ThreadBytes) -> set[bytes]:
    """The values that checkpoints and writes name."""
    roots = {name for row in found.checkpoints for name in row.digests}
    for row in found.writes:
        roots.update(digests_in(unpack_writes(row.body)))
    for n, body in found.staged.items():
        roots.update(digests_in(unpack_staged(n, body).writes))
    return roots


def _renamed(
    roots: Iterable[bytes], stored: Mapping[bytes, bytes], overwritten: Callable[[bytes], bytes]
) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """The new names of values that held the words, and the rows that these need."""
    # Most processes overwrite nothing, and cutting is the longest module of the core.
    from langchain_sessions._core.pieces import assemble, cut

    renamed: dict[bytes, bytes] = {}
    made: dict[bytes, bytes] = {}
    for root in roots:
        row = stored.get(root)
        if row is None:
            continue
        if not is_piece(row):
            data = overwritten(row)
            if data != row:
                renamed[root] = value_digest(data)
                made[renamed[root]] = data
            continue
        try:
            before = assemble(root, stored.get, None).data
        except UNREADABLE:  # sealed, or damaged: nobody can read the words there
            continue
        data = overwritten(before)
        if data != before:
            after = cut(data)
            renamed[root] = after.tree.root
            made.update(after.rows)
    return renamed, made
