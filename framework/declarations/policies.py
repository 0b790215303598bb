"""When tuples leave a window and when it fires: count, time, delta, punctuation; and when a partition goes.

A policy is a value. It composes with any other: a sliding window takes one for eviction and one for its trigger, and
no class stands for a pair of them [S2][S3].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from framework.declarations.durations import Duration, to_us
from framework.declarations.errors import DeclarationError


def _whole(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be a whole number greater than 0")


def _positive(value: Duration, what: str) -> None:
    if to_us(value, what) <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be greater than 0")


@dataclass(frozen=True)
class Count:
    """So many tuples. Raises `DeclarationError` unless `size` is a whole number > 0."""

    size: int

    def __post_init__(self) -> None:
        _whole(self.size, "the size of Count")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "count", "size": self.size}


@dataclass(frozen=True)
class Time:
    """So much wall-clock time: seconds, `timedelta` or `minutes(5)`. Keeps counting while the process is down [S3]."""

    size: Duration

    def __post_init__(self) -> None:
        _positive(self.size, "the size of Time")

    @property
    def us(self) -> int:
        """The time in microseconds."""
        return to_us(self.size, "the size of Time")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "time", "size_us": self.us}


@dataclass(frozen=True)
class Delta:
    """So much difference in an attribute, strictly more than `size` [S2]; of a timestamp attribute, seconds.

    `size` may be 0 for a trigger: then every strictly larger value fires [semantics 3].
    """

    attribute: str
    size: Duration

    def __post_init__(self) -> None:
        if not self.attribute:
            raise DeclarationError(f"the attribute of Delta is {self.attribute!r}; it must be the name of a column")
        if to_us(self.size, "the size of Delta") < 0:
            raise DeclarationError(f"the size of Delta is {self.size!r}; it must not be negative")

    @property
    def number(self) -> float:
        """The difference as a plain number, in the unit of a numeric attribute."""
        return to_us(self.size, "the size of Delta") / 1_000_000 if not isinstance(self.size, int) else self.size

    @property
    def us(self) -> int:
        """The difference in microseconds, for a timestamp attribute."""
        return to_us(self.size, "the size of Delta")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "delta", "attribute": self.attribute, "size": self.number}


@dataclass(frozen=True)
class Punctuation:
    """A mark in the stream. Only for tumbling windows [semantics 0.8]."""

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "punctuation"}


@dataclass(frozen=True)
class PartitionAge:
    """A partition goes when nothing was inserted for this long; a due instant, like any wall-clock policy."""

    size: Duration

    def __post_init__(self) -> None:
        _positive(self.size, "the size of PartitionAge")

    @property
    def us(self) -> int:
        """The age in microseconds."""
        return to_us(self.size, "the size of PartitionAge")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "partitionAge", "size_us": self.us}


@dataclass(frozen=True)
class PartitionCount:
    """At most so many partitions; the least recently inserted go first, empty ones before them."""

    size: int

    def __post_init__(self) -> None:
        _whole(self.size, "the size of PartitionCount")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "partitionCount", "size": self.size}


@dataclass(frozen=True)
class TupleCount:
    """At most so many tuples in all partitions together; whole partitions go, least recently inserted first."""

    size: int

    def __post_init__(self) -> None:
        _whole(self.size, "the size of TupleCount")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": "tupleCount", "size": self.size}


Eviction = Count | Time | Delta | Punctuation
Trigger = Count | Time | Delta
PartitionEviction = PartitionAge | PartitionCount | TupleCount
