"""What an import would come to, from the newest checkpoints of a few threads.

A checkpoint of another saver holds the whole conversation again, so a prediction reads few of them. The first of each
window brings along all messages before it, the others what one step adds; the number of checkpoints is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._importing.values import CheckpointName, ThreadSource

FEW = 400
"""So many checkpoints, or messages, are no sample: they are all taken."""
SAMPLE = 12
"""How many threads are looked into."""
MOST = 400
"""How many messages of a conversation are."""
_WINDOW = 12
_MOST_A_STEP = 3
_STEP_BYTES = 500
"""About what a checkpoint of a small graph takes here beside its messages, with what its tasks wrote."""


@dataclass(frozen=True, slots=True)
class Grown:
    """How a file has grown so far."""

    bytes: int
    messages: int


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a source would come to."""

    bytes: int
    messages: int
    checkpoints: int


@dataclass(frozen=True, slots=True)
class SampledThreads:
    """Which checkpoints a prediction takes over, in two parts.

    Attributes:
        all: How many checkpoints the source holds.
        threads: How many threads.
        first: Of each chosen thread the oldest checkpoint of its window.
        rest: The others.
        lengths: How many checkpoints the chosen threads have.
    """

    all: int
    threads: int
    first: Mapping[str, Sequence[CheckpointName] | None]
    rest: Mapping[str, Sequence[CheckpointName] | None]
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all there is."""
        return not self.lengths

    @property
    def size(self) -> int:
        """How many checkpoints the sample has."""
        windows = [*self.first.values(), *self.rest.values()]
        return self.all if self.is_whole else sum(len(each or ()) for each in windows)

    def scaled(self, first: Grown, last: Grown) -> Predicted:
        """What all would come to, from what each part brought."""
        if self.is_whole:
            return Predicted(last.bytes, last.messages, self.all)
        steps = sum(len(each or ()) for each in self.rest.values())
        known = sum(self.lengths.values())
        added = last.messages - first.messages
        if added > _MOST_A_STEP * steps:
            # A channel that stores what changes, and within the window, as it does at times, all there was.
            scale = self.all / max(known, 1)
            more = (known - steps) * _STEP_BYTES
            return Predicted(round((last.bytes + more) * scale), round(last.messages * scale), self.all)
        # A state that holds its messages shows all of them at the end; one that forgets shows only how fast they come.
        messages = max(last.messages, round(added / max(steps, 1) * known)) * self.all // max(known, 1)
        each = first.bytes / first.messages if first.messages else 0.0
        step = max(last.bytes - first.bytes - added * each, 0) / max(steps, 1)
        base = 0.0 if first.messages else first.bytes / len(self.first) * self.threads
        return Predicted(round(base + messages * each + self.all * step), messages, self.all)


def sampled_threads(source: ThreadSource) -> SampledThreads:
    """The sample of a source: everything where that is little.

    Raises:
        SourceError: The threads cannot be listed.
    """
    names = list(source.threads())
    count = source.count()
    if count <= FEW:
        return SampledThreads(count, len(names), dict.fromkeys(names), {})
    every = -(-len(names) // SAMPLE)
    first: dict[str, Sequence[CheckpointName] | None] = {}
    rest: dict[str, Sequence[CheckpointName] | None] = {}
    lengths: dict[str, int] = {}
    for name in names[::every]:
        places = source.checkpoints(name)
        # From one of the thread's own on: a subgraph's does not hold what was said before.
        window = places[-_WINDOW:]
        begin = next((at for at, place in enumerate(window) if not place.namespace), 0)
        first[name], rest[name], lengths[name] = window[begin : begin + 1], window[begin + 1 :], len(places)
    return SampledThreads(count, len(names), first, rest, lengths)


def scaled_messages(found: Grown, count: int | None, every: int) -> Predicted:
    """What all conversations would come to."""
    share = every if count is None or found.messages == 0 else max(count / found.messages, 1)
    return Predicted(round(found.bytes * share), round(found.messages * share), 0)
