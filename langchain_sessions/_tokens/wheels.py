"""Vocabularies of models that lie in wheels of their makers, or of others: exact counts without a network.

One table. What is named in it is read as data; none of the packages is imported but the reader of one kind of file.
Other makers' packages hold none: Cohere's and Google's download theirs, Anthropic's asks a server.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_sessions._tokens.estimate import TextCounter
from langchain_sessions._tokens.families import name_of, vocabulary_of
from langchain_sessions._tokens.tiktoken import TiktokenCounter
from langchain_sessions.errors import InvalidInputError, VocabularyMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Wheel(NamedTuple):
    """A vocabulary in a wheel.

    Attributes:
        vocabulary: What it is called here.
        models: Those that surely have it, among the models of that vocabulary. Names that move with releases are none.
        package: What has to be installed.
        path: Where it lies in there.
        read: Makes a counter of the file.
    """

    vocabulary: str
    models: str
    package: str
    path: str
    read: Callable[[Path], TextCounter]


def _tekken(path: Path) -> TextCounter:
    """Mistral's own form: JSON with the pattern, and ranks in order."""
    import tiktoken  # noqa: PLC0415 - loaded by those who count with it

    document: dict[str, Any] = json.loads(path.read_bytes())
    config: dict[str, Any] = document["config"]
    # The file holds more than the models have.
    most = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {b64decode(entry["token_bytes"]): entry["rank"] for entry in document["vocab"][:most]}
    return TiktokenCounter(
        tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    )


def _ranks_of_qwen(path: Path) -> TextCounter:
    import tiktoken  # noqa: PLC0415 - loaded by those who count with it

    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    return TiktokenCounter(tiktoken.Encoding("qwen", pat_str=_QWEN_SPLIT, mergeable_ranks=ranks, special_tokens={}))


class _Pieces(TextCounter):
    """Counts with a model of sentencepiece."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        # Comes with the wheel that has such a model, or does not.
        pieces: Any = import_module("sentencepiece")
        self._model: Any = pieces.SentencePieceProcessor(model_file=str(path))

    @property
    def exact(self) -> bool:
        return True

    def count_text(self, text: str) -> int:
        return len(self._model.encode(text.encode("utf-8", "replace").decode()))


WHEELS = (
    Wheel("mistral_v3", "", "mistral_common", "data/tekken_240911.json", _tekken),
    Wheel("mistral_v1", "", "mistral_common", "data/tokenizer.model.v1", _Pieces),
    Wheel("qwen3", r"qwen-?(1\.5|2|2\.5|3)(?![.\d])", "dashscope", "resources/qwen.tiktoken", _ranks_of_qwen),
)
"""The one table, but for OpenAI's: those are found in tiktoken's cache, and in wheels that are laid out like it."""
_CACHES = (("litellm", "litellm_core_utils/tokenizers"),)
"""Packages that carry vocabularies under the names of tiktoken's cache."""


def cached_folders() -> Iterator[Path]:
    """Folders in wheels that hold what tiktoken would download."""
    for package, folder in _CACHES:
        if (place := _place(package, folder)) is not None:
            yield place


def wheel_of(model: object) -> Wheel | None:
    """The row of a model whose vocabulary lies in a wheel that is installed."""
    present = _present()
    if not present:
        return None  # most have none, and this runs with every call
    vocabulary, name = vocabulary_of(model), (name_of(model) or "").lower()
    found = (wheel for wheel in present if wheel.vocabulary == vocabulary and re.search(wheel.models, name))
    return next(found, None)


@cache
def _present() -> tuple[Wheel, ...]:
    """The rows whose file is there. Nothing is installed while a process runs."""
    places = ((wheel, _place(wheel.package, wheel.path)) for wheel in WHEELS)
    return tuple(wheel for wheel, place in places if place is not None and place.exists())


def read_wheel(wheel: Wheel) -> TextCounter:
    """The counter of a row.

    Raises:
        VocabularyMissingError: It is not there, or is not what was expected.
    """
    place = _place(wheel.package, wheel.path)
    try:
        if place is not None:
            return wheel.read(place)
    except (OSError, ImportError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise VocabularyMissingError(wheel.vocabulary) from error
    raise VocabularyMissingError(wheel.vocabulary)


def _place(package: str, path: str) -> Path | None:
    """Where a file of a package lies; the package is looked for, not imported."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((Path(place, path) for place in places), None)


class LocalTokenizer(TextCounter):
    """Exact counts by a tokenizer file on this machine: the `tokenizer.json` of a model on the Hugging Face Hub.

    Needs the package `tokenizers`, which clients of several providers bring. Nothing is downloaded.

    Args:
        path: The file.

    Raises:
        InvalidInputError: There is no such file, or it is not one of a tokenizer.
    """

    def __init__(self, path: str | Path) -> None:
        """Load the file."""
        super().__init__()
        from tokenizers import Tokenizer  # noqa: PLC0415 - of another package

        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # all that the package raises
            raise InvalidInputError("path", "give the tokenizer.json of a model") from error

    def __repr__(self) -> str:
        """Name the class."""
        return "LocalTokenizer(...)"

    @property
    def exact(self) -> bool:
        """Always True."""
        return True

    def count_text(self, text: str) -> int:
        """Count a bare text, without what a model's template adds."""
        return len(self._tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False).ids)
