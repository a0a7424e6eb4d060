"""What a compaction is: when it runs, how it chooses, what it was asked with and what came of it."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

from langchain_sessions._core.edge import helpful, pointing, require
from langchain_sessions._core.showing import html_of
from langchain_sessions._tokens.usage import NO_USAGE, PromptUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage, SystemMessage

    from langchain_sessions._compaction.summarizer import Summarizer, SummaryLimits
    from langchain_sessions._core.rows import Counters
    from langchain_sessions._tokens.base import TokenCounter, Tool
    from langchain_sessions.events import SessionEvent
    from langchain_sessions.session import Session


class Outcome(Enum):
    """What came of one run."""

    COMPACTED = "compacted"
    ARCHIVED = "archived"
    """No summary was to be had and the prompt would not have fitted: archived without one, which a later run makes."""
    NOT_TRIGGERED = "not_triggered"
    """The trigger said no."""
    NOTHING_TO_DO = "nothing_to_do"
    """Nothing may be archived: only the newest turn, or what is still going on, is left."""
    LOST_RACE = "lost_race"
    """Somebody else compacted, rewound or edited the same events meanwhile, or is at it."""
    COOLING_DOWN = "cooling_down"
    """A run before this one paid for a summary in vain so lately that the summariser is not asked again yet."""
    SUMMARY_BLANK = "summary_blank"
    SUMMARY_FAILED = "summary_failed"
    """The summariser raised, hung, or returned something that is no summary."""
    NOT_WORTH_IT = "not_worth_it"
    """The context would not have become smaller."""
    FAILED = "failed"
    """A trigger, a strategy or the store raised, in a run that must not cost the user the answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """What the caller knows of the model call that a compaction is to make room for.

    Attributes:
        model: The model that will be called; its profile tells its window.
        system: The system prompt, where it is not in the log.
        tools: The tools that it is bound to.
        context_window: How many tokens the model takes, where the caller knows better.
        prompt_tokens: What the prompt counts for that would go out now, tools included: what the viewer sees of its
            ancestors, few-shots and modes are in it. Where it is not known, what is live in the scope stands for it.
        usage: What the model reported of the prompts before.
        count_message: Counts a message as `prompt_tokens` was counted; None where the counter of the service did that.
    """

    model: BaseChatModel | None = None
    system: str | SystemMessage | None = None
    tools: Sequence[Tool] = ()
    context_window: int | None = None
    prompt_tokens: int | None = None
    usage: PromptUsage = NO_USAGE
    count_message: Callable[[BaseMessage], int] | None = None


NO_CALL = ModelCall()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRequest:
    """What triggers and strategies decide by.

    Attributes:
        session: The session.
        scope: The branch that is compacted; None is root.
        counters: How many events, turns and tokens are live in the scope.
        now: The time of the run.
        counter: Counts tokens.
        last_compacted_at: When the compaction in force was made; None where there is none.
        call: What is known of the model call ahead.
        events: The live events of the scope in context order, summaries included. Empty while a trigger is asked:
            deciding not to compact loads no bodies.
    """

    session: Session
    scope: str | None
    counters: Counters
    now: datetime
    counter: TokenCounter
    last_compacted_at: datetime | None = None
    call: ModelCall = NO_CALL
    events: tuple[SessionEvent, ...] = ()

    @property
    def overhead_tokens(self) -> int:
        """What the system prompt and the tool schemas of the call ahead count for."""
        if self.call.system is None and not self.call.tools:
            return 0
        total = self.counter.count_messages((), system=self.call.system, tools=self.call.tools)
        return total.system + total.tools

    @property
    def tokens(self) -> int:
        """What the prompt ahead will cost: as it would go out where the call says it, else what is live in the scope.

        What a call says is taken with what its model reported before, rather too much than too little.
        """
        known = self.call.prompt_tokens
        if known is None:
            return self.counters.tokens + self.overhead_tokens
        return self.call.usage.expect(known, is_exact=self.counter.exact)

    def cost(self, events: Iterable[SessionEvent]) -> int:
        """What events take of the prompt ahead: counted as that is, at the rate that its model reported.

        Their own `tokens` are what the counter of the service said, which may know nothing of the model's vocabulary.
        """
        count = self.call.count_message
        counted = sum(e.tokens if count is None or e.message is None else count(e.message) for e in events)
        return math.ceil(counted * self.call.usage.rate)


