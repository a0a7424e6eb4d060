"""What a message costs once a text can be counted, and an estimate of that from the shape of a text.

The frame of a message follows OpenAI's published recipe, as `ChatOpenAI.get_num_tokens_from_messages`
applies it; other providers differ by a few tokens a message, which calibration learns.

A byte-pair vocabulary cuts a text in ways that depend on the script: about one token per short
English word, one per group of digits, around one per Han character. So every character is mapped
to a one-byte class (for other scripts the lead byte of its UTF-8 form tells the script), and the
classes and their borders are counted. All passes run in C; there is no loop over characters.

What each costs in which vocabulary is in `_weights`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_sessions._core.edge import require
from langchain_sessions._tokens.base import MediaCosts, TokenTotal, Tool
from langchain_sessions._tokens.classes import (
    CLASSES,
    CONTINUATION,
    COUNTED,
    COUNTED_OF_WORDS,
    DIGITS,
    FIRSTS,
    LETTERS,
    MASKS,
    NUMBERS,
    RUNS,
    START,
)
from langchain_sessions._tokens.content import Media, call_texts, texts_and_media
from langchain_sessions._tokens.language_rates import RATES
from langchain_sessions._tokens.languages import (
    ALPHABETS,
    ENGLISH_ALONE,
    GROUPS,
    LEAST_SHARE,
    NOBODY,
    SAMPLE,
    by_script,
    by_words,
    speakers,
)
from langchain_sessions._tokens.long_texts import LONG, Counts, LongTexts, Measure, Tally
from langchain_sessions._tokens.weights import WEIGHTS, Vocabulary, Weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FRAME = 4  # <start>, role, separator, <end>
_NAME = 1
_CALL_ID = 3
_MOST_TEXTS = 4_096
_REPLY = 3  # every reply is primed with the opening of an assistant message


class TextCounter(ABC):
    """A `TokenCounter` made from a way to count texts."""

    def __init__(self, *, media: MediaCosts | None = None) -> None:
        """Price media as `media` says, by default an image at 85 tokens and a file at 500."""
        self._media = media or MediaCosts()

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether `count_text` is the count of a real vocabulary rather than an estimate."""

    @abstractmethod
    def count_text(self, text: str) -> int:
        """Count a bare text; 0 for the empty one, never negative."""

    def count_message(self, message: BaseMessage) -> int:
        """Count one message with its frame, name, calls and media; additive over a prompt."""
        kind = type(message)
        if kind is HumanMessage or kind is AIMessage:
            field = message.__dict__.get  # pydantic looks through its classes for each field that is asked for
            content = field("content")
            says_more = kind is AIMessage and (
                field("tool_calls") or field("invalid_tool_calls") or field("additional_kwargs")
            )
            if type(content) is str and not field("name") and not says_more:
                return _FRAME + self.count_text(content)  # nearly every question and answer
        content = message.content
        count = _FRAME
        if isinstance(content, str):
            count += self.count_text(content)
        else:
            has_calls = isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)
            count += sum(map(self._price, texts_and_media(content, skip_calls=has_calls)))
        if message.name:
            count += self.count_text(message.name) + _NAME
        if isinstance(message, AIMessage):
            if message.tool_calls or message.invalid_tool_calls or message.additional_kwargs:
                count += sum(map(self.count_text, call_texts(message)))
        elif isinstance(message, ToolMessage):
            count += _CALL_ID
        return count

    def count_messages(
        self,
        messages: Iterable[BaseMessage],
        *,
        system: str | SystemMessage | None = None,
        tools: Sequence[Tool] = (),
    ) -> TokenTotal:
        """Count a whole prompt: the sum of its messages, system prompt, tools and reply priming.

        Tools are counted as the compact JSON of their OpenAI schema. Converting a `BaseTool` costs
        far more than counting it: pass the converted dict where the same tools are counted often.
        """
        of_messages = sum(map(self.count_message, messages))
        if isinstance(system, str):
            of_system = self.count_text(system) + _FRAME
        else:
            of_system = 0 if system is None else self.count_message(system)
        of_tools = sum(self.count_text(_compact(_schema_of(tool))) for tool in tools)
        return TokenTotal(
            tokens=of_messages + of_system + of_tools + _REPLY,
            messages=of_messages,
            system=of_system,
            tools=of_tools,
            exact=self.exact,
        )

    def _price(self, part: str | Media) -> int:
        if isinstance(part, str):
            return self.count_text(part)
        return self._media.image if part.is_image else self._media.file


