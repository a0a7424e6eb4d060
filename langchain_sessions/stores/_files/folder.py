"""A folder with a head and ordered rows: the head, the log of the rows, and runs of keys that say where each lies.

`head.jsonl` says what the other files mean: its first line is the engine's, its second the body as it was given. It is
replaced as a whole, which is the moment of a commit: what is in the log behind the size that it names never happened.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import mmap
import re
import secrets
from base64 import b64decode, b64encode
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from langchain_sessions.errors import CorruptRowError
from langchain_sessions.stores._files.disk import append, sync, write_whole
from langchain_sessions.stores.engine import Head, Range, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

HEAD = "head.jsonl"
_TAIL_BYTES = 1 << 15
"""When the keys of a log's tail become a run: whoever reads a row has to read the tail."""
_MOST = 3
"""So many runs of a size there are; with another one they become one of the next."""
_GARBAGE = 3
"""So much larger than what it holds a log may be."""
_LINE = re.compile(rb'\{"(?:(empty|removed)":\["(.*)"\]|key":"([^"]*)","(json|text|base64)":(.*))\}', re.DOTALL)
_UNREADABLE = "A file of a session cannot be read, or was written by a newer release; other sessions can."


class State(NamedTuple):
    """What a head says.

    Attributes:
        head: The head as it was given.
        log: The file with the rows.
        size: How much of it holds.
        tail: Where the part begins whose keys are in no run.
        runs: The files of keys, with how often each was merged, the oldest first.
    """

    head: Head
    log: str
    size: int = 0
    tail: int = 0
    runs: Sequence[tuple[str, int]] = ()


Spot = tuple[str, int, int, str]
"""A key, where its value lies in the log and how long it is there, and in which form."""


# -- heads and lines ---------------------------------------------------------------------------------------


def new_state(head: Head) -> State:
    """The state of a folder without rows. No name is used twice, since others remember what they read of it."""
    return State(head, f"rows-{secrets.token_hex(4)}.jsonl")


