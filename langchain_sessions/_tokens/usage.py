"""What a prompt will cost, from what providers reported of the prompts before it.

A count is off by a few per cent, and by more for a vocabulary that nobody has here. But a conversation's next prompt is
the last one and a little more, and of the last one the provider has said what it cost: only the growth has to be
estimated. It is taken at the highest rate of the conversation's last growths, so that a budget is kept where the texts
change from words to program text to Chinese, and reached as nearly as the size of one turn allows.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from langchain_sessions._core.locks import new_lock
from langchain_sessions._tokens.calibration import Calibration

if TYPE_CHECKING:
    from collections.abc import Hashable

_DOUBT = 0.05  # the estimate's error against its own vocabulary, on prompts of some thousand tokens
_GROWTH_DOUBT = 0.1  # and on a turn
_SHRUNK_DOUBT = 0.03
# The last growths of a conversation: enough that its texts of one kind are among them.
_REMEMBERED = 15
_ENOUGH = 3
# Of less than this the reported number is mostly what every message costs beside its words.
_SMALLEST_GROWTH = 50
_SMALLEST_PROMPT = 200
_LOWEST, _HIGHEST = 0.25, 4.0
_ADDITIONS = 3
_PLAUSIBLE = {"words": (0.5, 5.0), "code": (0.4, 5.0), "wide": (0.25, 10.0)}
"""What vocabularies may take for a token that we count, by kind of text, with room beyond those that were measured.

What is reported outside was not for this prompt, or not for all of it: a server cut it, or charged for what was not in
its cache.
"""
# Those that were used last; another one begins again with what its model is known for.
_CONVERSATIONS = 1_024
_NEUTRAL = Calibration()


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptUsage:
    """What is known of the prompts of one conversation with one model.

    Attributes:
        counted: What we counted for the newest prompt that a provider reported on.
        reported: What the provider reported; 0 before the first report.
        growths: Reported tokens by counted one of the last growths from one prompt to the next, the oldest first.
        calibration: What the model reported in all conversations of this kind of text.
        is_exact: Whether what we count is the count of the model's own vocabulary.
        additions: What others added to our prompts on their way to the model, last.
    """

    counted: int = 0
    reported: int = 0
    growths: tuple[float, ...] = ()
    calibration: Calibration = _NEUTRAL
    is_exact: bool = False
    additions: tuple[int, ...] = ()

    @property
    def added(self) -> int:
        """What others will add to the next prompt, rather too much than too little."""
        return max((0, *self.additions))

    def expect(self, tokens: int, *, is_exact: bool = False) -> int:
        """What a prompt that counts for `tokens` will be reported as, rather too much than too little.

        Args:
            tokens: Our count of the prompt, made as those of the prompts before it, without what others will add.
            is_exact: Whether that is the count of a vocabulary. It is believed until the provider says otherwise.
        """
        tokens += self.added
        if not self.reported:
            return math.ceil(tokens * self.calibration.ratio * (1 + self._doubt(is_exact=is_exact or self.is_exact)))
        grown = tokens - self.counted
        if grown >= 0:
            return self.reported + math.ceil(grown * self._growth)
        return math.ceil(tokens * (self.reported / self.counted) * (1 + _SHRUNK_DOUBT))

    @property
    def rate(self) -> float:
        """What a token that we count is reported as: in the newest prompt, or in its last growths if that is more."""
        if not self.reported:
            return self.calibration.ratio
        recent = self.growths[-_ENOUGH:]
        return max(self._whole, median(recent) if len(recent) == _ENOUGH else 0.0)

    def after(self, counted: int, reported: int, added: int = 0) -> PromptUsage:
        """With one more report, on a prompt that counts for so many tokens with those that were added on its way."""
        growths = self.growths
        grown = counted - self.counted
        if self.reported and grown >= _SMALLEST_GROWTH:
            growths = (*growths, _bounded((reported - self.reported) / grown))[-_REMEMBERED:]
        additions = (*self.additions, added)[-_ADDITIONS:]
        return replace(self, counted=counted, reported=reported, growths=growths, additions=additions)

    def _doubt(self, *, is_exact: bool) -> float:
        ratios = self.calibration.ratios
        if len(ratios) >= _ENOUGH:
            return max(ratios) / self.calibration.ratio - 1
        return 0.0 if is_exact and not ratios else _DOUBT

    @property
    def _growth(self) -> float:
        if len(self.growths) >= _ENOUGH:
            return max(self.growths)
        return max((self._whole * (1 + _GROWTH_DOUBT), *self.growths))

    @property
    def _whole(self) -> float:
        whole = self.reported / self.counted if self.counted >= _SMALLEST_PROMPT else self.calibration.ratio
        return _bounded(whole)


NO_USAGE = PromptUsage()


def _bounded(ratio: float) -> float:
    return min(max(ratio, _LOWEST), _HIGHEST)


def kind_of_text(text: str) -> str:
    """Which of the kinds of text, that vocabularies treat differently, a text is mostly of.

    Scripts with two or more bytes a character are one; of the others, what holds many marks is program text or data.
    """
    sample = text[:2_000]
    if not sample:
        return "words"
    if not sample.isascii() and len(sample.encode("utf-8", "replace")) > 1.3 * len(sample):
        return "wide"
    marks = sum(map(sample.count, '{}[]()<>=:;_",\\'))
    return "code" if marks > len(sample) / 16 else "words"


class UsageBook:
    """What providers reported, by model and kind of text and, for the conversations used last, by conversation.

    Safe to share between threads.
    """

    def __init__(self) -> None:
        """Nothing was reported yet."""
        self._lock = new_lock()
        self._models: dict[tuple[str, str], Calibration] = {}
        self._conversations: OrderedDict[Hashable, PromptUsage] = OrderedDict()

    def knows(self, model: str, conversation: Hashable) -> bool:
        """Whether anything was reported of a conversation."""
        return (model, conversation) in self._conversations

    def usage(self, model: str, kind: str, conversation: Hashable) -> PromptUsage:
        """What is known before a prompt of a conversation."""
        with self._lock:
            calibration = self._models.get((model, kind), NO_USAGE.calibration)
            known = self._conversations.get((model, conversation), NO_USAGE)
            return replace(known, calibration=calibration)

    def report(
        self, model: str, kind: str, conversation: Hashable, *, counted: int, reported: int, added: int = 0
    ) -> None:
        """Take in what a provider charged for a prompt that we counted; what cannot be true of it is left out."""
        lowest, highest = _PLAUSIBLE.get(kind, (0.0, math.inf))
        if counted <= 0 or reported <= 0 or not lowest * counted <= reported <= highest * counted + _SMALLEST_PROMPT:
            return
        with self._lock:
            before = self._models.get((model, kind), NO_USAGE.calibration)
            self._models[model, kind] = before.observe(counted, reported)
            key = (model, conversation)
            self._conversations[key] = self._conversations.get(key, NO_USAGE).after(counted, reported, added)
            self._conversations.move_to_end(key)
            if len(self._conversations) > _CONVERSATIONS:
                self._conversations.popitem(last=False)
