"""Functions of the user's in workers that live on between the jobs of one program, as in a notebook."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import TimeInterval, agg, windowed

if TYPE_CHECKING:
    import pytest

    from integration_tests.engine.conftest import Readings


def test_a_module_that_was_edited_and_reloaded_holds_from_the_next_start(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a function made before that start, and though workers have imported the module as it was."""
    library = readings.folder / "lib" / "edited_between_starts.py"
    library.parent.mkdir()
    monkeypatch.syspath_prepend(str(library.parent))
    readings.put(("a", "10:00:10", 1), ("a", "10:00:40", 1))
    tops = []
    for factor in ("2", "3000"):
        library.write_text(f"def times(n):\n    return n * {factor}\n")
        importlib.invalidate_caches()
        module = importlib.reload(importlib.import_module(library.stem))
        stream = readings.stream().withColumn("times", F.udf(module.times, "bigint")("value"))
        panes = windowed(stream, name=f"by-{factor}", event_time="at", watermark=0, key_groups=1).window(
            TimeInterval(10)
        )
        job = panes.aggregate(top=agg.max("times")).to_delta(readings.folder / f"log{factor}")
        assert job.start(checkpoint=readings.folder / f"cp{factor}", trigger="available_now").await_end(timeout=300)
        tops += [row["top"] for row in readings.rows(f"log{factor}")]
    assert tops == [2, 3000]
