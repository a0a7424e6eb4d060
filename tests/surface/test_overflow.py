"""Whose words mean that a prompt is too long: real clients read real answers from a local server."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage

from langchain_sessions._chat.overflow import WORDINGS, is_context_overflow
from langchain_sessions._chat.provider_errors import read_chain
from langchain_sessions._chat.replies import is_cut_by_window
from tests.surface.clients import CLIENTS, AnyProvider, client_names, make_client
from tests.surface.overflow_answers import ANSWERS, OVERFLOWS, TEXTS, Answer, Text, page

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "overflow.md"
MEGABYTES = 8_000_000


OWN = [(answer, name) for answer in ANSWERS for name in client_names(answer.provider)]

pytestmark = [
    # What the clients of other people warn of.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[AnyProvider]:
    """One server for all answers: it looks at no prompt here."""
    with AnyProvider() as running:
        yield running


_raised: dict[tuple[int, str], Exception] = {}


def error_of(server: AnyProvider, answer: Answer, name: str | None = None) -> Exception:
    """What a client raises when it reads an answer: the provider's own, or the one that is named."""
    name = name or client_names(answer.provider)[0]
    if (id(answer), name) not in _raised:
        server.answer(answer.answer)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each client raises what it likes
            make_client(answer.provider, name, server.url).invoke("hi")
        _raised[id(answer), name] = caught.value
    return _raised[id(answer), name]


@pytest.mark.parametrize(("answer", "name"), OWN, ids=lambda given: getattr(given, "about", given))
def test_recognised_through_the_client_of_the_provider(server: AnyProvider, answer: Answer, name: str) -> None:
    assert is_context_overflow(error_of(server, answer, name)) is answer.is_overflow


@pytest.mark.parametrize(
    ("answer", "name"),
    [each for each in OWN if each[0].provider in CLIENTS][::3],
    ids=lambda given: getattr(given, "about", given),
)
async def test_recognised_when_it_is_streamed_or_awaited(server: AnyProvider, answer: Answer, name: str) -> None:
    model = make_client(answer.provider, name, server.url)
    server.answer(answer.answer)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each client raises what it likes
        await model.ainvoke("hi")
    assert is_context_overflow(caught.value) is answer.is_overflow
    with pytest.raises(Exception) as caught:  # noqa: PT011
        list(model.stream("hi"))
    assert is_context_overflow(caught.value) is answer.is_overflow


@pytest.mark.parametrize(
    "answer",
    [answer for answer in ANSWERS if answer.provider in CLIENTS],
    ids=lambda answer: f"{answer.provider}: {answer.about}",
)
def test_recognised_through_the_client_of_openai(server: AnyProvider, answer: Answer) -> None:
    """As through a gateway that speaks its protocol."""
    server.answer(answer.answer)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - it raises this and that
        make_client("OpenAI", "ChatOpenAI", server.url).invoke("hi")
    assert is_context_overflow(caught.value) is answer.is_overflow


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.provider}: {answer.about}")
def test_recognised_through_a_plain_http_client(server: AnyProvider, answer: Answer) -> None:
    """As the clients of many gateways raise it: the words are in the response alone."""
    server.answer(answer.answer)
    response = httpx.post(f"{server.base_url}/chat/completions", json={})
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert is_context_overflow(caught.value) is answer.is_overflow


def test_the_page_of_the_docs_says_what_was_found(server: AnyProvider) -> None:
    """Write the page anew with `python -m tests.surface.test_overflow`."""
    found = [(answer, is_context_overflow(error_of(server, answer))) for answer in ANSWERS]
    assert PAGE.read_text(encoding="utf-8") == page(found, told_of_texts())


def test_every_wording_has_a_source_and_is_said_by_somebody(server: AnyProvider) -> None:
    said = [told.text for answer in OVERFLOWS for told in read_chain(error_of(server, answer))]
    for wording in WORDINGS:
        assert wording.source.startswith("https://")
        assert any(re.search(wording.shape, text) for text in said), wording


class Refused(Exception):  # noqa: N818 - stands for classes of many names
    """An error whose attributes are what a client makes of an answer."""

    def __init__(self, *args: object, **attributes: Any) -> None:
        super().__init__(*args)
        self.__dict__.update(attributes)


class Throttled(Exception):  # noqa: N818 - stands for classes of many names
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError

    @property
    def response(self) -> object:
        raise RuntimeError


class ContextWindowExceededError(Exception):
    """As litellm names it."""


def saying(text: Text) -> Exception:
    """An error as plain clients make it: a status, and the words or the parsed body."""
    is_json = text.said.startswith(('{"', "[{"))
    body = json.loads(text.said) if is_json else {"error": {"message": text.said, "type": "invalid_request_error"}}
    return Refused(f"Error code: {text.status}", status_code=text.status, body=body)


def told_of_texts() -> list[tuple[Text, bool]]:
    return [(text, is_context_overflow(saying(text))) for text in TEXTS]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.said[:60])
def test_texts_of_other_servers(text: Text) -> None:
    assert is_context_overflow(saying(text)) is text.is_overflow


@pytest.mark.parametrize(
    "part", ["prompt ", "reduce the ", "1 > ", "слишком ", "message text ", "输入 ", "context_", "exceed "]
)
def test_texts_of_any_shape_take_no_time(part: str) -> None:
    begun = time.process_time()
    is_context_overflow(ValueError(part * 1_000))
    assert time.process_time() - begun < 1


TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"


