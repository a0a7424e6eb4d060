"""Large values in pieces that are named by their content, so that a step stores what changed.

A value is cut where its own bytes say so: behind a change the old cuts are found again, and what lies between them
has the name that it had. The names are grouped in the same way, level by level, up to one: a tree, in which a change
makes new pieces on its own path alone. A row says by its first byte what it is, so that a store can follow the names
without knowing more: `kids_of` is all it needs.

With an encrypting serializer each piece is sealed, and its name is a digest under a key that is sealed too: nobody
without the cipher can tell what a name stands for, nor whether two sessions hold the same.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from langchain_sessions._core.checkpoints import ValueRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

LIMIT = 1024
"""Longer values are cut."""
NAME = 16
"""Bytes of a name."""
NODE = b"\2"
"""How the row of a piece begins that consists of names."""
_RAW, _DEFLATED, _SEALED = b"\0", b"\1", b"\3"
_SHORTEST, _LONGEST = 512, 8192
_CUT_BEHIND = b"010011011"
"""What stands before a cut, a digit for each byte: once in 512 places, so that pieces are about 1 KB long."""
_DIGITS = bytes(
    48 + (0xCC51160E9309BD71937B5DEC185A9C85DD8B59D4CC404A79F17F32A8CBDAC159 >> place & 1)
    for place in range(255, -1, -1)
)
"""A digit for each byte, drawn so that texts, code, numbers and noise are all cut about equally often."""
_MOST_NAMES = 64
_LAST_OF_GROUP = 16
"""A name whose first byte is below ends its group: one in 16."""
# Shorter ones hardly shrink, and each costs a call of zlib.
_WORTH_DEFLATING = 128
_LARGEST = _LONGEST


class Tree(NamedTuple):
    """A value in pieces.

    Attributes:
        root: The name that stands for all of it.
        names: Every name in it.
        data: The value.
        leaves: The names of its parts in their order.
        ends: Where each part ends.
    """

    root: bytes
    names: frozenset[bytes]
    data: bytes
    leaves: list[bytes]
    ends: list[int]


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


def kids_of(row: bytes) -> list[bytes]:
    """The names of the pieces that a row consists of; none where it holds bytes of the value itself."""
    return names_in(row[1:]) if row[:1] == NODE else []


def names_in(joined: bytes) -> list[bytes]:
    """Names that lie behind each other."""
    return [joined[at : at + NAME] for at in range(0, len(joined), NAME)]


def reachable(roots: Iterable[bytes], nodes: Mapping[bytes, bytes]) -> set[bytes]:
    """All names that are needed for some, these included; `nodes` are the rows that consist of names."""
    found: set[bytes] = set()
    left = [*roots]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += kids_of(nodes.get(name, b""))
    return found


def value_digest(data: bytes) -> bytes:
    """The name of a value that is stored in one piece, beside the checkpoints that hold it."""
    return hashlib.blake2b(data, digest_size=NAME).digest()


def is_piece(row: bytes) -> bool:
    """Whether a stored value is a piece of one, or names pieces; else it is a whole one."""
    return row[:1] in (_RAW, _DEFLATED, _SEALED, NODE)


def cut(data: bytes, base: Tree | None, known: Collection[bytes], seal: Seal | None) -> tuple[Tree, list[ValueRow]]:
    """A value in pieces, and the rows of those whose names are not known.

    Args:
        data: The value.
        base: What it was before: what both begin and end with need not be looked at again.
        known: The names that are stored already.
        seal: How to keep it secret; None for a value in clear.
    """
    key = b"" if seal is None else seal.key
    rows: dict[bytes, ValueRow] = {}
    leaves, ends, rest = _same_beginning(data, base)
    start = ends[-1] if ends else 0
    size, step = len(data), 1 << 16
    while start < size or not leaves:
        if start in rest and base is not None:
            at = rest[start]
            leaves += base.leaves[at:]
            ends += [end + size - len(base.data) for end in base.ends[at:]]
            break
        # A part at a time, so that little is turned into digits where the rest is the same.
        window = data[start : start + step + _LONGEST]
        for part in _parts(window, is_last=start + len(window) == size):
            name = _leaf_name(part, key)
            if name not in known and name not in rows:
                rows[name] = ValueRow(name, _leaf(part, seal))
            start += len(part)
            leaves.append(name)
            ends.append(start)
            if start in rest:
                break
        step = min(step * 2, 1 << 20)
    names, level = {*leaves}, leaves
    while len(level) > 1:
        above: list[bytes] = []
        for group in _groups(level):
            row = NODE + b"".join(group)
            name = _node_name(row, key)
            if name not in known and name not in rows:
                rows[name] = ValueRow(name, row)
            above.append(name)
        names.update(above)
        level = above
    return Tree(level[0], frozenset(names), data, leaves, ends), [*rows.values()]


def _same_beginning(data: bytes, base: Tree | None) -> tuple[list[bytes], list[int], dict[int, int]]:
    """The parts that a value begins with as another one did; and where parts begin that both end with.

    Returns:
        Names, ends, and which of the other's parts begins at a place of the value from which on they are the same.
    """
    if base is None:
        return [], [], {}
    before = base.data
    same = _common(before, data)
    # The last part ends where it does because the value does.
    count = min(bisect_right(base.ends, same), len(base.ends) - 1)
    end = _common_end(before, data, min(len(data), len(before)) - (base.ends[count - 1] if count else 0))
    shift = len(data) - len(before)
    first = bisect_left(base.ends, len(before) - end, count)
    rest = {base.ends[at] + shift: at + 1 for at in range(first, len(base.ends) - 1)}
    return base.leaves[:count], base.ends[:count], rest


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two values begin with alike."""
    size, at, step = min(len(one), len(other)), 0, 1 << 16
    while at < size and step:
        if one[at : at + step] == other[at : at + step]:
            at += step
        else:
            step //= 2
    return min(at, size)


