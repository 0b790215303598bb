"""Which rows are refused, and why: Spark expressions, so they run in the Java virtual machine.

Rules are tried in this order, and the first that holds is the reason: the user's own, then for the event time and the
arrival time that it is null, outside of the years 1 to 9999 (nothing in Python has a value for it), or more than
`max_ahead` in the future: of the event time, after its arrival, else one row would close every window; of the arrival
time, after its batch, else one row would move the clock for ever. Then the partition columns, the column of a policy
(null and NaN cannot be subtracted), and text that is not UTF-8, also within a struct, an array or a map: the next merge
into a view that has it would fail.

The batch's time differs from batch to batch, and Spark writes what is constant in a batch into the Java code that it
generates: every batch would compile code of its own and run it cold. `_batch_time_us()` keeps it out of that code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from panekeeper.framework.engine.session.columns import as_utc, column
from panekeeper.state.duration_text import us_text

if TYPE_CHECKING:
    from pyspark.sql import Column

NULL_EVENT_TIME = "NULL_EVENT_TIME"
EVENT_TIME_OUT_OF_RANGE = "EVENT_TIME_OUT_OF_RANGE"
FUTURE_EVENT_TIME = "FUTURE_EVENT_TIME"
NULL_ARRIVAL_TIME = "NULL_ARRIVAL_TIME"
ARRIVAL_TIME_OUT_OF_RANGE = "ARRIVAL_TIME_OUT_OF_RANGE"
FUTURE_ARRIVAL_TIME = "FUTURE_ARRIVAL_TIME"
KEY_OUT_OF_RANGE = "KEY_OUT_OF_RANGE"
NULL_ATTRIBUTE = "NULL_ATTRIBUTE"
NAN_ATTRIBUTE = "NAN_ATTRIBUTE"
INVALID_UTF8 = "INVALID_UTF8"

FIRST_US = -62_135_510_400_000_000
"""0001-01-02 in UTC: a time from here on is in the year 1 or later in every time zone."""
_DAY_US = 86_400_000_000
NEVER_BEFORE_US = 1_577_836_800_000_000
"""2020-01-01: a driver whose clock is earlier has not been set yet, as after a boot without a battery."""
END_US = 253_402_214_400_000_000
"""9999-12-31 in UTC: a time before it is in the year 9999 or earlier in every time zone."""


@dataclass(frozen=True, kw_only=True)
class RowChecks:
    """The rules for the rows of one stream.

    Attributes:
        types: type of each column that is checked.
        event_time, arrival_time: the declared columns, or None.
        max_ahead_us: how far a time may be in the future; None for no limit.
        reject: reason -> SQL condition, the user's own.
        partition_by: the partition columns.
        numeric_columns: columns that a policy subtracts.
        carried: columns that the job reads.
    """

    types: Mapping[str, DataType]
    event_time: str | None
    arrival_time: str | None
    max_ahead_us: int | None
    reject: Mapping[str, str]
    partition_by: Sequence[str]
    numeric_columns: Sequence[str]
    carried: Sequence[str]

    def reason(self) -> Column:
        """Return why the row is refused; null for a good row."""
        rules = [(F.expr(rule), reason) for reason, rule in self.reject.items()]
        rules += [*self._time_rules(), *self._column_rules()]
        reason = F.lit(None).cast("string")
        for holds, name in reversed(rules):
            reason = F.when(holds, F.lit(name)).otherwise(reason)
        return reason

    def detail(self, reason: Column) -> Column:
        """Return what is wrong, in words, for those reasons that do not say it all; else null."""
        detail = F.lit(None).cast("string")
        times = (
            ("event time", self.event_time, EVENT_TIME_OUT_OF_RANGE, FUTURE_EVENT_TIME),
            ("arrival time", self.arrival_time, ARRIVAL_TIME_OUT_OF_RANGE, FUTURE_ARRIVAL_TIME),
        )
        for what, name, out_of_range, future in times:
            if name is None:
                continue
            text = F.concat(F.lit(f"{what} "), column(name).cast("string"))
            outside = F.concat(text, F.lit(" is outside of the years 1 to 9999"))
            detail = F.when(reason == out_of_range, outside).otherwise(detail)
            if self.max_ahead_us is not None:
                limit = us_text(self.max_ahead_us)
                after = "its arrival" if what == "event time" else "its batch"
                now = arrival_text(self._arrival() if what == "event time" else None)
                ahead = F.concat(text, F.lit(f" is more than {limit} ahead of {after} at "), now)
                detail = F.when(reason == future, ahead).otherwise(detail)
        return detail

    def event_us(self) -> Column:
        """Return the event time of a refused row, us; null if it is null or out of range."""
        if self.event_time is None:
            return F.lit(None).cast("long")
        time = self._event_time(self.event_time)
        return F.when(~_is_out_of_range(time), F.unix_micros(time))

    def _time_rules(self) -> list[tuple[Column, str]]:
        rules: list[tuple[Column, str]] = []
        if self.event_time is not None:
            time = self._event_time(self.event_time)
            rules += [(time.isNull(), NULL_EVENT_TIME), (_is_out_of_range(time), EVENT_TIME_OUT_OF_RANGE)]
        if self.arrival_time is not None:
            time = column(self.arrival_time)
            rules += [(time.isNull(), NULL_ARRIVAL_TIME), (_is_out_of_range(time), ARRIVAL_TIME_OUT_OF_RANGE)]
            if self.max_ahead_us is not None:
                rules.append((is_ahead(time, None, self.max_ahead_us), FUTURE_ARRIVAL_TIME))
        if self.event_time is not None and self.max_ahead_us is not None:
            time = column(self.event_time).cast(TimestampType())  # one without a zone is in that of the session
            ahead = is_ahead(time, self._arrival(), self.max_ahead_us)
            rules.append((ahead, FUTURE_EVENT_TIME))
        return rules

    def _column_rules(self) -> list[tuple[Column, str]]:
        rules: list[tuple[Column, str]] = []
        for name in self.partition_by:
            if isinstance(self.types[name], TimestampType):
                rules.append((_is_out_of_range(column(name)), KEY_OUT_OF_RANGE))
            elif isinstance(self.types[name], DateType | TimestampNTZType):
                rules.append((~F.year(column(name)).between(1, 9999), KEY_OUT_OF_RANGE))
        for name in self.numeric_columns:
            rules.append((column(name).isNull(), NULL_ATTRIBUTE))
            if isinstance(self.types[name], FloatType | DoubleType):
                rules.append((F.isnan(column(name)), NAN_ATTRIBUTE))
        texts = [name for name in self.carried if _has_text(self.types[name])]
        return [*rules, *((_has_invalid_text(column(name), self.types[name]), INVALID_UTF8) for name in texts)]

    def _event_time(self, name: str) -> Column:
        return as_utc(name) if isinstance(self.types[name], TimestampNTZType) else column(name)

    def _arrival(self) -> Column | None:
        return column(self.arrival_time) if self.arrival_time else None


def arrival_us(arrival: Column | None) -> Column:
    """Return when the row arrived, us."""
    return _batch_time_us() if arrival is None else F.coalesce(F.unix_micros(arrival), _batch_time_us())


def is_ahead(time: Column, arrival: Column | None, limit_us: int) -> Column:
    """Say whether a time is further than the limit after the row's arrival.

    Nothing is ahead of a clock that is not set: every row of the present would be.
    """
    is_clock_set = _batch_time_us() >= F.lit(NEVER_BEFORE_US)
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


def _is_out_of_range(time: Column) -> Column:
    us = F.unix_micros(time)
    return (us < F.lit(FIRST_US)) | (us >= F.lit(END_US))


def _has_text(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_text(kind.elementType)
    if isinstance(kind, MapType):
        return _has_text(kind.keyType) or _has_text(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_text(field.dataType) for field in kind.fields)
    return isinstance(kind, StringType)


def _has_invalid_text(value: Column, kind: DataType) -> Column:
    """Return whether a text in a value is not UTF-8, however deep it lies; false for null."""
    if not _has_text(kind):
        return F.lit(False)
    if isinstance(kind, ArrayType):
        element = kind.elementType
        has_invalid = F.exists(value, lambda nested: _has_invalid_text(nested, element))
    elif isinstance(kind, MapType):
        of_keys, of_values = ArrayType(kind.keyType), ArrayType(kind.valueType)
        has_invalid = _has_invalid_text(F.map_keys(value), of_keys) | _has_invalid_text(F.map_values(value), of_values)
    elif isinstance(kind, StructType):
        fields = (_has_invalid_text(value.getField(field.name), field.dataType) for field in kind.fields)
        has_invalid = reduce(or_, fields)
    else:
        has_invalid = ~F.is_valid_utf8(value)
    return F.coalesce(has_invalid, F.lit(False))
