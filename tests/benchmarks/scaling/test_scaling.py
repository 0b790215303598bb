"""Costs by keys and key groups: what was measured stands in tables and in a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.scaling.page import page
from benchmarks.scaling.plot import draw
from benchmarks.scaling.points import points


def content() -> dict[str, Any]:
    """Figures of all points, each its number in tenths of a second."""
    measured = [asdict(point) | {"seconds": number / 10} for number, point in enumerate(points(), 1)]
    head = {"made": "2026-01-02T03:04:05+00:00", "machine": {"cores": 2}, "load": [1.0, 2.0]}
    return head | {"rows": 500_000, "files": 7, "warm": 2, "points": measured}


def test_each_point_stands_in_a_table() -> None:
    """Keys with both contenders beside each other, then key groups."""
    text = page(content())
    assert "500,000 rows a batch, median of 5 batches" in text
    assert "| 1,000 | 0.10 | 0.20 |" in text
    assert "| 1,000,000 | 0.70 | 0.80 |" in text
    assert "| key groups, of 100,000 keys |" in text
    assert "| 512 | 1.30 |" in text


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    """So that a picture in the repository changes only with what was measured."""
    for name in ("one.svg", "two.svg"):
        draw(content(), tmp_path / name)
    one, two = ((tmp_path / name).read_text(encoding="utf-8") for name in ("one.svg", "two.svg"))
    assert one == two
    assert "key groups" in one
