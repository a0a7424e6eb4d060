"""The token estimate of texts in other languages than English, none of which took part in fitting it."""

from __future__ import annotations

import pytest
from splintr import Tokenizer

from benchmarks.token_weights import CHECKED, VOCABULARIES, written
from langchain_sessions import EstimatedTokenCounter
from langchain_sessions._tokens.estimate import classes_of, languages_of
from langchain_sessions._tokens.language_rates import RATES
from langchain_sessions._tokens.languages import GROUPS
from langchain_sessions._tokens.weights import WEIGHTS

TEXTS = written(CHECKED)
MOST_UNDER, MOST_OVER = -0.11, 0.2
ON_AVERAGE = 0.06
NEAR_ENOUGH = {"Danish": {"Norwegian"}, "Czech": {"Slovak"}}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_estimate_of_other_languages(vocabulary: str) -> None:
    encode, count = Tokenizer.from_pretrained(vocabulary).encode, EstimatedTokenCounter(vocabulary).count_text  # type: ignore[arg-type]
    exact = {language: sum(len(encode(text)) for text in texts) for language, texts in TEXTS.items()}
    errors = {language: sum(map(count, texts)) / exact[language] - 1 for language, texts in TEXTS.items()}
    assert {name: error for name, error in errors.items() if not MOST_UNDER < error < MOST_OVER} == {}
    assert sum(map(abs, errors.values())) / len(errors) < ON_AVERAGE


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_known_by_its_words_or_its_script(language: str) -> None:
    for text in TEXTS[language]:
        ((found, share),) = languages_of(text, classes_of(text))
        assert found == language or found in NEAR_ENOUGH.get(language, ())
        assert share > 0.7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "Could you tell me where the train to Warsaw leaves from, and whether I need a seat?",
        "no, I do not think so, but ask Maria de la Cruz or Jan van der Berg about it",
        "for i in range(10):\n    if i in found and i not in known:\n        return [i for i in found if i]\n",
        '{"a": [1, 2], "title": "La vida es sueño", "id": 7, "ok": true, "items": [{"name": "x"}, {"name": "y"}]}',
        "import numpy as np\nimport pandas as pd\nimport seaborn as sns\nimport torch as t\n",
        "SELECT id, name FROM users WHERE id IN (1, 2) AND name IS NOT NULL ORDER BY name DESC",
        "的确, 我们明天再去看看吧。",
    ],
)
def test_english_program_text_and_chinese_are_what_the_weights_know(text: str) -> None:
    assert languages_of(text, classes_of(text)) == []


def test_what_is_said_in_two_languages_is_half_of_each() -> None:
    german, english = (
        TEXTS["German"][0],
        "It is what we have been told, and there is not more that they can do about it.",
    )
    count = EstimatedTokenCounter().count_text
    alone, both = count(german) + count(english), count(f"{german} {english}")
    assert 0.9 * alone < both < 1.1 * alone


def test_there_is_a_rate_for_every_language_and_vocabulary() -> None:
    assert RATES.keys() == WEIGHTS.keys()
    for rates in RATES.values():
        assert rates.keys() == GROUPS.keys() - {"English"}
