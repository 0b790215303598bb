"""Every parameter of a declaration refuses what it cannot take, in words of ours: whatever a user may have at hand."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    Delta,
    PartitionAge,
    PartitionCount,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    TupleCount,
    agg,
    days,
    seconds,
)

VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**40, 1j, math.nan, math.inf, decimal.Decimal("NaN"), decimal.Decimal("0.5")),
    *("", "x", "5 mins", "1 month", b"x", "\u00b5s", "1e3 s"),
    *([], {}, (), set(), [1], object(), Count, Count(1), lambda: 1, int),
    *(dt.timedelta(1), dt.timedelta.max, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    *(np.int64(3), np.float64("nan"), np.array([1, 2]), np.datetime64("2026-01-01"), np.timedelta64(1, "s"), np.True_),
    *(pd.Timestamp(0), pd.Timedelta(1, "s"), pd.NA, pd.NaT, pd.Series([1, 2])),
]


class Kept(agg.UserAggregate):
    def zero(self) -> Any:
        return 0

    def add(self, state: Any, value: Any) -> Any:
        return state

    def result(self, state: Any) -> Any:
        return state


KEPT = Kept()

PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "interval_duration": TimeInterval,
    "creation_period": lambda one: TimeInterval(60, creation_period=one),
    "discard_age": lambda one: TimeInterval(60, discard_age=one),
    "interval_offset": lambda one: TimeInterval(60, interval_offset=one),
    "late": lambda one: TimeInterval(60, late=one),
    "partition_eviction": lambda one: Tumbling(Count(1), partition_eviction=one),
    "evict": Tumbling,
    "passes_marks": lambda one: Tumbling(Count(1), passes_marks=one),
    "catch_up": lambda one: Sliding(evict=Count(1), catch_up=one),
    "trigger": lambda one: Sliding(evict=Count(1), trigger=one),
    "every": lambda one: Batched(every=one, within=2),
    "within": lambda one: Batched(every=1, within=one),
    "retain": lambda one: Batched(every=1, retain=one),
    "stream": lambda one: Batched(every=1, retain=1, stream=one),
    "Count": Count,
    "Time": Time,
    "Delta": lambda one: Delta("a", one),
    "attribute": lambda one: Delta(one, 1),
    "PartitionAge": PartitionAge,
    "PartitionCount": PartitionCount,
    "TupleCount": TupleCount,
    "second": seconds,
    "day": days,
    "agg.count": agg.count,
    "agg.arg_max": lambda one: agg.arg_max("a", one),
    "agg.user": lambda one: agg.user(one, "a"),
    "agg.user(Kept": lambda one: agg.user(KEPT, "a", output=one),
}


def refused(make: Callable[[Any], Any], value: Any) -> str | None:
    """The refusal, or None for a declaration, which can be compared and shown."""
    try:
        made = make(value)
    except DeclarationError as error:
        return str(error)
    return None if made == make(value) and repr(made) else f"{made!r} is not itself"


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_wrong_value_is_refused_with_the_name_of_the_parameter(parameter: str) -> None:
    """By `DeclarationError` alone; what is taken is equal to what is made of it again."""
    for value in VALUES:
        refusal = refused(PARAMETERS[parameter], value)
        assert refusal is None or parameter.split("(", maxsplit=1)[0] in refusal or "batched window needs" in refusal
