"""Generated sensor readings for the examples: two sensors, one reading a second each, written as one file."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def readings(spark: SparkSession, folder: Path, *, seconds: int = 30) -> DataFrame:
    """Return a stream of readings: sensor, arrived, value."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "sensor": sensor,
            "arrived": (BEGIN + timedelta(seconds=second)).isoformat(),
            "value": round(20 + 3 * math.sin(second / 5 + phase) + (second * 7 % 5) / 10, 3),
        }
        for second in range(seconds)
        for sensor, phase in (("kitchen", 0.0), ("cellar", 2.0))
    ]
    (folder / "readings.json").write_text("\n".join(json.dumps(row) for row in rows))
    return spark.readStream.schema("sensor string, arrived timestamp, value double").json(str(folder))
