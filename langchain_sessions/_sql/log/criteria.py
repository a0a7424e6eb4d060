"""An event query as WHERE clauses: the SQL of `_core.matching.matches`.

Each criterion has a shape, a clause that is built once per shape, and values. A query is the list of its
criteria, so a statement is compiled once for every combination that is really used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    and_,
    case,
    exists,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy import cast as sql_cast

from langchain_sessions._core import message_types as k
from langchain_sessions._core import rows as r
from langchain_sessions._core.ledger import Cover, LogView, visible_scopes
from langchain_sessions._core.ranges import SeqSet
from langchain_sessions._sql.driver.transaction import param
from langchain_sessions.events import Standing
from langchain_sessions.filters import AnyBranch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from langchain_sessions._core.matching import EventQuery
    from langchain_sessions._sql.tables.schema import Tables

MOST_RANGES: Final = 256
"""Stretches that a statement names one by one: SQLite takes an OR of a thousand for a tree of that depth."""


class Criterion(NamedTuple):
    """One part of a WHERE clause."""

    shape: Hashable
    build: Callable[[], ColumnElement[bool]]
    values: dict[str, Any]


def criteria_of(query: EventQuery, view: LogView, tables: Tables, flavour: str) -> list[Criterion]:
    """All criteria of a query but its window and its predicate."""
    e = tables.events.c
    found: list[Criterion] = []

    def one(name: str, value: object, build: Callable[[], ColumnElement[bool]]) -> None:
        if value is not None:
            found.append(Criterion(name, build, {f"q_{name}": value}))

    one("since", query.since, lambda: e.at >= param("q_since"))
    one("until", query.until, lambda: e.at <= param("q_until"))
    one("after_seq", query.after_seq, lambda: e.seq > param("q_after_seq"))
    one("before_seq", query.before_seq, lambda: e.seq < param("q_before_seq"))
    one("invocation", query.invocation_id, lambda: e.invocation_id == param("q_invocation"))
    # What is appended while the query runs belongs to a later version.
    one("last", view.last_seq, lambda: e.seq <= param("q_last"))
    named: tuple[tuple[str, ColumnElement[Any], Iterable[Any]], ...] = (
        ("kind", e.kind, query.kinds),
        ("ident", e.ident, query.idents),
    )
    found += [_any_of(name, column, sorted(values)) for name, column, values in named if values]
    if query.authors:
        said = _any_of("author", e.author, sorted(query.authors))
        # Without an author column the message's own name counts, which only the predicate can read.
        found.append(said._replace(build=lambda: or_(e.author.is_(None), said.build())))
    if query.synthetic is not None:
        made = flagged(tables, r.SYNTHETIC)
        found.append(Criterion(("synthetic", query.synthetic), lambda: made if query.synthetic else ~made, {}))
    if not isinstance(query.branch, AnyBranch):
        found.append(visible(query.branch, tables))
    if query.keyword is not None:
        found.append(_keywords("keyword", (query.keyword,), tables, flavour))
    if query.keywords:
        found.append(_keywords("words", query.keywords, tables, flavour, match_all=query.match_all))
    if query.standings:
        # Positions of the ledger are written into the clause, so a log with marks shares its statement with no other.
        is_shared = view.ledger.encode() is None and view.head is None
        chosen = sorted(standing.value for standing in query.standings)
        shape = ("standings", view.has_unfinished, *chosen) if is_shared else object()
        idle = {"q_idle": query.idle_before} if view.has_unfinished else {}
        found.append(Criterion(shape, lambda: standing_clause(query.standings, view, tables), idle))
    return found


def visible(viewer: str | None, tables: Tables) -> Criterion:
    """What a viewer sees: root, its ancestors and itself, and what reached the root list."""
    e = tables.events.c
    scopes = scope_values(viewer)

    def build() -> ColumnElement[bool]:
        return or_(e.branch.is_(None), flagged(tables, r.ROOTED), *(e.branch == param(name) for name in scopes))

    return Criterion(("visible", len(scopes)), build, scopes)


def scope_values(viewer: str | None) -> dict[str, str]:
    """The values of `visible`; of the root's viewer, which most are, there are none."""
    return {f"q_scope{at}": scope for at, scope in enumerate(visible_scopes(viewer)[1:]) if scope is not None}


