"""The contract of a summariser, what it is given, what it gives back, and the limits that it is held to.

Whatever a summariser does (raise, hang, return nothing, too much or something else) ends as a `SummaryError`
with an outcome; no answer to a user depends on it.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from langchain_sessions._compaction.plan import Outcome
from langchain_sessions._core.codec.values import dump_exact
from langchain_sessions._core.edge import require
from langchain_sessions._core.showing import brief
from langchain_sessions.errors import InvalidInputError, SummaryError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from langchain_sessions._tokens.base import TokenCounter
    from langchain_sessions.events import SessionEvent

PLAIN_CHARACTERS = 4_000
_MAX_TITLE = 200
_SENTENCE_END = re.compile(
    r"[.!?][\"'”’)\]]*(?=\s|$)|[。！？।][”’」』）\"]*|\n"  # noqa: RUF001 - of Chinese, Japanese and Hindi too
)
_SENTENCE_ENDS = ".!?\n。！？।"  # noqa: RUF001


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryLimits:
    """What a summary may cost.

    Attributes:
        max_characters: How long it may be; 4 000, or 1 000 for a structured one, where nothing is said. What is
            longer is cut at the end of a sentence; what is more than twice as long is refused.
        max_input_tokens: How much one call is shown. By default the model's profile says it, else 8 192 is assumed;
            what is archived beyond that takes several calls.
        tool_characters: How much of each tool call's arguments and of each result is shown.
        timeout: For the whole run, all calls and retries together.
        retries: How often a call that failed is made again.
        max_calls: A run that would take more calls archives less, and the next run goes on from there.
        max_growth: A summary that leaves the context larger by more tokens than this is not worth it.
        cool_down: How long no run is triggered after one that failed, so that a broken model costs its timeout once
            and not on every turn. A forced run does not wait.
    """

    max_characters: int | None = None
    max_input_tokens: int | None = None
    tool_characters: int = 2_000
    timeout: timedelta = timedelta(seconds=60)
    retries: int = 1
    max_calls: int = 12
    max_growth: int = 100
    cool_down: timedelta = timedelta(seconds=60)

    def __repr__(self) -> str:
        """Short: what was given."""
        return brief(self)

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        for name in ("max_characters", "max_input_tokens"):
            number = getattr(self, name)
            require(number is None or number > 0, name, "give a number above 0")
        for name in ("tool_characters", "max_calls"):
            require(getattr(self, name) > 0, name, "give a number above 0")
        for name in ("retries", "max_growth"):
            require(getattr(self, name) >= 0, name, "must not be negative")
        require(self.timeout > timedelta(0), "timeout", "give a timedelta above zero")
        require(self.cool_down >= timedelta(0), "cool_down", "must not be negative")


@dataclass(frozen=True, kw_only=True, slots=True)
class SummaryTask:
    """What is to be summarised.

    Attributes:
        archived: The events that the summary stands for, in context order, all of them.
        previous: The text of the summary in force, which the new one replaces; None where there is none.
        upcoming: Events that stay in the context right after the summary. For orientation only.
        counter: Counts tokens.
        limits: What it may cost.
        deadline: On the clock of `time.monotonic`; no call is begun after it.
    """

    archived: tuple[SessionEvent, ...]
    counter: TokenCounter
    previous: str | None = None
    upcoming: tuple[SessionEvent, ...] = ()
    limits: SummaryLimits = SummaryLimits()
    deadline: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a summariser made.

    Attributes:
        text: What the model will read in place of the archived events.
        title: A title for the session.
        keywords: Keywords for the session.
        details: The remaining fields of a structured summary; they become metadata of the summary's event.
        calls: How many model calls it took.
        is_cut: The model's limit cut it off; it ends with the last whole sentence before.
    """

    text: str
    title: str | None = None
    keywords: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: int = 0
    is_cut: bool = False


class Summarizer(Protocol):
    """Makes summaries. Both methods do the same; either may do I/O and raise what it likes."""

    def summarize(self, task: SummaryTask) -> Summary | str:
        """Summarise `task.archived` together with `task.previous`."""
        ...

    def asummarize(self, task: SummaryTask) -> Coroutine[Any, Any, Summary | str]:
        """Async `summarize`; write it as `async def`."""
        ...


