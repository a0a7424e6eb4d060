"""The rows of pieces: the bytes of a part, what changed of another part, names, and what changed of other names.

A row says by its first byte what it is, so that a store can follow the names without knowing more: `kids_of` is all it
needs. Its own name is that of its content, whichever form it is stored in: a form may be exchanged for another.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from typing import TYPE_CHECKING, NamedTuple, Protocol

import ormsgpack

from langchain_sessions._core.alike import common_end, common_start, same_first, same_last

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NAME = 16
"""Bytes of a name."""
NODE = b"\2"
"""How the row of a piece begins that consists of names."""
SPLICE = b"\5"
"""How one begins that consists of the names of another one, but for some."""
DELTAS = [bytes([8 + count]) for count in range(8)]
"""How the row of a part begins that is told by one other part, two, and so on up to eight."""
TOLD = frozenset((SPLICE, *DELTAS))
"""How rows begin that are told by others."""
NAMING = [NODE, SPLICE, *DELTAS]
"""How rows begin that have names behind."""
LONGEST = 8192
"""The longest part."""
MOST_DEPTH = 8
"""How many parts are told by each other at most."""
_RAW, _DEFLATED, _SEALED = b"\0", b"\1", b"\3"
_PIECES = frozenset((_RAW, _DEFLATED, _SEALED, *NAMING))
_DELTAS = frozenset(DELTAS)
# Shorter ones hardly shrink, and each costs a call of zlib.
_WORTH_DEFLATING = 128
# Of so few bytes nothing is found elsewhere.
_WORTH_TELLING = 16
_PROBE = 32
_DELTA_HEADER = 5
"""Behind its names and depth: whether it is deflated, and how much of the other part it begins and ends with."""
_ALTERED = "a piece is altered"


class Cipher(Protocol):
    """What encrypts; LangGraph's `CipherProtocol`."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The name of the method, and the bytes encrypted."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The bytes in clear."""
        ...


class Seal(NamedTuple):
    """What keeps pieces secret: the cipher, and the key of their names in clear and sealed."""

    cipher: Cipher
    key: bytes
    sealed_key: bytes

    @classmethod
    def new(cls, cipher: Cipher) -> Seal:
        """One with a key of its own."""
        key = secrets.token_bytes(32)
        return cls(cipher, key, _encrypt(cipher, key))

    @classmethod
    def opened(cls, cipher: Cipher, sealed_key: bytes) -> Seal:
        """The one with a key that was stored."""
        return cls(cipher, _decrypt(cipher, sealed_key), sealed_key)


def value_digest(data: bytes) -> bytes:
    """The name of a value that is stored in one piece, beside the checkpoints that hold it."""
    return hashlib.blake2b(data, digest_size=NAME).digest()


def leaf_name(part: bytes, key: bytes) -> bytes:
    """The name of a part of a value."""
    # Leaves and nodes are hashed apart: bytes of a value that look like names must not be taken for a node.
    return hashlib.blake2b(part, digest_size=NAME, key=key, person=b"leaf").digest()


def node_name(row: bytes, key: bytes) -> bytes:
    """The name of a row of names."""
    return hashlib.blake2b(row, digest_size=NAME, key=key, person=b"node").digest()


def is_piece(row: bytes) -> bool:
    """Whether a stored value is a piece of one, or names pieces; else it is a whole one."""
    return row[:1] in _PIECES


def is_delta(row: bytes) -> bool:
    """Whether a row tells a part by others."""
    return row[:1] in _DELTAS


def names_in(joined: bytes) -> list[bytes]:
    """Names that lie behind each other."""
    return [joined[at : at + NAME] for at in range(0, len(joined), NAME)]


def kids_of(row: bytes) -> list[bytes]:
    """The names of the rows that are needed to read one; none where it holds all that it says."""
    kind = row[:1]
    if kind in _DELTAS:
        count = kind[0] - 7
        # Asked of each piece of what is read: most have no names, or one.
        return [row[1 : 1 + NAME]] if count == 1 else names_in(row[1 : 1 + NAME * count])
    if kind == NODE:
        return names_in(row[1:])
    return names_in(row[1 : _end_of_names(row)]) if kind == SPLICE else []


# -- parts -------------------------------------------------------------------------------------------------


def leaf_row(part: bytes, seal: Seal | None) -> bytes:
    """The row that holds a part."""
    row = _RAW + part
    if len(part) >= _WORTH_DEFLATING:
        small = _deflated(part, 4, b"")
        # For less than an eighth it is not worth unpacking at every read.
        if len(small) < len(part) * 7 // 8:
            row = _DEFLATED + small
    return row if seal is None else _SEALED + _encrypt(seal.cipher, row)