def _any_of(name: str, column: ColumnElement[Any], values: Sequence[object]) -> Criterion:
    named = {f"q_{name}{at}": value for at, value in enumerate(values)}
    return Criterion((name, len(values)), lambda: column.in_([param(key) for key in named]), named)


def _keywords(name: str, words: Sequence[str], tables: Tables, flavour: str, *, match_all: bool = True) -> Criterion:
    """Literal occurrence in case-folded text; `%`, `_` and backslash mean themselves. Who reads asks what is packed."""
    e = tables.events.c
    named = {f"q_{name}{at}": word for at, word in enumerate(words)}
    find = {"postgresql": func.strpos, "sqlite": func.instr, "mysql": func.instr}[flavour]

    def build() -> ColumnElement[bool]:
        text = func.coalesce(tables.of_event["folded"], func.lower(tables.of_event["text"]))
        given: list[ColumnElement[str]] = [param(key, String()) for key in named]
        if flavour == "postgresql":
            given = [sql_cast(word, e.text.type) for word in given]
        clauses = [find(text, word) > 0 for word in given]
        return or_(e.packed.is_not(None), and_(*clauses) if match_all else or_(*clauses))

    return Criterion((name, len(named), match_all), build, named)


def flagged(tables: Tables, flag: int) -> ColumnElement[bool]:
    """Whether a row has a flag."""
    return tables.events.c.flags.op("&")(literal_column(str(flag))) != literal_column("0")


def in_ranges(name: str, column: ColumnElement[Any], seqs: SeqSet, *, inside: bool = True) -> Criterion:
    """Whether a position is in a set, with the bounds as values, so that one statement serves sets of its size.

    Of more than `MOST_RANGES` stretches the caller asks in parts.
    """
    assert len(seqs.ranges) <= MOST_RANGES, "ask in parts"
    size = 1
    while size < len(seqs.ranges):
        size *= 2
    # Filled up with stretches that hold nothing, so that sizes are powers of two and statements are few.
    bounds = [*seqs.ranges, *[(0, -1)] * (size - len(seqs.ranges))]
    values = {f"q_{name}{at}_{side}": run[side] for at, run in enumerate(bounds) for side in (0, 1)}

    def build() -> ColumnElement[bool]:
        found = or_(*(column.between(param(f"q_{name}{at}_0"), param(f"q_{name}{at}_1")) for at in range(size)))
        return found if inside else not_(found)

    return Criterion(("ranges", name, size, inside), build, values)


def in_set(column: ColumnElement[Any], seqs: SeqSet) -> ColumnElement[bool]:
    """Whether a position is in a set."""
    singles = [low for low, high in seqs.ranges if low == high]
    ranges = [column.between(low, high) for low, high in seqs.ranges if low != high]
    clauses: list[ColumnElement[bool]] = [*ranges, *([column.in_(singles)] if singles else [])]
    # In groups, of which each is a tree of its own: what is written in one row is as deep as it is long.
    while len(clauses) > MOST_RANGES:
        groups = (clauses[at : at + MOST_RANGES] for at in range(0, len(clauses), MOST_RANGES))
        clauses = [and_(column >= literal_column("0"), or_(*group)) for group in groups]
    return or_(*clauses) if clauses else false()


def standing_clause(standings: Iterable[Standing], view: LogView, tables: Tables) -> ColumnElement[bool]:
    """Whether a row has one of the standings: `LogView.standing` in SQL, decided in the same order."""
    cases = _standing_cases(view, tables)
    wanted: list[ColumnElement[bool]] = []
    earlier: list[ColumnElement[bool]] = []
    chosen = set(standings)
    for standing, clause in cases:
        if standing in chosen:
            wanted.append(and_(clause, *(not_(other) for other in earlier)))
        earlier.append(clause)
    return or_(*wanted) if wanted else false()


