"""One thread of another saver becomes a session, checkpoint by checkpoint, at the times at which they were made."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langchain_sessions._core.edge import require
from langchain_sessions._importing.past import at_past_times
from langchain_sessions._importing.undecoded import NotDecodedError, importing_serde
from langchain_sessions._importing.values import SourceError, StoredCheckpoint, StoredWrite
from langchain_sessions._log.log import log_of
from langchain_sessions.checkpointer import SessionCheckpointSaver
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langchain_sessions._importing.values import CheckpointName, ThreadSource
    from langchain_sessions.service import SessionService

_SENDS = "__pregel_tasks"
_PICKLED = "pickle"
_TRIED = 4
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, LookupError, RecursionError, NotImplementedError)
"""What a serializer raises on damaged bytes, or on bytes of another key."""


class ThreadImport:
    """Writes threads into the sessions of one service."""

    def __init__(
        self,
        sessions: SessionService,
        source: ThreadSource,
        serde: SerializerProtocol | None,
        tell: Callable[[str, str, str], None],
        step: Callable[[], None] = lambda: None,
    ) -> None:
        """Say `tell(thread, checkpoint, problem)` for whatever cannot be taken over, `step()` after each checkpoint."""
        log = log_of(sessions)
        self._source = source
        self._reader = importing_serde(serde)
        self._tell = tell
        self._step = step
        self._now = datetime.now(timezone.utc)
        self._sessions = at_past_times(sessions, lambda: self._now)
        self._writer = importing_serde(log.codec.serde)

    def metadata(self, thread_id: str) -> Mapping[str, Any]:
        """The metadata of a thread's newest checkpoint that can be read; empty where none can."""
        for named in reversed(self._source.checkpoints(thread_id)):
            if named.namespace:
                continue
            try:
                stored = self._source.checkpoint(thread_id, named).metadata
                return self._deserialized(stored) if isinstance(stored, tuple) else stored
            except (SourceError, NotDecodedError):
                continue
        return {}

    def check_key(self) -> None:
        """Try the key of a source that encrypts, before anything is written.

        Raises:
            InvalidInputError: None of the values that were tried opens.
        """
        tried = 0
        with suppress(SourceError):
            for sealed in islice(self._sealed(), _TRIED):
                tried += 1
                with suppress(SourceError, NotDecodedError):
                    self._deserialized(sealed)
                    return
        has_key = isinstance(self._reader, EncryptedSerializer)
        why = "this is not its key" if has_key else "give its serializer, such as EncryptedSerializer"
        require(not tried, "serde", f"the source is encrypted, and {why}")

    def _sealed(self) -> Iterator[tuple[str, bytes]]:
        """An encrypted value of each of the newest checkpoints of a few threads."""
        for thread_id in islice(self._source.threads(), _TRIED):
            for named in self._source.checkpoints(thread_id)[-_TRIED:]:
                stored = self._source.checkpoint(thread_id, named)
                values: list[Any] = [stored.body, *stored.values.values(), *((w.tag, w.data) for w in stored.writes)]
                yield from [value for value in values if isinstance(value, tuple) and "+" in value[0]][:1]

    def take(self, thread_id: str, owner: str | None, places: Sequence[CheckpointName] | None = None) -> int:
        """Take over what the session does not have yet of a thread; returns how many checkpoints that was.

        Args:
            thread_id: The thread.
            owner: Whose it becomes.
            places: Only these checkpoints.

        Raises:
            SourceError: The thread's checkpoints cannot be listed.
            SessionNotFoundError: There is such a session, and it is somebody else's.
        """
        places = self._source.checkpoints(thread_id) if places is None else places
        # Each thread with a saver of its own: what it remembers of a thread goes with it.
        saver = SessionCheckpointSaver(self._sessions.as_user(owner), serde=self._writer, owner="ignore")
        present = {
            (config["checkpoint_ns"], config["checkpoint_id"]): len(found.pending_writes or ())
            for found in saver.list({"configurable": {"thread_id": thread_id}})
            if (config := found.config.get("configurable"))
        }
        done = 0
        for named in places:
            try:
                taken = self._take_one(saver, thread_id, named, present.get((named.namespace, named.id)))
            except (SourceError, NotDecodedError, InvalidInputError) as problem:
                self._tell(thread_id, named.id, str(problem))
            else:
                done += taken
            self._step()
        return done

    def _take_one(
        self, saver: SessionCheckpointSaver, thread_id: str, named: CheckpointName, present: int | None
    ) -> bool:
        stored = self._source.checkpoint(thread_id, named)
        if present is not None and present >= len(stored.writes):
            return False
        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": named.namespace}}
        if present is None:
            checkpoint = self._checkpoint(thread_id, stored)
            metadata: Any = (
                self._deserialized(stored.metadata) if isinstance(stored.metadata, tuple) else stored.metadata
            )
            self._now = _moment(checkpoint.get("ts"))
            parent = {"checkpoint_id": stored.parent} if stored.parent else {}
            at: Any = {"configurable": {**config["configurable"], **parent}}
            saver.put(at, checkpoint, metadata, checkpoint["channel_versions"])
        config["configurable"]["checkpoint_id"] = named.id
        for group in _tasks(stored.writes):
            values = list(self._written(thread_id, named, group))
            if values:
                saver.put_writes(config, values, group[0].task_id, group[0].task_path)
        return present is None

    def _checkpoint(self, thread_id: str, stored: StoredCheckpoint) -> Any:
        """The checkpoint as its graph put it."""
        body: Any = self._deserialized(stored.body) if isinstance(stored.body, tuple) else dict(stored.body)
        if type(body) is not dict or "id" not in body or "channel_versions" not in body:
            raise SourceError("it is no checkpoint")
        values = dict(body.get("channel_values") or {})
        for channel, value in stored.values.items():
            try:
                values[channel] = self._deserialized(value)
            except (SourceError, NotDecodedError) as problem:
                self._tell(thread_id, stored.id, f"channel {channel!r}: {problem}")
        if (sends := body.pop("sends", None)) is not None:
            values[_SENDS] = [self._deserialized(send) for send in sends]
        return {**body, "channel_values": values}

    def _written(
        self, thread_id: str, named: CheckpointName, writes: Sequence[StoredWrite]
    ) -> Iterator[tuple[str, Any]]:
        for write in writes:
            try:
                yield write.channel, self._deserialized((write.tag, write.data))
            except (SourceError, NotDecodedError) as problem:
                self._tell(thread_id, named.id, f"what was written to {write.channel!r}: {problem}")

    def _deserialized(self, value: tuple[str, bytes]) -> Any:
        tag = value[0]
        if tag.partition("+")[0] == _PICKLED:
            raise NotDecodedError(tag)
        try:
            return self._reader.loads_typed(value)
        except NotDecodedError:
            raise
        except _UNREADABLE as error:
            why = "its key fits not, or it is damaged" if "+" in tag else "it is damaged"
            raise SourceError(why) from error


def _tasks(writes: Sequence[StoredWrite]) -> Iterator[Sequence[StoredWrite]]:
    """The writes of each task: those that replace, and those that stay, as they were put."""
    groups: dict[tuple[str, str, bool], list[StoredWrite]] = {}
    for write in writes:
        groups.setdefault((write.task_path, write.task_id, write.idx < 0), []).append(write)
    yield from groups.values()


def _moment(told: Any) -> datetime:
    try:
        at = datetime.fromisoformat(told)
    except (TypeError, ValueError):
        return datetime.now(timezone.utc)
    return at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)
