"""Which vocabulary a model has, by its name or by the client that calls it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_sessions._tokens.weights import Vocabulary

_NAMES = ("model_name", "model", "model_id", "base_model_id", "deployment_name", "azure_deployment")

_FAMILIES: tuple[tuple[str, Vocabulary], ...] = (
    (r"deepseek-r1:(1\.5|7|14|32)b", "qwen3"),  # distilled into others, as Ollama names them
    (r"deepseek-r1:(8|70)b", "llama3"),
    (r"gpt-?oss|gpt-?4o|gpt-?4[.-]?[15](?!\d)|gpt-?[5-9]|chatgpt|(^|[/.:_-])o[1-9](?![0-9a-z])", "o200k_base"),
    (r"gpt-?4|gpt-?3|phi-?4|olmo", "cl100k_base"),
    (r"code-?llama|llama-?2|vicuna|tinyllama|phi-?3", "llama2"),
    (r"llama|hermes-[34]", "llama3"),
    (r"qwen|qwq|qvq|tongyi", "qwen3"),
    (r"deepseek", "deepseek_v3"),
    (r"mixtral|mathstral|zephyr|mistral-?7b|mistral-tiny|mistral(:|$)|codestral-?22b", "mistral_v1"),
    (r"(mistral|codestral)\w*-(small|medium|large|mamba)?-?24\d\d", "mistral_v1"),
    (r"mistral|ministral|codestral|magistral|devstral|voxtral|pixtral", "mistral_v3"),
    (r"gemini|gemma|learnlm", "gemma3"),
    (r"glm", "glm4"),
    (r"kimi|moonshot", "kimi_k2"),
    (r"claude", "claude"),
)
_CLIENTS: dict[str, Vocabulary] = {
    "langchain_anthropic": "claude",
    "langchain_deepseek": "deepseek_v3",
    "langchain_google_genai": "gemma3",
    "langchain_google_vertexai": "gemma3",
    "langchain_mistralai": "mistral_v3",
}
"""Clients that call models of one maker."""


def name_of(model: object) -> str | None:
    """What a model is called, as its client says it; None where it does not."""
    names = (getattr(model, name, None) for name in _NAMES)
    return next((name for name in names if isinstance(name, str) and name), None)


def vocabulary_of(model: object, replied: str | None = None) -> Vocabulary:
    """The vocabulary whose counts come nearest to those of a model; `unknown` where nothing tells it.

    Args:
        model: A chat model of LangChain's.
        replied: What an answer says that it was made by: a deployment may be called anything.
    """
    for name in (name_of(model), replied):
        if name is not None and (found := _family_of(name)) is not None:
            return found
    packages = {*_packages(model)}
    for package in packages & _CLIENTS.keys():
        return _CLIENTS[package]
    # Behind OpenAI's own service and Azure's are models of OpenAI's, whatever they are called there.
    clients = {package for package in packages if package.startswith("langchain_")} - {"langchain_core"}
    is_own = hasattr(model, "azure_endpoint") or getattr(model, "openai_api_base", "") is None
    if clients == {"langchain_openai"} and is_own:
        return "o200k_base"
    return "unknown"


def _family_of(name: str) -> Vocabulary | None:
    for pattern, vocabulary in _FAMILIES:
        if re.search(pattern, name.lower()):
            return vocabulary
    return None


def _packages(model: object) -> Iterator[str]:
    for cls in type(model).__mro__:
        yield cls.__module__.partition(".")[0]
