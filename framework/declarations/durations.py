"""Durations: seconds, `timedelta` or `minutes(20)` at the surface, whole microseconds inside.

Numbers are taken as *decimal* seconds: 1.1 is exactly 1,100,000 us, not the binary fraction nearest to it
[semantics 0.4]. What is finer than a microsecond is refused rather than rounded.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from framework.declarations.errors import DeclarationError

Duration = int | float | Decimal | timedelta
"""What a duration may be given as; plain numbers are seconds."""

_US = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_time(us: int) -> datetime:
    """Return microseconds since the epoch as a time in UTC, exactly: `fromtimestamp` would go through a float."""
    return _EPOCH + timedelta(microseconds=us)


def seconds(value: float | Decimal) -> timedelta:
    """Return a duration of so many seconds, exact to the microsecond.

    >>> seconds(1.1)
    datetime.timedelta(seconds=1, microseconds=100000)
    """
    return timedelta(microseconds=to_us(value, "seconds()"))


def minutes(value: float | Decimal) -> timedelta:
    """Return a duration of so many minutes."""
    return timedelta(microseconds=60 * to_us(value, "minutes()"))


def hours(value: float | Decimal) -> timedelta:
    """Return a duration of so many hours."""
    return timedelta(microseconds=3600 * to_us(value, "hours()"))


def days(value: float | Decimal) -> timedelta:
    """Return a duration of so many days."""
    return timedelta(microseconds=86400 * to_us(value, "days()"))


def to_us(value: Duration, what: str) -> int:
    """Return a duration in whole microseconds; `what` names it in the error.

    Raises `DeclarationError` if the value is no number, not finite, or finer than a microsecond.

    >>> to_us(1.1, "creation_period")
    1100000
    """
    if isinstance(value, timedelta):
        return value // _US
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DeclarationError(f"{what} is {value!r}; give seconds as a number, a timedelta, or minutes(20)")
    try:
        scaled = Decimal(str(value)) * 1_000_000
        whole = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise DeclarationError(f"{what} is {value!r}; a duration must be finite") from None
    if whole != scaled:
        raise DeclarationError(f"{what} is {value!r} seconds; durations are whole microseconds")
    return whole
