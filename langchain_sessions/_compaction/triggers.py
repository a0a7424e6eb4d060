"""When to compact. Every trigger here is answered from counters: no event is live to say no."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta  # noqa: TC003 - a field of a dataclass, whose types are read
from typing import TYPE_CHECKING

from langchain_sessions._core.edge import check_duration, check_positive, helpful, require
from langchain_sessions._core.rows import Counters

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from langchain_sessions._compaction.plan import CompactionRequest, CompactionTrigger, ModelCall

DEFAULT_CONTEXT_WINDOW = 8_192
"""Assumed where neither the caller nor the model's profile knows: small enough for nearly every model in use."""


class Trigger:
    """A trigger that combines: `TurnCount(20) | TokenCount(8_000)`, `TurnCount(5) & Elapsed(timedelta(hours=1))`."""

    __slots__ = ()

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether to compact now."""
        raise NotImplementedError

    def __or__(self, other: CompactionTrigger) -> Trigger:
        """Due when one of them is."""
        return any_of(self, other)

    def __and__(self, other: CompactionTrigger) -> Trigger:
        """Due when both are."""
        return all_of(self, other)


@helpful
@dataclass(frozen=True)
class TurnCount(Trigger):
    """Due when more than `turns` turns are live."""

    turns: int

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.turns, "turns")

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether there are more turns than that."""
        return request.counters.turns > self.turns


@helpful
@dataclass(frozen=True)
class EventCount(Trigger):
    """Due when `events` events or more are live, a summary counting as two."""

    events: int

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.events, "events")

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether there are that many."""
        return request.counters.events >= self.events


@helpful
@dataclass(frozen=True)
class TokenCount(Trigger):
    """Due when the live messages, the system prompt and the tool schemas count for `tokens` or more."""

    tokens: int

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_positive(self.tokens, "tokens")

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether there are that many."""
        return request.tokens >= self.tokens


@helpful
@dataclass(frozen=True)
class ContextUsage(Trigger):
    """Due when a fraction of the model's context window is in use.

    Attributes:
        fraction: From 0 to 1; with 0 it is due on every turn.
        context_window: How many tokens the model takes. Else the call's `context_window` says it, else the model's
            `profile["max_input_tokens"]`, else 8 192 is assumed, which is safe rather than thrifty.
        model: Whose profile to look into where the call does not know.
    """

    fraction: float = 0.6
    context_window: int | None = None
    model: BaseChatModel | None = None

    def __post_init__(self) -> None:
        """Refuse percentages and impossible windows."""
        require(0 <= self.fraction <= 1, "fraction", "give a number from 0 to 1, such as 0.6 for 60 %")
        require(self.context_window is None or self.context_window > 0, "context_window", "give a number above 0")

    def window(self, request: CompactionRequest) -> int:
        """The window that counts for a request."""
        own = None if self.model is None else model_window(self.model)
        return self.context_window or known_window(request.call) or own or DEFAULT_CONTEXT_WINDOW

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether that much is in use."""
        return request.counters.events > 0 and request.tokens >= self.fraction * self.window(request)


def known_window(call: ModelCall) -> int | None:
    """How many tokens a call may take, as far as the caller or the model's profile says."""
    return call.context_window or (None if call.model is None else model_window(call.model))


def model_window(model: BaseChatModel) -> int | None:
    """How many tokens a chat model takes, as far as its profile says."""
    size: object = (model.profile or {}).get("max_input_tokens")
    return size if isinstance(size, int) and size > 0 else None


@helpful
@dataclass(frozen=True)
class Elapsed(Trigger):
    """Due when this much time went by since the compaction in force, or since the session began."""

    duration: timedelta

    def __post_init__(self) -> None:
        """Refuse what never makes sense."""
        check_duration(self.duration, "duration")

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether it is over, and something was said."""
        since = request.last_compacted_at or request.session.created_at
        return request.counters.events > 0 and request.now - since >= self.duration


@dataclass(frozen=True)
class AnyOf(Trigger):
    """Due when one of several triggers is; the first that is ends the question."""

    triggers: tuple[CompactionTrigger, ...]

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether one of them is due."""
        return any(trigger.is_due(request) for trigger in self.triggers)


@dataclass(frozen=True)
class AllOf(Trigger):
    """Due when all of several triggers are; the first that is not ends the question."""

    triggers: tuple[CompactionTrigger, ...]

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether all of them are due."""
        return all(trigger.is_due(request) for trigger in self.triggers)


@dataclass(frozen=True)
class PromptSize(Trigger):
    """Due when another trigger is by the tokens of the prompt alone: for a scope that a viewer sees, not its own."""

    when: CompactionTrigger

    def is_due(self, request: CompactionRequest) -> bool:
        """Whether the size of the prompt is reason enough."""
        # So that counts of turns and time say no, and only what looks at tokens can say yes.
        alone = Counters(events=1, turns=0, tokens=request.counters.tokens)
        return self.when.is_due(replace(request, counters=alone, last_compacted_at=request.now))


def any_of(*triggers: CompactionTrigger) -> AnyOf:
    """Due when one of `triggers` is.

    Raises:
        InvalidInputError: There is none.
    """
    require(triggers, "triggers", "give at least one")
    return AnyOf(triggers)


def all_of(*triggers: CompactionTrigger) -> AllOf:
    """Due when all of `triggers` are.

    Raises:
        InvalidInputError: There is none.
    """
    require(triggers, "triggers", "give at least one")
    return AllOf(triggers)
