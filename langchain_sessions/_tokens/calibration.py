"""Learning from reported usage how far a counter is off for the model in use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from langchain_sessions._core.edge import require
from langchain_sessions._tokens.base import TokenTotal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

    from langchain_sessions._tokens.base import TokenCounter, Tool

_REMEMBERED = 15
_SMALLEST_PROMPT = 50  # below it the frame of a message outweighs its text
_LOWEST, _HIGHEST = 0.25, 4.0


@dataclass(frozen=True)
class Calibration:
    """The ratio between reported and counted tokens, as a value that can be kept and compared.

    The ratio is the median of the last 15 observations, so up to seven wrong ones (a cached
    prompt reported in part, a retry counted twice) do not move it beyond what the others say.

    Attributes:
        ratios: The observations that count, the oldest first, each within 0.25 and 4.
    """

    ratios: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse more or other ratios than `observe` would keep."""
        require(len(self.ratios) <= _REMEMBERED, "ratios", f"must not be more than {_REMEMBERED}")
        require(
            all(_LOWEST <= ratio <= _HIGHEST for ratio in self.ratios),
            "ratios",
            f"must lie between {_LOWEST} and {_HIGHEST}",
        )

    @property
    def ratio(self) -> float:
        """What a count is multiplied with; 1.0 before the first observation."""
        return median(self.ratios) if self.ratios else 1.0

    def observe(self, estimated: int, reported: int) -> Calibration:
        """Take in one prompt: the count made without calibration, and what the provider charged.

        Returns:
            The new calibration; the same one when the prompt says nothing (under 50 tokens).
        """
        if estimated < _SMALLEST_PROMPT or reported <= 0:
            return self
        ratio = min(max(reported / estimated, _LOWEST), _HIGHEST)
        return replace(self, ratios=(*self.ratios, ratio)[-_REMEMBERED:])

    def apply(self, tokens: int) -> int:
        """Correct a count or a sum of counts; something never becomes nothing."""
        return max(round(tokens * self.ratio), min(tokens, 1))


class CalibratedTokenCounter:
    """A `TokenCounter` that corrects another one by what providers reported.

    Use one per model. Counts that are stored should come from the inner counter, and a sum of them
    be corrected with `calibration.apply`: a stored number does not follow a ratio that moves.

    Args:
        counter: The counter to correct.
        calibration: Where to start from, such as a value kept from an earlier run.
    """

    def __init__(self, counter: TokenCounter, calibration: Calibration | None = None) -> None:
        """Correct `counter`, starting from `calibration`."""
        self.counter = counter
        self._calibration = calibration or Calibration()

    def __repr__(self) -> str:
        """Show the inner counter and the ratio."""
        return f"CalibratedTokenCounter({self.counter!r}, ratio={self._calibration.ratio:.2f})"

    @property
    def calibration(self) -> Calibration:
        """What was learned so far; replaced, never changed in place."""
        return self._calibration

    @property
    def exact(self) -> bool:
        """Always False: a ratio turns every count into an estimate."""
        return False

    def observe(
        self,
        reply: AIMessage,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> Calibration:
        """Learn from a reply and the prompt that it answered.

        Without `usage_metadata` nothing is learned. Concurrent calls may lose an observation,
        never corrupt one.
        """
        if reply.usage_metadata is not None:
            estimated = self.counter.count_messages(messages, system=system, tools=tools).tokens
            self._calibration = self._calibration.observe(estimated, reply.usage_metadata["input_tokens"])
        return self._calibration

    def count_text(self, text: str) -> int:
        """Count a bare text, corrected."""
        return self._calibration.apply(self.counter.count_text(text))

    def count_message(self, message: BaseMessage) -> int:
        """Count one message, corrected."""
        return self._calibration.apply(self.counter.count_message(message))

    def count_messages(
        self,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> TokenTotal:
        """Count a whole prompt, corrected once on the total rather than message by message."""
        raw = self.counter.count_messages(messages, system=system, tools=tools)
        calibration = self._calibration
        return TokenTotal(
            tokens=calibration.apply(raw.tokens),
            messages=calibration.apply(raw.messages),
            system=calibration.apply(raw.system),
            tools=calibration.apply(raw.tools),
            exact=False,
        )
