"""Text to index terms: made here, once, so that every database finds and ranks alike.

Words are case-folded, freed of accents and stemmed; an accented word keeps its exact form as a second term, so "cafe"
finds "café" and "café" finds it first. Scripts that put no blanks between words become single characters and pairs.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from langchain_sessions._core.locks import new_lock
from langchain_sessions._recall.text.languages import (
    BASE_FORMS,
    DEFAULT_LANGUAGE,
    DENSE_BASE_FORMS,
    DENSE_STOP_PHRASES,
    DENSE_STOPS,
    GUESSABLE,
    STOP_WORDS,
    guess_language,
    language_of_script,
)
from langchain_sessions._recall.text.numerals import figures_in
from langchain_sessions._recall.text.stemming import make_stemmer, stemmer_languages
from langchain_sessions.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

TERMS_VERSION: Final = 4
"""Raised whenever the same text would give other terms: an index built with another version is built anew."""

AUTO_LANGUAGE: Final = "auto"
LONGEST_TERM: Final = 64
_LONGEST_STEMMED: Final = 24
_SHORTEST_GUESSED: Final = 4
_MOSTLY_TOPIC: Final = 0.8

# Thai, Lao, Burmese, Khmer, kana, Han, Hangul: no blanks, or blanks that do not separate what one searches for.
_DENSE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17dd\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER: Final = rf"[^\W_{_DENSE}]"
# Marks that belong to a word but that `\w` leaves out: vowel signs of Indic scripts, Arabic and Hebrew points.
_MARK: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711-\u074a"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a4d\u0a81-\u0acd"
    "\u0b01-\u0b57\u0b82-\u0bcd\u0c00-\u0c56\u0c81-\u0cd6\u0d00-\u0d57\u0d81-\u0ddf\u0f71-\u0f84\u200c\u200d"
)
_NUMBER: Final = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])"
_ASCII_TOKEN: Final = re.compile(rf"{_NUMBER}|[a-z0-9]+(?:'[a-z]+)*")
_BETWEEN_WORDS: Final = bytes(
    ord(chr(byte).lower()) if chr(byte).isalnum() or chr(byte) == "'" else ord(" ") for byte in range(128)
) + bytes(128)
"""What stands for each byte of text in ASCII where it is split at blanks: half the time of a regular expression."""
_DIGITS_AND_COMMAS: Final = bytes(ord("0") if chr(byte) in "0123456789" else byte for byte in range(256))
_ODD_APOSTROPHE: Final = re.compile(rb"'[^a-z]|[ ]'")
_TYPOGRAPHY: Final = (("\u2018", "'"), *((mark, " ") for mark in "\u201c\u201d\u2013\u2014\u2026\u2022\u00a0"))
"""What makes a text in ASCII one that is not, for no word's sake."""
TOKEN: Final = re.compile(rf"[{_DENSE}]+|{_NUMBER}|{_LETTER}+(?:[{_MARK}]+{_LETTER}*|['\u2019]{_LETTER}+)*")
"""One word, number or run of a script without blanks, in text as it was written."""

_DENSE_START: Final = re.compile(f"[{_DENSE}]")
_PADDED: Final = re.compile("0[0-9]")
_PADDED_SIZE: Final = 2
_ELISION: Final = 2
_NO_FORMS: Final[Mapping[str, str]] = MappingProxyType({})
_ORDINAL: Final = re.compile(r"([0-9]+)(?:st|nd|rd|th)")
_IGNORED: Final = {ord(character): None for character in "\u00ad\u0640\u200b\u200c\u200d\ufe0f"}
_APOSTROPHES: Final = {0x2019: "'", 0x02BC: "'", 0x2018: "'"}
# Vowel signs of Indic scripts are letters in all but name; accents and points are what people leave out.
_ACCENT: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]")
_DENSE_CUTS: Final = re.compile("|".join(DENSE_STOP_PHRASES))
_DENSE_DOUBLES: Final = re.compile("|".join(sorted(DENSE_BASE_FORMS, key=len, reverse=True)))


