"""Whether nobody changed messages that were handed out: asked of all of them at once, in C, and mostly by identity.

Whoever got a message may set a field of it, or change what a field holds. A field that was set holds another object:
so what the fields of all messages hold is put side by side, and compared with what it was, which for the same object
is hardly any work. What was empty has to be empty still, and what else can change within is compared with a copy.

Python tells what a dictionary holds to its collector, and by `gc.get_referents` to us, in half the time that it takes
to compare two. It does not tell the names. LangChain's classes keep the names of their fields; a field that somebody
takes out of the `__dict__` of a message, to put the same value back under another name, is not missed.
"""

from __future__ import annotations

from gc import get_referents
from itertools import chain, filterfalse
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._core.codec.any_message import equal
from langchain_sessions._threads.split import LEAVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from langchain_sessions._core.ranges import SeqRange

Fields = dict[str, Any]


def _values(fields: Sequence[Fields]) -> list[Any]:
    return [*chain.from_iterable(map(dict.values, fields))]


_SAMPLE: list[Fields] = [{"a": "x", "b": {}, "c": None, "d": [], "e": 1}, {}, {"b": "x", "a": 0.5}]
_TELLS_VALUES = [*map(id, get_referents(*_SAMPLE))] == [*map(id, _values(_SAMPLE))]
"""Whether this Python tells all that dictionaries hold, in its order. Where it does not, each is compared."""


class Untouched(NamedTuple):
    """Messages, and what they held when they were as they are stored."""

    objects: list[BaseMessage]
    parts: list[Any]
    """What makes up the messages: their fields, their extra fields, their classes."""
    fields: list[Fields]
    """Of all of them, in any order."""
    values: list[Any]
    """What the fields hold."""
    empty: list[Any]
    """What of it, and of extra fields, can change within and must be empty."""
    others: list[Any]
    """What else can change within; as it was, in `copies`."""
    copies: list[Any]

    def stands(self) -> bool:
        """Whether the messages hold what they held. Where there is no plain answer they may not."""
        try:
            is_same = get_referents(*self.fields) == self.values and get_referents(*self.objects) == self.parts
        except Exception:  # an array answers with an array, and an object may raise anything
            return False
        return is_same and not any(self.empty) and equal(self.others, self.copies)

    def begins(self, messages: Iterable[BaseMessage]) -> bool:
        """Whether a list that is no shorter begins with these very objects."""
        return all(map(is_, messages, self.objects))

    def and_more(self, more: Untouched) -> Untouched:
        """These messages and others behind them."""
        return Untouched(
            self.objects + more.objects,
            self.parts + more.parts,
            self.fields + more.fields,
            self.values + more.values,
            self.empty + more.empty,
            self.others + more.others,
            self.copies + more.copies,
        )


class View(NamedTuple):
    """The messages of a list. A view is never changed: another thread may be looking at it."""

    runs: list[SeqRange]
    objects: list[BaseMessage]
    untouched: Untouched | None = None
    """What is known of its first ones."""
    is_known: bool = False
    """It was looked at before, or goes on from what was."""


def untouched(
    objects: list[BaseMessage], fields: list[Fields], extras: list[Fields], told: Mapping[int, Fields]
) -> Untouched | None:
    """What messages hold that nobody got yet.

    Args:
        objects: The messages.
        fields: Their fields.
        extras: Their extra fields, of which there are none.
        told: Which of them have more than a text and an id, with copies of the fields of those.
    """
    if not _TELLS_VALUES:
        return None
    others = [fields[at] for at in told]
    plain = [each for at, each in enumerate(fields) if at not in told] if told else fields
    values, values_of_others = get_referents(*plain), get_referents(*others)
    if len(values) + len(values_of_others) != sum(map(len, fields)):
        return None  # of fields that lie within their message Python tells nothing
    # What is empty for good, as None is, does no harm among what has to be.
    empty = [*extras, *filterfalse(None, values)]
    more, changeable, copies = _sorted_out(values_of_others, _values([*told.values()]))
    parts = get_referents(*objects)
    return Untouched(objects, parts, plain + others, values + values_of_others, empty + more, changeable, copies)


def found_untouched(objects: list[BaseMessage], snapshots: list[Fields]) -> Untouched | None:
    """The same of messages that others may have; None where they are not as snapshots of their fields say."""
    parts = get_referents(*objects)
    fields: list[Any] = [message.__dict__ for message in objects]
    if not _TELLS_VALUES or [*chain.from_iterable(fields)] != [*chain.from_iterable(snapshots)]:
        return None
    values, stored = get_referents(*fields), _values(snapshots)
    extras = [message.__pydantic_extra__ for message in objects]
    # All by what was told just now: somebody may be about to change it.
    if any(extras) or not equal(values, stored):
        return None
    empty, others, copies = _sorted_out(values, stored)
    return Untouched(objects, parts, fields, values, [*empty, *extras], others, copies)


def _sorted_out(values: list[Any], stored: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """What can change within: what is empty, and what is not, with what is stored of it."""
    empty: list[Any] = []
    others: list[Any] = []
    copies: list[Any] = []
    for value, copy in zip(values, stored, strict=True):
        kind = type(value)
        if kind in LEAVES:
            continue
        if (kind is dict or kind is list) and not value:
            empty.append(value)
        else:
            others.append(value)
            copies.append(copy)
    return empty, others, copies
