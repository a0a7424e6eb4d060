"""How to choose and what to put in its place: a recursive summary over any window."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from langchain_core.runnables import Runnable

from langchain_sessions._compaction.archivable import split_segments
from langchain_sessions._compaction.model_summarizer import ModelSummarizer
from langchain_sessions._compaction.prompts import SummaryPrompts
from langchain_sessions._compaction.shown import cost_of, room_of
from langchain_sessions._compaction.strategies import SlidingWindow
from langchain_sessions._compaction.summarizer import Summarizer, SummaryLimits
from langchain_sessions._core.edge import check_kind, check_positive, helpful, require
from langchain_sessions.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.language_models import BaseChatModel

    from langchain_sessions._compaction.plan import CompactionPlan, CompactionRequest, CompactionStrategy
    from langchain_sessions._compaction.structured import Schema
    from langchain_sessions.events import SessionEvent

_OVERLAP = 2


@helpful
class Summarize:
    """Archives what does not fit a window and puts one summary in its place; the summary before is folded in.

    Args:
        model: A chat model, its name as `create_agent` takes it (`"openai:gpt-4o"`, with the extra `agents`), or any
            object with `summarize` and `asummarize`.
        keep_events: How many of the newest events stay.
        overlap: How many of those the summariser is shown, marked as not to be summarised; by default 2, as far as
            more than that stay.
        window: What stays, in place of `keep_events`: any strategy, such as `TokenWindow(4_000)` or `Interval()`.
        prompts: The texts around the record.
        schema: For a structured summary: `ConversationSummary`, another pydantic model, or a JSON schema.
        limits: Length, time, retries and cost.
    """

    def __init__(
        self,
        model: BaseChatModel | Summarizer | str,
        keep_events: int = 10,
        overlap: int | None = None,
        *,
        window: CompactionStrategy | None = None,
        prompts: SummaryPrompts | None = None,
        schema: Schema | None = None,
        limits: SummaryLimits | None = None,
    ) -> None:
        """See the class."""
        if window is None:
            check_positive(keep_events, "keep_events")
        if overlap is None:
            overlap = _OVERLAP if window is not None else min(_OVERLAP, keep_events - 1)
        fits = window is not None or overlap < keep_events
        require(overlap >= 0 and fits, "overlap", "give a number from 0 to less than keep_events")
        check_kind(prompts, SummaryPrompts, "prompts", "SummaryPrompts(system='…')")
        check_kind(limits, SummaryLimits, "limits", "SummaryLimits(max_characters=4_000)")
        self.window: CompactionStrategy = window or SlidingWindow(keep_events)
        self.overlap = overlap
        self.prompts: SummaryPrompts = prompts or SummaryPrompts()
        self.limits: SummaryLimits = limits or SummaryLimits()
        if isinstance(model, str):
            model = _named(model)
        if isinstance(model, Runnable):
            self.summarizer: Summarizer = ModelSummarizer(model, prompts=self.prompts, schema=schema)
        else:
            require(schema is None, "schema", "belongs to a chat model; a summariser of your own makes its own fields")
            wanted = "give a chat model, such as Summarize(ChatOpenAI(model='…')), or a summariser of your own"
            require(hasattr(model, "summarize"), "model", wanted)
            self.summarizer = model

    def __repr__(self) -> str:
        """Show what it keeps."""
        return f"Summarize({self.window!r}, overlap={self.overlap})"

    def plan(self, request: CompactionRequest) -> CompactionPlan:
        """Archive what the window lets go of, as much of it as the calls of one run can be shown."""
        plan = self.window.plan(request)
        return replace(
            plan,
            archive=self._affordable(plan.archive, request),
            overlap=plan.overlap or self.overlap,
            summarizer=self.summarizer,
            limits=self.limits,
            shadow=self.prompts.shadow,
        )

    def _affordable(self, events: Sequence[SessionEvent], request: CompactionRequest) -> Sequence[SessionEvent]:
        """The oldest turns among the events that fit into the allowed calls; at least one."""
        # What does not fit is left in the context for the next run, not dropped from the record.
        room = room_of(self.summarizer, self.limits, request.counter)
        if cost_of(self.summarizer, events) <= room:
            return events
        chosen: list[SessionEvent] = []
        for segment in split_segments(events, request.scope):
            room -= cost_of(self.summarizer, segment)
            if room < 0 and chosen:
                break
            chosen += segment
        return chosen


def _named(name: str) -> BaseChatModel:
    """A chat model by its name; what is missing for it, a package or a key, is told by LangChain and the provider.

    Raises:
        MissingDependencyError: LangChain is not installed.
        InvalidInputError: Nobody knows a model of that name.
    """
    problem = "no provider of that name is known; give PROVIDER:NAME, such as Summarize('openai:gpt-4o')"
    require(name.strip(), "model", problem)
    try:
        models = import_module("langchain.chat_models")
    except ModuleNotFoundError as error:
        raise MissingDependencyError("A chat model by its name", "agents") from error
    try:
        return cast("BaseChatModel", models.init_chat_model(name))
    except ValueError as error:
        raise InvalidInputError("model", problem) from error