def normalize(text: str) -> str:
    """Bring text to the one form that terms are made from: compatibility-composed and case-folded."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    return unicodedata.normalize("NFC", text.casefold().translate(_IGNORED))


def fold_accents(word: str) -> str:
    """Take accents and optional vowel points off, leaving the vowel signs of Indic scripts alone."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", word)))


def is_dense(word: str) -> bool:
    """Whether a token is a run of a script that puts no blanks between words."""
    return word > "\u0e00" and _DENSE_START.match(word) is not None


def split_words(text: str) -> list[str]:
    """Split text into folded words in order, nothing left out: what phrases and prefixes are compared with.

    Every character of a script without blanks counts as a word, so a phrase in it is found wherever it stands.
    """
    words: list[str] = []
    known: dict[str, list[str]] = {}
    for token in TOKEN.findall(normalize(text)):
        found = known.get(token)
        if found is None:
            found = known[token] = [*token] if is_dense(token) else [fold_accents(plain_word(token))]
        words += found
    return words


def with_plain_marks(text: str) -> str:
    """A text with its typography written in ASCII."""
    if not text.isascii():
        text = text.replace("\u2019", "'")
        for mark, plain in _TYPOGRAPHY:
            text = text.replace(mark, plain)
    return text


def words_apart(data: bytes) -> bytes:
    """Text in ASCII in lower case, with blanks for all that is in no word."""
    return data.translate(_BETWEEN_WORDS)


def plain_word(token: str) -> str:
    """Take clitics off (`ada's`, `l'homme`, `don't`), commas out of numbers, and the tail off ordinals."""
    word = token
    if "'" in word:
        head, _, tail = word.partition("'")
        word = tail.replace("'", "") if len(head) <= _ELISION < len(tail) else head
    if word[0].isdigit():
        word = word.replace(",", "")
        if len(word) == _PADDED_SIZE:
            word = word.removeprefix("0") if _PADDED.fullmatch(word) else word
        elif not word.isdigit():
            ordinal = _ORDINAL.fullmatch(word)
            word = ordinal[1] if ordinal else word
    return word[:LONGEST_TERM]


class _StemCache(dict[str, str]):
    """The one term of a word in ASCII, in one language; blank for function words.

    Most stemmers take 20 to 40 µs per word, a dictionary lookup takes 0.05 µs. Bounded: when full it starts anew.
    """

    def __init__(self, language: str, size: int) -> None:
        super().__init__()
        self._size = size
        self._lock = new_lock()
        self._made = make_stemmer(language)
        self._stemmer = self._made if language == DEFAULT_LANGUAGE else self._alone
        # A mapping that cannot be changed takes as long to ask as the rest of a new word.
        self._base_form = dict(BASE_FORMS.get(language, _NO_FORMS)).get
        self._stop_words = STOP_WORDS.get(language, frozenset())
        # Both at once; a function word is for nothing.
        self._instead = {**BASE_FORMS.get(language, _NO_FORMS), **dict.fromkeys(self._stop_words, "")}

    def __missing__(self, token: str) -> str:
        if len(token) <= _LONGEST_STEMMED and token.isalpha():
            # Nearly all: there is nothing to take off.
            word = self._instead.get(token, token)
            term = word and (self._stemmer(word) or word)
        elif token.isdigit():
            term = plain_word(token)
        else:
            word = plain_word(token)
            is_topic = word and word not in self._stop_words and token not in self._stop_words
            term = self.stem(word) if is_topic else ""
        if len(token) <= LONGEST_TERM:
            if len(self) >= self._size:
                self.clear()
            self[token] = term
        return term

    def stem(self, word: str) -> str:
        """The stem of a word in any letters; codes and what is very long are their own."""
        if len(word) > _LONGEST_STEMMED or not (word.isalpha() or not any(map(str.isdigit, word))):
            return word
        word = self._base_form(word, word)
        return self._stemmer(word) or word

    def _alone(self, word: str) -> str:
        with self._lock:  # Snowball's stemmers keep state while they work
            return self._made(word)


