"""Intake: from the user's streaming DataFrame to the columns that are packed; bad rows are marked with a reason.

Everything here is a Spark expression, so it runs in the Java virtual machine. A rejected row is not dropped: it
travels with its reason and its own text to the quarantine table, by the same exactly-once path as the results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import REST_AS_JSON, TIMESTAMP, Dedupe, Idle, OnError
from panekeeper.framework.core.stored_names import is_stored_name
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import Policy
from panekeeper.framework.engine.flow import packing
from panekeeper.framework.engine.flow.row_checks import RowChecks, arrival_us
from panekeeper.framework.engine.flow.stream_columns import StreamColumns
from panekeeper.framework.engine.session.columns import AS_JSON, arrow_schema, as_utc, column
from panekeeper.framework.engine.session.spark_errors import first_line, reported_by_the_job
from panekeeper.framework.engine.sources.streams import kafka_partition, kind_of, leaves, nodes, plan_of
from panekeeper.state.duration_text import us_text
from panekeeper.state.key_groups import MAX_KEY_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

END_OF_FILE = "end_of_file"
"""The punctuation that marks the end of every input file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REASON = "_pk_reason"
_SEVERAL_OPERATORS = "spark.sql.streaming.statefulOperator.allowMultiple"
_CASTS_TO_SUBTRACT = {
    "date": "timestamp",
    "timestamp_ntz": "timestamp",
    "string": "double",
    "decimal": "double",
    "boolean": "integer",
}
"""Type of a column that a policy cannot subtract -> what it can be cast to."""
_KAFKA = {"topic": "string", "partition": "int", "offset": "bigint"}
"""Columns of Spark's source for Kafka, and their types."""
_DIGITS = 18
"""Decimals of so many digits are whole numbers of 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Intake:
    """What `windowed(...)` was given, validated: where rows come from and which of them are good."""

    df: DataFrame = field(repr=False)
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
                if isinstance(kind := self._type(name), ArrayType | MapType | StructType):
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
                _require_timestamp(what, time, self._type(time))
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
        found = kafka_partition(self.df)
        if found is None:
            raise DeclarationError(
                "watermark_by is 'partition', but the stream does not come from one source of Kafka, and no other "
                "source says from which partition a row is; leave it out"
            )
        if not found:
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
            try:
                with reported_by_the_job():
                    self.df.select("_metadata.file_path")
            except AnalysisException:
                raise DeclarationError(
                    f"punctuation is {END_OF_FILE!r}, but the stream does not come straight from files; "
                    "use a condition such as punctuation='is_last', or marks='kind = \"mark\"'"
                ) from None
        elif self.punctuation is not None:
            self.require_condition("punctuation", self.punctuation)
        if self.marks is not None:
            self.require_condition("marks", self.marks)

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
        return [name for name in self.df.columns if name not in marks]

    @property
    def origin_columns(self) -> tuple[str, ...]:
        """Names of the columns that tell from where in Kafka a row is, the offset last; none where they do not."""
        found = {name: self._type(name).simpleString() for name in self.user_columns}
        kept = tuple(name for name, kind in _KAFKA.items() if found.get(name) == kind)
        return kept if kept[-2:] == ("partition", "offset") else ()

    @property
    def pane_time(self) -> pa.DataType:
        """The type of the bounds of panes: a time without a zone has days of its own calendar, as in Spark's window().

        Such times count as if they were in UTC, which has no hour twice, and none that is missing.
        """
        is_local = self.event_time is not None and isinstance(self._type(self.event_time), TimestampNTZType)
        return pa.timestamp("us") if is_local else TIMESTAMP

    @property
    def key_types(self) -> list[DataType]:
        """Types of the partition columns: a key group is found by a hash that differs between types."""
        return [self._type(name) for name in self.partition_by]

    def find(self, what: str, given: str) -> str:
        """Return the name of a column of the stream; raises `DeclarationError` as `StreamColumns.find`."""
        return StreamColumns(self.df, packing.MARKS if self.has_mark_column else ()).find(what, given)

    def require_fits(self, policy: Policy, name: str) -> None:
        """Raise `DeclarationError` for a column that the policy cannot subtract exactly."""
        of_column = self._type(name)
        kind = of_column.typeName()
        if kind not in policy.column_types:
            target = _CASTS_TO_SUBTRACT.get(kind)
            cast = f': df.withColumn("{name}", F.col("{name}").cast("{target}"))' if target else ""
            raise DeclarationError(
                f"{type(policy).__name__} computes with {name!r}, which is a {kind}; give a column of numbers or "
                f"timestamps{cast}"
            )
        if isinstance(of_column, DecimalType) and of_column.precision > _DIGITS:
            cast = f"decimal({_DIGITS},{min(of_column.scale, _DIGITS // 2)})"
            raise DeclarationError(
                f"{type(policy).__name__} computes with {name!r}, which is a {of_column.simpleString()}; it takes "
                f'decimals of up to {_DIGITS} digits: df.withColumn("{name}", F.col("{name}").cast("{cast}"))'
            )
        policy.check_column(kind)

    def require_own_watermark(self) -> None:
        """Raise `DeclarationError` if the user's stream has a watermark beside the one that event time gets.

        Spark refuses a second one, but only in the first micro-batch. A session that is set to Spark's old rule (one
        operator with state, any number of watermarks) is left to it.
        """
        if self.event_time is None or self.has_mark_column:
            return
        has_watermark = any(kind_of(node) == "EventTimeWatermark" for node in nodes(plan_of(self.df)))
        if self.df.sparkSession.conf.get(_SEVERAL_OPERATORS, "true") == "true" and has_watermark:
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
        found = [kind_of(node) for node in nodes(plan_of(self.df)) if _has_state(node)]
        return [*reversed(found)]

    def arrow_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return the Arrow types of these columns, timestamps in UTC whatever the session's zone."""
        for name in names:
            if "." in name or "`" in name:  # `mapInArrow` takes such a name for a field of a struct
                raise DeclarationError(
                    f"the name of the column {name!r} has a '.' or a '`', with which Spark cannot give it to Python; "
                    "rename the column: df.withColumnRenamed(...)"
                )
        schema, holds = self.df.schema, BooleanType()
        columns = [StructField(one, holds, False) if one in self.conditions else schema[one] for one in names]
        try:
            return arrow_schema(StructType(columns))
        except Exception as error:
            raise DeclarationError(f"a column has a type that Arrow cannot carry: {error}") from error

    def rest(self, read: Sequence[str]) -> Column | None:
        """Return what the quarantine needs of a row beside the columns that the job reads; None: nothing.

        What Arrow does not carry as it is, such as an interval or a variant, is there as Spark's JSON.
        """
        plain = [name for name in self.user_columns if _is_plain(self._type(name))]
        others = [column(name) for name in self.user_columns if name not in plain]
        parts = [column(name) for name in plain if name not in read]
        parts += [F.to_json(F.struct(*others), AS_JSON).alias(REST_AS_JSON)] if others else []
        return F.struct(*parts) if parts else None

    def rows(self, carried: Sequence[str], *, rest: Column | None = None, arrived: bool, watermark: bool) -> DataFrame:
        """Return what `packing.Packer` takes: key group, event time, rejections and the carried columns.

        Every column costs: rows are written to Arrow one value after the other. So arrival times come only if
        `arrived`, and a rejection is one text, null in most rows, and no struct. Spark keeps a watermark of the event
        time if `watermark`.
        """
        source = self._with_marks(self.df)
        extra = [column(name) for name in packing.MARKS] if self.has_marks else []
        extra += [column(packing.FILE_ORDER_COLUMN)] if self.by_file else []
        checks = RowChecks(
            types={name: self._type(name) for name in self.user_columns},
            event_time=self.event_time,
            arrival_time=self.arrival_time,
            max_ahead_us=self.max_ahead_us,
            reject=self.reject,
            partition_by=self.partition_by,
            numeric_columns=self.numeric_columns,
            carried=[name for name in carried if name not in self.conditions],
        )
        checked = source.withColumn(_REASON, F.when(self._is_tuple(), checks.reason()))
        time = F.lit(None).cast(TimestampType())
        if self.event_time is not None:
            time = column(self.event_time) if self.pane_time == TIMESTAMP else as_utc(self.event_time)
        good_time = F.when(F.col(_REASON).isNull() & self._is_tuple(), time)
        arrival = column(self.arrival_time) if self.arrival_time else None
        group = key_group([column(name) for name in self.partition_by], self.key_groups)
        frame = checked.select(
            group.alias(packing.KEY_GROUP_COLUMN),
            good_time.alias(packing.EVENT_TIME_COLUMN),
            *([_source_partition().alias(packing.SOURCE_PARTITION_COLUMN)] if self.watermark_by else []),
            *([arrival_us(None if self.idle else arrival).alias(packing.ARRIVAL_TIME_COLUMN)] if arrived else []),
            F.when(F.col(_REASON).isNotNull(), self._rejected(checks)).alias(packing.REJECT_COLUMN),
            *[self._carried(name, F.col(_REASON).isNull() & self._is_tuple()) for name in carried],
            *([] if rest is None else [rest.alias(packing.REST_COLUMN)]),
            *extra,
        )
        if self.event_time is None or self.has_mark_column or not watermark:
            return frame
        return frame.withWatermark(packing.EVENT_TIME_COLUMN, f"{-(-self.watermark_us // 1000)} milliseconds")

    def _carried(self, name: str, is_good: Column) -> Column:
        """Return a column that travels. A condition is tried on good rows only, and is false where it is null."""
        if name not in self.conditions:
            return column(name)
        return F.coalesce(F.when(is_good, F.expr(self.conditions[name])), F.lit(False)).alias(name)

    def _with_marks(self, df: DataFrame) -> DataFrame:
        if self.by_file:
            file = F.col("_metadata")
            age = F.lpad(F.unix_micros(file["file_modification_time"]).cast("string"), 20, "0")
            part = F.lpad(file["file_block_start"].cast("string"), 20, "0")
            return df.withColumn(packing.FILE_ORDER_COLUMN, F.concat_ws(" ", age, file["file_path"], part))
        rules = ((self.punctuation, packing.MARK_AFTER_ROW), (self.marks, "window"))
        given = [(F.expr(rule), F.lit(kind)) for rule, kind in rules if rule is not None]
        if not given:
            return df
        if self.has_mark_column:  # rows of the stream itself may be marks, too
            mark = column(packing.MARK)
            given = [(mark.isNull() & holds, kind) for holds, kind in given]
        else:
            mark = F.lit(None).cast("string")
            nothing = F.lit(None)
            df = df.withColumns({packing.MARK_VALUE: nothing.cast("long"), packing.MARK_TEXT: nothing.cast("string")})
        for holds, kind in given:
            mark = F.when(holds, kind).otherwise(mark)
        return df.withColumn(packing.MARK, mark)

    def _is_tuple(self) -> Column:
        """Say whether a row is one of the user's, and no mark in the place of one."""
        if not self.has_marks:
            return F.lit(True)
        return column(packing.MARK).isNull() | (column(packing.MARK) == packing.MARK_AFTER_ROW)

    def _rejected(self, checks: RowChecks) -> Column:
        reason = F.col(_REASON)
        row = F.struct(*[column(name) for name in self.user_columns])
        rejected = F.struct(
            reason.alias("reason"),
            checks.detail(reason).alias("detail"),
            checks.event_us().alias("event_time"),
            F.to_json(row, AS_JSON).alias("row"),
            self._origin().alias("source"),
        )
        return F.to_json(rejected)

    def _origin(self) -> Column:
        """Return where a row is from: `topic-partition@offset` of Kafka, or its file; null where it is not known."""
        if kept := self.origin_columns:
            return F.concat(F.concat_ws("-", *map(column, kept[:-1])), F.lit("@"), column(kept[-1]))
        # Spark refuses the name of the file in a plan with two sources, such as a join with a table: in each batch.
        has_one_source = len([*leaves(self.df)]) == 1
        return F.nullif(F.input_file_name(), F.lit("")) if has_one_source else F.lit(None).cast("string")

    def _type(self, name: str) -> DataType:
        return self.df.schema[name].dataType

    def require_condition(self, what: str, rule: str) -> None:
        """Raise `DeclarationError` for what is no SQL condition on the columns of one row."""
        _require_text(what, rule)
        try:
            with reported_by_the_job():
                kind = self.df.selectExpr(rule).schema[0].dataType
                if isinstance(kind, BooleanType):
                    self.df.where(rule)  # refuses an aggregate, which is no condition on one row
        except (AnalysisException, ParseException) as error:
            text = first_line(error)  # Spark's own begins with an empty one
            columns = ", ".join(self.user_columns)
            raise DeclarationError(
                f"{what}: {rule!r} is not a condition on these columns: {text} (columns: {columns})"
            ) from None
        if not isinstance(kind, BooleanType):
            raise DeclarationError(f"{what}: {rule!r} is a {kind.simpleString()}, not a condition")


