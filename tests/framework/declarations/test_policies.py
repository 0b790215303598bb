"""Policies and windows: which sizes they take, and that the stored declaration of a size never changes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

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
    minutes,
)

STORED: list[tuple[Any, str]] = [
    (2, "2"),
    (0, "0"),
    (1.5, "1.5"),
    (1.1, "1.1"),
    (2.0, "2.0"),
    (-0.0, "0.0"),
    (0.000001, "1e-06"),
    (123456789.123457, "123456789.123457"),
    (Decimal("1.1"), "1.1"),
    (minutes(5), "300.0"),
    (timedelta(microseconds=1), "1e-06"),
    (1 / 3, "0.3333333333333333"),
    (1e-7, "1e-07"),
    (1e300, "1e+300"),
    ("5 minutes", "300.0"),
]


@pytest.mark.parametrize(("size", "stored"), STORED, ids=[repr(size) for size, _ in STORED])
def test_a_delta_takes_any_finite_number_and_stores_it_as_ever(size: Any, stored: str) -> None:
    """Whole microseconds matter for timestamps only; a checkpoint of an older declaration goes on."""
    declared = Delta("v", size).declaration()
    assert json.dumps(declared) == f'{{"policy": "delta", "attribute": "v", "size": {stored}}}'


@pytest.mark.parametrize(
    "size", [-1, -0.5, math.inf, math.nan, Decimal("Infinity"), True, None, "", "5", 10**400, 2**62]
)
def test_a_delta_refuses_what_is_no_difference(size: Any) -> None:
    """Negative, endless, of another type, malformed, or beyond 64 bits: the message names the value."""
    with pytest.raises(DeclarationError, match="the size of Delta is"):
        Delta("v", size)


def test_a_delta_in_microseconds_must_be_whole() -> None:
    """A number that is fine for a numeric column is refused for a timestamp, where it is seconds."""
    assert Delta("at", 1.5).us == 1_500_000
    assert Delta("at", "5m").us == 300_000_000
    with pytest.raises(
        DeclarationError, match=r"the size of Delta\('at'\), in seconds, is 1e-07 .*|whole microseconds"
    ):
        _ = Delta("at", 1e-7).us


@pytest.mark.parametrize("window", [Tumbling, lambda p: Sliding(evict=p)], ids=["tumbling", "sliding"])
def test_a_delta_of_zero_only_triggers(window: Callable[[Delta], Any]) -> None:
    """As an eviction it would evict every row that rises."""
    assert Sliding(evict=Count(2), trigger=Delta("v", 0)).trigger == Delta("v", 0)
    for size in (0, 0.0, "0s"):
        with pytest.raises(DeclarationError, match="for eviction it must be greater than 0"):
            window(Delta("v", size))


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "count": lambda: Count(2**62),
    "partition count": lambda: PartitionCount(2**62),
    "tuple count": lambda: TupleCount(2**62),
    "retain": lambda: Batched(every=1, retain=2**62),
    "time": lambda: Time(2**43),
    "age": lambda: PartitionAge(timedelta.max),
    "interval": lambda: TimeInterval(10**14),
    "discard age": lambda: TimeInterval(1, discard_age=timedelta.max),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_sizes_beyond_64_bits_are_refused_where_they_are_written(case: str) -> None:
    """Otherwise the first row would end in an overflow."""
    with pytest.raises(DeclarationError, match="must not exceed"):
        TOO_LARGE[case]()
