"""When rows leave a window and when it fires: count, time, delta, punctuation; and when a partition is evicted.

A policy is a value. It composes with any other: a sliding window takes one for eviction and one for its trigger, and
no class stands for a pair of them (docs/semantics.md section 3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from framework.declarations.durations import LARGEST_SIZE, Duration, to_us
from framework.declarations.errors import DeclarationError
from framework.declarations.user_policy import UserPolicy


def require_count(value: Any, what: str) -> None:
    """Raise `DeclarationError` unless the value is a whole number > 0 that fits; `what` is its name in the error."""
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be a whole number greater than 0")
    if value > LARGEST_SIZE:
        raise DeclarationError(f"{what} is {value!r}; it must not exceed 2**61")


def require_positive(value: Duration, what: str) -> None:
    """Raise `DeclarationError` unless the value is a duration > 0; `what` is its name in the error."""
    if to_us(value, what) <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be greater than 0")


@dataclass(frozen=True)
class Count:
    """A number of rows (docs/semantics.md sections 2.1 and 3.3).

    Args:
        size: the number of rows, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    size: int

    def __post_init__(self) -> None:
        require_count(self.size, "the size of Count")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "count", "size": self.size}


@dataclass(frozen=True)
class Time:
    """A length of arrival time: the wall clock, or the `arrival_time=` column. It never looks at event time.

    For windows by the time at which something happened, use `TimeInterval(30)` with `event_time=`. The clock goes on
    while the process is down (docs/semantics.md sections 1.2, 2.4, 3.5 and 7.5).

    Args:
        size: a duration > 0: `"30 seconds"`, `minutes(5)`, a `timedelta`, or seconds as a number.

    Raises:
        DeclarationError: `size` is no duration, or not greater than 0.
    """

    size: Duration

    def __post_init__(self) -> None:
        require_positive(self.size, "the size of Time")

    @property
    def us(self) -> int:
        """The time in microseconds."""
        return to_us(self.size, "the size of Time")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "time", "size_us": self.us}


@dataclass(frozen=True)
class Delta:
    """A difference in an attribute, strictly more than `size` (docs/semantics.md sections 2.2 and 3.4).

    Args:
        attribute: the column whose values are subtracted: an integer, a float or a timestamp.
        size: the difference, >= 0, in the unit of the column. For a timestamp, a duration: `"5 minutes"`, a
            `timedelta`, or seconds as a number. For any other column, any finite number. 0 is for triggers only: then
            every strictly larger value fires.

    Raises:
        DeclarationError: `size` is negative, not finite, or neither a number nor a duration. That it fits the type of
            the column is checked by `.window(...)`, where the types are known.
    """

    attribute: str
    size: Duration

    def __post_init__(self) -> None:
        name: object = self.attribute  # a caller without a type checker may give anything
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"the attribute of Delta is {self.attribute!r}; it must be the name of a column")
        if isinstance(self.size, timedelta | str):
            to_us(self.size, "the size of Delta")
        elif isinstance(self.size, bool) or not isinstance(self.size, int | float | Decimal):
            raise DeclarationError(
                f"the size of Delta is {self.size!r}; give a number, or for a timestamp a duration such as minutes(20)"
            )
        elif isinstance(self.size, int):
            if self.size > LARGEST_SIZE:
                raise DeclarationError(f"the size of Delta is {self.size!r}; a whole number must not exceed 2**61")
        elif not math.isfinite(self.size):
            raise DeclarationError(f"the size of Delta is {self.size!r}; it must be finite")
        if self.number < 0:
            raise DeclarationError(f"the size of Delta is {self.size!r}; it must not be negative")

    @property
    def is_duration(self) -> bool:
        """Whether the size is written as a duration, so that the attribute can only be a timestamp."""
        return isinstance(self.size, timedelta | str)

    @property
    def number(self) -> float:
        """The difference as a plain number, in the unit of a numeric attribute; of a duration, its seconds."""
        if isinstance(self.size, timedelta | str):
            return to_us(self.size, "the size of Delta") / 1_000_000
        return self.size if isinstance(self.size, int) else float(self.size) + 0.0  # -0.0 is stored as 0.0

    @property
    def us(self) -> int:
        """The difference in microseconds, for a timestamp attribute.

        Raises:
            DeclarationError: the size is a number of seconds that is finer than a microsecond, or too large.
        """
        return to_us(self.size, f"the size of Delta({self.attribute!r}), in seconds,")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "delta", "attribute": self.attribute, "size": self.number}


@dataclass(frozen=True)
class Punctuation:
    """A mark in the stream, made by `windowed(punctuation=...)` or `marks=`. Only for tumbling windows.

    The rule is docs/semantics.md section 2.3.
    """

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "punctuation"}


@dataclass(frozen=True)
class PartitionAge:
    """Evicts a partition when no row was inserted into it for this long (docs/semantics.md section 4.2).

    Args:
        size: a duration > 0 of arrival time: `"10 minutes"`, a `timedelta`, or seconds as a number.

    Raises:
        DeclarationError: `size` is no duration, or not greater than 0.
    """

    size: Duration

    def __post_init__(self) -> None:
        require_positive(self.size, "the size of PartitionAge")

    @property
    def us(self) -> int:
        """The age in microseconds."""
        return to_us(self.size, "the size of PartitionAge")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "partitionAge", "size_us": self.us}


@dataclass(frozen=True)
class PartitionCount:
    """Keeps at most `size` partitions; the one least recently inserted into is evicted first, empty ones before it.

    The rule is docs/semantics.md section 4.1.

    Args:
        size: the number of partitions, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    size: int

    def __post_init__(self) -> None:
        require_count(self.size, "the size of PartitionCount")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "partitionCount", "size": self.size}


@dataclass(frozen=True)
class TupleCount:
    """Keeps at most `size` rows in all partitions together, by evicting whole partitions.

    The one least recently inserted into is evicted first (docs/semantics.md section 4.1).

    Args:
        size: the number of rows, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    size: int

    def __post_init__(self) -> None:
        require_count(self.size, "the size of TupleCount")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "tupleCount", "size": self.size}


Eviction = Count | Time | Delta | Punctuation | UserPolicy
Trigger = Count | Time | Delta | UserPolicy
PartitionEviction = PartitionAge | PartitionCount | TupleCount