class _TermCache(dict[str, "tuple[str, ...]"]):
    """Terms of single tokens of any kind in one language, bounded in the same way.

    Attributes:
        plain: Those of words in ASCII.
    """

    def __init__(self, language: str, size: int) -> None:
        super().__init__()
        self._language = language
        self._size = size
        self.plain = _StemCache(language, size)
        self._stems = {language: self.plain}

    def __missing__(self, token: str) -> tuple[str, ...]:
        terms = _dense_terms(token) if is_dense(token) else self._word_terms(token)
        if len(token) <= LONGEST_TERM:
            if len(self) >= self._size:
                self.clear()
            self[token] = terms
        return terms

    def _word_terms(self, token: str) -> tuple[str, ...]:
        if token.isascii():
            term = self.plain[token]
            return (term,) if term else ()
        language = language_of_script(token[0]) or self._language
        stop_words = STOP_WORDS.get(language, frozenset())
        word = plain_word(token)
        folded = fold_accents(word)
        if not word or word in stop_words or token in stop_words:
            return ()
        exact = self._stem(word, language)
        if folded == word:
            return (exact,)
        return tuple(dict.fromkeys((self._stem(folded, language), exact)))

    def _stem(self, word: str, language: str) -> str:
        stems = self._stems.get(language) or self._stems.setdefault(language, _StemCache(language, self._size))
        return stems.stem(word)


def _dense_terms(token: str) -> tuple[str, ...]:
    terms: list[str] = []
    for run in _DENSE_CUTS.split(token):
        terms += [one for one in run if one not in DENSE_STOPS and unicodedata.category(one)[0] != "M"]
        terms += [pair for pair in map("".join, pairwise(run)) if not DENSE_STOPS.issuperset(pair)]
    # Beside what was written: a number in figures, and one word for those that mean the same.
    terms += figures_in(token)
    terms += [DENSE_BASE_FORMS[word] for word in _DENSE_DOUBLES.findall(token)]
    return tuple(terms)


def _tokens(text: str) -> tuple[list[str], bool]:
    """The words of a text as they are looked up, and whether all of them are in ASCII."""
    text = with_plain_marks(text)
    if not text.isascii():
        return TOKEN.findall(normalize(text)), False
    data = text.encode()
    # Commas within numbers and apostrophes that stand oddly are matters for the expression.
    if b"," in data and b"0,0" in data.translate(_DIGITS_AND_COMMAS):
        return _ASCII_TOKEN.findall(text.lower()), True
    data = data.translate(_BETWEEN_WORDS)
    if b"'" in data:
        data = b" %b " % data
        data = data.replace(b" '", b" ").replace(b"' ", b" ")
        if _ODD_APOSTROPHE.search(data):
            return _ASCII_TOKEN.findall(text.lower()), True
    return data.decode("ascii").split(), True


def _looked_up(cache: _TermCache, tokens: list[str], is_plain: bool) -> list[str]:  # noqa: FBT001 - as `_tokens` says
    if is_plain:
        return list(filter(None, map(cache.plain.__getitem__, tokens)))
    return list(chain.from_iterable(map(cache.__getitem__, tokens)))


def _without_clitics(tokens: list[str]) -> list[str]:
    """The words that tokens are, as far as function words are concerned."""
    if "'" not in "".join(tokens):
        return tokens
    return [plain_word(token) if "'" in token else token for token in tokens]


