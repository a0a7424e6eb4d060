"""Coming over: what LangGraph's savers and other libraries stored becomes sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_sessions._core.edge import require, told
from langchain_sessions._core.lazy import at_the_top
from langchain_sessions._core.rows import Anyone
from langchain_sessions._core.twins import finish
from langchain_sessions._importing.conversations import HistoryImport
from langchain_sessions._importing.logs import LogImport
from langchain_sessions._importing.opening import open_source
from langchain_sessions._importing.prediction import (
    FEW,
    MOST,
    SAMPLE,
    Grown,
    Predicted,
    sampled_threads,
    scaled_messages,
)
from langchain_sessions._importing.several import count_of
from langchain_sessions._importing.threads import ThreadImport
from langchain_sessions._importing.values import SourceError
from langchain_sessions._log.log import log_of
from langchain_sessions.errors import (
    CorruptRowError,
    EventConflictError,
    InvalidInputError,
    SessionEndedError,
    SessionNotFoundError,
)
from langchain_sessions.service import SessionService

if TYPE_CHECKING:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from sqlalchemy.engine import URL

    from langchain_sessions._importing.several import Found
    from langchain_sessions._importing.values import CheckpointName, History, HistorySource, ThreadSource

OwnerOf = Callable[[str, Mapping[str, Any]], "str | None"]
# Problems that a report names; a source that is damaged throughout has millions.
_LISTED = 1000
# Seconds between two reports of progress within one thread.
_PAUSE = 1.0
_Listed = TypeVar("_Listed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProblem:
    """Something that was not taken over.

    Attributes:
        thread: The thread or conversation; empty where more of them could not even be listed.
        checkpoint: The checkpoint; empty where it is the whole thread.
        problem: What is wrong with it, without any text of the conversation.
    """

    thread: str
    checkpoint: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """How far an import is.

    Attributes:
        thread: The thread that was just finished, or is being taken over.
        threads: How many are finished.
        total: How many there are.
        seconds_left: How long the rest will take at the speed so far.
        checkpoints: How many were looked at.
        checkpoints_total: How many there are; 0 of sources without.
    """

    thread: str
    threads: int
    total: int
    seconds_left: float
    checkpoints: int = 0
    checkpoints_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did.

    Attributes:
        threads: Threads, or conversations, that are here now.
        unchanged: How many of them were here before, whole.
        checkpoints: Checkpoints that were taken over.
        messages: Messages that were taken over, each counted once, with the other entries of the logs that came along.
        problems: What was not taken over; at most the first thousand.
        problem_count: How many problems there were in all.
        bytes_before: The size of the source; None where nobody knows.
        bytes_after: How much the target grew; None where nobody knows. Of a prediction, what an import would need in
            SQLite.
        unowned: How many of the threads are nobody's; of a prediction, of its sample.
    """

    threads: int
    unchanged: int
    checkpoints: int
    messages: int
    problems: tuple[ImportProblem, ...]
    problem_count: int
    bytes_before: int | None
    bytes_after: int | None
    unowned: int = 0