class RememberingCounter(TextCounter):
    """Counts as another one does, and remembers what texts count for: a prompt is mostly the one before."""

    def __init__(self, counter: TextCounter) -> None:
        """Nothing was counted yet."""
        super().__init__(media=counter._media)  # noqa: SLF001 - another counter of texts
        self._texts = counter
        self._known: dict[tuple[int, int], int] = {}

    @property
    def exact(self) -> bool:
        """As that counter is."""
        return self._texts.exact

    def count_text(self, text: str) -> int:
        """Count a bare text, the same one once."""
        known, key = self._known, (hash(text), len(text))
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_TEXTS:
                known.clear()
            found = known[key] = self._texts.count_text(text)
        return found


def _is_schema(tool: Tool) -> TypeGuard[dict[str, Any]]:
    return isinstance(tool, dict)


def _schema_of(tool: Tool) -> dict[str, Any]:
    if _is_schema(tool):
        return tool
    # The schema machinery of pydantic is not needed to count messages.
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415

    return convert_to_openai_tool(tool)


def _compact(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"), default=str)


_UPPER, _MARK, _DIGIT, _NEWLINE, _BLANK = b"A.0\n "  # numbers: bytes are looked for several times as long
_FOUR, _FEW = 4, 8
_ALWAYS = 2  # words and the rest
_DRAWN = 20
"""Text that has a capital behind a small letter less often than once in so many characters is no random data."""


class EstimatedTokenCounter(TextCounter):
    """Counts by the shape of the text: no vocabulary, no dependency, microseconds per message.

    On English chat, program text, JSON, Chinese and mixtures of them the error over a few thousand
    tokens is within 10 %, mostly 3 %; `benchmarks/tokens.py` prints the table. A single short text,
    formulas, capitals throughout or a language that the vocabulary knows badly can be further off.

    Args:
        vocabulary: Whose counts to estimate: `o200k_base` (current OpenAI models), `cl100k_base` (GPT-4, GPT-3.5),
            which needs half as many tokens again for most scripts but Latin, `llama3`, `llama2`, `mistral_v3` (Tekken),
            `mistral_v1` (before it), `gemma3` (Gemini too), `qwen3`, `deepseek_v3`, `glm4` or `kimi_k2`. `unknown` is
            rather too much than too little for those that are cut like OpenAI's, `claude` a quarter more than that.
        media: The price of images and files.
    """

    def __init__(self, vocabulary: Vocabulary = "o200k_base", *, media: MediaCosts | None = None) -> None:
        """Estimate the counts of `vocabulary`."""
        super().__init__(media=media)
        require(vocabulary in WEIGHTS, "vocabulary", f"must be one of {', '.join(WEIGHTS)}")
        self.vocabulary = vocabulary
        self._weights = WEIGHTS[vocabulary]
        self._rates = RATES[vocabulary]
        self._long = LongTexts(_measured)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a pickle, of a release that remembered no texts too."""
        vars(self).update({"_long": LongTexts(_measured)}, **state)

    def __repr__(self) -> str:
        """Name the vocabulary that is estimated."""
        return f"EstimatedTokenCounter({self.vocabulary!r})"

    @property
    def exact(self) -> bool:
        """Always False."""
        return False

    def count_text(self, text: str) -> int:
        """Estimate a bare text; 0 for the empty one, at least 1 for any other."""
        if not text:
            return 0
        if len(text) >= LONG and (found := self._long.measure(text)) is not None:
            return self._count_measured(text, found)
        classes = classes_of(text)
        costs = self.costs(text, classes, words_of(classes))
        tokens = sum(costs.values())
        if len(costs) > _ALWAYS or len(text) > _SHORT or classes.count(_BLANK) > _FOUR:
            languages = languages_of(text, classes)
            if languages:
                tokens += self._beside_english(languages, classes, costs)
        return int(tokens) or 1

    def _count_measured(self, text: str, measure: Measure) -> int:
        """The same of a text that is mostly one of those before it."""
        classes, short, said, blanks = measure
        costs = self.costs(text, classes, short)
        tokens = sum(costs.values())
        if not text.isascii() or not _is_mostly_english(said, blanks):
            tokens += self._beside_english(_languages_in(text, classes), classes, costs)
        return int(tokens) or 1

    def costs(self, text: str, classes: bytes | Tally, short: bytes | Tally) -> dict[bytes, float]:
        """What a text takes by its weights: words in ASCII under `a`, other scripts by their class, the rest blank.

        Args:
            text: The text.
            classes: Its classes, or what was counted of them.
            short: The same with one class for each word.
        """
        w = self._weights
        costs: dict[bytes, float] = {} if text.isascii() else _cost_of_scripts(classes, w)
        rest = 0.5
        count = short.count
        starts = count(b"A")
        words = w.letter * (len(classes) - len(short) + starts) + w.word * starts
        # To look for a class that a text does not hold takes a tenth of counting it.
        if _UPPER in classes:
            humps = classes.count(b"aA")
            words = words + w.camel_hump * humps + w.capital_pair * classes.count(b"AA")
            if humps * _DRAWN > len(classes):
                # Names have humps, too, but hardly digits among their letters.
                drawn = min(humps, classes.count(b"a0") + classes.count(b"A0")) - len(classes) / _DRAWN
                words += w.random * max(drawn, 0.0)
        if _MARK in short:
            marks = count(b".")
            rest += w.mark * marks + w.mark_blank * count(b". ") + w.blank_mark * count(b" .")
            if marks >= _FOUR:
                rest += w.four_marks * count(b"....")
        if _DIGIT in short:
            digits = count(b"0")
            rest += w.digit * digits + w.number * (_numbers_in(short, digits) if digits > 1 else 1)
            if digits >= _FOUR:
                rest += w.four_digits * count(b"0000")
        if _NEWLINE in short:
            rest += w.newline * count(b"\n") + w.indent * count(b"\n ")
        costs[b"a"], costs[b""] = words, rest
        return costs

    def _beside_english(
        self, languages: Iterable[tuple[str, float]], classes: Counts, costs: Mapping[bytes, float]
    ) -> float:
        """How much more a text takes than the weights say, which know the letters of English: less where negative."""
        more = 0.0
        for language, share in languages:
            rate, group = self._rates[language], GROUPS[language]
            more += share * (rate * letters_in(classes, group) - cost_of(costs, group))
        return more


def classes_of(text: str) -> bytes:
    """The class of each character, behind a blank: it makes the first word start like every other."""
    if text.isascii():
        return b" " + text.encode().translate(CLASSES)
    return b" " + text.encode("utf-8", "surrogatepass").translate(CLASSES, CONTINUATION)


def words_of(classes: bytes) -> bytes:
    """Classes with one for each word: a third as long to look through, and borders are where they were."""
    return classes.title().translate(FIRSTS, LETTERS)


def _numbers_in(short: Counts, digits: int) -> int:
    """How many numbers some digits are: a few are found sooner one by one."""
    if not isinstance(short, bytes):
        return short.count(NUMBERS)
    if digits > _FEW:
        return short.translate(DIGITS).count(START)
    return digits - short.split(b"0")[1:-1].count(b"")


def _runs_of(classes: Counts, script: bytes) -> int:
    """How many runs of a class there are."""
    if not isinstance(classes, bytes):
        return classes.count(RUNS + script)
    return classes.translate(MASKS[script]).count(START)


def _measured(part: str, *, is_first: bool) -> Measure:
    """What the estimate asks of a part of a text."""
    classes = classes_of(part)
    if not is_first:
        classes = classes[1:]  # the blank is in front of the text, not of each part
    short = words_of(classes)
    counts = {what: classes.count(what) for what in COUNTED}
    for script, mask in MASKS.items():
        if script in classes:
            counts[script] = classes.count(script)
            counts[RUNS + script] = classes.translate(mask).count(START)
    of_words = {what: short.count(what) for what in COUNTED_OF_WORDS}
    of_words[NUMBERS] = short.translate(DIGITS).count(START)
    tallies = Tally(len(classes), counts), Tally(len(short), of_words)
    return Measure(*tallies, said=part.count(" the "), blanks=part.count(" "))


def letters_in(classes: Counts, group: bytes) -> int:
    """How many characters are of some classes."""
    return sum(map(classes.count, group))


def cost_of(costs: Mapping[bytes, float], group: bytes) -> float:
    """What the characters of some classes take, those of words in ASCII under `a`."""
    return sum(costs.get(bytes([kind]), 0.0) for kind in group)


def _cost_of_scripts(classes: Counts, weights: Weights) -> dict[bytes, float]:
    costs: dict[bytes, float] = {}
    for script, per_char, per_run in weights.scripts:
        if script[0] in classes:
            costs[script] = per_char * classes.count(script)
            if per_run:
                costs[script] += per_run * _runs_of(classes, script)
    return costs


_SHORT, _SHORT_SAMPLE = 200, 90
_WORDS_A_THE = 25
"""What is English has one "the" in so many words."""


def languages_of(text: str, classes: bytes) -> list[tuple[str, float]]:
    """The languages but English that a text is in, at most one for each script, and how much of it there is.

    Args:
        text: The text.
        classes: The classes of its characters.
    """
    # Most of what is said is English, or has no sentences at all.
    if text.isascii() and (said := text.count(" the ")) and _is_mostly_english(said, text.count(" ")):
        return []
    return _languages_in(text, classes)


def _is_mostly_english(said: int, blanks: int) -> bool:
    """Whether a text in ASCII with so many articles and blanks is plainly English."""
    return said > 0 and said * _WORDS_A_THE > blanks


def _languages_in(text: str, classes: Counts) -> list[tuple[str, float]]:
    """The same of a text that is not plainly English."""
    found: list[tuple[str, float]] = []
    alphabets: list[Iterable[str]] = []
    if not text.isascii():
        found = by_script(text, classes)
        alphabets = [languages for script, languages in ALPHABETS if script in classes]
    # Most messages are short, and are counted when they are appended.
    sample = text if len(text) <= _SHORT else _sampled(text)
    words = sample.lower().split()
    known = speakers()
    if not alphabets and len(known.words.intersection(words)) <= 1:
        return found  # names, numbers and nouns say nothing
    told = bytes(map(known.numbers.get, words, repeat(NOBODY)))
    if alphabets or not _is_english(told):
        found += by_words(told, alphabets)
    return found


def _is_english(told: bytes) -> bool:
    """Whether too few of some words are of any language, or more of English alone than of all the others together."""
    known = len(told) - told.count(NOBODY)
    return known <= 1 or known < LEAST_SHARE * len(told) or 2 * told.count(ENGLISH_ALONE) >= known


def _sampled(text: str) -> str:
    """So much of a text as tells its language."""
    if len(text) <= 3 * SAMPLE:
        return f"{text[:_SHORT_SAMPLE]} {text[-_SHORT_SAMPLE:]}"
    middle = len(text) // 2
    return f"{text[:SAMPLE]} {text[middle : middle + SAMPLE]} {text[-SAMPLE:]}"