def load_state(folder: Path) -> State | None:
    """What the head of a folder says; None where there is none.

    Raises:
        CorruptRowError: It cannot be read.
    """
    try:
        first, text, _ = (folder / HEAD).read_bytes().split(b"\n")
        said = json.loads(first)
        body = text if text[:1] == b"{" else bytes.fromhex(text.decode())
        at = said.get("listed")
        head = Head(said["version"], body, said.get("owner"), at and (at[0], at[1]), said.get("due"))
        return State(head, said["log"], said["size"], said["tail"], said["runs"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptRowError(_UNREADABLE) from error


def dump_state(state: State) -> bytes:
    """The file of a head."""
    body = state.head.body
    said = {**state.head._asdict(), **state._asdict(), "head": None, "body": None}
    text = body if body[:1] == b"{" and b"\n" not in body else body.hex().encode()
    return b"%b\n%b\n" % (json.dumps({name: each for name, each in said.items() if each is not None}).encode(), text)


def dump_rows(rows: Mapping[str, bytes | None]) -> bytes:
    """The lines of some rows."""
    made = bytearray()
    for key, value in rows.items():
        if value:
            made += b'{"key":"%b",%b}\n' % (key.encode(), _dump(value))
    for form, which in (("empty", b""), ("removed", None)):
        keys = [key for key, value in rows.items() if value == which]
        if keys:
            made += '{{"{}":["{}"]}}\n'.format(form, '","'.join(keys)).encode()
    return bytes(made)


def _dump(value: bytes) -> bytes:
    """A value as it stands in a line: JSON as it is, other text as a JSON string, all else encoded."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return b'"base64":"%b"' % b64encode(value)
    if text[0] in "[{" and "\n" not in text and "\r" not in text:
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            return b'"json":%b' % value
    return b'"text":%b' % json.dumps(text, ensure_ascii=False).encode()


def _tail(folder: Path, state: State) -> bytes:
    """A run of the keys of a log that are in none.

    Raises:
        CorruptRowError: A line is none that `dump_rows` makes.
    """
    with (folder / state.log).open("rb") as file:
        file.seek(state.tail)
        data = file.read(state.size - state.tail)
    if len(data) < state.size - state.tail:
        raise CorruptRowError(_UNREADABLE)
    places, at = dict[str, Spot](), state.tail
    for line in data.split(b"\n")[:-1]:
        found = _LINE.fullmatch(line)
        if found is None:
            raise CorruptRowError(_UNREADABLE)
        if found[1] is None:
            key = found[3].decode()
            places[key] = (key, at + found.start(5), len(found[5]), found[4].decode())
        else:
            places.update((key, (key, 0, 0, found[1].decode())) for key in found[2].decode().split('","'))
        at += len(line) + 1
    return _run(sorted(places.values()))


def _load(text: bytes, form: str) -> bytes:
    try:
        if form == "base64":
            return b64decode(text[1:-1], validate=True)
        return text if form == "json" else json.loads(text or '""').encode()
    except (ValueError, AttributeError) as error:
        raise CorruptRowError(_UNREADABLE) from error


# -- runs --------------------------------------------------------------------------------------------------


def _run(placed: Iterable[Spot]) -> bytes:
    return "".join(f"{key}\t{start}\t{size}\t{form}\n" for key, start, size, form in placed).encode()


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _in_run(data: bytes | mmap.mmap, low: str, high: str, *, newest: bool = False) -> Iterator[Spot]:
    """The rows of a run between two keys: found by halving, so that what lies elsewhere is not read."""
    first, last = _first_at(data, low.encode()), _first_at(data, high.encode())
    while first < last:
        if newest:
            start = max(data.rfind(b"\n", first, last - 1) + 1, first)
            line, last = data[start : last - 1], start
        else:
            end = data.find(b"\n", first)
            line, first = data[first:end], end + 1
        key, at, size, form = line.decode().split("\t")
        yield key, int(at), int(size), form


def _first_at(data: bytes | mmap.mmap, key: bytes) -> int:
    """Where the first line begins whose key is not smaller."""
    low, high = 0, len(data)
    while low < high:
        middle = (low + high) // 2
        start = max(data.rfind(b"\n", low, middle) + 1, low)
        if data[start : data.find(b"\t", start)] < key:
            low = data.find(b"\n", middle) + 1
        else:
            high = start
    return low


def _merged(sources: Iterable[Iterable[Spot]], *, newest: bool = False) -> Iterator[Spot]:
    """Each key once, in order, as the first of some ordered sources that has it says; removed ones too."""
    for _, same in groupby(heapq.merge(*sources, key=itemgetter(0), reverse=newest), itemgetter(0)):
        yield next(same)


# -- reading and writing -----------------------------------------------------------------------------------


def read_rows(folder: Path, state: State, ranges: Iterable[Range]) -> list[list[Row]]:
    """The rows of some ranges."""
    if not state.size:
        return [[] for _ in ranges]
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(_mapped(folder / name)) for name, _ in reversed(state.runs)]
        sources: list[bytes | mmap.mmap] = [_tail(folder, state), *runs]
        log = stack.enter_context((folder / state.log).open("rb"))
        found: list[list[Row]] = []
        for wanted in ranges:
            ordered = [_in_run(source, wanted.low, wanted.high, newest=wanted.newest) for source in sources]
            standing = (each for each in _merged(ordered, newest=wanted.newest) if each[3] != "removed")
            found.append([])
            for key, start, size, form in islice(standing, wanted.limit):
                log.seek(start)
                found[-1].append(Row(key, _load(log.read(size), form)))
        return found


def write_rows(folder: Path, state: State, rows: Mapping[str, bytes | None]) -> State:
    """Write rows behind a log: they are there once a head says so."""
    data = dump_rows(rows)
    append(folder / state.log, state.size, data)
    return state._replace(size=state.size + len(data))


def with_runs_made(folder: Path, state: State) -> State:
    """Make a run of a long tail, one run of several that have the same size, and now and then a log without garbage."""
    if state.size - state.tail < _TAIL_BYTES:
        return state
    runs, level = list(state.runs), 0
    sources: list[bytes | mmap.mmap] = [_tail(folder, state)]
    with contextlib.ExitStack() as stack:
        while len(runs) >= _MOST and runs[-_MOST][1] == level:
            sources += [stack.enter_context(_mapped(folder / name)) for name, _ in reversed(runs[-_MOST:])]
            runs, level = runs[:-_MOST], level + 1
        ordered = [_in_run(source, "", "\x7f") for source in sources]
        placed = [each for each in _merged(ordered) if runs or each[3] != "removed"]
    if level and not runs and sum(len(each[0]) + each[2] for each in placed) * _GARBAGE < state.size:
        return rewritten(folder, state, "")
    if placed:
        runs.append((f"keys-{secrets.token_hex(4)}.tsv", level))
        write_whole(folder / runs[-1][0], _run(placed))
    return state._replace(tail=state.size, runs=runs)


def rewritten(folder: Path, state: State, low: str) -> State:
    """A log of its own with what stands, from a key on."""
    fresh = new_state(state.head)
    while found := read_rows(folder, state, [Range(low, "\x7f", 100)])[0]:
        fresh, low = write_rows(folder, fresh, dict(found)), f"{found[-1].key}!"
    return fresh


def replace_head(folder: Path, state: State, was: State | None) -> None:
    """Write a head, which is the moment of a commit, and remove the files that none names any more."""
    write_whole(folder / HEAD, dump_state(state))
    if was is None or (was.log, [*was.runs]) != (state.log, [*state.runs[: len(was.runs)]]):
        # Of a log of which nothing holds there may be what a crash left.
        sweep(folder, [HEAD, *[state.log][: state.size], *(name for name, _ in state.runs)])


def erase(folder: Path) -> None:
    """Remove a folder, its head first; it need not be there."""
    with contextlib.suppress(OSError):
        (folder / HEAD).unlink(missing_ok=True)
        sync(folder)
        sweep(folder, [])
        folder.rmdir()


def sweep(folder: Path, names: Sequence[str]) -> None:
    """Remove all files but some. Where somebody still reads one, another time will do."""
    for path in folder.iterdir():
        if path.name not in names:
            with contextlib.suppress(PermissionError, FileNotFoundError):
                path.unlink()