def caused(outer: Exception, cause: BaseException) -> Exception:
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("error", "is_overflow"),
    [
        (ContextOverflowError("no words of it"), True),
        (ContextWindowExceededError(), True),
        # botocore: the parsed answer is the response.
        (
            Refused(
                "An error occurred (ValidationException) when calling the Converse operation",
                response={
                    "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
                    "ResponseMetadata": {"HTTPStatusCode": 400},
                },
            ),
            True,
        ),
        (
            Refused(
                "An error occurred",
                response={
                    "Error": {"Code": "ThrottlingException", "Message": "Too many tokens, please wait"},
                    "ResponseMetadata": {"HTTPStatusCode": 400},
                },
            ),
            False,
        ),
        # google-genai: code, status and message as attributes.
        (
            Refused(
                code=400,
                status="INVALID_ARGUMENT",
                message="The input token count (9) exceeds the maximum number of tokens allowed (8).",
            ),
            True,
        ),
        (Refused(code=429, status="RESOURCE_EXHAUSTED", message="Input tokens exceed the limit."), False),
        # Cohere and Mistral: a status and a body.
        (Refused(status_code=400, body={"message": "too many tokens: total number of tokens (prompt)"}), True),
        (Refused(status_code=400, body=b'{"message": "Prompt contains 9 tokens, too large for model with 8 '
                 b'maximum context length"}'), True),
        # langchain-openai raises what a router answers with status 200 as a ValueError around a dictionary.
        (ValueError({"message": TOO_LONG, "code": 400}), True),
        (RuntimeError(f"Error code: 400 - {TOO_LONG}"), True),
        (RuntimeError("Error code: 429 - the request exceeds the limit of tokens"), False),
        (caused(RuntimeError("the agent failed"), ValueError(TOO_LONG)), True),
        (caused(RuntimeError("the agent failed"), KeyError("tokens")), False),
        (Refused(exceptions=(KeyError("x"), ValueError(TOO_LONG))), True),
        (Refused("Error code: 413", status_code=413), True),
        (Refused(status_code=400), False),
        (Throttled(), False),
        (Exception(), False),
        (KeyboardInterrupt(), False),
        (TimeoutError("the request took longer than the maximum of 600 s"), False),
        (ConnectionError("context deadline exceeded"), False),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, BaseException) else str(given),
)  # fmt: skip
def test_recognised_in_what_other_clients_raise(error: BaseException, *, is_overflow: bool) -> None:
    assert is_context_overflow(error) is is_overflow


def test_a_chain_of_errors_may_be_a_ring() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert not is_context_overflow(one)


@pytest.mark.parametrize("where", ["words", "body", "response", "argument"])
def test_megabytes_of_text_are_not_read(where: str) -> None:
    """What a provider quotes of the prompt is behind what it says, and is not looked at."""
    head, prompt = TOO_LONG + ". You sent: ", "rate limit " * (MEGABYTES // 11)
    errors: dict[str, Exception] = {
        "words": ValueError(head + prompt),
        "body": Refused(status_code=400, body={"message": head + prompt}),
        "response": Refused(status_code=400, response=httpx.Response(400, text=head + prompt)),
        "argument": ValueError({"message": head + prompt}),
    }
    error = errors[where]
    begun = time.perf_counter()
    assert is_context_overflow(error)
    assert time.perf_counter() - begun < 0.2


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    assert is_context_overflow(ValueError(f"{TOO_LONG}: my secret"))
    assert caplog.records == []


def cut(reason: str, *, used: tuple[int, int] | None, key: str = "finish_reason") -> AIMessage:
    usage: Any = (
        None if used is None else {"input_tokens": used[0], "output_tokens": used[1], "total_tokens": sum(used)}
    )
    return AIMessage("so far", response_metadata={key: reason}, usage_metadata=usage)


def incomplete(reason: str, *, used: tuple[int, int]) -> AIMessage:
    """As OpenAI's Responses API says it."""
    reply = cut("incomplete", used=used, key="status")
    reply.response_metadata["incomplete_details"] = {"reason": reason}
    return reply


@pytest.mark.parametrize(
    ("reply", "window", "is_cut"),
    [
        (cut("length", used=(8000, 192)), 8192, True),
        (cut("MAX_TOKENS", used=(8192, 0)), 8192, True),
        (cut("max_tokens", used=(8000, 200), key="stop_reason"), 8192, True),
        (cut("length", used=(8000, 192), key="done_reason"), 8192, True),
        (cut("length", used=(100, 192)), 8192, False),  # its own limit
        (cut("length", used=(8000, 192)), None, False),
        (cut("length", used=None), 8192, False),
        (cut("stop", used=(8000, 192)), 8192, False),
        (cut("model_context_window_exceeded", used=None, key="stop_reason"), None, True),
        (cut("max_tokens", used=(8000, 192), key="stopReason"), 8192, True),  # Bedrock Converse
        (cut("max_tokens", used=(100, 192), key="stopReason"), 8192, False),
        (cut("model_context_window_exceeded", used=None, key="stopReason"), None, True),
        (incomplete("max_output_tokens", used=(8000, 192)), 8192, True),
        (incomplete("max_output_tokens", used=(100, 192)), 8192, False),
        (incomplete("content_filter", used=(8000, 192)), 8192, False),
        (cut("completed", used=(8000, 192), key="status"), 8192, False),
        (cut("incomplete", used=(8000, 192), key="status"), 8192, False),
        (AIMessage("all of it"), 8192, False),
    ],
)
def test_a_reply_that_the_window_cut(reply: AIMessage, window: int | None, *, is_cut: bool) -> None:
    assert is_cut_by_window(reply, window) is is_cut


def write_page() -> None:
    """Write the page of the docs."""
    with AnyProvider() as server:
        found = [(answer, is_context_overflow(error_of(server, answer))) for answer in ANSWERS]
    PAGE.write_text(page(found, told_of_texts()), encoding="utf-8")


if __name__ == "__main__":
    write_page()
