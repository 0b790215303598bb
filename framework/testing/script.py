"""What a script for `run` may have in it, and the rows of a micro-batch as Arrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from panekeeper.framework.declarations.arrow_types import require_nothing_cut_off
from panekeeper.framework.declarations.durations import Duration, seconds_to_us, to_us
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.state.duration_text import us_text

_EPOCH, _EPOCH_HERE = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)  # noqa: DTZ001 -- of times without a zone

Time = float | Decimal | datetime | str
"""A time as a script may give it: seconds since the epoch, a datetime (without a zone: in UTC), or ISO text."""


@dataclass(frozen=True)
class Clock:
    """The wall clock moves on, and what becomes due by then happens: the last instant, too.

    Directly before a `Restart` it is the time that the job is down.

    Attributes:
        by: how far, as `"1 minute"`.
    """

    by: Duration

    def __post_init__(self) -> None:
        if self.us <= 0:
            raise DeclarationError(f"Clock is {us_text(self.us)}; the clock of a script only goes on")

    @property
    def us(self) -> int:
        """How far, us."""
        return to_us(self.by, "Clock")


@dataclass(frozen=True)
class Watermark:
    """The watermark advances: no row with an earlier event time is expected any more.

    Attributes:
        to: the event time: seconds since the epoch, a datetime, or ISO text.
    """

    to: Time

    def __post_init__(self) -> None:
        self.us  # noqa: B018 -- raises

    @property
    def us(self) -> int:
        """The event time, us since the epoch."""
        return time_us(self.to, "Watermark")


@dataclass(frozen=True)
class Restart:
    """The job ends, and a new run resumes from what is stored."""


@dataclass(frozen=True)
class Flush:
    """The job is flushed: what is due by now happens, then what is open fires with the reason FLUSH, and all closes.

    It is the last item of a script, as a job that was flushed takes no more rows (docs/semantics.md section 5.3).
    """


Step = Clock | Watermark | Restart | Flush
"""An item of a script that is no rows."""


def time_us(value: Any, what: str) -> int:
    """Return a time in us since the epoch. Raises `DeclarationError` for what is none."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise DeclarationError(
                f'{what} is {value!r}; a time is seconds since the epoch, a datetime, or "2024-05-01T10:00:00"'
            ) from None
    if isinstance(value, float) and math.isfinite(value):
        return round(value * 1_000_000)  # computed numbers of seconds are seldom whole microseconds
    if not isinstance(value, datetime):
        return seconds_to_us(value, what)
    since = value - (_EPOCH_HERE if value.tzinfo is None else _EPOCH)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def rows_table(rows: Sequence[Any], schema: pa.Schema, where: str) -> pa.Table:
    """Return the rows of one micro-batch as a table of these columns; what a row does not have is null.

    Raises:
        DeclarationError: a row that is no mapping, or has a column or a value that the schema does not have.
    """
    names = {field.name for field in schema}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DeclarationError(f"{where}[{number}] is {row!r}; a row is a dict with a value for each column")
        if not row.keys() <= names:
            unknown = next(name for name in row if name not in names)
            hint = did_you_mean(str(unknown), schema.names)
            raise DeclarationError(
                f"{where}[{number}] has the unknown column {unknown!r}{hint} (columns: {', '.join(schema.names)})"
            )
    columns = [_column([row.get(field.name) for row in rows], field, where) for field in schema]
    return pa.table(columns, schema=schema) if len(schema) else pa.table({})


def _column(values: list[Any], field: pa.Field, where: str) -> pa.Array:
    try:
        return _array(values, field)
    except (pa.ArrowException, DeclarationError, TypeError, ValueError, OverflowError, AttributeError):
        for number, value in enumerate(values):  # which one was it?
            try:
                _array([value], field)
            except (pa.ArrowException, DeclarationError, TypeError, ValueError, OverflowError, AttributeError) as error:
                raise DeclarationError(
                    f"{where}[{number}]: {field.name} is {value!r}, and the column is {field.type}: {error}"
                ) from error
        raise


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    kind = field.type
    if (convert := _converter(kind, field.name)) is not None:
        values = [None if value is None else convert(value) for value in values]
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if not pa.types.is_boolean(kind) and any(isinstance(value, bool) for value in values):
        raise TypeError("a truth value is none of its values")
    require_nothing_cut_off(values, kind)
    return pa.array(values, kind)


def _converter(kind: pa.DataType, name: str) -> Callable[[Any], Any] | None:
    """Return what makes of a value of the script one that Arrow takes; None: Arrow takes them as they are."""
    for is_one, convert in _CONVERTERS:
        if is_one(kind):
            return partial(convert, what=name)
    if pa.types.is_list(kind) and (inner := _inner_converter(kind.value_type, name)) is not None:
        return lambda values: [inner(value) for value in values]
    if pa.types.is_struct(kind):
        fields = {
            field.name: converter for field in kind if (converter := _inner_converter(field.type, name)) is not None
        }
        if fields:
            return lambda row: {key: fields[key](value) if key in fields else value for key, value in row.items()}
    return None


def _duration(value: Any, what: str) -> timedelta:
    is_computed = isinstance(value, float) and math.isfinite(value)  # seldom whole microseconds
    return timedelta(microseconds=round(value * 1_000_000) if is_computed else to_us(value, what))


def _date(value: Any, what: str) -> Any:  # noqa: ARG001 -- Arrow refuses what is none
    return date.fromisoformat(value) if isinstance(value, str) else value


def _decimal(value: Any, what: str) -> Any:  # noqa: ARG001 -- Arrow refuses what is none
    return Decimal(str(value)) if isinstance(value, int | float | str) else value


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[..., Any]], ...] = (
    (pa.types.is_timestamp, time_us),
    (pa.types.is_duration, _duration),
    (pa.types.is_date, _date),
    (pa.types.is_decimal, _decimal),
)


def _inner_converter(kind: pa.DataType, name: str) -> Callable[[Any], Any] | None:
    """Return what converts a value within another one: times become datetimes there."""
    if pa.types.is_timestamp(kind):
        epoch = _EPOCH if kind.tz else _EPOCH_HERE
        return lambda value: None if value is None else epoch + timedelta(microseconds=time_us(value, name))
    convert = _converter(kind, name)
    return None if convert is None else lambda value: None if value is None else convert(value)