def key_group(keys: Sequence[Column], groups: int | None) -> Column:
    """Return which of so many key groups a key belongs to (`state/key_groups.py`)."""
    return F.pmod(F.xxhash64(*keys), F.lit(groups)).cast("int") if keys else F.lit(0)


def _source_partition() -> Column:
    return F.concat_ws("-", column("topic"), column("partition"))


def _require_text(what: str, condition: object) -> None:
    if not isinstance(condition, str):
        raise DeclarationError(f'{what} is {condition!r}; write the condition as SQL, such as "value < 0"')


def _is_plain(kind: DataType) -> bool:
    """Return whether Python writes values of a type as JSON as Spark does."""
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_plain(kind.valueType)
    if isinstance(kind, StructType):
        return all(_is_plain(field.dataType) for field in kind.fields)
    return isinstance(
        kind, NumericType | StringType | BooleanType | BinaryType | DateType | TimestampType | TimestampNTZType
    )


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
        advice = f'; cast it first: df.withColumn("{name}", F.to_timestamp("{name}", "yyyy-MM-dd HH:mm:ss"))'
    elif isinstance(kind, TimestampNTZType) or kind.typeName() == "date":
        to = "timestamp_ntz" if what == "event_time" else "timestamp"
        advice = f'; cast it first: df.withColumn("{name}", F.col("{name}").cast("{to}"))'
    else:
        advice = ""
    raise DeclarationError(f"{what}: column {name!r} is a {kind.simpleString()}, not a timestamp{advice}")


_STATEFUL = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "GlobalLimit",
    "Join",
    "TransformWithState",
    "TransformWithStateInPySpark",
)
"""Nodes of a plan for which Spark keeps state between micro-batches. A join does if both its sides are streams."""


def _has_state(node: Any) -> bool:
    if kind_of(node) not in _STATEFUL:
        return False
    children = node.children()
    sides = [children.apply(number).isStreaming() for number in range(children.size())]
    return all(sides) if kind_of(node) == "Join" else any(sides)
