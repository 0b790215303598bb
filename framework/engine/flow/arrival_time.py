"""When a row arrived, as Spark expressions: its own arrival time, or the time of the batch.

The batch's time differs from batch to batch, and Spark writes what is constant in a batch into the Java code that it
generates: every batch would compile code of its own and run it cold. `_batch_time_us()` keeps it out of that code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column

_DAY_US = 86_400_000_000
_NEVER_BEFORE_US = 1_577_836_800_000_000
"""2020-01-01: a driver whose clock is earlier has not been set yet, as after a boot without a battery."""


def arrival_us(arrival: Column | None) -> Column:
    """Return when the row arrived, us."""
    return _batch_time_us() if arrival is None else F.coalesce(F.unix_micros(arrival), _batch_time_us())


def is_ahead(time: Column, arrival: Column | None, limit_us: int) -> Column:
    """Say whether a time is further than the limit after the row's arrival.

    Nothing is ahead of a clock that is not set: every row of the present would be.
    """
    is_clock_set = _batch_time_us() >= F.lit(_NEVER_BEFORE_US)
    if arrival is not None:
        is_after = F.unix_micros(time) - arrival_us(arrival) > F.lit(limit_us)
        return is_after & (arrival.isNotNull() | is_clock_set)
    # Most rows are far from it, as a look at the date shows, whatever the session's time zone makes of it.
    earliest = (F.unix_date(F.current_date()) - 1) * F.lit(_DAY_US)
    is_near = F.unix_micros(time) > earliest + F.lit(limit_us)
    return F.when(is_near, is_clock_set & (F.unix_micros(time) - _batch_time_us() > F.lit(limit_us))).otherwise(
        F.lit(False)
    )


def arrival_text(arrival: Column | None) -> Column:
    """Return when the row arrived, to be read."""
    now = F.timestamp_micros(_batch_time_us()).cast("string")
    return now if arrival is None else F.coalesce(arrival.cast("string"), now)


def _batch_time_us() -> Column:
    """The batch's time in the offset log, us: the same when it is replayed.

    Spark does not generate code for `transform`, so what is in it stays data.
    """
    return F.element_at(F.transform(F.array(F.current_timestamp()), F.unix_micros), 1)