def _deflated(part: bytes, level: int, before: bytes) -> bytes:
    # Without header and checksum: the name says already whether a piece is sound.
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 8, zdict=before) if before else None
    packer = packer or zlib.compressobj(level, zlib.DEFLATED, -15, 8)
    return packer.compress(part) + packer.flush()


def _inflated(data: bytes, before: bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj(-15, zdict=before) if before else zlib.decompressobj(-15)
        # Bounded: a piece that was tampered with must not blow up to gigabytes before its name is checked.
        return unpacker.decompress(data, LONGEST)
    except zlib.error as error:
        raise ValueError(_ALTERED) from error


def leaf_bytes(row: bytes, seal: Seal | None) -> bytes:
    """The part that a row holds.

    Raises:
        ValueError: It holds none.
    """
    if row[:1] == _SEALED and seal is not None:
        row = _decrypt(seal.cipher, row[1:])
    if row[:1] == _RAW:
        return row[1:]
    if row[:1] != _DEFLATED:
        raise ValueError(_ALTERED)
    return _inflated(row[1:], b"")


def _encrypt(cipher: Cipher, data: bytes) -> bytes:
    name, sealed = cipher.encrypt(data)
    return name.encode() + b"\0" + sealed


def _decrypt(cipher: Cipher, data: bytes) -> bytes:
    name, _, sealed = data.partition(b"\0")
    return cipher.decrypt(name.decode(), sealed)


class Told(NamedTuple):
    """A part that another one may be told by."""

    name: bytes
    part: bytes
    depth: int


def delta_row(part: bytes, others: Sequence[Told], most: int = LONGEST) -> bytes | None:
    """The row of a part that says what is different from others; None where it is better stored as it is.

    Args:
        part: The part.
        others: What it may be told by.
        most: How much of it may lie between what it begins and ends with as one of them does.
    """
    size, near = len(part), list[tuple[int, int, int, Told]]()
    for other in others:
        if other.depth < MOST_DEPTH:
            first, last = _ends(part, other.part)
            if first + last >= size // 8 or _has_some_of(other.part, part):
                near.append((first + last, first, last, other))
    if not near:
        return None
    del near[len(DELTAS) :]
    best = near[0] if len(near) == 1 else max(near, key=_how_much)
    alike, first, last, other = best
    if size - alike > most:
        return None
    told_by = [other, *[each[3] for each in near if each is not best]]
    middle, is_deflated = part[first : size - last], b"\0"
    if len(middle) > _WORTH_TELLING:
        small = _deflated(middle, 6, _before([each.part for each in told_by]))
        if len(small) < len(middle):
            middle, is_deflated = small, b"\1"
    if is_deflated == b"\0":
        # Only what it begins and ends with is of use.
        told_by = told_by[:1]
    if len(middle) > size // 4 and alike < size // 4:
        return None
    depth = 1 + max([each.depth for each in told_by])
    header = DELTAS[len(told_by) - 1] + b"".join([each.name for each in told_by]) + bytes([depth]) + is_deflated
    return header + first.to_bytes(2, "big") + last.to_bytes(2, "big") + middle


def _how_much(near: tuple[int, int, int, Told]) -> int:
    return near[0]


def between(part: bytes, row: bytes) -> int:
    """How much of a part lies between what it begins and ends with as that does which tells it."""
    at = 1 + NAME * (row[0] - 7) + 2
    return len(part) - int.from_bytes(row[at : at + 2], "big") - int.from_bytes(row[at + 2 : at + 4], "big")


def _has_some_of(other: bytes, part: bytes) -> bool:
    """Whether some bytes of a part are somewhere in another one; looked for before anything is deflated."""
    return any(part[at : at + _PROBE] in other for at in (len(part) * quarter // 4 for quarter in (1, 2, 3)))


def _before(parts: Sequence[bytes]) -> bytes:
    """What zlib knows before it begins: the nearest last, since nearer ones are shorter to name."""
    return b"".join(reversed(parts))[-(1 << 15) :]


def _ends(one: bytes, other: bytes) -> tuple[int, int]:
    """How many bytes two parts begin with alike, and end with behind these."""
    first = common_start(one, other)
    return first, common_end(one, other, min(len(one), len(other)) - first)


def depth_of(row: bytes) -> int:
    """How many parts a part is told by, one by the other."""
    if not is_delta(row):
        return 0
    return int.from_bytes(row[1 + NAME * (row[0] - 7) :][:1], "big")


def told(row: bytes, others: Sequence[bytes]) -> bytes:
    """The part that a row tells by others.

    Raises:
        ValueError: It tells none.
    """
    rest = row[1 + NAME * len(others) + 1 :]
    first, last = int.from_bytes(rest[1:3], "big"), int.from_bytes(rest[3:5], "big")
    near = others[0]
    if len(rest) < _DELTA_HEADER or first + last > len(near):
        raise ValueError(_ALTERED)
    middle = rest[_DELTA_HEADER:]
    if rest[:1] != b"\0":
        middle = _inflated(middle, _before(others))
    return near[:first] + middle + near[len(near) - last :]


class PieceReader:
    """Reads parts, those that are told by others too."""

    def __init__(self, find: Callable[[bytes], bytes | None], seal: Seal | None) -> None:
        """Read from rows by name."""
        self._find = find
        self._seal = seal
        self._read: dict[bytes, bytes] = {}
        self._begun: set[bytes] = set()
        self.rows: dict[bytes, bytes] = {}
        """The rows that were read."""

    def row(self, name: bytes) -> bytes:
        """A row.

        Raises:
            ValueError: It is missing.
        """
        found = self._find(name)
        if found is None:
            problem = "a piece is missing"
            raise ValueError(problem)
        self.rows[name] = found
        return found

    def part(self, name: bytes) -> bytes:
        """The part with a name. Whether it is the one that was named is for the caller to check.

        Raises:
            ValueError: It cannot be read.
        """
        read = self._read.get(name)
        if read is None:
            row = self.row(name)
            if is_delta(row):
                # Rows that were tampered with may go in circles.
                if name in self._begun:
                    raise ValueError(_ALTERED)
                self._begun.add(name)
                read = told(row, [self.part(other) for other in kids_of(row)])
            else:
                read = leaf_bytes(row, self._seal)
            self._read[name] = read
        return read


# -- names that are those of another row but for some ------------------------------------------------------


class Gap(NamedTuple):
    """Where two lists of names differ: from one place of the first to another, and the same of the second."""

    start: int
    end: int
    new_start: int
    new_end: int


def gaps(old: Sequence[bytes], new: Sequence[bytes]) -> list[Gap]:
    """Where a list of names is not as another one."""
    first = same_first(old, new)
    last = same_last(old, new, min(len(old), len(new)) - first)
    end, new_end = len(old) - last, len(new) - last
    where = {old[at]: at for at in range(end - 1, first - 1, -1)}
    found: list[Gap] = []
    at = new_at = place = first
    while place < new_end:
        known = where.get(new[place], -1)
        if known < at:
            place += 1
            continue
        if known > at or place > new_at:
            found.append(Gap(at, known, new_at, place))
        same = 1
        while known + same < end and place + same < new_end and old[known + same] == new[place + same]:
            same += 1
        at, new_at = known + same, place + same
        place = new_at
    if at < end or new_at < new_end:
        found.append(Gap(at, end, new_at, new_end))
    return found


def splice_row(base: bytes, spent: int, new: Sequence[bytes], where: Sequence[Gap]) -> bytes:
    """The row that says in which names another one differs.

    Args:
        base: The other one.
        spent: What rows of this kind have cost since that one was stored.
        new: The names of all parts.
        where: Where they differ.
    """
    names = [base, *(name for gap in where for name in new[gap.new_start : gap.new_end])]
    places = [(gap.start, gap.end - gap.start, gap.new_end - gap.new_start) for gap in where]
    rest = ormsgpack.packb([spent, *(number for place in places for number in place)])
    return SPLICE + b"".join(names) + rest + len(rest).to_bytes(2, "big")


class Splice(NamedTuple):
    """What `splice_row` was told: the base, what was spent, and what stands in the place of what."""

    base: bytes
    spent: int
    changes: list[tuple[int, int, list[bytes]]]
    """From where on, how many, and the names in their place."""


def _end_of_names(row: bytes) -> int:
    return max(1, len(row) - 2 - int.from_bytes(row[-2:], "big"))


def load_splice(row: bytes) -> Splice:
    """Read what `splice_row` wrote.

    Raises:
        ValueError: It cannot be read.
    """
    end = _end_of_names(row)
    base, *names = names_in(row[1:end])
    spent, *numbers = ormsgpack.unpackb(row[end:-2])
    changes: list[tuple[int, int, list[bytes]]] = []
    for at in range(0, len(numbers), 3):
        start, count, new = numbers[at : at + 3]
        changes.append((start, count, names[:new]))
        names = names[new:]
    return Splice(base, spent, changes)


def spliced(leaves: Sequence[bytes], changes: Iterable[tuple[int, int, list[bytes]]]) -> list[bytes]:
    """The names of parts, some of them replaced."""
    made: list[bytes] = []
    at = 0
    for start, count, new in changes:
        made += leaves[at:start]
        made += new
        at = start + count
    return [*made, *leaves[at:]]


def sliced(value: bytes, place: bytes) -> bytes:
    """What a write holds.

    Args:
        value: The value that it is told by.
        place: Where it stands there.

    Raises:
        ValueError: It does not.
    """
    before, at, count = ormsgpack.unpackb(place)
    said: bytes = value[at : at + count]
    if len(said) != count:
        problem = "a write is altered"
        raise ValueError(problem)
    return bytes(before) + said
