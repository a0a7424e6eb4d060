"""The values of the contract about vectors: how far they go, and one step forward.

Beside the vectors of a set lie the *signs* of their numbers, in parts that hold those of many events: a search reads
these, and not the vectors, to find the nearest of all. A part is named by the last position that it covers. Parts
adjoin and begin at the first event; where they end before the vectors do, since an older release made these, the rest
is made from the vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_sessions._core.ranges import SeqSet


class VectorProgress(NamedTuple):
    """How far the vectors of a log go.

    Attributes:
        skey: The session's own key.
        session_id: Its id.
        last_seq: The log's newest position.
        embedded_to: The newest position that was embedded, or that holds nothing to embed.
        generation: Which set of vectors this is, counted from 1; 0 where there is none.
        fingerprint: What made them.
        signs: The last position of each part of the signs, ascending.
        blanked_at: Position of the newest record of an overwriting: parts that are made after it are others.
    """

    skey: int
    session_id: str
    last_seq: int
    embedded_to: int = 0
    generation: int = 0
    fingerprint: str = ""
    signs: tuple[int, ...] = ()
    blanked_at: int = 0

    @property
    def signed_to(self) -> int:
        """How far the signs go."""
        return self.signs[-1] if self.signs else 0

    @property
    def of_signs(self) -> VectorProgress:
        """What `load_vectors` is asked with for parts of the signs."""
        return self._replace(generation=-self.generation)


class NewSigns(NamedTuple):
    """A part of the signs.

    Attributes:
        upto: The last position that it covers.
        data: The signs.
        seqs: Whose.
        instead_of: The parts whose place it takes.
    """

    upto: int
    data: bytes
    seqs: SeqSet
    instead_of: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorChange:
    """One step forward of the vectors of a log, valid as long as nobody else made one.

    Attributes:
        progress: What it was planned from.
        fingerprint: What made the vectors.
        embedded_to: How far they go afterwards.
        vectors: By position.
        anew: They begin another set: those that are there go.
        signs: The next part of the signs.
    """

    progress: VectorProgress
    fingerprint: str
    embedded_to: int
    vectors: Mapping[int, bytes]
    anew: bool = False
    signs: NewSigns | None = None

    @property
    def generation(self) -> int:
        """The set that the vectors belong to."""
        return self.progress.generation + self.anew

    def is_due(self, known: VectorProgress, blanked: SeqSet) -> bool:
        """Whether it may be written where a log is as is `known`, and these of its events were overwritten."""
        planned, signs = self.progress, self.signs
        if known[3:5] != planned[3:5] or known.skey != planned.skey:
            return False
        # Signs of what was overwritten meanwhile lie among others': whoever made the part makes it again.
        return signs is None or (known.signs == planned.signs and not signs.seqs & blanked)

    def kept(self, blanked: SeqSet) -> list[tuple[int, bytes]]:
        """The vectors that are to be stored, by position: what was overwritten while it was embedded gets none."""
        return [(seq, data) for seq, data in sorted(self.vectors.items()) if seq not in blanked]

    @property
    def gone(self) -> tuple[int, ...]:
        """The parts of the signs that go, before another is stored."""
        if self.anew:
            return self.progress.signs
        return () if self.signs is None else self.signs.instead_of

    @property
    def left(self) -> tuple[int, ...]:
        """The parts of the signs afterwards."""
        kept = tuple(upto for upto in self.progress.signs if upto not in self.gone)
        return kept if self.signs is None else (*kept, self.signs.upto)
