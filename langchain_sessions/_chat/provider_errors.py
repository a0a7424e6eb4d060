"""What a provider's error says, read from whatever exception a client makes of it.

Clients keep the answer in many places: attributes, a parsed body, an HTTP response, their arguments. All are looked
at, no further than a bounded head of each, and nothing of it is ever logged: a provider may quote the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

_HEAD = 2_000  # characters: providers say what is wrong first and quote the request behind it
_BODY = 65_536
_LINKS = 10
_DEPTH = 8
_ITEMS = 8

_CODES = ("code", "type", "status", "error_type", "reason", "Code", "__type", "error_code")
_TEXTS = ("message", "msg", "Message", "error_description", "raw")
_INSIDE = ("error", "Error", "detail", "details", "errors", "metadata", "response", "body")
_STATUSES = ("status_code", "http_status", "status", "code")
_SPOKEN_STATUS = re.compile(r"\b(?:error|status)(?: code)?:? (\d{3})\b")
_QUOTED_REQUEST = re.compile(r"""['"](?:input|prompt|messages|content)['"]\s*:""")
# Clients print bodies: that one has a `message` says nothing of messages.
_KEYS = re.compile(r"""['"]\w+['"]\s*:""")
_THOUSANDS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")


@dataclass(slots=True)
class Told:
    """What one exception says.

    Attributes:
        names: The names of its class and of the classes that this is derived from.
        status: The HTTP status; None where none is known.
        codes: Machine-readable codes and types, in lower case.
        param: The parameter of the request that is to blame.
        text: The head of what is said in words: lower case, blanks joined, numbers without separators.
    """

    names: frozenset[str]
    status: int | None = None
    codes: set[str] = field(default_factory=set[str])
    param: str = ""
    text: str = ""


def read_chain(error: BaseException) -> Iterator[Told]:
    """What an error, its causes and the members of its groups say, the outermost first."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _LINKS:
        link = waiting.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield _read(link)
        members = _attribute(link, "exceptions")
        waiting += cast("Sequence[object]", members)[:_LINKS] if isinstance(members, (list, tuple)) else ()
        waiting.append(link.__cause__)


def _read(error: BaseException) -> Told:
    told = Told(frozenset(cls.__name__ for cls in type(error).__mro__))
    found: list[str] = []
    response = _attribute(error, "response")
    for source in (_attribute(error, "body"), _content(response), *error.args[:_ITEMS]):
        _collect(source, told, found, _DEPTH)
    for name in ("code", "type", "status", "param", "message", "error"):
        _take(name, _attribute(error, name), told, found, _DEPTH)
    if not any(found):
        found.append(_words(error))
    told.text = _normal(" ".join(found))
    told.status = told.status or _status(error) or _status(response) or _spoken_status(told.text)
    return told


def _attribute(owner: object, name: str) -> object:
    """An attribute that may be computed, and may raise: an unread response does."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - whatever it is, it says nothing about the prompt
        return None


def _words(error: BaseException) -> str:
    try:
        return str(error)[:_HEAD]
    except Exception:  # noqa: BLE001 - an error that cannot say what it is
        return ""


def _status(owner: object) -> int | None:
    for name in _STATUSES:
        value = _attribute(owner, name)
        if isinstance(value, int) and 100 <= value < 600:  # noqa: PLR2004 - what HTTP knows
            return int(value)
    return None


def _spoken_status(text: str) -> int | None:
    spoken = _SPOKEN_STATUS.search(text)
    return None if spoken is None else int(spoken[1])


def _content(response: object) -> object:
    """The body of an HTTP response, or the response itself where a client has parsed it."""
    if isinstance(response, Mapping):
        return cast("Mapping[object, object]", response)
    content = _attribute(response, "content")
    return content if isinstance(content, (bytes, str)) else None


def _collect(source: object, told: Told, found: list[str], depth: int) -> None:
    """Add what a body or a part of it says."""
    if depth == 0:
        return
    if isinstance(source, bytes):
        source = source[:_BODY].decode("utf-8", "replace")
    if isinstance(source, str):
        parsed = _parsed(source)
        if parsed is None:
            found.append(source[:_HEAD])
        else:
            _collect(parsed, told, found, depth - 1)
    elif isinstance(source, Mapping):
        body = cast("Mapping[str, object]", source)
        for name in (*_CODES, "param", "loc", *_TEXTS, *_INSIDE, "ResponseMetadata", "HTTPStatusCode"):
            if name in body:
                _take(name, body[name], told, found, depth)
    elif isinstance(source, (list, tuple)):
        for item in cast("Sequence[object]", source)[:_ITEMS]:
            _collect(item, told, found, depth - 1)


def _parsed(text: str) -> object:
    """The document in a text; None where it is plain text, or too long to be one that says something."""
    if not text[:100].lstrip().startswith(("{", "[")) or len(text) > _BODY:
        return None
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (dict, list)) else None


def _take(name: str, value: object, told: Told, found: list[str], depth: int) -> None:
    """Add one named part of what is said."""
    if name == "HTTPStatusCode" and isinstance(value, int):
        told.status = value
    elif name == "param" and isinstance(value, str):
        told.param = value[:100].lower()
    elif name == "loc" and isinstance(value, (list, tuple)):
        # Where servers that check with pydantic found it, behind the part of the request that holds it.
        path = [str(part) for part in cast("Sequence[object]", value)[:_ITEMS] if part != "body"]
        told.param = told.param or ".".join(path)[:100].lower()
    elif name in _CODES and isinstance(value, str):
        told.codes.add(value[:100].lower())
    elif name not in (*_CODES, "param", "loc"):
        _collect(value, told, found, depth - 1)


def _normal(text: str) -> str:
    head = text[:_HEAD]
    quoted = _QUOTED_REQUEST.search(head)
    said = head if quoted is None else head[: quoted.start()]
    return _THOUSANDS.sub(
        "", " ".join(_KEYS.sub(" ", said).lower().replace("\u2019", "'").replace("i\u0307", "i").split())
    )
