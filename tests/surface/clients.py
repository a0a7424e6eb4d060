"""The clients that LangChain has for each provider, pointed at a server on this machine that answers anything."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.openai_stub.server import OpenAIStub

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from tests.openai_stub.replies import Reply

_AWS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "k",
    "aws_secret_access_key": "s",
    "endpoint_url": "{url}",
    "max_retries": 1,
}
_CLAUDE = "anthropic.claude-3-5-sonnet-20240620-v1:0"

CLIENTS: dict[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "OpenAI": (("langchain_openai", "ChatOpenAI", {"model": "gpt-4o", "base_url": "{url}/v1", "max_retries": 0}),),
    "Azure": (
        (
            "langchain_openai",
            "AzureChatOpenAI",
            {"model": "d", "azure_endpoint": "{url}", "api_version": "2024-10-21", "max_retries": 0},
        ),
    ),
    "Anthropic": (
        ("langchain_anthropic", "ChatAnthropic", {"model": "claude-sonnet-4-5", "base_url": "{url}", "max_retries": 0}),
    ),
    "Gemini": (
        (
            "langchain_google_genai",
            "ChatGoogleGenerativeAI",
            {"model": "gemini-2.5-flash", "base_url": "{url}", "max_retries": 1},
        ),
    ),
    "Bedrock": (
        ("langchain_aws", "ChatBedrockConverse", {"model": _CLAUDE, **_AWS}),
        ("langchain_aws", "ChatBedrock", {"model": _CLAUDE, **_AWS}),
    ),
    "Mistral": (
        ("langchain_mistralai", "ChatMistralAI", {"model": "mistral", "endpoint": "{url}/v1", "max_retries": 1}),
    ),
    "Cohere": (("langchain_cohere", "ChatCohere", {"model": "command-r", "base_url": "{url}"}),),
    "Groq": (("langchain_groq", "ChatGroq", {"model": "llama", "base_url": "{url}", "max_retries": 0}),),
    "Together": (("langchain_together", "ChatTogether", {"model": "llama", "base_url": "{url}/v1", "max_retries": 0}),),
    "DeepSeek": (("langchain_deepseek", "ChatDeepSeek", {"model": "chat", "api_base": "{url}/v1", "max_retries": 0}),),
    "xAI": (("langchain_xai", "ChatXAI", {"model": "grok-4", "xai_api_base": "{url}/v1", "max_retries": 0}),),
    "OpenRouter": (
        ("langchain_openrouter", "ChatOpenRouter", {"model": "openai/gpt", "base_url": "{url}", "max_retries": 0}),
    ),
    "Ollama": (("langchain_ollama", "ChatOllama", {"model": "llama3", "base_url": "{url}"}),),
}
"""By the provider: package, class and options. Those that are not here speak OpenAI's protocol."""

_KEYS = {"langchain_cohere": "cohere_api_key", "langchain_google_genai": "google_api_key"}
_WITHOUT_KEY = ("langchain_aws", "langchain_ollama")


def client_names(provider: str) -> list[str]:
    """The classes that read what a provider answers."""
    return [name for _, name, _ in CLIENTS.get(provider, CLIENTS["OpenAI"])]


def make_client(provider: str, name: str, url: str) -> BaseChatModel:
    """A client of a provider, for a server without a path."""
    package, _, options = next(each for each in CLIENTS.get(provider, CLIENTS["OpenAI"]) if each[1] == name)
    given = {key: value.format(url=url) if isinstance(value, str) else value for key, value in options.items()}
    if package not in _WITHOUT_KEY:
        given[_KEYS.get(package, "api_key")] = "k"
    made: BaseChatModel = getattr(import_module(package), name)(**given)
    return made


class AnyProvider(OpenAIStub):
    """A server that gives the next scripted answer whatever protocol is spoken to it."""

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        return self.base_url.removesuffix("/v1")

    def answer(self, reply: Reply) -> None:
        """Answer so from now on, however often a client tries."""
        self._script.clear()
        self._script.append(reply)

    def receive(self, path: str, body: dict[str, Any]) -> Reply:
        """The answer, to whatever is asked."""
        del path, body
        return self._script[0]