class GuardedSummarizer:
    """Holds another summariser to its limits. Raises `SummaryError` and nothing else."""

    def __init__(self, summarizer: Summarizer) -> None:
        """Guard a summariser."""
        self._summarizer = summarizer

    def summarize(self, task: SummaryTask) -> Summary:
        """A checked summary, or a `SummaryError`; never later than the timeout.

        The work runs on a daemon thread: one that hangs is left behind and keeps neither the caller nor the
        end of the process waiting.
        """
        task = _with_deadline(task)
        answer: list[object] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                answer.append(self._summarizer.summarize(task))
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
                failure.append(error)

        # With the caller's context, so that a summariser's model is traced where its caller is.
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(work,), name="summarize", daemon=True)
        thread.start()
        thread.join(task.limits.timeout.total_seconds())
        if failure:
            raise _as_summary_error(failure[0]) from failure[0]
        if not answer:
            raise _too_late(task)
        return _checked(answer[0], task)

    async def asummarize(self, task: SummaryTask) -> Summary:
        """Async `summarize`."""
        task = _with_deadline(task)

        async def run() -> object:
            return await self._summarizer.asummarize(task)

        work = asyncio.ensure_future(run())
        try:
            # Not `wait_for`: a model that ignores its cancellation must not keep the caller waiting.
            await asyncio.wait({work}, timeout=task.limits.timeout.total_seconds())
        finally:
            if not work.done():
                work.cancel()
                work.add_done_callback(_retrieve)
        if not work.done():
            raise _too_late(task)
        if work.cancelled():
            raise SummaryError(Outcome.SUMMARY_FAILED, "the summariser was cancelled")
        if (error := work.exception()) is not None:
            raise _as_summary_error(error) from error
        return _checked(work.result(), task)


def _retrieve(work: asyncio.Future[Any]) -> None:
    """Read the result of abandoned work, so that nobody complains that it was never read."""
    if not work.cancelled():
        work.exception()


def _with_deadline(task: SummaryTask) -> SummaryTask:
    return replace(task, deadline=time.monotonic() + task.limits.timeout.total_seconds())


def _too_late(task: SummaryTask) -> SummaryError:
    seconds = task.limits.timeout.total_seconds()
    return SummaryError(Outcome.SUMMARY_FAILED, f"no summary within {seconds:g} seconds")


def _as_summary_error(error: BaseException) -> BaseException:
    """The error as one of ours; what is no `Exception` goes on as it is."""
    if isinstance(error, SummaryError) or not isinstance(error, Exception):
        return error
    return SummaryError(Outcome.SUMMARY_FAILED, f"the summariser raised {type(error).__name__}")


def _checked(answer: object, task: SummaryTask) -> Summary:
    """The answer as a summary within its limits.

    Raises:
        SummaryError: It is none.
    """
    if answer is None or answer in ("", []):
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    if isinstance(answer, str):
        answer = Summary(text=answer)
    if not isinstance(answer, Summary) or type(answer.text) is not str:
        raise SummaryError(Outcome.SUMMARY_FAILED, f"the summariser returned {type(answer).__name__}, not a summary")
    text = fit_text(answer.text, task.limits.max_characters or PLAIN_CHARACTERS)
    try:
        dump_exact(dict(answer.details), "details")
    except InvalidInputError as error:
        raise SummaryError(Outcome.SUMMARY_FAILED, "the summary's details cannot be stored") from error
    return replace(answer, text=text, title=clean_title(answer.title), keywords=_clean_words(answer.keywords))


def fit_text(text: str, max_characters: int) -> str:
    """A summary's text within its length, cut at the end of a sentence where it is a little too long.

    Raises:
        SummaryError: It is blank, or so long that cutting would lose half of it.
    """
    text = text.strip()
    if not text:
        raise SummaryError(Outcome.SUMMARY_BLANK, "the summary is blank")
    if len(text) <= max_characters:
        return text
    if len(text) > 2 * max_characters:
        problem = f"the summary has {len(text)} characters; at most {max_characters} are allowed"
        raise SummaryError(Outcome.SUMMARY_FAILED, problem)
    return cut_text(text, max_characters)


def cut_text(text: str, max_characters: int) -> str:
    """The beginning of a text, up to the last sentence or word that fits."""
    if len(text) <= max_characters:
        return text
    head = text[:max_characters]
    end = max(head.rfind(mark) for mark in _SENTENCE_ENDS)
    # Rather in the middle of a sentence than without half of the text.
    if end >= max_characters // 2:
        return head[: end + 1].rstrip()
    word = head.rfind(" ", max_characters // 2, max_characters - 1)
    return f"{head[: word if word > 0 else max_characters - 1].rstrip()}…"


def whole_sentences(text: str) -> str:
    """A text that was cut off up to the end of its last whole sentence or line; blank where there is none."""
    ends = [end.end() for end in _SENTENCE_END.finditer(text.rstrip())]
    return text[: ends[-1]].rstrip() if ends else ""


def clean_title(title: object) -> str | None:
    """A title in one line of characters that can be stored; None where there is none."""
    if not isinstance(title, str):
        return None
    line = " ".join("".join(c if c.isprintable() or c.isspace() else " " for c in title).split())
    return cut_text(line, _MAX_TITLE) or None


def _clean_words(words: object) -> tuple[str, ...]:
    if not isinstance(words, (list, tuple)):
        return ()
    cleaned = (clean_title(word) for word in words)  # pyright: ignore[reportUnknownVariableType]
    return tuple(dict.fromkeys(word for word in cleaned if word is not None))
