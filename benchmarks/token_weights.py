# ruff: noqa: SLF001 - it fits what it looks into
"""Fits what the letters of each language cost in each vocabulary, for the token estimate.

The weights of `_tokens/weights.py` know English, program text, JSON and Chinese; `_tokens/language_rates.py` says what
a letter of another language takes. It is made by this script: for each language and vocabulary the exact count of some
texts, less what the estimate takes for their marks, digits and line breaks, by letter. The texts are those of
`benchmarks/token_languages.txt`, written for this, and the message catalogs of Django, where `--catalogs` says that it
is installed (a wheel that brings short sentences in eighty languages). What was written for this counts
three times: people talk as it does. Checked is it with `tests/unit/token_texts/languages.txt`, which takes no part.

    python -m benchmarks.token_weights --catalogs /tmp/venv/lib/python3.11/site-packages/django
    python -m benchmarks.token_weights --check
"""

from __future__ import annotations

import argparse
import gettext
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from splintr import Tokenizer

from langchain_sessions import EstimatedTokenCounter
from langchain_sessions._tokens.estimate import classes_of, cost_of, letters_in, words_of
from langchain_sessions._tokens.languages import GROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_sessions._tokens.weights import Vocabulary

FITTED = Path(__file__).parent / "token_languages.txt"
CHECKED = Path(__file__).parents[1] / "tests" / "unit" / "token_texts" / "languages.txt"
VOCABULARIES: tuple[Vocabulary, ...] = (
    *("o200k_base", "cl100k_base", "llama3", "llama2", "mistral_v3", "mistral_v1"),
    *("gemma3", "qwen3", "deepseek_v3", "glm4", "kimi_k2"),
)
LIKELY: tuple[Vocabulary, ...] = ("o200k_base", "cl100k_base", "llama3", "deepseek_v3", "glm4", "kimi_k2")
"""Those that `unknown` stands for."""
CLAUDE = 1.25
_CODES = (
    "German=de French=fr Spanish=es Portuguese=pt Italian=it Dutch=nl Polish=pl Czech=cs Slovak=sk Swedish=sv "
    "Danish=da Norwegian=nb Finnish=fi Hungarian=hu Romanian=ro Croatian=hr Catalan=ca Turkish=tr "
    "Vietnamese=vi Indonesian=id Russian=ru Ukrainian=uk Bulgarian=bg Serbian=sr Arabic=ar Persian=fa Urdu=ur "
    "Greek=el Hebrew=he Hindi=hi "
    "Bengali=bn Tamil=ta Telugu=te Thai=th Japanese=ja Korean=ko"
)
CATALOGS = dict(pair.split("=") for pair in _CODES.split())
SHORTEST = 25
MARGIN = 1.04
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w+\}|<[^>]+>")


def written(path: Path) -> dict[str, list[str]]:
    """Texts by language, of a file in which each begins with a line that names it."""
    sections = re.split(r"^## (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.splitlines() for name, text in zip(sections[::2], sections[1::2], strict=True)}


def catalog(django: Path, code: str) -> list[str]:
    """The longer messages of Django in a language, without what is filled in."""
    found: list[str] = []
    for path in sorted(django.glob(f"**/locale/{code}/LC_MESSAGES/django.mo")):
        with path.open("rb") as file:
            known: Mapping[object, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        texts = [" ".join(_PLACEHOLDER.sub("", text).split()) for text in known.values()]
        found += [text for text in texts if len(text) > SHORTEST]
    return found


def rate(texts: Sequence[str], language: str, counter: EstimatedTokenCounter, exact: Sequence[int]) -> float:
    """What a letter takes of what is counted, less all that is no letter."""
    group = GROUPS[language]
    rest, letters = 0.0, 0
    for text in texts:
        classes = classes_of(text)
        costs = counter.costs(text, classes, words_of(classes))
        rest += sum(costs.values()) - cost_of(costs, group)
        letters += letters_in(classes, group)
    return (sum(exact) - rest) / letters if letters else 0.0


def fitted(django: Path | None) -> dict[str, dict[str, float]]:
    """Tokens per letter, by vocabulary and language."""
    own = written(FITTED)
    encode = {name: Tokenizer.from_pretrained(name).encode for name in VOCABULARIES}
    rates: dict[str, dict[str, float]] = {name: {} for name in (*VOCABULARIES, "unknown", "claude")}
    for language, code in CATALOGS.items():
        sources = [texts for texts in (own.get(language), catalog(django, code) if django else None) if texts]
        for name in VOCABULARIES:
            counter = EstimatedTokenCounter(name)
            found = [rate(texts, language, counter, [len(encode[name](text)) for text in texts]) for texts in sources]
            rates[name][language] = MARGIN * sum((*found, found[0], found[0])) / (len(found) + 2)
        rates["unknown"][language] = max(rates[name][language] for name in LIKELY)
        rates["claude"][language] = CLAUDE * rates["unknown"][language]
    return rates


def check() -> None:
    """Print how far the estimate is off on texts that took no part, in per cent."""
    print(f"{'':12}", *[f"{name[:8]:>8}" for name in VOCABULARIES])
    encode = {name: Tokenizer.from_pretrained(name).encode for name in VOCABULARIES}
    for language, texts in written(CHECKED).items():
        errors: list[float] = []
        for name in VOCABULARIES:
            exact = sum(len(encode[name](text)) for text in texts)
            errors.append(sum(map(EstimatedTokenCounter(name).count_text, texts)) / exact - 1)
        print(f"{language:12}", *[f"{error:+8.0%}" for error in errors])


def main(argv: Sequence[str] = ()) -> None:
    """Print the table, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalogs", type=Path, help="where Django is installed")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(argv)
    if options.check:
        check()
        return
    rates = fitted(options.catalogs)
    print(f"_VOCABULARIES: Final = ({', '.join(map(repr, rates))})")
    for language in CATALOGS:
        print(f'    "{language}": ({", ".join(f"{rates[name][language]:.3f}" for name in rates)}),')


if __name__ == "__main__":
    main(sys.argv[1:])
