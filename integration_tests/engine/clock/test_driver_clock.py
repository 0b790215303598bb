"""A driver whose clock is wrong: no row is refused because of that alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from panekeeper.framework.engine.flow import row_checks
from panekeeper.state.checkpoint.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_US = 3_600_000_000
NOW_US = now_us()  # Spark looks at the date, too
NOW = f"timestamp_micros({NOW_US})"


@pytest.mark.parametrize(
    ("batch_us", "declared", "is_ahead"),
    [
        (NOW_US, None, False),
        (NOW_US - 2 * HOUR_US, None, True),
        (0, None, False),
        (0, "timestamp_millis(null)", False),
        (0, "timestamp_millis(1690000000000)", True),
    ],
    ids=["right", "two hours late", "1970", "1970, no arrival time", "1970, an arrival time"],
)
def test_no_row_is_ahead_of_a_clock_that_is_not_set(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, batch_us: int, declared: str | None, *, is_ahead: bool
) -> None:
    """A row's own arrival time is a clock that is set; so is the batch's from 2020 on."""
    monkeypatch.setattr(row_checks, "_batch_time_us", lambda: F.lit(batch_us))
    arrival = None if declared is None else F.expr(declared)
    found = spark.range(1).select(row_checks.is_ahead(F.expr(NOW), arrival, HOUR_US).alias("ahead")).first()
    assert found is not None
    assert found["ahead"] is is_ahead
