"""Exact counts with tiktoken, for vocabularies that are already on the machine.

tiktoken itself downloads what its cache lacks, and removes and downloads again what its cache
holds damaged. So it is asked for what it has under a name that nobody could download, and what it
answers is checked here: without `allow_download=True` there is no path to a socket.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_sessions._tokens.estimate import TextCounter
from langchain_sessions.errors import InvalidInputError, VocabularyMissingError

if TYPE_CHECKING:
    from os import PathLike

    import tiktoken

    from langchain_sessions._tokens.base import MediaCosts

DEFAULT_VOCABULARY = "o200k_base"


@dataclass(frozen=True, kw_only=True)
class _Vocabulary:
    """A published rank file, and the rule that splits a text before ranks apply."""

    sha256: str
    split: tuple[str, ...]


_CONTRACTION = r"'(?i:s|t|d|m|re|ve|ll)"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

_VOCABULARIES = {
    "o200k_base": _Vocabulary(
        sha256="446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        split=(
            f"{_LEAD}{_UPPER}*{_LOWER}+(?:{_CONTRACTION})?",
            f"{_LEAD}{_UPPER}+{_LOWER}*(?:{_CONTRACTION})?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ),
    ),
    "cl100k_base": _Vocabulary(
        sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        split=(
            _CONTRACTION,
            rf"{_LEAD}\p{{L}}+",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ),
    ),
}


class TiktokenCounter(TextCounter):
    """Exact counts of OpenAI's vocabularies.

    Args:
        encoding: `o200k_base` (the default), `cl100k_base`, or a `tiktoken.Encoding` that the
            caller has loaded, which is used as it is.
        model: A model's name instead, such as `gpt-4o`; tiktoken's own table says its encoding.
        cache_dir: Where tiktoken keeps its downloads. By default tiktoken is asked for what it has,
            so that its own settings count.
        allow_download: Let tiktoken fetch a vocabulary that is not there, to its own cache.
            Other encodings than the two above can be named only with it.
        media: The price of images and files.

    Raises:
        VocabularyMissingError: The file is not there, or damaged, and no download was allowed.
        InvalidInputError: Encoding and model were both given, or one of them is not known.
    """

    def __init__(
        self,
        encoding: str | tiktoken.Encoding | None = None,
        *,
        model: str | None = None,
        cache_dir: str | PathLike[str] | None = None,
        allow_download: bool = False,
        media: MediaCosts | None = None,
    ) -> None:
        """Load the vocabulary; a file of one to four megabytes, under a second."""
        super().__init__(media=media)
        if encoding is not None and model is not None:
            raise InvalidInputError("model", "pass either an encoding or a model")
        if encoding is None:
            encoding = DEFAULT_VOCABULARY if model is None else encoding_name_of(model)
        if isinstance(encoding, str):
            encoding = _load(encoding, cache_dir, allow_download=allow_download)
        self._encoding = encoding

    def __repr__(self) -> str:
        """Name the encoding."""
        return f"TiktokenCounter({self._encoding.name!r})"

    @property
    def exact(self) -> bool:
        """Always True."""
        return True

    @property
    def encoding_name(self) -> str:
        """The name of the vocabulary in use."""
        return self._encoding.name

    def count_text(self, text: str) -> int:
        """Count a bare text; names of special tokens in it count as ordinary text."""
        return len(self._encoding.encode_ordinary(text))


def encoding_name_of(model: str) -> str:
    """The vocabulary of a model, by tiktoken's own table."""
    import tiktoken  # noqa: PLC0415 - loaded by those who count with it

    try:
        return tiktoken.encoding_name_for_model(model)
    except KeyError:
        raise InvalidInputError("model", f"tiktoken knows no model {model!r}; name an encoding instead") from None


def _load(name: str, cache_dir: str | PathLike[str] | None, *, allow_download: bool) -> tiktoken.Encoding:
    import tiktoken  # noqa: PLC0415 - loaded by those who count with it

    vocabulary = _VOCABULARIES.get(name)
    if vocabulary is not None and (ranks := _read_ranks(name, vocabulary.sha256, cache_dir)):
        return tiktoken.Encoding(name, pat_str="|".join(vocabulary.split), mergeable_ranks=ranks, special_tokens={})
    if name not in tiktoken.list_encoding_names():
        raise InvalidInputError(
            "encoding", f"tiktoken knows no encoding {name!r}; for a model write best_counter({name!r})"
        )
    if not allow_download:
        raise VocabularyMissingError(name)
    try:
        return tiktoken.get_encoding(name)
    except OSError as error:
        raise VocabularyMissingError(name) from error


class _Cached(str):
    """What tiktoken looks up in its cache under an address. In itself it is no file's name, which is all it tries."""

    __slots__ = ("address",)
    address: str

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The address, of which tiktoken makes the name of a cached file."""
        return self.address.encode(encoding, errors)


def _read_cached(address: str, cache_dir: str | PathLike[str] | None) -> bytes:
    """What tiktoken's cache holds of an address.

    Raises:
        OSError: Nothing.
    """
    if cache_dir is not None:
        # tiktoken names a cached file by the SHA-1 of the address that it came from.
        return Path(cache_dir, hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()).read_bytes()
    from tiktoken.load import read_file_cached  # noqa: PLC0415 - loaded by those who count with it

    cached = _Cached()
    cached.address = address
    # Without the hash that it should have: what is damaged would be removed.
    try:
        return read_file_cached(cached)
    except ImportError as error:
        # Until 0.9 tiktoken asked another package for what is neither cached nor on the network.
        raise FileNotFoundError(address) from error


def _read_ranks(name: str, sha256: str, cache_dir: str | PathLike[str] | None) -> dict[bytes, int] | None:
    try:
        contents = _read_cached(f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken", cache_dir)
    except OSError:
        return None
    # A damaged file is as good as none; tiktoken would remove it and go to the network.
    if hashlib.sha256(contents).hexdigest() != sha256:
        return None
    lines = (line.split() for line in contents.splitlines() if line)
    return {b64decode(token): int(rank) for token, rank in lines}
