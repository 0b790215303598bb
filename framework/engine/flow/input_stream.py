"""A stream as a declaration sees it, before a row is read: its columns, and what it comes from.

A declaration asks an `InputStream`, and not Spark, so that a script has one without Spark
(`framework/testing/scripted_stream.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.types import BooleanType, StructType

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.spark_errors import first_line, reported_by_the_job
from panekeeper.framework.engine.sources.cautions import cautions
from panekeeper.framework.engine.sources.streams import kafka_partition, kind_of, nodes, plan_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_CASE_SENSITIVE = "spark.sql.caseSensitive"
_SEVERAL_OPERATORS = "spark.sql.streaming.statefulOperator.allowMultiple"
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


class InputStream(ABC):
    """What a declaration asks of a stream."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """The columns with their types."""

    @property
    @abstractmethod
    def is_case_sensitive(self) -> bool:
        """Whether names of columns that differ by case alone are those of two columns."""

    @property
    @abstractmethod
    def df(self) -> DataFrame:
        """The rows, for a job on Spark."""

    @abstractmethod
    def name_of(self, what: str, given: Column) -> str:
        """Return the name of the column that a Column is, as it stands; `what` is the option that has it.

        Raises `DeclarationError` for one that is none of the stream's.
        """

    @abstractmethod
    def has_field(self, path: str) -> bool:
        """Return whether a column has a field of this path, `column.field`."""

    @abstractmethod
    def require_condition(self, what: str, rule: str, columns: Sequence[str]) -> None:
        """Raise `DeclarationError` for what is no SQL condition on one row; the message names these columns."""

    @abstractmethod
    def has_file_names(self) -> bool:
        """Return whether rows know the file that they are from."""

    @abstractmethod
    def kafka_partition(self) -> tuple[str, ...] | None:
        """Return the columns of Kafka's partition, as `sources.streams.kafka_partition` does."""

    @abstractmethod
    def has_refused_watermark(self) -> bool:
        """Return whether it has a watermark beside which Spark takes no other one."""

    @abstractmethod
    def stateful_operators(self) -> list[str]:
        """Return the operators before the windows for which Spark keeps state, in their order."""

    @abstractmethod
    def cautions(self, name: str, *, event_time: str | None) -> Iterator[str]:
        """Yield what the user should know of it, as `sources.cautions.cautions` does."""

    def type_of(self, name: str) -> DataType:
        """Return the type of the column of exactly this name."""
        return self.schema[name].dataType


@dataclass(frozen=True)
class SparkStream(InputStream):
    """A streaming DataFrame."""

    frame: DataFrame

    @property
    def schema(self) -> StructType:
        """Those of the DataFrame."""
        return self.frame.schema

    @property
    def is_case_sensitive(self) -> bool:
        """As its session is set."""
        return self.frame.sparkSession.conf.get(_CASE_SENSITIVE, "false") == "true"

    @property
    def df(self) -> DataFrame:
        """The DataFrame."""
        return self.frame

    def name_of(self, what: str, given: Column) -> str:
        """Look for the column in Spark's plan."""
        try:
            with reported_by_the_job():
                plan = plan_of(self.frame.select(given))
        except AnalysisException as error:
            raise DeclarationError(f"{what} is {given!r}, which is no column of the stream: {error}") from error
        of_stream = plan_of(self.frame).output()
        if kind_of(plan) == "Project" and plan.projectList().size() == 1:
            column = plan.projectList().apply(0)
            for place, name in enumerate(self.frame.columns):
                attribute = of_stream.apply(place)
                if column.getClass().equals(attribute.getClass()) and column.exprId().equals(attribute.exprId()):
                    return name
        raise DeclarationError(
            f"{what} is {given!r}, which Spark computes; make a column of it by df.withColumn(), and give its name"
        )

    def has_field(self, path: str) -> bool:
        """Let Spark say it."""
        return self._takes(path)

    def require_condition(self, what: str, rule: str, columns: Sequence[str]) -> None:
        """Let Spark analyze it."""
        try:
            with reported_by_the_job():
                kind = self.frame.selectExpr(rule).schema[0].dataType
                if isinstance(kind, BooleanType):
                    self.frame.where(rule)  # refuses an aggregate, which is no condition on one row
        except (AnalysisException, ParseException) as error:
            text = first_line(error)  # Spark's own begins with an empty one
            raise DeclarationError(
                f"{what}: {rule!r} is not a condition on these columns: {text} (columns: {', '.join(columns)})"
            ) from None
        if not isinstance(kind, BooleanType):
            raise DeclarationError(f"{what}: {rule!r} is a {kind.simpleString()}, not a condition")

    def has_file_names(self) -> bool:
        """Only a stream that comes straight from files has them."""
        return self._takes("_metadata.file_path")

    def kafka_partition(self) -> tuple[str, ...] | None:
        """By the source in its plan."""
        return kafka_partition(self.frame)

    def has_refused_watermark(self) -> bool:
        """By its plan; a session that is set to Spark's old rule (any number of watermarks) is left to it."""
        has_watermark = any(kind_of(node) == "EventTimeWatermark" for node in nodes(plan_of(self.frame)))
        return self.frame.sparkSession.conf.get(_SEVERAL_OPERATORS, "true") == "true" and has_watermark

    def stateful_operators(self) -> list[str]:
        """By its plan, from the sources on."""
        operators = [kind_of(node) for node in nodes(plan_of(self.frame)) if _has_state(node)]
        return [*reversed(operators)]

    def cautions(self, name: str, *, event_time: str | None) -> Iterator[str]:
        """By its plan."""
        return cautions(self.frame, name, event_time=event_time)

    def _takes(self, path: str) -> bool:
        """Return whether Spark finds a column of this path."""
        try:
            with reported_by_the_job():
                self.frame.select(path)
        except AnalysisException:
            return False
        return True


def _has_state(node: Any) -> bool:
    if kind_of(node) not in _STATEFUL:
        return False
    children = node.children()
    sides = [children.apply(number).isStreaming() for number in range(children.size())]
    return all(sides) if kind_of(node) == "Join" else any(sides)
