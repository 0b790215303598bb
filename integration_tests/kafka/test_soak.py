"""The load test in seconds instead of minutes: the job is killed once, and every row is accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.soak.__main__ import main

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.spark]


@pytest.mark.release  # it is run by itself, for longer
def test_a_short_load_test_accounts_for_every_row(tmp_path: Path) -> None:
    """It sends, kills, starts again, drains and compares, and its figures say so."""
    run = ["--minutes", "0.3", "--rate", "1000", "--keys", "100", "--pane", "2", "--watermark", "1", "--kills", "1"]
    assert main([*run, "--seed", "2", "--out", str(tmp_path)]) == 0
    figures = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert figures["right"]
    assert figures["kills"] == 1
    assert figures["rows"]["sent"] == 18_000
    assert figures["latency_seconds"]["all"]["panes"] > 0
    assert figures["recoveries"][-1]["committed"] is not None
    assert figures["memory_mb"]["java"]["max"] > 0
    assert "All 18,000 rows are in their results, once" in (tmp_path / "report.md").read_text(encoding="utf-8")