def _common_end(one: bytes, other: bytes, most: int) -> int:
    """How many bytes two values end with alike, at most so many."""
    at, step = 0, 1 << 16
    while at < most and step:
        if one[max(0, len(one) - at - step) : len(one) - at] == other[max(0, len(other) - at - step) : len(other) - at]:
            at += step
        else:
            step //= 2
    return max(0, min(at, most))


def assemble(root: bytes, find: Callable[[bytes], bytes | None], seal: Seal | None) -> Tree:
    """The value behind a name.

    Raises:
        ValueError: A piece is missing, or is not what its name says.
    """
    key = b"" if seal is None else seal.key
    names: set[bytes] = set()
    parts: list[bytes] = []
    leaves: list[bytes] = []
    left = [root]
    while left:
        name = left.pop()
        row = find(name)
        if row is None:
            problem = "a piece is missing"
            raise ValueError(problem)
        names.add(name)
        if row[:1] == NODE:
            is_sound = _node_name(row, key) == name
            left += reversed(kids_of(row))
        else:
            part = _opened(row, seal)
            is_sound = _leaf_name(part, key) == name
            leaves.append(name)
            parts.append(part)
        if not is_sound:
            problem = "a piece is altered"
            raise ValueError(problem)
    return Tree(root, frozenset(names), b"".join(parts), leaves, [*accumulate(map(len, parts))])


def _parts(data: bytes, *, is_last: bool) -> Iterable[bytes]:
    """Bytes of a value, cut where they say so; what stands at their end is left, where the value goes on."""
    digits = data.translate(_DIGITS)
    start, size = 0, len(data)
    while size - start > (_SHORTEST if is_last else _LONGEST):
        longest = min(start + _LONGEST, size)
        found = digits.find(_CUT_BEHIND, start + _SHORTEST - len(_CUT_BEHIND), longest)
        end = longest if found < 0 else found + len(_CUT_BEHIND)
        yield data[start:end]
        start = end
    if is_last and (start < size or not size):
        yield data[start:]


def _groups(names: list[bytes]) -> Iterable[list[bytes]]:
    """Names in groups of at least two, but for the last, cut where the names say so."""
    group: list[bytes] = []
    for name in names:
        group.append(name)
        if len(group) > 1 and (name[0] < _LAST_OF_GROUP or len(group) == _MOST_NAMES):
            yield group
            group = []
    if group:
        yield group


def _leaf_name(part: bytes, key: bytes) -> bytes:
    # Leaves and nodes are hashed apart: bytes of a value that look like names must not be taken for a node.
    return hashlib.blake2b(part, digest_size=NAME, key=key, person=b"leaf").digest()


def _node_name(row: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=NAME, key=key, person=b"node").digest()


def _leaf(part: bytes, seal: Seal | None) -> bytes:
    row = _RAW + part
    if len(part) >= _WORTH_DEFLATING:
        # The quickest level, without header and checksum: the name says already whether a piece is sound.
        packer = zlib.compressobj(1, zlib.DEFLATED, -15, 8)
        small = packer.compress(part) + packer.flush()
        # For less than an eighth it is not worth unpacking at every read.
        if len(small) < len(part) * 7 // 8:
            row = _DEFLATED + small
    return row if seal is None else _SEALED + _encrypt(seal.cipher, row)


def _opened(row: bytes, seal: Seal | None) -> bytes:
    """The bytes of the value that a row holds."""
    if row[:1] == _SEALED and seal is not None:
        row = _decrypt(seal.cipher, row[1:])
    if row[:1] == _RAW:
        return row[1:]
    if row[:1] != _DEFLATED:
        problem = "a piece is altered"
        raise ValueError(problem)
    try:
        unpacker = zlib.decompressobj(-15)
        # Bounded: a piece that was tampered with must not blow up to gigabytes before its name is checked.
        return unpacker.decompress(row[1:], _LARGEST)
    except zlib.error as error:
        problem = "a piece is altered"
        raise ValueError(problem) from error


def _encrypt(cipher: Cipher, data: bytes) -> bytes:
    name, sealed = cipher.encrypt(data)
    return name.encode() + b"\0" + sealed


def _decrypt(cipher: Cipher, data: bytes) -> bytes:
    name, _, sealed = data.partition(b"\0")
    return cipher.decrypt(name.decode(), sealed)
