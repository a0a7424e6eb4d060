"""Chat models by name, through LangChain; what is missing for one is told with the way to get it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_sessions.cli._target import fail

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_KEY = re.compile(r"\b[A-Z][A-Z0-9]*_(?:API_)?(?:KEY|TOKEN)\b")
_INSTALL = re.compile(r"pip install [\w.\-]+")
_EXAMPLE = "such as --model openai:gpt-5-mini or --model ollama:llama3.2"
_TROUBLE = {
    400: "it refused the request",
    401: "it refused the key",
    403: "the key is not allowed to use it",
    404: "there is no such model",
    429: "too many requests, or no credit is left",
}


def open_model(name: str) -> BaseChatModel:
    """A chat model, named as `PROVIDER:NAME`."""
    try:
        from langchain.chat_models import init_chat_model
    except ModuleNotFoundError:
        fail("--model needs LangChain: pip install 'langchain-sessions[agents,openai]'")
    try:
        return init_chat_model(name)
    except ImportError as error:
        install = _INSTALL.search(str(error))
        fail(f"--model {name}: its package is not installed: {install.group() if install else type(error).__name__}")
    except AttributeError as error:
        # For a package that is missing LangChain looks into its community package, which has some no longer.
        if "langchain_community" not in str(error):
            fail(f"--model {name}: it cannot be opened (AttributeError)")
        fail(f"--model {name}: its package is not installed: pip install langchain-{name.partition(':')[0]}")
    except Exception as error:  # noqa: BLE001 - providers raise classes of their own for a missing key
        key = _KEY.search(str(error))
        if key is not None:
            fail(f"--model {name}: it needs a key: export {key.group()}=…")
        if "provider" in str(error):
            fail(f"--model {name}: no provider of that name is known; give PROVIDER:NAME, {_EXAMPLE}")
        fail(f"--model {name}: it cannot be opened ({type(error).__name__})")


def trouble_of(error: Exception) -> str:
    """Why a model did not answer, in a line: nothing of what was said, and no key."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if status in _TROUBLE:
        return f"The model did not answer: {_TROUBLE[status]} ({status})."
    if isinstance(status, int):
        return f"The model did not answer: its server has a problem ({status}); try again."
    if "connect" in type(error).__name__.lower() or isinstance(error, OSError):
        return "The model did not answer: its server cannot be reached."
    return f"The model did not answer: {type(error).__name__}."
