"""A trigger or a strategy of one's own stays short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_trigger_and_a_strategy_take_ten_lines_each() -> None:
    page = (ROOT / "docs" / "compaction.md").read_text(encoding="utf-8")
    for name in ("AtNight", "ForgetToolChatter"):
        found = re.search(rf"@dataclass\(frozen=True\)\nclass {name}:\n(?:(?: .*)?\n)+?(?=\n\n|\S)", page)
        assert found is not None
        assert len(found[0].strip().splitlines()) <= 10
