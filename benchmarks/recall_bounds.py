"""What recall costs where logs are short, texts are long or a server answers: `python -m benchmarks.recall_bounds`.

- What the index takes of CPU per event of 400 characters, in sessions of 2000 events and of 20, without the appends.
- Texts of a megabyte: what catching up takes per MB, and the slowest search afterwards.
- With the URL of PostgreSQL: how often a page of hits waits for the server.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage
from sqlalchemy import make_url

from benchmarks.measure import CountingProxy
from benchmarks.recall_speed import BATCH, Language, worked
from langchain_sessions import SessionService

if TYPE_CHECKING:
    from collections.abc import Callable

_EVENTS = 4000
_MEGABYTE = 1_000_000

# Milliseconds: an append that took longer has caught up.
_INDEXED = 50


def cpu(call: Callable[[], object]) -> float:
    """Milliseconds of CPU of this process, of one call."""
    started = time.process_time()
    call()
    return 1000 * (time.process_time() - started)


def upkeep(folder: Path, size: int) -> None:
    """Print what indexing takes in sessions of so many events."""
    language = Language(3)
    with SessionService(f"sqlite:///{folder / f'upkeep{size}.db'}", search=False) as plain:
        ada = plain.as_user("ada")
        for number in range(_EVENTS // size):
            ada.open(f"s{number}")
            for start in range(0, size, BATCH):
                said = [HumanMessage(" ".join(language.message() for _ in range(4))[:400]) for _ in range(size)]
                ada.append(f"s{number}", said[start : start + BATCH])
    with SessionService(f"sqlite:///{folder / f'upkeep{size}.db'}") as service:
        # The words are known as a process knows them that has run for a while.
        service.verify("s0")
        took = cpu(service.reindex) + cpu(lambda: service.as_user("ada").search("qqx"))
        print(f"index upkeep, sessions of {size:5} events: {1000 * took / _EVENTS:6.1f} µs CPU per event", flush=True)


def long_texts(folder: Path, count: int) -> None:
    """Print what texts of a megabyte cost."""
    language = Language(4)
    page = " ".join(language.message() for _ in range(500))
    with SessionService(f"sqlite:///{folder / 'long.db'}") as service:
        ada = service.as_user("ada")
        ada.open("long")
        plain = paid = 0.0
        for number in range(count):
            text = f"{page * (_MEGABYTE // len(page))} lastword{number}x"
            took = cpu(lambda text=text: ada.append("long", HumanMessage(text)))  # type: ignore[misc]
            plain, paid = (plain, paid + took) if took > _INDEXED else (plain + took, paid)
        caught = cpu(service.reindex)
        per_mb = (paid + caught) / count
        print(f"{count} texts of 1 MB: appends {plain:.0f} ms CPU in all, catching up {per_mb:.0f} ms per MB")
        last = [f"lastword{number}x" for number in (0, count // 2, count - 1)]
        for word in last:
            found = [hit for hit in ada.search(word, session_id="long") if hit.why == "match"]
            if [hit.text.endswith(word) for hit in found] != [True]:
                raise SystemExit(f"{word} at the end of a text was not found")
        asked = [
            *last,
            language.words[0],
            " ".join(language.words[:8]),
            "qqx",
            '"the end of all"',
            language.words[9000],
        ]
        slowest = max((worked(lambda query=query: ada.search(query)), query) for query in asked)  # type: ignore[misc]
        print(f"slowest page of hits: {slowest[0]:.1f} ms CPU ({slowest[1][:40]}); a word at the very end is found")


def round_trips(url: str) -> None:
    """Print how often a page waits for the server."""
    told = make_url(url)
    proxy = CountingProxy(told.host or "localhost", told.port or 5432)
    through = told.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
    language = Language(5)
    with SessionService(through, create_schema=True, table_prefix="bench_bounds_") as service:
        service.delete_user("ada")
        ada = service.as_user("ada")
        for number in range(60):
            ada.open(f"bounds-{number}")
            ada.append(f"bounds-{number}", [HumanMessage(language.message()) for _ in range(20)])
        for query in (language.words[0], language.words[5000], "qqx", " ".join(language.words[:8])):
            ada.search(query)
            before = proxy.round_trips
            ada.search(query)
            print(f"round trips of a page over 60 sessions, {query[:30]!r}: {proxy.round_trips - before}", flush=True)
        service.delete_user("ada")
    proxy.close()


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="PostgreSQL, for round trips")
    parser.add_argument("--texts", type=int, default=100)
    options = parser.parse_args()
    if options.url:
        round_trips(options.url)
        return
    with tempfile.TemporaryDirectory() as folder:
        upkeep(Path(folder), 2000)
        upkeep(Path(folder), 20)
        long_texts(Path(folder), options.texts)


if __name__ == "__main__":
    main()
