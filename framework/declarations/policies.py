"""When rows leave a window and when it fires: count, time, delta, punctuation; and when a partition is evicted.

A policy is a value. It composes with any other: a sliding window takes one for eviction and one for its trigger, and
no class stands for a pair of them (docs/semantics.md section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar

from panekeeper.framework.declarations.calls import with_named_options
from panekeeper.framework.declarations.display import Called
from panekeeper.framework.declarations.durations import LARGEST_SIZE, Duration, as_plain_number, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.methods import require_plain
from panekeeper.framework.declarations.parameters import declared_parameters


class Role(Enum):
    """What a policy can do in a window; the value says it in an error."""

    TUMBLE = "evict from a tumbling window"
    EVICT = "evict from a sliding window"
    FIRE = "be the trigger of a sliding window"
    EVICT_PARTITIONS = "evict partitions"


class Policy(Called):
    """The base class of all policies. One that has a field `attribute` reads this column when it evicts rows or fires.

    Attributes:
        declared_as: the name of the policy in a declaration, and in a vector of the test kit.
        policy_roles: what the policy can do.
        column_types: the types that the column `attribute` may have, as Spark names them.
        spans_partitions: whether a partition eviction compares partitions with each other, so that one key group must
            have all of them (docs/semantics.md section 10.1).
    """

    declared_as: ClassVar[str] = ""
    policy_roles: ClassVar[frozenset[Role]] = frozenset()
    column_types: ClassVar[frozenset[str]] = frozenset(
        {"timestamp", "byte", "short", "integer", "long", "float", "double"}
    )
    spans_partitions: ClassVar[bool] = False

    def check_role(self, role: Role, what: str) -> None:
        """Raise `DeclarationError` unless the policy can have this role; `what` is its place in the declaration."""
        if role not in self.policy_roles:
            raise DeclarationError(_refusal(self, role, what))

    def check_column(self, column_type: str) -> None:
        """Raise `DeclarationError` unless the fields fit a column of this type, one of `column_types`."""

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint: the name and the fields."""
        declared: Any = self  # a subclass is a dataclass, which a type checker cannot see here
        return {"policy": self.declared_as} | {field.name: getattr(self, field.name) for field in fields(declared)}


def require_role(policy: Any, role: Role, what: str) -> None:
    """Raise `DeclarationError` unless this is a policy that can have the role; `what` is its place in the error."""
    if not isinstance(policy, Policy):
        raise DeclarationError(_refusal(policy, role, what))
    policy.check_role(role, what)


def column_read_by(policy: Policy) -> str | None:
    """Return the column that a policy reads when it evicts rows or fires; None if it reads none."""
    column: str | None = getattr(policy, "attribute", None)
    return column


def _refusal(policy: Any, role: Role, what: str) -> str:
    if isinstance(policy, str | timedelta) and role is not Role.EVICT_PARTITIONS:
        in_event_time = {
            Role.TUMBLE: f"TimeInterval({policy!r})",
            Role.EVICT: f"TimeInterval({policy!r}, creation_period=...)",
            Role.FIRE: f"TimeInterval(..., creation_period={policy!r})",
        }
        return (
            f"{what} is {policy!r}, a duration; for windows of event time use {in_event_time[role]}, "
            f"and for the time of arrival, by the wall clock, Time({policy!r})"
        )
    ours = (each for each in _subclasses(Policy) if each.__module__ == Policy.__module__)
    built_in = ", ".join(each.__name__ for each in ours if role in each.policy_roles)
    return f"{what} is {policy!r}, which cannot {role.value}: use {built_in} or a UserPolicy"


