"""What an event says, as statements name it: whole, where its row holds only what is new in it.

`_sql/log/revisions.py` says which rows do, and writes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, Integer, and_, case, func, literal_column, select
from sqlalchemy import cast as sql_cast

from langchain_sessions._sql.tables.types import quoted

if TYPE_CHECKING:
    from sqlalchemy import Table

BITS: Final = 32
"""`kept` is two numbers in one: how many characters of its base a text begins with, and behind these bits the character
of the base, counted from 1, from which on it ends with it."""
# One bit less: what stands behind them fits what PostgreSQL counts characters in, whatever it is.
_LOW: Final[ColumnElement[int]] = literal_column(str((1 << BITS - 1) - 1))
_KEPT: Final = {"text": "kept", "folded": "folded_kept"}


def event_column(events: Table, name: str) -> ColumnElement[Any]:
    """A column of an event, its text put together where the row holds a part of it; NULL where its base is gone."""
    own = events.c[name]
    if name not in _KEPT:
        return own
    kept = events.c[_KEPT[name]]
    base = events.alias(quoted("base"))
    # A base is whole itself: a row that names another one was not written by us.
    here = and_(base.c.skey == events.c.skey, base.c.seq == events.c.base, base.c[_KEPT[name]].is_(None))
    start = sql_cast(kept.op(">>")(literal_column(str(BITS))), Integer)
    before = func.substr(base.c[name], literal_column("1"), start)
    behind = func.substr(base.c[name], sql_cast(kept.op("&")(_LOW), Integer))
    whole = select(before.concat(own).concat(behind)).where(here).correlate(events).scalar_subquery()
    # Asked first: of nearly every row nothing else is computed.
    return case((kept.is_(None), own), else_=whole).label(own.name)
