"""For the site: names of the top are there when it runs, though they are imported for type checkers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from griffe import Extension

if TYPE_CHECKING:
    from griffe import Alias


class LazyNames(Extension):
    """Has the list of public names taken at its word: else the site would find none of them."""

    def on_alias_instance(self, *, alias: Alias, **_: Any) -> None:
        """A name was read."""
        if alias.parent is not None and alias.parent.path == "langchain_sessions._public_names":
            alias.runtime = True
