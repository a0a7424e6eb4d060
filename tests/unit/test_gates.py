"""Recorded figures are raised by a decision that names them, and a gate that grew says its name."""

from __future__ import annotations

import json

import pytest

from benchmarks import gates


def test_every_recorded_value_has_a_decision_that_names_it() -> None:
    known = json.loads(gates.RECORDED.read_text())["gates"]
    assert known
    for name, entry in known.items():
        (record,) = gates.DECISIONS.glob(f"{entry['decision']:04d}-*.md")
        assert name in record.read_text(), name


def test_what_grew_by_more_than_three_percent_is_named() -> None:
    allowed = {"append: statements": 4.0, "append: fsyncs": 1.0, "messages: statements": 2.0}
    found = {"append: statements": 4.1, "append: fsyncs": 2.0, "messages: statements": 1.0, "new: statements": 9.0}
    assert gates.grown(found, allowed) == ["append: fsyncs"]


def test_what_grew_is_recorded_with_a_decision_only(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("gates")
    monkeypatch.setattr(gates, "RECORDED", folder / "gates.json")
    monkeypatch.setattr(gates, "DECISIONS", folder)
    (folder / "0001-why.md").write_text("append: statements may be four, since")
    gates.record({"append: statements": 4.0}, 1, "c0ffee")
    gates.record({"append: statements": 3.0}, None, "c0ffee")
    assert json.loads((folder / "gates.json").read_text())["gates"] == {
        "append: statements": {"value": 3.0, "decision": 1}
    }
    with pytest.raises(SystemExit, match="append: statements"):
        gates.record({"append: statements": 4.0}, None, "c0ffee")
    with pytest.raises(SystemExit, match="append: fsyncs"):
        gates.record({"append: fsyncs": 1.0}, 1, "c0ffee")