class CompactionTrigger(Protocol):
    """Says when it is time. Any object with this method will do."""

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether to compact now. Must not do I/O; `request.events` is empty."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionPlan:
    """What a strategy wants.

    Attributes:
        archive: The events to archive. What is still going on, the newest turn, half of a tool pair and a question
            without its answers are kept whatever a strategy says.
        overlap: How many of the events that follow the last archived one the summariser is shown as context.
        summarizer: Makes the summary that takes their place; None archives without one.
        limits: What the summary may cost.
        shadow: The human message that the stored summary answers; a default where it is None.
    """

    archive: Sequence[SessionEvent] = ()
    overlap: int = 0
    summarizer: Summarizer | None = None
    limits: SummaryLimits | None = None
    shadow: str | None = None


class CompactionStrategy(Protocol):
    """Says what goes. Any object with this method will do."""

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """What to archive of `request.events`. Must not do I/O; the same request gives the same plan."""
        ...


Where = Literal["before", "background", "manual"]
_WRITE = "write Compaction(when, how), for example Compaction(TokenCount(8000), TurnWindow(10))"


def _has(given: object, method: str) -> bool:
    """Whether something offers a method; a class that was not called yet does not."""
    return not isinstance(given, type) and callable(getattr(given, method, None))


def _called(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def check_compaction(given: object, field: str = "compaction") -> None:
    """Refuse what is neither a `Compaction` nor None, such as a bare trigger.

    Raises:
        InvalidInputError: It is.
    """
    require(given is None or isinstance(given, Compaction), field, f"{_WRITE}, not {type(given).__name__}")


@helpful
@dataclass(frozen=True, slots=True)
class Compaction:
    """When, how and where to compact: one value for `compact`, the advisor and the middleware.

    Attributes:
        when: The trigger; None is always due.
        how: The strategy.
        where: Before a model call, in the background after the reply, or only by hand.
        on_result: Told of every run that was due, for example to show it.
    """

    when: CompactionTrigger | None
    how: CompactionStrategy
    _: KW_ONLY
    where: Where = "before"
    on_result: Callable[[CompactionResult], None] | None = None

    def __post_init__(self) -> None:
        """Refuse what is no trigger, no strategy, or no place; a trigger and a strategy are easily swapped."""
        is_when = self.when is None or _has(self.when, "is_due")
        require(is_when, "when", f"{_WRITE}; {_called(self.when)} is no trigger")
        require(_has(self.how, "plan"), "how", f"{_WRITE}; {_called(self.how)} is no strategy")
        require(self.where in ("before", "background", "manual"), "where", "give 'before', 'background' or 'manual'")


@pointing
@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionResult:
    """What one run did.

    Attributes:
        outcome: What came of it.
        session_id: The session.
        scope: The branch; None is root.
        archived: The events that it archived, in context order.
        tokens_before: What the live messages of the scope counted for.
        tokens_after: The same afterwards, the summary included.
        summary: The text that takes their place; None where there is none.
        title: The title that a structured summary suggests.
        keywords: Its keywords.
        reason: In words, where the outcome alone does not say it.
        calls: How many model calls the summary took.
        duration: How long it all took.
        record: Seq of the record in the log; None where the run left none.
        is_rebased: The log had moved on when it was committed, outside the archived range.
    """

    outcome: Outcome
    session_id: str
    scope: str | None = None
    archived: tuple[SessionEvent, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str | None = None
    title: str | None = None
    keywords: tuple[str, ...] = ()
    reason: str | None = None
    calls: int = 0
    duration: timedelta = timedelta(0)
    record: int | None = None
    is_rebased: bool = False

    @property
    def is_compacted(self) -> bool:
        """Whether anything changed."""
        return self.outcome in (Outcome.COMPACTED, Outcome.ARCHIVED)

    @property
    def tokens_saved(self) -> int:
        """How much smaller the context became; the summary's own cost is subtracted."""
        return self.tokens_before - self.tokens_after

    def __repr__(self) -> str:
        """Short: outcome and sizes."""
        scope = "" if self.scope is None else f" {self.scope}"
        sizes = f" {len(self.archived)} events, {self.tokens_before} to {self.tokens_after} tokens"
        why = "" if self.reason is None else f" ({self.reason})"
        return f"<CompactionResult{scope} {self.outcome.value}{sizes if self.is_compacted else why}>"

    def _repr_html_(self) -> str:
        return html_of("Compaction", [self])

    def _shown(self) -> Mapping[str, object]:
        return {
            "session": self.session_id,
            "scope": self.scope,
            "outcome": self.outcome.value,
            "archived": len(self.archived),
            "tokens": f"{self.tokens_before} → {self.tokens_after}",
            "summary": self.summary,
            "reason": self.reason,
        }
