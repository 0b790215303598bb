"""The worked examples through a real streaming query; the same events as from the core alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.testing import difference, play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent.parent / "tests"
VECTORS = {
    path.stem: path
    for name in ("vectors", "vectors_own")
    for path in (TESTS / name).glob("*.json")
    if not path.stem.startswith("lifecycle_")
}
WAYS: list[tuple[Any, Any]] = [("whole", "none"), (7, "none"), ("whole", [2]), (3, [1])]
"""A cut and a restart; each vector goes one of these ways, in turn."""
THOROUGH = [
    "interval_stale_watermark",
    "interval_late_by_pane",
    "interval_checkpoint_reset",
    "sliding_count2_evict_partition",
    "tumbling_time30_reset_overdue",
    "batched_within1_5_every1",
]
"""Vectors that go several ways: late and pending data, drops, clocks, evictions, and state that is put back."""
EVERY_WAY: list[tuple[Any, Any]] = [("whole", "none"), ("each", "none"), (1, "none"), (2, [0]), ("whole", "each")]


def _turn(at: int, name: str) -> Any:
    """The way of the vector at this place; a release plays all, others the thorough ones, on Spark 4.1, too."""
    marks = pytest.mark.spark_4_1 if name in THOROUGH else pytest.mark.release
    return pytest.param(name, WAYS[at % len(WAYS)], marks=marks, id=name)


def check(spark: SparkSession, name: str, cut: Any, restart_after: Any) -> None:
    """Play a vector on Spark and compare."""
    vector: dict[str, Any] = json.loads(VECTORS[name].read_text(encoding="utf-8"))
    expected, vector["expect"] = vector["expect"], []
    places = range(len(vector["input"]))
    restart = [at for at in restart_after if at in places] if isinstance(restart_after, list) else restart_after
    got = play(vector, engine="spark", cut=cut, restart_after=restart, spark=spark)
    assert difference(expected, got) is None


@pytest.mark.parametrize(("name", "way"), [_turn(at, name) for at, name in enumerate(sorted(VECTORS))])
def test_a_vector_gives_its_events_on_spark(spark: SparkSession, name: str, way: tuple[Any, Any]) -> None:
    """Intake, packing, shuffle, state store and watermarks in the stream change nothing."""
    check(spark, name, *way)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, EVERY_WAY[(at + step) % len(EVERY_WAY)], marks=pytest.mark.release)
        for at, name in enumerate(THOROUGH)
        for step in (0, 2)
    ],
    ids=str,
)
def test_no_split_and_no_restart_changes_the_events(spark: SparkSession, name: str, way: tuple[Any, Any]) -> None:
    """One micro-batch, one for every item, random ones, and a new query after every item: the same events."""
    check(spark, name, *way)