def _standing_cases(view: LogView, tables: Tables) -> list[tuple[Standing, ColumnElement[bool]]]:
    """Standings with the clause of each; the first that holds decides. Clauses are never NULL."""
    e = tables.events.c
    ledger = view.ledger
    head = SeqSet.of_runs(view.head or ())
    hidden = in_set(e.seq, ledger.hidden)
    is_record = e.kind >= k.FIRST_RECORD
    rooted = flagged(tables, r.ROOTED)
    is_summary = flagged(tables, r.SUMMARY)
    summaries = SeqSet.of(seq for cover in ledger.covers.values() for seq in cover.summaries)
    replaced = SeqSet.of(edit.replaces for edit in ledger.edits if not (edit.rooted and edit.replaces in head))
    archived = or_(false(), *(_archived(cover, tables) for cover in ledger.covers.values()))
    return [
        (Standing.REWOUND, and_(is_record, hidden)),
        (Standing.LIVE, is_record),
        (Standing.LIVE, and_(is_summary, in_set(e.seq, summaries))),
        (Standing.REWOUND, hidden),
        (Standing.ARCHIVED, is_summary),
        (Standing.SUPERSEDED, or_(in_set(e.seq, replaced), and_(rooted, in_set(e.seq, SeqSet.of(view.outdated))))),
        (Standing.DETACHED, and_(rooted, not_(in_set(e.seq, head)))),
        (Standing.ARCHIVED, archived),
        *(_standings_of_runs(tables) if view.has_unfinished else ()),
        (Standing.LIVE, true()),
    ]


def _archived(cover: Cover, tables: Tables) -> ColumnElement[bool]:
    e = tables.events.c
    rooted = flagged(tables, r.ROOTED)
    branch = func.coalesce(e.branch, "")
    scope = or_(branch == "", rooted) if cover.scope is None else and_(branch == cover.scope, not_(rooted))
    spared = cover.holes | SeqSet.of(cover.summaries)
    place = func.coalesce(e.position, e.seq)
    return and_(scope, place <= cover.upto, not_(in_set(e.seq, spared)), not_(in_set(place, cover.holes)))


def _standings_of_runs(tables: Tables) -> list[tuple[Standing, ColumnElement[bool]]]:
    """What runs give their events; one that was left open for too long, which `q_idle` says, has failed."""
    run = tables.invocations.c
    is_open, is_idle = run.status == literal_column("1"), run.updated_at < param("q_idle", BigInteger())
    failed = run.status == literal_column("3")
    return [
        (Standing.OPEN, of_a_run(tables, is_open, not_(is_idle))),
        (Standing.FAILED, of_a_run(tables, or_(failed, and_(is_open, is_idle)))),
        (Standing.INTERRUPTED, of_a_run(tables, run.status == literal_column("4"))),
    ]


def of_a_run(tables: Tables, *which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether an event belongs to an invocation of a kind, looked up by its name."""
    return exists().where(*_run_of_event(tables), *which)


def run_status(tables: Tables) -> ColumnElement[Any]:
    """How far the run of an event got, if it is not done, as a column; what was open before `q_idle` has failed."""
    run = tables.invocations.c
    is_idle = and_(run.status == literal_column("1"), run.updated_at < param("q_idle", BigInteger()))
    status = case((is_idle, literal_column("3")), else_=run.status)
    unfinished = run.status.in_([literal_column(each) for each in ("1", "3", "4")])
    return select(status).where(*_run_of_event(tables), unfinished).correlate(tables.events).scalar_subquery()


def _run_of_event(tables: Tables) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Which invocation is that of an event: `EventRow.run` in SQL."""
    e, run = tables.events.c, tables.invocations.c
    asked = and_(e.invocation_id.is_(None), e.kind == literal_column(str(k.HUMAN)))
    name = case((asked, literal_column(f"'{r.TURN_OF}'", String()) + e.ident), else_=e.invocation_id)
    return run.skey == e.skey, run.id == name
