"""What a message says, as strings, and its JSON with these overwritten: as long as before, and still to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from langchain_sessions._core.codec.values import TAG

if TYPE_CHECKING:
    from collections.abc import Callable

BLANK_TEXT: Final = "[blanked]"
"""What a message says whose text was overwritten."""
_NO_WORDS: Final = frozenset({"type", "id", "tool_call_id", "index", "name", "mime_type", "source_type"})
_OWN_NAMES: Final = frozenset({"args", "artifact"})
"""In them a name is the caller's: what stands under `name` in the arguments of a call is a word."""
_WORDLESS: Final = frozenset(
    {"complex", "decimal", "uuid", "datetime", "date", "time", "timedelta", "float", "int"},
)
_HOLDING: Final = frozenset({"tuple", "set", "frozenset", "document"})
_DEEPEST: Final = 50
"""What nests deeper is left as it is in other values; the event itself is overwritten whole."""


def filler(size: int) -> bytes:
    """So many bytes that say that something was overwritten."""
    mark = BLANK_TEXT.encode()
    return mark + b"*" * (size - len(mark)) if size >= len(mark) else b"*" * size


def strings_of(value: object, depth: int = 0, *, names: bool = False) -> Iterator[str]:
    """The strings of a value of any shape; not names, ids and types, unless `names` says that these are words, too."""
    if isinstance(value, str):
        if value:
            yield value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if names or key not in _NO_WORDS:
                yield from strings_of(item, depth + 1, names=names)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_of(item, depth + 1, names=names)


def silenced(body: bytes) -> bytes:
    """The JSON of a message without its words, and as long; itself where it is none.

    What a value was stays said: a tag that is a word of a message, too, is none of its words.
    """
    dump: Callable[[Any], str] = partial(json.dumps, ensure_ascii=body.isascii(), separators=(",", ":"))
    try:
        return dump(_without_words(json.loads(body), dump)).encode()
    except ValueError:  # none, or sealed
        return body


def _without_words(value: Any, dump: Callable[[Any], str], depth: int = 0, *, names: bool = False) -> Any:
    """A packed value whose strings are overwritten, in a form that is as long."""
    if type(value) is str:
        return filler(len(dump(value).encode()) - 2).decode()
    if depth > _DEEPEST and type(value) in (list, dict):
        return _one_text(value, dump)
    if type(value) is list:
        return [_without_words(item, dump, depth + 1, names=names) for item in value]
    if type(value) is not dict:
        return value
    if TAG not in value:
        return {
            key: item
            if key in _NO_WORDS and not names
            else _without_words(item, dump, depth + 1, names=names or key in _OWN_NAMES)
            for key, item in value.items()
        }
    tag, payload = value[TAG]
    if tag in _WORDLESS:
        return value
    if tag == "dict":
        return {TAG: [tag, [[key, _without_words(item, dump, depth + 1, names=True)] for key, item in payload]]}
    if tag in _HOLDING:
        return {TAG: [tag, _without_words(payload, dump, depth + 1, names=names)]}
    return _one_text(value, dump)


def _one_text(value: Any, dump: Callable[[Any], str]) -> Any:
    """A text that takes as many bytes as a value whose parts have forms of their own: bytes, half an emoji, a frame."""
    size = len(dump(value).encode()) - len(dump({TAG: ["text", ""]}))
    return value if size < 0 else {TAG: ["text", filler(size).decode()]}
