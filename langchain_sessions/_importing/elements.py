"""One long value of JSON, an element at a time: a file of conversations may be longer than memory."""

from __future__ import annotations

import codecs
import json
import re
from typing import IO, TYPE_CHECKING, Any, Final

from langchain_sessions._importing.values import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK: Final = 1 << 16
_UNDECODED = re.compile("[\udc80-\udcff]")
"""What stands in the place of bytes that are not UTF-8."""
_NEAR: Final = 16
"""How near to the end an error is where the text was only cut: the longest word or escape is shorter."""
_BLANK: Final = " \t\r\n"
_NUMBERS: Final = (int, float)
_NUMBER = re.compile(r"[-+0-9.eE]*\Z")


class JsonElements:
    """The elements of a list, or the members of an object, that a file holds; each is read whole."""

    def __init__(self, file: IO[bytes]) -> None:
        """Read a file from its beginning."""
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._json = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._is_over = False
        self.is_list = self._next() == "["
        self._at += 1

    def items(self) -> Iterator[tuple[int, Any]]:
        """The elements of a list, numbered from 1; the last one is a `SourceError` where the file breaks off."""
        nth = 1
        try:
            for _ in self._until("]"):
                yield nth, self._value()
                nth += 1
        except (ValueError, RecursionError):
            yield nth, SourceError(f"the file is not JSON from message {nth} on")

    def members(self) -> Iterator[tuple[str, Any]]:
        """The members of an object; the last one is a `SourceError` where the file breaks off."""
        name = ""
        try:
            for _ in self._until("}"):
                name = str(self._value())
                self._pass(":")
                yield name, self._value()
        except (ValueError, RecursionError):
            yield name, SourceError("the file is not JSON from here on" if name else "the file is not JSON")

    def _until(self, end: str) -> Iterator[None]:
        """Once before each element."""
        if self._next() == end:
            return
        while True:
            yield
            if self._pass(f",{end}") == end:
                return

    def _pass(self, expected: str) -> str:
        """Go on behind one of these characters, and say which it was.

        Raises:
            ValueError: None of them is next.
        """
        mark = self._next()
        if not mark or mark not in expected:
            raise ValueError
        self._at += 1
        return mark

    def _next(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more(_CHUNK):
                return ""

    def _value(self) -> Any:
        """The next value.

        Raises:
            ValueError: There is none.
            RecursionError: It nests too deep.
        """
        self._next()
        size = _CHUNK
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos + _NEAR >= len(self._text)
                # Twice as much each time: a long element is not begun anew for each chunk.
                size = max(size, len(self._text) - self._at)
                if not is_cut or not self._more(size):
                    raise
                continue
            # Where nothing ends a number but the end of the chunk, it may go on in the next one.
            if type(value) in _NUMBERS and _NUMBER.match(self._text, end) and self._more(_CHUNK):
                continue
            self._at = end
            return value

    def _more(self, size: int) -> bool:
        """Read on; whether there was more. What was read before is let go of."""
        if self._is_over:
            return False
        data = self._file.read(size)
        self._is_over = len(data) < size
        self._text = self._text[self._at :] + self._decoder.decode(data, final=self._is_over)
        self._at = 0
        return bool(data)


def holds_torn_text(value: Any) -> bool:
    """Whether a text in a value holds bytes that are not UTF-8."""
    return _UNDECODED.search(json.dumps(value, ensure_ascii=False)) is not None