def _subclasses(base: type[Policy]) -> Iterator[type[Policy]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


ROW_ROLES = frozenset({Role.TUMBLE, Role.EVICT, Role.FIRE})


def require_count(value: Any, what: str) -> int:
    """Return a number of rows; raise `DeclarationError` unless it is a whole number > 0 that fits.

    Args:
        value: what was given.
        what: its name in the error.
    """
    value = as_plain_number(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be a whole number greater than 0")
    if value > LARGEST_SIZE:
        raise DeclarationError(f"{what} is {value!r}; it must not exceed 2**61")
    return value


def require_positive(value: Duration, what: str) -> None:
    """Raise `DeclarationError` unless the value is a duration > 0; `what` is its name in the error."""
    if to_us(value, what) <= 0:
        raise DeclarationError(f"{what} is {value!r}; it must be greater than 0")


def require_age(value: Duration) -> None:
    """Raise `DeclarationError` unless the value is a `discard_age`: a duration >= 0."""
    if to_us(value, "discard_age") < 0:
        raise DeclarationError(f"discard_age is {value!r}; it must not be negative")


@dataclass(frozen=True)
class _SizeInRows(Policy):
    """A policy whose size is a number: of rows, or of partitions."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", require_count(self.size, f"the size of {type(self).__name__}"))


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


@with_named_options
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


@with_named_options
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


@with_named_options
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
        object.__setattr__(self, "size", as_plain_number(self.size))
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


@with_named_options
@dataclass(frozen=True)
class Punctuation(Policy):
    """A mark in the stream, made by `windowed(punctuation=...)` or `marks=`. Only for tumbling windows.

    The rule is docs/semantics.md section 2.3.
    """

    policy_roles: ClassVar = frozenset({Role.TUMBLE})
    declared_as: ClassVar = "punctuation"


@dataclass(frozen=True, init=False)
class _CountAndTime(Policy):
    """A policy of a number of rows and a length of time, in whatever order they are given."""

    count: Count
    time: Time

    def __init__(self, *policies: Count | Time) -> None:
        by_kind = {type(policy): policy for policy in policies}
        if len(policies) != len(by_kind) or by_kind.keys() != {Count, Time}:
            name = type(self).__name__
            raise DeclarationError(
                f"{name}({', '.join(map(repr, policies))}): it takes one Count and one Time, as "
                f'{name}(Count(100), Time("30 seconds"))'
            )
        object.__setattr__(self, "count", by_kind[Count])
        object.__setattr__(self, "time", by_kind[Time])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count!r}, {self.time!r})"

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"policy": self.declared_as, "rows": self.count.size, "size_us": self.time.us}


@with_named_options
@dataclass(frozen=True, init=False, repr=False)
class AnyOf(_CountAndTime):
    """A number of rows or a length of time, whichever is first (docs/semantics.md section 2.6).

    Both count from when the window tumbled or fired last, for whichever reason. Of one instant time is first.

    Args:
        policies: a `Count` and a `Time`, as `AnyOf(Count(100), Time("30 seconds"))`.

    Raises:
        DeclarationError: other policies.
    """

    policy_roles: ClassVar = frozenset({Role.TUMBLE, Role.FIRE})
    declared_as: ClassVar = "anyOf"


@with_named_options
@dataclass(frozen=True, init=False, repr=False)
class AllOf(_CountAndTime):
    """Keeps a row only while both a number of rows and a length of time keep it (docs/semantics.md section 3.7).

    Args:
        policies: a `Time` and a `Count`, as `AllOf(Time("1 minute"), Count(100))`.

    Raises:
        DeclarationError: other policies.
    """

    policy_roles: ClassVar = frozenset({Role.EVICT})
    declared_as: ClassVar = "allOf"


@with_named_options
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


@with_named_options
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


@with_named_options
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


METHODS = {Role.TUMBLE: "tumble", Role.EVICT: "evict", Role.FIRE: "fire", Role.EVICT_PARTITIONS: "evict_partitions"}
"""Role -> the method of a `UserPolicy` that gives it this role."""


@dataclass(frozen=True)
class PartitionUse:
    """A partition, as a partition eviction of a user's own gets it.

    Attributes:
        rows: how many rows it has, with those that wait for a window batch; none just after it tumbled.
        inserted_us: arrival time of its newest row, in microseconds since the epoch.
    """

    rows: int
    inserted_us: int


class UserPolicy(Policy):
    """A policy of your own: derive a frozen dataclass, and define the methods of its roles.

    `tumble` makes it an eviction policy of tumbling windows, `evict` one of sliding windows, `fire` a trigger of
    sliding windows, `evict_partitions` a partition eviction. All but the last need a field `attribute`. The methods are
    called on the workers, for one row after the other of a partition in arrival order, and must depend on their
    arguments and the fields alone: then results are the same however the stream is split into micro-batches, and after
    every restart. An instance must be picklable.

    A value is that of the column `attribute`, which holds integers, floats or timestamps; of a timestamp, its
    microseconds since the epoch. A state is one number, stored with each checkpoint as a double, or None.

    Attributes:
        attribute: the column whose values `tumble`, `evict` and `fire` receive.
        tumbles_after: for `tumble`: whether the row that fills the window is its last one (True) or opens the next
            window (False, the default).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum(UserPolicy):
    ...     attribute: str
    ...     limit: float
    ...     tumbles_after = True
    ...     def tumble(self, state, value):
    ...         total = (state or 0.0) + value
    ...         return total >= self.limit, total
    >>> Sum("fare", 100.0).declaration()
    {'policy': 'user', 'class': 'Sum', 'parameters': {'attribute': 'fare', 'limit': 100.0}}
    """

    spans_partitions: ClassVar = True

    attribute: str
    tumbles_after: ClassVar[bool] = False

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        """Return whether this row fills the window, and the state after the row.

        Called once for each row. `state` is what the call for the row before returned; None for the first row of a
        window. Where the row opens the next window it is called again for it, with the state None. A window without
        rows does not tumble.
        """
        raise TypeError(f"{type(self).__name__} does not define tumble(state, value)")

    def evict(self, content: Sequence[float], value: float) -> int:
        """Return how many of the oldest rows leave before a row with this value is inserted.

        Called once for each row. `content` are the values of the rows in the window, the oldest first.
        """
        raise TypeError(f"{type(self).__name__} does not define evict(content, value)")

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        """Return whether the window fires with this row, which is inserted by then, and the state after the row.

        Called once for each row. `state` is what the call for the row before returned; None for the first row of a
        partition.
        """
        raise TypeError(f"{type(self).__name__} does not define fire(state, value)")

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        """Return the positions, in `partitions`, of those that are evicted, in the order in which they are.

        Called once for each row, after its insertion and what follows from it. `partitions` are in the order of their
        newest rows: the last one has the row.
        """
        raise TypeError(f"{type(self).__name__} does not define evict_partitions(partitions)")

    def check_role(self, role: Role, what: str) -> None:
        """Raise `DeclarationError` unless the method of the role is defined, and the column is named that it reads."""
        method = METHODS[role]
        attribute: object = getattr(self, "attribute", None)
        if role is not Role.EVICT_PARTITIONS and (not isinstance(attribute, str) or not attribute):
            raise DeclarationError(
                f"{what} is {self!r}; its attribute is {attribute!r} and must be the name of a column"
            )
        if getattr(type(self), method) is getattr(UserPolicy, method):
            raise DeclarationError(f"{what} is {self!r}; to {role.value} it must define {method}()")
        if role is not Role.EVICT_PARTITIONS:  # which may yield the positions
            require_plain(getattr(self, method), f"{type(self).__name__}.{method}()", "return its decision")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint: the class and its plain fields."""
        return {"policy": "user", "class": type(self).__qualname__, "parameters": declared_parameters(self)}
