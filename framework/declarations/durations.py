"""Durations: `"10 minutes"`, a `timedelta` or a number of seconds in declarations, whole microseconds inside.

Numbers are read as *decimal* seconds: 1.1 is exactly 1,100,000 us, not the binary fraction nearest to it. What is finer
than a microsecond is refused, not rounded (docs/semantics.md section 1.1).

Text is one or more pairs of a number and a unit: `"10 minutes"`, `"1 hour 30 minutes"`, `"1h30m"`, `"250ms"`. A unit is
a word, singular or plural, or an abbreviation of it: weeks `w`, days `d`, hours `h` or `hr`, minutes `m` or `min`,
seconds `s` or `sec`, milliseconds `ms`, microseconds `us`. The word `interval` may stand before it, as in Spark and
Delta. A number without a unit is refused, and so are months and years: they differ in length.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any

from panekeeper.framework.declarations.calls import named_options
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.state.duration_text import UNITS_US

Duration = int | float | Decimal | timedelta | str
"""What a duration may be given as: seconds as a number, a `timedelta`, or text such as `"10 minutes"`."""

LARGEST_SIZE = 2**61
"""The largest duration in microseconds, and the largest count. A time of our age plus a few of these fits 64 bits."""

_US = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLES = 'give text such as "10 minutes", "1 hour 30 minutes", "90s" or "250ms", a timedelta, or a number of seconds'

_ABBREVIATIONS = {
    "w": "week",
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "m": "minute",
    "min": "minute",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "msec": "millisecond",
    "us": "microsecond",
    "usec": "microsecond",
}
_CALENDAR_UNITS = {"month", "mon", "quarter", "year", "yr", "y"}
_PAIR = re.compile(r"\s*([+-]?\s*[0-9]+(?:\.[0-9]+)?)\s*([a-z]+)(?![a-z])", re.ASCII)


def to_datetime(us: int) -> datetime:
    """Return microseconds since the epoch as a time in UTC, exactly: `fromtimestamp` would go through a float."""
    return _EPOCH + timedelta(microseconds=us)


def time_us(time: datetime, what: str) -> int:
    """Return a time as microseconds since the epoch; one without a zone is in UTC. Raises as `to_us`."""
    return to_us((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH, what)


def to_datetime_if_any(us: int | None) -> datetime | None:
    """Return a time as `to_datetime`; None for none, and for one of a year that Python has no datetime for."""
    try:
        return None if us is None else to_datetime(us)
    except OverflowError:
        return None


@named_options
def seconds(value: float | Decimal) -> timedelta:
    """Return a duration of `value` seconds, exact to the microsecond.

    Raises:
        DeclarationError: not a finite number, or finer than a microsecond.

    >>> seconds(1.1)
    datetime.timedelta(seconds=1, microseconds=100000)
    """
    return _times("second", value)


@named_options
def minutes(value: float | Decimal) -> timedelta:
    """Return a duration of `value` minutes. Raises as `seconds`.

    >>> minutes(1.5)
    datetime.timedelta(seconds=90)
    """
    return _times("minute", value)


@named_options
def hours(value: float | Decimal) -> timedelta:
    """Return a duration of `value` hours. Raises as `seconds`.

    >>> hours(6)
    datetime.timedelta(seconds=21600)
    """
    return _times("hour", value)


@named_options
def days(value: float | Decimal) -> timedelta:
    """Return a duration of `value` days. Raises as `seconds`.

    >>> days(7)
    datetime.timedelta(days=7)
    """
    return _times("day", value)


def to_us(value: Duration, what: str) -> int:
    """Return a duration in whole microseconds.

    Args:
        value: the duration, in any of its forms.
        what: its name in the error, such as the keyword it was given to.

    Raises:
        DeclarationError: not a duration, not finite, finer than a microsecond, or too large for 64 bits; the message
            names the value and shows how to write one.

    >>> to_us(1.1, "creation_period")
    1100000
    >>> to_us("1 hour 30 minutes", "creation_period") == to_us("1h30m", "creation_period") == to_us(5400, "period")
    True
    """
    value = as_plain_number(value)
    if isinstance(value, timedelta):
        us = value // _US
        if getattr(value, "nanoseconds", 0):  # of pandas
            raise DeclarationError(f"{what} is {value!r}; durations are whole microseconds")
    elif isinstance(value, str):
        us = _text_to_us(value, what)
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DeclarationError(f"{what} is {value!r}, which is not a duration; {_EXAMPLES}")
    else:
        us = _whole_us(value, 1_000_000, f"{what} is {value!r}")
    if abs(us) > LARGEST_SIZE:
        raise DeclarationError(
            f"{what} is {value!r}; durations must not exceed {LARGEST_SIZE // (365 * UNITS_US['day']):,} years"
        )
    return us


def as_plain_number(value: Any) -> Any:
    """Return a number of numpy's as one of Python's, which is stored and compared the same; all else as it is."""
    if isinstance(value, int | float) or not isinstance(value, Real) or type(value).__name__ == "timedelta64":
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def to_seconds(value: Duration, what: str) -> float:
    """Return a duration in seconds, for timeouts: a number is taken as it is, however fine.

    Raises:
        DeclarationError: not a duration; `what` is its name in the message.

    >>> to_seconds("5m", "timeout")
    300.0
    """
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    return to_us(value, what) / 1_000_000


def seconds_to_us(value: Duration, what: str) -> int:
    """Return a number of seconds in whole microseconds: `to_us` for places where text is an error, such as a time.

    Raises:
        DeclarationError: as `to_us`, and for text.
    """
    if isinstance(value, str):
        raise DeclarationError(f"{what} is {value!r}; it must be a number of seconds")
    return to_us(value, what)


def _times(unit: str, value: float | Decimal) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DeclarationError(f"{unit}s() takes a number, not {value!r}")
    try:
        return timedelta(microseconds=_whole_us(value, UNITS_US[unit], f"{unit}s({value!r})"))
    except OverflowError:
        raise DeclarationError(f"{unit}s({value!r}) is too long for a timedelta") from None


def _text_to_us(text: str, what: str) -> int:
    rest = text.strip().lower().removeprefix("interval ")
    us, position = 0, 0
    while match := _PAIR.match(rest, position):
        singular = match[2].removesuffix("s")
        unit = _ABBREVIATIONS.get(match[2], _ABBREVIATIONS.get(singular, singular) if len(singular) > 1 else match[2])
        if unit in _CALENDAR_UNITS:
            raise DeclarationError(
                f'{what} is {text!r}; months and years differ in length, so give days, such as "30 days" or "365 days"'
            )
        if unit not in UNITS_US:
            break
        us += _whole_us(Decimal(match[1].replace(" ", "")), UNITS_US[unit], f"{what} is {text!r}")
        position = match.end()
    if not position or rest[position:].strip():
        raise DeclarationError(f"{what} is {text!r}, which is not a duration; {_EXAMPLES}")
    return us


def _whole_us(value: float | Decimal, unit_us: int, what: str) -> int:
    """Return `value` units in microseconds, by decimal arithmetic."""
    try:
        exact = Decimal(str(value)) * unit_us
        whole = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise DeclarationError(f"{what}; a duration must be finite") from None
    if whole != exact:
        raise DeclarationError(f"{what}; durations are whole microseconds")
    return whole
