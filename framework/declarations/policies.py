"""When rows leave a window and when it fires: count, time, delta, punctuation; and when a partition is evicted.

A policy is a value. It composes with any other: a sliding window takes one for eviction and one for its trigger, and
no class stands for a pair of them (docs/semantics.md section 3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from panekeeper.framework.declarations.durations import LARGEST_SIZE, Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policy import Policy, Role

ROW_ROLES = frozenset({Role.TUMBLE, Role.EVICT, Role.FIRE})


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
class _SizeInRows(Policy):
    """A policy whose size is a number: of rows, or of partitions."""

    size: int

    def __post_init__(self) -> None:
        require_count(self.size, f"the size of {type(self).__name__}")


@dataclass(frozen=True)
class _SizeInTime(Policy):
    """A policy whose size is a length of arrival time."""

    size: Duration

    def __post_init__(self) -> None:
        require_positive(self.size, f"the size of {type(self).__name__}")

    @property
    def us(self) -> int:
        """The size in microseconds."""
        return to_us(self.size, f"the size of {type(self).__name__}")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": self.declared_as, "size_us": self.us}


@dataclass(frozen=True)
class Count(_SizeInRows):
    """A number of rows (docs/semantics.md sections 2.1 and 3.3).

    Args:
        size: the number of rows, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    policy_roles: ClassVar = ROW_ROLES
    declared_as: ClassVar = "count"


@dataclass(frozen=True)
class Time(_SizeInTime):
    """A length of arrival time: the wall clock, or the `arrival_time=` column. Event time has no part in it.

    For windows by the time at which something happened, use `TimeInterval(30)` with `event_time=`. The clock goes on
    while the process is down (docs/semantics.md sections 1.2, 2.4, 3.5 and 7.5).

    Args:
        size: a duration > 0: `"30 seconds"`, `minutes(5)`, a `timedelta`, or seconds as a number.

    Raises:
        DeclarationError: `size` is no duration, or not greater than 0.
    """

    policy_roles: ClassVar = ROW_ROLES
    declared_as: ClassVar = "time"


@dataclass(frozen=True)
class Delta(Policy):
    """A difference in an attribute, strictly more than `size` (docs/semantics.md sections 2.2 and 3.4).

    Args:
        attribute: the column whose values are subtracted: an integer, a float, a decimal, a timestamp or a date.
        size: the difference, >= 0, in the unit of the column. For a timestamp, a duration: `"5 minutes"`, a
            `timedelta`, or seconds as a number. For a date, a duration, or days as a number. For any other column, any
            finite number. 0 is for triggers only: then every strictly larger value fires.

    Raises:
        DeclarationError: `size` is negative, not finite, or neither a number nor a duration. That it fits the type of
            the column is checked by `.window(...)`, where the types are known.
    """

    policy_roles: ClassVar = ROW_ROLES
    declared_as: ClassVar = "delta"
    column_types: ClassVar = Policy.column_types | {"date", "decimal"}

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
        """Whether the size is written as a duration, so that the attribute can only be a timestamp or a date."""
        return isinstance(self.size, timedelta | str)

    @property
    def number(self) -> float:
        """The difference as a plain number, in the unit of a numeric attribute; of a duration, its seconds."""
        if isinstance(self.size, timedelta | str):
            return to_us(self.size, "the size of Delta") / 1_000_000
        return self.size if isinstance(self.size, int) else float(self.size) + 0.0  # -0.0 is stored as 0.0

    @property
    def date_us(self) -> int:
        """The difference in whole microseconds, for a date attribute: a number counts days."""
        return self.us if self.is_duration else self.in_units(Decimal(1) / 86_400_000_000)

    def in_units(self, unit: Decimal) -> int:
        """Return how many whole units the difference has: of whole units, more than it is more than that.

        >>> Delta("price", 0.25).in_units(Decimal("0.1"))
        2
        """
        return math.floor(Fraction(str(self.size)) / Fraction(unit))

    @property
    def us(self) -> int:
        """The difference in microseconds, for a timestamp attribute.

        Raises:
            DeclarationError: the size is a number of seconds that is finer than a microsecond, or too large.
        """
        return to_us(self.size, f"the size of Delta({self.attribute!r}), in seconds,")

    def check_role(self, role: Role, what: str) -> None:
        """Raise `DeclarationError` unless the policy can have this role: 0 is for triggers only."""
        super().check_role(role, what)
        if role is not Role.FIRE and self.number <= 0:
            raise DeclarationError(f"the size of Delta is {self.size!r}; for eviction it must be greater than 0")

    def check_column(self, column_type: str) -> None:
        """Raise `DeclarationError` unless the size is in the unit of the column."""
        if column_type == "timestamp":
            _ = self.us
        elif column_type == "date":
            _ = self.date_us
        elif self.is_duration:
            raise DeclarationError(
                f"the size of Delta({self.attribute!r}) is {self.size!r}, a duration, but the column is a "
                f"{column_type}; give a number in the unit of the column"
            )

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": self.declared_as, "attribute": self.attribute, "size": self.number}


@dataclass(frozen=True)
class Punctuation(Policy):
    """A mark in the stream, made by `windowed(punctuation=...)` or `marks=`. Only for tumbling windows.

    The rule is docs/semantics.md section 2.3.
    """

    policy_roles: ClassVar = frozenset({Role.TUMBLE})
    declared_as: ClassVar = "punctuation"


@dataclass(frozen=True)
class PartitionAge(_SizeInTime):
    """Evicts a partition when no row was inserted into it for this long (docs/semantics.md section 4.2).

    Args:
        size: a duration > 0 of arrival time: `"10 minutes"`, a `timedelta`, or seconds as a number.

    Raises:
        DeclarationError: `size` is no duration, or not greater than 0.
    """

    policy_roles: ClassVar = frozenset({Role.EVICT_PARTITIONS})
    declared_as: ClassVar = "partitionAge"


@dataclass(frozen=True)
class PartitionCount(_SizeInRows):
    """Keeps at most `size` partitions; the one least recently inserted into is evicted first, empty ones before it.

    The rule is docs/semantics.md section 4.1.

    Args:
        size: the number of partitions, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    policy_roles: ClassVar = frozenset({Role.EVICT_PARTITIONS})
    spans_partitions: ClassVar = True
    declared_as: ClassVar = "partitionCount"


@dataclass(frozen=True)
class TupleCount(_SizeInRows):
    """Keeps at most `size` rows in all partitions together, by evicting whole partitions.

    The one least recently inserted into is evicted first (docs/semantics.md section 4.1).

    Args:
        size: the number of rows, a whole number > 0.

    Raises:
        DeclarationError: `size` is anything else.
    """

    policy_roles: ClassVar = frozenset({Role.EVICT_PARTITIONS})
    spans_partitions: ClassVar = True
    declared_as: ClassVar = "tupleCount"
