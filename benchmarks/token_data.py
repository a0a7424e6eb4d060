"""What is said in conversations that is no prose: data, logs, tables, emoji; made, so that nothing is kept of it."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EMOJI = "😂😍🤣😊🙏😭👍👏🔥💙😢🤔🙄💪😉🤗😎🎉🤷✨😱🙌😋🙂🤩😀😃💯🙈👇🚀🍕🐶🌈💡📌"
_SAID = ("see you tomorrow", "that was great, thanks", "on my way now", "no idea, ask him", "ok", "haha")
_LOGGED = (
    "request finished in {n} ms status=200 path=/api/v1/users/{n}/orders",
    "connection {id} closed by peer after {n} bytes",
    "retry {n} of 5: timeout while reading from 10.0.{n}.17:5432",
    "cache miss key=session:{id}:{n}",
)
_PLACES = ("Berlin", "Lisbon", "Osaka", "Quito", "Nairobi", "Oslo", "Lima", "Cairo")


def _base64(dice: random.Random) -> str:
    return base64.b64encode(dice.randbytes(dice.randint(100, 900))).decode()


def _hashes(dice: random.Random) -> str:
    return " ".join(dice.randbytes(16).hex() for _ in range(20))


def _logs(dice: random.Random) -> str:
    said = (dice.choice(_LOGGED).format(n=dice.randint(1, 999), id=f"{dice.getrandbits(32):08x}") for _ in range(8))
    return "\n".join(
        f"2026-03-{dice.randint(10, 28)}T10:{dice.randint(10, 59)}:07.412Z INFO [db] {line}" for line in said
    )


def _tables(dice: random.Random) -> str:
    rows = (f"| {dice.choice(_PLACES)} | {dice.randint(1, 99_999)} | {dice.random() * 1e6:,.2f} |" for _ in range(15))
    return "\n".join(("| city | sold | revenue |", "|---|---:|---:|", *rows))


def _emoji(dice: random.Random) -> str:
    said = (f"{dice.choice(_SAID)} {''.join(dice.choices(EMOJI, k=dice.randint(1, 4)))}" for _ in range(12))
    return "\n".join(said)


def _addresses(dice: random.Random) -> str:
    return "\n".join(
        f"https://www.example.com/wiki/{dice.getrandbits(60):x}?id={dice.randint(1, 10**9)}" for _ in range(8)
    )


_KINDS: dict[str, Callable[[random.Random], str]] = {
    "base64": _base64,
    "hashes": _hashes,
    "logs": _logs,
    "tables": _tables,
    "emoji": _emoji,
    "addresses": _addresses,
}


def data(count: int = 60) -> dict[str, list[str]]:
    """So many texts of each kind, the same ones each time."""
    dice = random.Random(7)  # noqa: S311 - the same texts each time
    return {name: [make(dice) for _ in range(count)] for name, make in _KINDS.items()}
