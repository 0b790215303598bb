"""The intake as it is declared: what `windowed(...)` was given, and which of it cannot be.

How rows pass it: `checked_rows.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegralType,
    MapType,
    NumericType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import TIMESTAMP, Dedupe, Idle, OnError
from panekeeper.framework.core.stored_names import is_stored_name
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import Policy
from panekeeper.framework.engine.flow import packing
from panekeeper.framework.engine.flow.input_stream import InputStream, SparkStream
from panekeeper.framework.engine.flow.stream_columns import StreamColumns
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.state.duration_text import us_text
from panekeeper.state.key_groups import MAX_KEY_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

END_OF_FILE = "end_of_file"
"""The punctuation that marks the end of every input file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CASTS_TO_SUBTRACT = {
    "date": 'cast("timestamp")',
    "timestamp_ntz": 'cast("timestamp")',
    "string": 'try_cast("double")',
    "decimal": 'cast("double")',
    "boolean": 'cast("integer")',
}
"""Type of a column that a policy cannot subtract -> what it can be cast by, without an error for any value."""
_KAFKA = {"topic": "string", "partition": "int", "offset": "bigint"}
"""Columns of Spark's source for Kafka, and their types."""
_DIGITS = 18
"""Decimals of so many digits are whole numbers of 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Intake:
    """What `windowed(...)` was given, validated: where rows come from and which of them are good."""

    stream: InputStream = field(repr=False)
    name: str
    partition_by: tuple[str, ...]
    event_time: str | None
    watermark_us: int
    arrival_time: str | None
    order_by: tuple[str, ...]
    max_ahead_us: int | None
    reject: Mapping[str, str]
    on_error: OnError
    key_groups: int | None
    """None: as many as the checkpoint has, or gets at its first start (`settings.py`)."""
    numeric_columns: tuple[str, ...] = ()
    """Columns that a policy subtracts: null and NaN are rejected."""
    punctuation: str | None = None
    """`END_OF_FILE`, or a SQL condition: the row for which it holds is the last before a window mark."""
    marks: str | None = None
    """SQL condition: rows for which it holds are window marks and join no window."""
    has_mark_column: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Name of a further column -> the SQL condition that it holds, `where=` of aggregates; checked before."""
    idle: Idle | None = None
    """When the stream is idle, and what its watermark does then; None: never."""
    dedupe: Dedupe | None = None
    """Which rows are repeats; None: none."""
    watermark_by: Literal["partition"] | None = None
    """Whether each partition of the source has a watermark of its own."""
    has_declared_delay: bool = True
    """Whether the delay of the watermark was given; if not, it is 0."""

    def __post_init__(self) -> None:
        name: object = self.name  # a caller without a type checker may give anything
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DeclarationError(f"name is {self.name!r}; use letters, digits, '.', '_' and '-': it names the job")
        on_error: object = self.on_error
        if on_error is not None and (not isinstance(on_error, str) or on_error not in ("quarantine", "fail")):
            raise DeclarationError(f"on_error is {on_error!r}; it must be 'quarantine', 'fail' or None")
        groups: object = self.key_groups
        if groups is not None and (type(groups) is not int or not 1 <= groups <= MAX_KEY_GROUPS):
            raise DeclarationError(f"key_groups is {groups!r}; it must be a whole number in 1..{MAX_KEY_GROUPS}")
        if self.watermark_us < 0:
            raise DeclarationError(f"watermark is {us_text(self.watermark_us)}; the delay must not be negative")
        if self.max_ahead_us is not None and self.max_ahead_us < 0:
            raise DeclarationError(f"max_ahead is {us_text(self.max_ahead_us)}; it must not be negative")
        for what, given in (("punctuation", self.punctuation), ("marks", self.marks)):
            if given is not None:
                _require_text(what, given)
        self._check_columns()

    def _check_columns(self) -> None:
        marks = packing.MARKS if self.has_marks and not self.has_mark_column else ()
        for name in self.user_columns:
            folded = name.lower()  # as Spark finds columns
            if name in packing.RESERVED or folded.startswith(packing.PREFIX) or folded in marks:
                raise DeclarationError(f"the column name {name!r} is used by Panekeeper; rename the column")
        ids = () if self.dedupe is None else self.dedupe.columns
        for what, names in (("partition_by", self.partition_by), ("order_by", self.order_by), ("dedupe", ids)):
            for name in names:
                if isinstance(kind := self.type_of(name), ArrayType | MapType | StructType):
                    raise DeclarationError(
                        f"{what}: column {name!r} is a {kind.simpleString()}; use plain columns, such as a field of it"
                    )
        for name in self.partition_by:
            if is_stored_name(name):
                raise DeclarationError(
                    f"partition_by: the column name {name!r} is used by Panekeeper beside partition columns; rename it"
                )
        for what, time in (("event_time", self.event_time), ("arrival_time", self.arrival_time)):
            if time is not None:
                _require_timestamp(what, time, self.type_of(time))
        self._check_source_partition()
        self._check_conditions()

    def _check_source_partition(self) -> None:
        by: object = self.watermark_by
        if by is None:
            return
        if by != "partition":
            raise DeclarationError(f"watermark_by is {by!r}; it must be 'partition', or not be given")
        if self.event_time is None:
            raise DeclarationError("watermark_by needs event_time: a window in arrival order has no watermark")
        columns = self.stream.kafka_partition()
        if columns is None:
            raise DeclarationError(
                "watermark_by is 'partition', but the stream does not come from one source of Kafka, and no other "
                "source says from which partition a row is; leave it out"
            )
        if not columns:
            raise DeclarationError(
                "watermark_by is 'partition', but the stream has no longer the columns 'topic' and 'partition' of "
                "Kafka, by these names; keep both beside the columns that you read from the messages"
            )

    def _check_conditions(self) -> None:
        for reason, rule in self.reject.items():
            self.require_condition(f"reject rule {reason!r}", rule)
        if self.by_file and self.marks is not None:
            raise DeclarationError(f"marks= cannot be given with punctuation={END_OF_FILE!r}; leave out one of them")
        if self.by_file:
            if not self.stream.has_file_names():
                raise DeclarationError(
                    f"punctuation is {END_OF_FILE!r}, but the stream does not come straight from files; "
                    "use a condition such as punctuation='is_last', or marks='kind = \"mark\"'"
                )
        elif self.punctuation is not None:
            self.require_condition("punctuation", self.punctuation)
        if self.marks is not None:
            self.require_condition("marks", self.marks)

    @property
    def df(self) -> DataFrame:
        """The rows, for a job on Spark."""
        return self.stream.df

    def of_rows(self, df: DataFrame) -> Intake:
        """Return the intake of other rows with these columns."""
        return replace(self, stream=SparkStream(df))

    @property
    def by_file(self) -> bool:
        """Whether the end of each input file is a window mark."""
        return self.punctuation == END_OF_FILE

    @property
    def has_marks(self) -> bool:
        """Whether rows come with a mark column."""
        return self.has_mark_column or self.marks is not None or (self.punctuation is not None and not self.by_file)

    @property
    def user_columns(self) -> list[str]:
        """Names of the user's columns, marks left out."""
        marks = packing.MARKS if self.has_mark_column else ()
        return [name for name in self.stream.schema.names if name not in marks]

    @property
    def origin_columns(self) -> tuple[str, ...]:
        """Names of the columns that tell from where in Kafka a row is, the offset last; none where they do not."""
        kinds = {name: self.type_of(name).simpleString() for name in self.user_columns}
        kept = tuple(name for name, kind in _KAFKA.items() if kinds.get(name) == kind)
        return kept if kept[-2:] == ("partition", "offset") else ()

    @property
    def pane_time(self) -> pa.DataType:
        """The type of the bounds of panes: a time without a zone has days of its own calendar, as in Spark's window().

        Such times count as if they were in UTC, which has no hour twice, and none that is missing.
        """
        is_local = self.event_time is not None and isinstance(self.type_of(self.event_time), TimestampNTZType)
        return pa.timestamp("us") if is_local else TIMESTAMP

    @property
    def key_types(self) -> list[DataType]:
        """Types of the partition columns: a key group is found by a hash that differs between types."""
        return [self.type_of(name) for name in self.partition_by]

    def find(self, what: str, given: str) -> str:
        """Return the name of a column of the stream; raises `DeclarationError` as `StreamColumns.find`."""
        return StreamColumns(self.stream, packing.MARKS if self.has_mark_column else ()).find(what, given)

    def require_fits(self, policy: Policy, name: str) -> None:
        """Raise `DeclarationError` for a column that the policy cannot subtract exactly."""
        of_column = self.type_of(name)
        kind = of_column.typeName()
        if kind not in policy.column_types:
            to = _CASTS_TO_SUBTRACT.get(kind)
            cast = f': df.withColumn("{name}", F.col("{name}").{to})' if to else ""
            raise DeclarationError(
                f"{type(policy).__name__} computes with {name!r}, which is a {kind}; give a column of numbers or "
                f"timestamps{cast}"
            )
        if isinstance(of_column, DecimalType) and of_column.precision > _DIGITS:
            cast = f"decimal({_DIGITS},{min(of_column.scale, _DIGITS // 2)})"
            raise DeclarationError(
                f"{type(policy).__name__} computes with {name!r}, which is a {of_column.simpleString()}; it takes "
                f'decimals of up to {_DIGITS} digits: df.withColumn("{name}", F.col("{name}").try_cast("{cast}"))'
            )
        policy.check_column(kind)

    def require_own_watermark(self) -> None:
        """Raise `DeclarationError` if the user's stream has a watermark beside the one that event time gets.

        Spark refuses a second one, but only in the first micro-batch.
        """
        if self.event_time is None or self.has_mark_column:
            return
        if self.stream.has_refused_watermark():
            raise DeclarationError(
                "the stream has a watermark already, and Spark takes one only: leave out withWatermark() and give the "
                "delay as watermark= of windowed(), and dedupe= in place of dropDuplicatesWithinWatermark. Another "
                "operator of Spark that needs one belongs in a query of its own before this one; it can write a Delta "
                "table that this stream reads"
            )

    def stateful_operators(self) -> list[str]:
        """Return the operators of the given stream for which Spark keeps state, in their order.

        A checkpoint has a state for each of them by its place in the plan. Spark takes no other number or kinds.
        """
        return self.stream.stateful_operators()

    def arrow_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the Arrow types of these columns, timestamps in UTC whatever the session's zone."""
        for name in names:
            if "." in name or "`" in name:  # `mapInArrow` takes such a name for a field of a struct
                raise DeclarationError(
                    f"the name of the column {name!r} has a '.' or a '`', with which Spark cannot give it to Python; "
                    "rename the column: df.withColumnRenamed(...)"
                )
        schema, holds = self.stream.schema, BooleanType()
        columns = [
            StructField(column_name, holds, False) if column_name in self.conditions else schema[column_name]
            for column_name in names
        ]
        try:
            return arrow_schema(StructType(columns))
        except Exception as error:
            raise DeclarationError(f"a column has a type that Arrow cannot carry: {error}") from error

    def type_of(self, name: str) -> DataType:
        """Return the type of the column of exactly this name."""
        return self.stream.type_of(name)

    def require_condition(self, what: str, rule: str) -> None:
        """Raise `DeclarationError` for what is no SQL condition on the columns of one row."""
        _require_text(what, rule)
        self.stream.require_condition(what, rule, self.user_columns)


