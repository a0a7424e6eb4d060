"""An engine over a folder: `file:///folder`.

    folder/format.json              what wrote it
    folder/locks/                   a file for each lock
    folder/<app>/lists/             whose sessions there are and what is due; made again where it is lost
    folder/<app>/<nn>/s-<session>/  a session: head.jsonl, rows-….jsonl, keys-….tsv

Names are digests: no id is part of a path. Several processes of one machine may use a folder at once.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname
from zlib import crc32

from filelock import FileLock

from langchain_sessions._core.edge import require
from langchain_sessions._core.rows import Anyone
from langchain_sessions.errors import CorruptRowError, SchemaMissingError, SchemaVersionError
from langchain_sessions.stores._erasing import BACKUPS, Remainder
from langchain_sessions.stores._files import folder as f
from langchain_sessions.stores._files.disk import make_folder, told, write_whole
from langchain_sessions.stores._partitioned.keys import digest
from langchain_sessions.stores.engine import Head, Listed, Partition, PartitionEngine, Range, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from langchain_sessions._core.rows import Owner

# Files of locks are never removed, since somebody may wait on one: so there is a fixed number of them.
_FORMAT, _STRIPES, _MOST_READS, _LOCK_SECONDS, _NAP = 1, 256, 20, 60, 0.002
_OURS = {"format.json", "format.json.new", "locks"}


class FilesEngine(PartitionEngine):
    """Partitions in a folder of files.

    Args:
        url: `file:///folder`.
        table_prefix: Keeps what it names apart from all else in the folder.
        create_schema: Make the folder where there is none; by default it is made.
    """

    remains = (Remainder("blocks of files that are gone, until the disk uses them again", ("fstrim -av",)), BACKUPS)

    def __init__(self, url: str, *, table_prefix: str = "", create_schema: bool | None = None) -> None:
        """See the class. Nothing is opened before first use."""
        self._root = _path(url)
        self._prefix = table_prefix
        self._creates = create_schema is not False
        self._is_checked = False

    def create_schema(self) -> None:
        with told():
            # What is there is looked at first: another process may make the folder, and begin to work, at any moment.
            others = {path.name for path in self._root.iterdir()} - _OURS if self._root.is_dir() else None
            if self._is_made():
                return
            require(not others, "database", f"the folder {self._root.name!r} holds other files; give one of its own")
            make_folder(self._root / "locks")
            with self._lock(self._root):
                write_whole(self._root / "format.json", json.dumps({"format": _FORMAT}).encode())

    def close(self) -> None:
        """Nothing is open."""

    def _is_made(self) -> bool:
        """Whether the folder is one of ours.

        Raises:
            SchemaVersionError: It was written by a newer release.
        """
        try:
            found = json.loads((self._root / "format.json").read_bytes())["format"]
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptRowError("format.json of the folder cannot be read; nothing was touched.") from error
        if found != _FORMAT:
            raise SchemaVersionError(found, _FORMAT)
        return True

    def _app(self, app: str) -> Path:
        """The folder of an app, once it is sure whose root it is in."""
        if not (self._is_checked and (self._root / "format.json").exists()):  # somebody may have moved it meanwhile
            if self._creates:
                self.create_schema()
            elif not self._is_made():
                raise SchemaMissingError
            self._is_checked = True
        return self._root / digest(f"{self._prefix}\0{app}")

    def _folder(self, partition: Partition) -> Path:
        return self._app(partition.app) / (partition.id[:2] or "00") / f"{partition.kind}-{partition.id}"

    def _lock(self, folder: Path) -> AbstractContextManager[object]:
        """Take the lock of a folder: not in it, since it goes with its session. Those of lists are others."""
        name = f"{folder.name[0]}{crc32(str(folder.relative_to(self._root)).encode()) % _STRIPES:02x}"
        return FileLock(self._root / "locks" / name, _LOCK_SECONDS).acquire(poll_interval=_NAP)

    # -- reading -------------------------------------------------------------------------------------------

    def read_heads(self, partitions: Sequence[Partition]) -> list[Head | None]:
        with told():
            states = [f.load_state(self._folder(partition)) for partition in partitions]
        return [None if state is None else state.head for state in states]

    def read_rows(self, partition: Partition, ranges: Sequence[Range]) -> list[list[Row]]:
        return self._read(self._folder(partition), ranges)

    def _read(self, folder: Path, ranges: Sequence[Range]) -> list[list[Row]]:
        """The rows of a folder; read again where its files were replaced in between."""
        with told():
            for _ in range(_MOST_READS):
                state = f.load_state(folder)
                if state is None:
                    return [[] for _ in ranges]
                with contextlib.suppress(FileNotFoundError):
                    return f.read_rows(folder, state, ranges)
        raise CorruptRowError("A file of a session is missing that its head names; restore it from a copy.")

    # -- writing -------------------------------------------------------------------------------------------

    def commit(self, partition: Partition, expected: int, head: Head | None, rows: Mapping[str, bytes | None]) -> bool:
        folder = self._folder(partition)
        with told(), self._lock(folder):
            was = f.load_state(folder)
            if expected != (0 if was is None else was.head.version):
                return False
            state = None if head is None else self._prepared(folder, was, head, rows)
            before, after = _places(partition, None if was is None else was.head), _places(partition, head)
            # Before the head: an entry too many is passed over, and one that is missing would hide a session.
            self._list(folder.parent.parent, dict.fromkeys(after - before, b""))
            if state is not None:
                f.replace_head(folder, state, was)
            else:
                f.erase(folder)
            with contextlib.suppress(OSError):  # whoever reads a list compares it with the heads
                self._list(folder.parent.parent, dict.fromkeys(before - after))
            return True

    def _prepared(self, folder: Path, was: f.State | None, head: Head, rows: Mapping[str, bytes | None]) -> f.State:
        """Write all that a commit needs before its head."""
        if was is None:
            make_folder(folder)
            f.sweep(folder, [])  # what a crash left of somebody else
            was = f.new_state(head)
        was = f.with_runs_made(folder, was)
        return (f.write_rows(folder, was, rows) if rows else was)._replace(head=head)

    def remove_rows(self, partition: Partition, below: str) -> None:
        folder = self._folder(partition)
        with told(), self._lock(folder):
            if (state := f.load_state(folder)) is None:  # a first commit may have been cut short
                f.erase(folder)
            elif below and not f.read_rows(folder, state, [Range("", below, 1)])[0]:
                f.replace_head(folder, state, None)
            else:
                f.replace_head(folder, f.rewritten(folder, state, below), None)

    # -- lists ---------------------------------------------------------------------------------------------

    def list_heads(self, app: str, owner: Owner, after: tuple[int, int] | None, limit: int) -> list[Listed]:
        whose = _whose(owner)
        high = f"{whose}0" if after is None else f"{whose}/{after[0]:016x}/{after[1]:016x}"
        return self._listed(app, Range(f"{whose}/", high, limit, newest=True))

    def list_due(self, app: str, before: int, after: Listed | None, limit: int) -> list[Listed]:
        low = "due/" if after is None else f"due/{after.place[0]:016x}/{0:016x}/{after.partition.id}0"
        return self._listed(app, Range(low, f"due/{max(before + 1, 0):016x}", limit))

    def _listed(self, app: str, wanted: Range) -> list[Listed]:
        folder = self._app(app) / "lists"
        with told():
            if folder.parent.is_dir() and f.load_state(folder) is None:
                self._list(folder.parent, None)
        found = (row.key.split("/") for row in self._read(folder, [wanted])[0])
        return [Listed(Partition(app, kind, name), (int(a, 16), int(b, 16))) for _, a, b, name, kind in found]

    def _list(self, app: Path, rows: Mapping[str, bytes | None] | None) -> None:
        """Write places of lists; where the lists are lost, make them again from all heads."""
        if rows == {}:
            return
        folder, found = app / "lists", dict(rows or {})
        with self._lock(folder):
            was = f.load_state(folder)
            for path in app.glob(f"*/*/{f.HEAD}") if was is None else ():
                state, (kind, _, name) = f.load_state(path.parent), path.parent.name.partition("-")
                found.update(dict.fromkeys(_places(Partition("", kind, name), state and state.head), b""))
            head = Head(1 if was is None else was.head.version + 1, b"")
            f.replace_head(folder, self._prepared(folder, was, head, found), was)


def _whose(owner: Owner) -> str:
    return "all" if isinstance(owner, Anyone) else "nobody" if owner is None else digest(owner)


def _places(partition: Partition, head: Head | None) -> set[str]:
    """The keys of a head in the lists."""
    due = None if head is None or head.due is None else (head.due, 0)
    parts = [] if head is None else [("all", head.listed), (_whose(head.owner), head.listed), ("due", due)]
    end = f"{partition.id}/{partition.kind}"
    return {f"{part}/{place[0]:016x}/{place[1]:016x}/{end}" for part, place in parts if place is not None}


def _path(url: str) -> Path:
    """The folder that a URL names.

    Raises:
        InvalidInputError: It names none.
    """
    parts = urlsplit(url)
    path = url2pathname(parts.path)
    is_path = parts.netloc in {"", "localhost"} and path.strip("/\\") and "\0" not in path
    problem = "give the path of a folder, such as file:///var/lib/chat; a ? in it is written %3F, a # %23"
    require(bool(is_path and not parts.query and not parts.fragment), "database", problem)
    return Path(path).absolute()
