"""State: what a conversation, a user and an app remember beside messages.

A delta maps keys to values; None deletes. The prefix of a key says how far it reaches: none is the session,
`user:` all sessions of the user, `app:` all users of the app, `temp:` the running invocation and no table at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._core.codec.values import as_dict, dump_exact, dump_json, read_json
from langchain_sessions._core.edge import require
from langchain_sessions._core.rows import EventRow, with_extra
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

USER = "user:"
APP = "app:"
TEMP = "temp:"
_MAX_KEY = 255
REPLACED = "was"
"""In the `extra` of what changes a session's state: what its keys held before, in lists, empty for nothing."""
MOST_REPLACED = 1_000
"""So many characters of that are kept; what replaced more is searched for."""

_tuple = tuple.__new__  # `_replace` takes several times as long


class SplitDelta(NamedTuple):
    """A delta by reach. Values of shared keys are JSON texts; None deletes."""

    session: dict[str, Any]
    user: dict[str, str | None]
    app: dict[str, str | None]


def dump_delta(delta: Mapping[str, Any] | None, field: str = "state_delta") -> str | None:
    """A delta as stored: without `temp:` keys; None when nothing is left.

    Raises:
        InvalidInputError: A key or a value cannot be stored exactly.
    """
    if not delta:
        return None
    given = as_dict(delta, field)
    kept = {key: value for key, value in given.items() if not (isinstance(key, str) and key.startswith(TEMP))}
    for key in kept:
        require(isinstance(key, str) and key not in ("", USER, APP), field, "keys are non-empty strings")
        if key.startswith((USER, APP)):
            require(len(key) <= _MAX_KEY, field, f"a shared key has at most {_MAX_KEY} characters")
            require("\0" not in key and key.isprintable(), field, "a shared key holds printable characters only")
    return dump_exact(kept, field) if kept else None


def reaches_further(delta: str) -> bool:
    """Whether a stored delta may change state that others share: more seldom than it says so it does not."""
    return f'"{USER}' in delta or f'"{APP}' in delta


def split_delta(text: str | None) -> SplitDelta:
    """Sort a stored delta by reach."""
    split = SplitDelta({}, {}, {})
    if text is None:
        return split
    for key, value in read_json(text).items():
        if key.startswith(USER):
            split.user[key[len(USER) :]] = None if value is None else dump_json(value)
        elif key.startswith(APP):
            split.app[key[len(APP) :]] = None if value is None else dump_json(value)
        else:
            split.session[key] = value
    return split


def apply_deltas(state: str, deltas: Iterable[str | None]) -> str:
    """A session's state after some stored deltas; shared keys are left out."""
    merged = read_json(state)
    for delta in deltas:
        for key, value in split_delta(delta).session.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
    return dump_json(merged)


def with_replaced(state: str, rows: Sequence[EventRow]) -> tuple[str, tuple[EventRow, ...]]:
    """A session's state after some new events, and these with what they replace in it."""
    merged: dict[str, Any] = read_json(state)
    noted: list[EventRow] = []
    for row in rows:
        changed = split_delta(row.delta).session
        before = {key: [merged[key]] if key in merged else [] for key in changed}
        for key, value in changed.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        noted.append(_tuple(EventRow, (*row[:-1], _noted(row.extra, before))) if changed else row)
    return dump_json(merged), tuple(noted)


def with_turned(extra: str | None, before: str, after: str) -> str | None:
    """The `extra` of a record that turns one state into another, with what it replaces."""
    old, new = read_json(before), read_json(after)
    held = {key: [old[key]] if key in old else [] for key in {**old, **new}}
    # As texts: 1, 1.0 and True are equal otherwise.
    changed = [key for key in held if dump_json(held[key]) != dump_json([new[key]] if key in new else [])]
    return _noted(extra, {key: held[key] for key in changed})


def _noted(extra: str | None, before: Mapping[str, list[Any]]) -> str | None:
    return with_extra(extra, REPLACED, before) if len(dump_json(before)) <= MOST_REPLACED else extra


def state_before(current: str, entries: Iterable[tuple[str | None, str | None, bool]]) -> str | None:
    """A session's state before some entries of its log; None where one of them does not say what it replaced.

    Args:
        current: The state after them.
        entries: All that changed it, the oldest first: delta, `extra`, and whether it is the record of a rewind.
    """
    earlier: dict[str, list[Any]] = {}
    for delta, extra, is_rewind in entries:
        before = read_json(extra or "{}").get(REPLACED)
        if before is not None:
            earlier = {**before, **earlier}
        elif is_rewind or split_delta(delta).session:
            return None
    if not earlier:
        return current
    merged: dict[str, Any] = read_json(current)
    for key, held in earlier.items():
        if held:
            merged[key] = held[0]
        else:
            merged.pop(key, None)
    return dump_json(merged)


def is_same_state(one: str, other: str) -> bool:
    """Whether two documents of state say the same, in whatever order."""
    return one == other or read_json(one) == read_json(other)


class StateChange:
    """What becomes of a session's state when some of its deltas go out of sight, or come back.

    For what an earlier release wrote, and for large values; else what was replaced is noted beside it. Only the keys of
    those deltas are looked for among the others, from the newest back until each is found.

    Args:
        initial: The state that the session began with.
        current: Its state now.
        turned: The deltas that go or come back.
    """

    def __init__(self, initial: str, current: str, turned: Iterable[str]) -> None:
        """Nothing is known yet of what the keys were before."""
        self._initial: dict[str, Any] = read_json(initial)
        self._current = current
        self._wanted = {key for delta in turned for key in split_delta(delta).session}
        self._found: dict[str, Any] = {}

    @property
    def is_complete(self) -> bool:
        """Whether nothing older needs to be looked at."""
        return self._wanted.issubset(self._found)

    def look_at(self, delta: str) -> None:
        """Take in the next older delta that stands."""
        for key, value in split_delta(delta).session.items():
            if key in self._wanted:
                self._found.setdefault(key, value)

    def state(self) -> str:
        """The state after it."""
        if not self._wanted:
            return self._current
        merged: dict[str, Any] = read_json(self._current)
        for key in self._wanted:
            value = self._found[key] if key in self._found else self._initial.get(key)
            if value is None and (key in self._found or key not in self._initial):
                merged.pop(key, None)
            else:
                merged[key] = value
        return dump_json(merged)


def shared_keys(deltas: Iterable[str | None]) -> tuple[str, ...]:
    """The `user:` and `app:` keys that some deltas touch."""
    found: dict[str, None] = {}
    for delta in deltas:
        split = split_delta(delta)
        found |= dict.fromkeys([f"{USER}{key}" for key in split.user] + [f"{APP}{key}" for key in split.app])
    return tuple(sorted(found))


def merged_view(session: str, user: Mapping[str, str], app: Mapping[str, str]) -> dict[str, Any]:
    """The one dictionary that a caller sees, shared keys under their prefixes."""
    merged: dict[str, Any] = read_json(session)
    merged.update((f"{USER}{key}", read_json(value)) for key, value in user.items())
    merged.update((f"{APP}{key}", read_json(value)) for key, value in app.items())
    return merged


def require_owner(user_id: str | None, deltas: Iterable[str | None]) -> None:
    """Refuse `user:` state where nobody owns the session.

    Raises:
        InvalidInputError: A delta has such a key.
    """
    if user_id is None and any(delta is not None and split_delta(delta).user for delta in deltas):
        raise InvalidInputError("state_delta", "user: keys need a session that has a user")
