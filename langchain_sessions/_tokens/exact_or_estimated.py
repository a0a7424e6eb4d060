"""Which counter serves a model best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_sessions._core.edge import require, told
from langchain_sessions._tokens.estimate import EstimatedTokenCounter
from langchain_sessions._tokens.tiktoken import DEFAULT_VOCABULARY, TiktokenCounter, encoding_name_of
from langchain_sessions.errors import InvalidInputError, VocabularyMissingError

if TYPE_CHECKING:
    from os import PathLike

    from langchain_sessions._tokens.base import MediaCosts, TokenCounter


@told
def best_counter(
    model: str | None = None,
    *,
    cache_dir: str | PathLike[str] | None = None,
    allow_download: bool = False,
    media: MediaCosts | None = None,
) -> TokenCounter:
    """Pick exact counts when the vocabulary of `model` is on the machine, else the estimate.

    Args:
        model: The model whose tokens are counted; without one, or for one that tiktoken does not
            know, `o200k_base` stands in: exactly for no model, as an estimate for an unknown one.
        cache_dir: As for `TiktokenCounter`.
        allow_download: As for `TiktokenCounter`; without it no socket is opened.
        media: The price of images and files.

    Returns:
        A counter whose `exact` says which one it is.
    """
    require(model is None or isinstance(model, str), "model", "give a model's name, such as 'gpt-4o'")
    try:
        name = DEFAULT_VOCABULARY if model is None else encoding_name_of(model)
    except InvalidInputError:
        return EstimatedTokenCounter(media=media)
    try:
        return TiktokenCounter(name, cache_dir=cache_dir, allow_download=allow_download, media=media)
    except VocabularyMissingError:
        return EstimatedTokenCounter("o200k_base" if name.startswith("o200k") else "cl100k_base", media=media)
