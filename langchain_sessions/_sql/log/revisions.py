"""Revisions of a long text: what is new in each is stored, and by which earlier one it is told.

A message that is edited again and again is in the log with every revision, and most of each stands in the one before.
So a row may hold the middle that is new, and name another one, its base, for what stands around that. Statements put
the text together where they name it (`_sql/tables/whole_texts.py`); nobody above them knows. A base is whole itself, so
that a text is read from two rows at most, however often it was edited.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Select, and_, bindparam, func, insert, literal_column, select

from langchain_sessions._core.alike import common_end, common_start
from langchain_sessions._core.rows import EventRow, stored_row
from langchain_sessions._sql.driver.transaction import Transaction, param
from langchain_sessions._sql.log.lookup import event_columns, insert_events, insert_marks, skey_named, update_rows
from langchain_sessions._sql.tables.whole_texts import BITS
from langchain_sessions._sql.threads.history import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_sessions._core.ledger import Edit
    from langchain_sessions._core.rows import SessionKey
    from langchain_sessions._sql.driver.transaction import Later

_CHUNK: Final = 400
"""Names of messages in one statement, below the 999 values that older SQLite takes."""
_SHORTEST: Final = 1_000
"""Of a shorter text there is little to save beside its row."""
_LONGEST: Final = 1 << 22
"""MySQL puts together no more than a packet holds, which may be 16 MB."""
_NEW: Final = 8
"""At most this part of a text is told by a base. A text that grows is then stored whole each time it has grown by a
seventh, and one that is written anew each time it is."""
_WHOLE: Final = {"base": None, "kept": None, "folded_kept": None, "packed": None}


class Base(NamedTuple):
    """A revision that is stored whole."""

    seq: int
    text: str | None
    folded: str | None


class Told(NamedTuple):
    """A revision by its base: a row with what is new, and what of the base stands around it."""

    row: EventRow
    base: int
    kept: int
    folded_kept: int | None


class Telling:
    """Tells revisions of messages that are stored one after the other, each by the last one that is whole."""

    def __init__(self, bases: Iterable[tuple[str, Base]] = ()) -> None:
        """Begin with what is stored of some messages, by what identifies them."""
        self._bases = dict(bases)

    def told(self, row: EventRow) -> Told | None:
        """A row by its base; None for one that is stored whole, and is the base of what follows."""
        if row.text is None or not _SHORTEST <= len(row.text) <= _LONGEST:
            return None
        # A row without a position of its own may be read in one go with what says no more than its text; it is packed.
        if row.position is None:
            return None
        base = self._bases.get(row.ident)
        found = None if base is None else _told(row, row.text, base)
        if found is None:
            self._bases[row.ident] = Base(row.seq, row.text, row.folded)
        return found


def ask_revisions(tx: Transaction, key: SessionKey, idents: Sequence[str], since: int) -> list[Later]:
    """Ask for the stored revisions of some messages from a position on."""
    e = tx.tables.events.c
    answers: list[Later] = []
    for start in range(0, len(idents), _CHUNK):
        some = idents[start : start + _CHUNK]
        width = 1 << (len(some) - 1).bit_length()
        names = [f"i{at}" for at in range(width)]

        def build(names: Sequence[str] = names) -> Select[Any]:
            named = e.ident.in_([bindparam(name) for name in names])
            # Without a word about the third column of the index SQLite walks the whole log instead.
            # An expression, lest the positions are walked: they are in the key of the table.
            newer = e.seq + literal_column("0") >= bindparam("since")
            indexed = (e.skey == skey_named(tx), named, e.rev >= literal_column("0"), newer)
            return select(*event_columns(tx.tables)).where(*indexed)

        values = dict(zip(names, (*some, *[some[-1]] * (width - len(some))), strict=True))
        place = {"k_app": key.app, "k_id": key.id, "since": since}
        answers.append(tx.later(tx.prepare(("revisions", width), build), {**place, **values}))
    return answers


def _told(row: EventRow, text: str, base: Base) -> Told | None:
    middle, kept = _middle(text, base.text or "")
    if len(middle) * _NEW > len(text):
        return None
    if row.folded is None or base.folded is None:
        return Told(row._replace(text=middle), base.seq, kept, None)
    folded, folded_kept = _middle(row.folded, base.folded)
    return Told(row._replace(text=middle, folded=folded), base.seq, kept, folded_kept)


def _middle(text: str, base: str) -> tuple[str, int]:
    """What of a text does not stand in its base, and what of the base stands around it."""
    start = common_start(base, text)
    end = common_end(base, text, min(len(base), len(text)) - start)
    return text[start : len(text) - end], start << BITS | (len(base) - end + 1)


def insert_revisions(tx: Transaction, skey: int, rows: Sequence[EventRow], edits: Iterable[Edit]) -> None:
    """Insert rows that have their positions, some of which take the place of others."""
    long = {row.seq: row.ident for row in rows if row.text is not None and len(row.text) >= _SHORTEST}
    replaced = [(long[edit.seq], edit.replaces) for edit in edits if edit.seq in long]
    if not replaced:
        insert_events(tx, skey, rows)
        return
    insert_copies(
        tx, skey, rows, Telling((ident, base) for ident, seq in replaced for base in _base_of(tx, skey, ident, seq))
    )


def _base_of(tx: Transaction, skey: int, ident: str, seq: int) -> list[Base]:
    """By what a revision of a message is told, or itself where it is whole; nothing where it is not stored yet."""
    e = tx.tables.events

    def build() -> Any:
        base = e.alias("base")
        joined = e.join(base, and_(base.c.skey == e.c.skey, base.c.seq == func.coalesce(e.c.base, e.c.seq)))
        columns = [base.c[name] for name in Base._fields]
        return (
            select(*columns)
            .select_from(joined)
            .where(e.c.skey == param("skey"), e.c.seq == param("seq"), base.c.ident == param("ident"))
            .where(base.c.packed.is_(None))  # no statement reads a part of it
        )

    given = {"skey": skey, "seq": seq, "ident": ident}
    return [Base(*row) for row in tx.rows(tx.prepare("base of a revision", build), given)]


def insert_copies(tx: Transaction, skey: int, rows: Sequence[EventRow], telling: Telling) -> None:
    """Insert rows in the order in which they stand in their log, those that can be told by others as such."""
    whole: list[EventRow] = []
    for row in rows:
        told = telling.told(row)
        if told is None:
            whole.append(row)
        else:
            _insert_told(tx, skey, told)
    if whole:
        insert_events(tx, skey, whole)


def _insert_told(tx: Transaction, skey: int, told: Told) -> None:
    given = {"skey": skey, **told.row._asdict(), "base": told.base, "kept": told.kept, "folded_kept": told.folded_kept}
    held = tuple(compress(given, [value is not None for value in given.values()]))
    statement = tx.prepare(
        ("insert told", held), lambda: insert(tx.tables.events).values({name: param(name) for name in held})
    )
    tx.run_many(statement, [given])
    insert_marks(tx, skey, [told.row])


def release_bases(tx: Transaction, skey: int, going: Sequence[EventRow]) -> None:
    """Let no event be told by some that are about to be overwritten; what was told by them is told by each other."""
    e = tx.tables.events
    gone = {row.seq for row in going}
    told: list[int] = []
    for some in chunks(going):
        # A message's revisions are told by each other alone, and its identity is what an index knows.
        mine = (e.c.skey == skey, e.c.ident.in_({row.ident for row in some}), e.c.base.is_not(None))
        told += (seq for seq, base in tx.once(select(e.c.seq, e.c.base).where(*mine)) if base in gone)
    telling = Telling()
    # One by one: together they may be a thousand times as long as they lie there.
    for seq in sorted({*told} - gone):
        (found,) = tx.once(select(*event_columns(tx.tables)).where(e.c.skey == skey, e.c.seq == seq))
        row = stored_row(found)
        by = telling.told(row)
        if by is None:
            set_whole(tx, skey, seq, text=row.text, folded=row.folded)
        else:
            how = {"base": by.base, "kept": by.kept, "folded_kept": by.folded_kept}
            words = {"text": by.row.text, "folded": by.row.folded}
            update_rows(tx, e, {"skey": skey, "seq": seq}, **words, **how)


def set_whole(tx: Transaction, skey: int, seq: int, **values: Any) -> None:
    """Set columns of an event, its whole text among them."""
    update_rows(tx, tx.tables.events, {"skey": skey, "seq": seq}, **values, **_WHOLE)