def _require_text(what: str, condition: object) -> None:
    if not isinstance(condition, str):
        raise DeclarationError(f'{what} is {condition!r}; write the condition as SQL, such as "value < 0"')


def _require_timestamp(what: str, name: str, kind: DataType) -> None:
    """Raise `DeclarationError` unless a column is of times; the message has the cast."""
    if isinstance(kind, TimestampType) or (what == "event_time" and isinstance(kind, TimestampNTZType)):
        return
    millis = f'F.timestamp_millis("{name}")' if isinstance(kind, IntegralType) else f'(F.col("{name}") / 1000)'
    if isinstance(kind, NumericType):
        millis = millis if isinstance(kind, IntegralType) else f"F.timestamp_seconds{millis}"
        advice = (
            f'; cast it first, if it counts seconds: df.withColumn("{name}", F.timestamp_seconds("{name}")), if '
            f'milliseconds: df.withColumn("{name}", {millis})'
        )
    elif kind.typeName() == "string":
        read = f'F.try_to_timestamp("{name}", F.lit("yyyy-MM-dd HH:mm:ss"))'  # null for a text that is no time
        advice = f'; read it into a new column, and give that: df.withColumn("{name}_time", {read})'
    elif isinstance(kind, TimestampNTZType) or kind.typeName() == "date":
        to = "timestamp_ntz" if what == "event_time" else "timestamp"
        advice = f'; cast it first: df.withColumn("{name}", F.col("{name}").cast("{to}"))'
    else:
        advice = ""
    raise DeclarationError(f"{what}: column {name!r} is a {kind.simpleString()}, not a timestamp{advice}")