@told
def import_threads(
    sessions: SessionService,
    source: str | Path | URL | InMemorySaver,
    *,
    user: str | None = None,
    user_from: str | OwnerOf | None = None,
    serde: SerializerProtocol | None = None,
    progress: Callable[[ImportProgress], None] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Take over what another library stored. The source is only read, and may be in use.

    A thread becomes the session of its id, with the times at which its checkpoints were made. What is here already
    stays: a second import adds what is missing, and one that was broken off goes on. Values of classes that nobody
    allowed travel as the bytes that they are, and the graph that knows them finds them. Pickled values are never
    loaded; they are among the problems, as is whatever is damaged.

    Args:
        sessions: Where to; of a view of `as_user` every thread becomes that user's.
        source: A file, the URL of a database, or an `InMemorySaver`. What it is, it tells itself: databases of
            LangGraph's savers, `SQLChatMessageHistory`, langchain-postgres, openai-agents and Google ADK; exports
            of ChatGPT and Claude, JSON of LangChain's messages, lines of OpenAI's chat format or `export_sessions`.
        user: Who owns every thread.
        user_from: Who owns each thread: a place such as `metadata.user_id` in the metadata of its newest checkpoint,
            or a function of the thread's id and this metadata. Where it finds nobody, `user` owns it, else nobody.
        serde: The source's serializer, where it encrypts.
        progress: Called after each thread, and every second within a long one.
        dry_run: Write nothing here. A sample is taken over into a file that is thrown away, the newest checkpoints of
            a few threads, all of them if they are few; the report says what the whole source would come to.

    Raises:
        InvalidInputError: The source cannot be read, is locked, is nothing that is known here, or is encrypted and
            `serde` does not open it. Nothing was written.
        StoreError: The target failed. What was taken over until then is whole.
    """
    owner_of = _owner_of(sessions, user, user_from)
    with _opened(source) as found:
        if found.threads is not None:
            # Before anything is made or written: with the wrong key every single checkpoint would be a problem.
            ThreadImport(sessions, found.threads, serde, lambda *_: None).check_key()
        if dry_run:
            return _predicted(sessions, found, _Prediction(owner_of, serde, progress))
        # Tables are made on first use; what they take while they are empty is not what is taken over.
        sessions.list_sessions(limit=1)
        before = _size(sessions)
        run = _Run(sessions, owner_of, progress)
        run.take(found, serde)
        after = _size(sessions)
        return run.report(found.size(), None if before is None or after is None else max(after - before, 0))


@told
async def aimport_threads(
    sessions: SessionService,
    source: str | Path | URL | InMemorySaver,
    *,
    user: str | None = None,
    user_from: str | OwnerOf | None = None,
    serde: SerializerProtocol | None = None,
    progress: Callable[[ImportProgress], None] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Async `import_threads`, in a thread of its own. A cancelled caller leaves whole checkpoints behind."""
    work = asyncio.to_thread(
        import_threads,
        sessions,
        source,
        user=user,
        user_from=user_from,
        serde=serde,
        progress=progress,
        dry_run=dry_run,
    )
    return await finish(work)


class _Run:
    """One import: what it did so far."""

    def __init__(
        self, sessions: SessionService, owner_of: OwnerOf, progress: Callable[[ImportProgress], None] | None
    ) -> None:
        self._sessions = sessions
        self._owner_of = owner_of
        self._progress = progress
        self._problems: list[ImportProblem] = []
        self._problem_count = 0
        self._threads = self._unchanged = self._unowned = self._checkpoints = self._messages = 0
        self._began = self._told = time.monotonic()
        self._at, self._done, self._total, self._steps, self._steps_total = "", 0, 0, 0, 0

    def take(self, source: Found, serde: SerializerProtocol | None) -> None:
        """Take over every thread and every conversation of a source."""
        if (threads := source.threads) is not None:
            self.take_threads(threads, serde, dict.fromkeys(self._listed(threads.threads())), threads.count())
        if source.histories is not None:
            self.take_histories(source.histories)

    def take_threads(
        self,
        source: ThreadSource,
        serde: SerializerProtocol | None,
        chosen: Mapping[str, Sequence[CheckpointName] | None],
        steps: int,
    ) -> None:
        """Take over some threads, of each the checkpoints that are named, or all; so many checkpoints in all."""
        work = ThreadImport(self._sessions, source, serde, self._note, self._step)
        self._total, self._steps_total = len(chosen), steps
        for thread_id, places in chosen.items():
            self._at = thread_id
            try:
                self._take_thread(work, thread_id, places)
            except SourceError as problem:
                self._note(thread_id, "", str(problem))
            except SessionNotFoundError:
                self._note(thread_id, "", self._whose(thread_id))
            except (InvalidInputError, SessionEndedError) as problem:
                self._note(thread_id, "", str(problem))
            self._done += 1
            self._tell()

    def _take_thread(self, work: ThreadImport, thread_id: str, places: Sequence[CheckpointName] | None) -> None:
        owner = self._owner_of(thread_id, work.metadata(thread_id))
        before = self._count(thread_id, owner)
        taken = work.take(thread_id, owner, places)
        self._threads += 1
        self._unowned += owner is None
        self._unchanged += taken == 0
        self._checkpoints += taken
        self._messages += self._count(thread_id, owner) - before

    def take_histories(self, source: HistorySource, every: int = 1, most: int | None = None) -> None:
        """Take over one of so many conversations, of each at most so many messages."""
        messages, logs = HistoryImport(self._sessions, self._note), LogImport(self._sessions, self._note)
        self._total += -(-count_of(source) // every)
        # From here on conversations tell how far it is.
        self._steps = self._steps_total = 0
        for whole in islice(self._listed(source.histories()), 0, None, every):
            history = replace(whole, events=islice(whole.events, most))
            self._at = history.id
            owner = self._owner_of(history.id, {"user_id": history.user_id, **history.metadata}) or history.user_id
            self._take_history(messages if history.head is None else logs, history, owner)
            self._done += 1
            self._tell()

    def _take_history(self, work: HistoryImport | LogImport, history: History, owner: str | None) -> None:
        problems, before, given = self._problem_count, self._count(history.id, owner), 0
        try:
            given = work.take(history, owner)
        except SessionNotFoundError:
            self._note(history.id, "", self._whose(history.id))
        except EventConflictError as problem:
            said = f"another conversation is here under this id: its event {problem.event_id!r} says something else"
            self._note(history.id, "", said)
        except (InvalidInputError, SessionEndedError, CorruptRowError) as problem:
            self._note(history.id, "", str(problem))
        after = self._count(history.id, owner)
        is_whole = self._problem_count == problems
        # What was written before or after what is wrong is here, and counts.
        if is_whole or given or after > before:
            self._threads += 1
            self._unowned += owner is None
            self._unchanged += is_whole and after == before
            self._messages += after - before

    def _count(self, thread_id: str, owner: str | None) -> int:
        """How many entries the log of a session has."""
        try:
            return self._sessions.as_user(owner).get(thread_id).version
        except (SessionNotFoundError, InvalidInputError):
            return 0

    def _whose(self, thread_id: str) -> str:
        """Why a session that is here is out of reach of the owner that a thread is to have."""
        try:
            is_unowned = self._sessions.get(thread_id).user_id is None
        except SessionNotFoundError:
            is_unowned = False
        if is_unowned:
            return "a session of that id is here, and is nobody's: import it without a user, or delete it before"
        return "a session of that id is somebody else's"

    def _listed(self, threads: Iterator[_Listed]) -> Iterator[_Listed]:
        try:
            yield from threads
        except SourceError as problem:
            self._note("", "", f"no further threads can be listed: {problem}")

    def _note(self, thread: str, checkpoint: str, problem: str) -> None:
        self._problem_count += 1
        if len(self._problems) < _LISTED:
            self._problems.append(ImportProblem(thread=thread, checkpoint=checkpoint, problem=problem))

    def _step(self) -> None:
        self._steps += 1
        if self._progress is not None and time.monotonic() - self._told >= _PAUSE:
            self._tell()

    def _tell(self) -> None:
        if self._progress is None:
            return
        self._told = time.monotonic()
        done, total = (self._steps, self._steps_total) if self._steps_total else (self._done, self._total)
        left = (self._told - self._began) / max(done, 1) * max(total - done, 0)
        self._progress(
            ImportProgress(
                thread=self._at,
                threads=self._done,
                total=max(self._total, self._done),
                seconds_left=left,
                checkpoints=self._steps,
                checkpoints_total=max(self._steps_total, self._steps),
            )
        )

    @property
    def messages(self) -> int:
        """How many messages were taken over."""
        return self._messages

    def report(self, before: int | None, after: int | None) -> ImportReport:
        """What was done."""
        return ImportReport(
            threads=self._threads,
            unchanged=self._unchanged,
            unowned=self._unowned,
            checkpoints=self._checkpoints,
            messages=self._messages,
            problems=tuple(self._problems),
            problem_count=self._problem_count,
            bytes_before=before,
            bytes_after=after,
        )


@dataclass(frozen=True, slots=True)
class _Prediction:
    """How a prediction reads its source."""

    owner_of: OwnerOf
    serde: SerializerProtocol | None
    progress: Callable[[ImportProgress], None] | None


def _predicted(sessions: SessionService, source: Found, how: _Prediction) -> ImportReport:
    """What an import would come to, from one of a sample into a file that is thrown away."""
    log = log_of(sessions)
    with (
        TemporaryDirectory(prefix="langchain-sessions-") as directory,
        SessionService(
            f"sqlite:///{Path(directory) / 'sample.db'}",
            app=log.app,
            codec=log.codec.serde,
            encrypted=log.codec.encrypts,
            synchronous="NORMAL",
        ) as sample,
    ):
        sample.create_schema()
        run = _Run(sample, how.owner_of, how.progress)
        at = Grown(_size(sample) or 0, 0)

        def grown() -> Grown:
            return Grown(max((_size(sample) or 0) - at.bytes, 0), run.messages - at.messages)

        found: list[Predicted] = []
        if source.threads is not None:
            chosen = sampled_threads(source.threads)
            run.take_threads(source.threads, how.serde, chosen.first, chosen.size)
            first = grown()
            run.take_threads(source.threads, how.serde, chosen.rest, chosen.size)
            found.append(chosen.scaled(first, grown()))
        if source.histories is not None:
            at = Grown(_size(sample) or 0, run.messages)
            messages = source.histories.count()
            every = max(1, -(-count_of(source.histories) // SAMPLE)) if messages is None or messages > FEW else 1
            run.take_histories(source.histories, every, None if messages is None or messages <= FEW else MOST)
            found.append(scaled_messages(grown(), messages, every))
        report = run.report(source.size(), sum(each.bytes for each in found))
    return replace(
        report,
        threads=sum(count_of(each) for each in (source.threads, source.histories) if each is not None),
        unchanged=0,
        checkpoints=sum(each.checkpoints for each in found),
        messages=sum(each.messages for each in found),
    )


def _size(sessions: SessionService) -> int | None:
    """How many bytes the database of a service takes; None where it does not tell."""
    return log_of(sessions).store.describe().bytes


@contextmanager
def _opened(source: Any) -> Iterator[Found]:
    found = open_source(source)
    try:
        yield found
    finally:
        found.close()


def _owner_of(sessions: SessionService, user: str | None, user_from: str | OwnerOf | None) -> OwnerOf:
    bound = log_of(sessions).owner
    if not isinstance(bound, Anyone):
        problem = "the sessions are a user's already; leave it out, or give the service itself"
        require(user is None and user_from is None, "user", problem)
        return lambda _thread, _metadata: bound
    if user_from is None:
        return lambda _thread, _metadata: user
    if callable(user_from):
        asked = user_from
        return lambda thread, metadata: asked(thread, metadata) or user
    root, *path = user_from.split(".")
    require(root == "metadata" and bool(path), "user_from", "name a place in the metadata, such as metadata.user_id")
    return lambda _thread, metadata: _found(metadata, path) or user


def _found(metadata: Mapping[str, Any], path: list[str]) -> str | None:
    value: Any = metadata
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return str(value).strip() or None if isinstance(value, (str, int)) else None


if not TYPE_CHECKING:
    __getattr__ = at_the_top(__name__)