class TermMaker:
    """Makes the terms of texts and of query words; safe to share between threads.

    Args:
        language: A Snowball language for words in Latin script, or `"auto"`: guessed text by text from its function
            words, English when they do not tell. Words in other scripts are stemmed by their script's language.
        cache_size: How many distinct words to remember per language.

    Raises:
        InvalidInputError: When there is no stemmer for the language.
    """

    def __init__(self, language: str = AUTO_LANGUAGE, *, cache_size: int = 50_000) -> None:
        if language != AUTO_LANGUAGE and language not in stemmer_languages():
            known = ", ".join(sorted(stemmer_languages()))
            raise InvalidInputError("language", f"no stemmer for {language!r}; use 'auto' or one of {known}.")
        self.language = language
        self._default = DEFAULT_LANGUAGE if language == AUTO_LANGUAGE else language
        self._cache_size = cache_size
        self._caches = {self._default: _TermCache(self._default, cache_size)}

    @property
    def fingerprint(self) -> str:
        """Names everything that terms depend on; an index with another fingerprint must be built anew."""
        probe = "relational happily running organization generously skies dying café häuser"
        return f"{TERMS_VERSION}:{self.language}:{' '.join(self.terms(probe))}"

    def terms(self, text: str) -> list[str]:
        """Make the index terms of a text, in order and with repetitions; function words leave none."""
        tokens, is_plain = _tokens(text)
        terms = _looked_up(self._caches[self._default], tokens, is_plain)
        language = self._guess(tokens, len(terms))
        return terms if language == self._default else _looked_up(self._cache(language), tokens, is_plain)

    def terms_of_tokens(self, text: str) -> Mapping[str, tuple[str, ...]]:
        """What makes the terms of single tokens, normalised, in the language that the text is taken for."""
        tokens, _ = _tokens(text)
        function_words = STOP_WORDS.get(self._default, frozenset())
        return self._cache(self._guess(tokens, sum(token not in function_words for token in tokens)))

    def _guess(self, tokens: list[str], topical: int) -> str:
        """The language of a text of which so much is no function word of the default language."""
        # English prose is nearly half function words; only a text that keeps almost everything is worth a guess.
        if self.language == AUTO_LANGUAGE and _SHORTEST_GUESSED <= len(tokens) < topical / _MOSTLY_TOPIC:
            return guess_language(_without_clitics(tokens), self._default)
        return self._default

    def function_words(self, query: str) -> frozenset[str]:
        """What in a query carries no topic in the language that it is taken for; nothing for the default language.

        Texts are guessed one by one, and short ones are taken for the default: there "de" is as rare as a name.
        """
        if self.language != AUTO_LANGUAGE:
            return frozenset()
        language = guess_language(_without_clitics(_tokens(query)[0]), self._default)
        return frozenset() if language == self._default else STOP_WORDS[language]

    def query_terms(self, word: str) -> tuple[tuple[str, ...], ...]:
        """Make the terms that stand for what a user typed as one word.

        Returns:
            One group per unit that counts on its own (a word; every character and pair of a script without blanks).
            A group holds the alternatives under which the unit may be indexed: exact and folded, and its stem in
            every language that may have been guessed for a text. Function words of the default language give none.
        """
        groups: dict[tuple[str, ...], None] = {}
        for token in TOKEN.findall(normalize(word)):
            if is_dense(token):
                groups.update(dict.fromkeys((term,) for term in dict.fromkeys(_dense_terms(token))))
            else:
                group = self._alternatives(token)
                if group:
                    groups[group] = None
        return tuple(groups)

    def _alternatives(self, token: str) -> tuple[str, ...]:
        own = self._caches[self._default][token]
        if not own or self.language != AUTO_LANGUAGE or language_of_script(token[0]):
            return own
        others = (self._cache(language)[token] for language in GUESSABLE if language != self._default)
        return tuple(dict.fromkeys(chain(own, *others)))

    def _cache(self, language: str) -> _TermCache:
        cache = self._caches.get(language)
        if cache is None:
            # Two threads may build one each; the first one stored wins, the other is garbage.
            cache = self._caches.setdefault(language, _TermCache(language, self._cache_size))
        return cache
