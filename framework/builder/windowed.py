"""`windowed(...)`: from a streaming DataFrame to a running job, one declaration after the other.

    windowed(df, name=..., ...)      where rows come from, which are good, what time it is
      .window(TimeInterval(...))     how they are gathered
      .aggregate(n=agg.count())      what is computed from them; or .operator(MyOperator(), output="...")
      .to_delta(path, view=...)      where results go; or .transform(checkpoint=...) for any other sink
      .start(checkpoint=...)         run it

One operator over the windows of several streams: `ports(...)` in `framework/builder/ports.py`.

Each step checks what it was given and returns a new object; nothing runs before `start()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Names
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from framework.builder.inputs import Input, aggregated, needs_one_group, operated
from framework.builder.outputs import Computed
from framework.declarations.aggregates import Aggregate
from framework.declarations.durations import Duration, days, to_us
from framework.declarations.errors import DeclarationError
from framework.declarations.operator import Listener, Operator
from framework.declarations.policies import Punctuation
from framework.declarations.windows import Sequence, TimeInterval, Window, delta_attributes
from framework.engine.flow.intake import Intake
from state.handler import StateHandler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def windowed(  # noqa: PLR0913 -- the declaration of a stream, all by keyword
    df: DataFrame,
    *,
    name: str,
    partition_by: str | Names[str] | None = None,
    event_time: str | None = None,
    watermark: Duration = 0,
    arrival_time: str | None = None,
    order_by: str | Names[str] | None = None,
    max_ahead: Duration | None = days(1),  # noqa: B008 -- a timedelta does not change
    reject: Mapping[str, str] | None = None,
    on_bad: Literal["quarantine", "fail"] = "quarantine",
    punctuation: str | None = None,
    marks: str | None = None,
    key_groups: int = 8,
    _marks: bool = False,
) -> Windowed:
    """Declare where rows come from.

    Args:
        df: any streaming DataFrame.
        name: names the job, for ever: it is part of its checkpoint and of its transactions.
        partition_by: each value of these columns has windows of its own.
        event_time: the timestamp column that says when a row happened.
        watermark: how far event time may lag behind the latest seen before a pane is taken to be complete.
        arrival_time: the timestamp column that says when a row arrived; the batch's own time if not given.
        order_by: columns that declare the order of arrival; without them it is the order of the input files.
        max_ahead: a row whose event time is further than this after its arrival is quarantined, because it would
            close every window; None for no limit.
        reject: reason -> SQL condition; rows for which it holds are quarantined with that reason.
        on_bad: keep such rows in the quarantine table, or fail the job on the first.
        punctuation: a SQL condition: a window mark follows each row for which it holds; or `"end_of_file"`: one
            follows each input file, oldest file first. For `Tumbling(Punctuation())`.
        marks: a SQL condition: rows for which it holds are window marks themselves, and no tuples.
        key_groups: number of buckets that share out the partitions; the most tasks that can run at once. Fixed
            for the life of a checkpoint.

    Raises:
        DeclarationError: a column that is not there or has an unfit type, a bad name, rule or duration.
    """
    return Windowed(
        Intake(
            df=df,
            name=name,
            partition_by=_names(partition_by),
            event_time=event_time,
            watermark_us=to_us(watermark, "watermark"),
            arrival_time=arrival_time,
            order_by=_names(order_by),
            max_ahead_us=None if max_ahead is None else to_us(max_ahead, "max_ahead"),
            reject=dict(reject or {}),
            on_bad=on_bad,
            punctuation=punctuation,
            marks=marks,
            key_groups=key_groups if partition_by else 1,
            marked=_marks,
        )
    )


@dataclass(frozen=True)
class Windowed:
    """A stream that waits for its window."""

    _intake: Intake

    def window(self, window: Window) -> WindowedBy:
        """Declare how rows are gathered.

        Raises:
            DeclarationError: no window, or one that needs what the stream does not declare: an event time, a column
                that a policy reads, partitions that could be evicted.
        """
        if not isinstance(window, Window):
            raise DeclarationError(f"window() takes a window such as TimeInterval(hours(1)), not {window!r}")
        if isinstance(window, TimeInterval):
            if self._intake.event_time is None:
                raise DeclarationError("a TimeInterval is a range of event time: give windowed() an event_time column")
            return WindowedBy(Input(self._intake, window))
        return WindowedBy(Input(self._in_arrival_order(window), window))

    def _in_arrival_order(self, window: Sequence) -> Intake:
        intake, limit = self._intake, window.partition_eviction
        if limit is not None and not intake.partition_by:
            raise DeclarationError(
                f"partition_eviction is {limit!r}, but the window has no partitions: use partition_by"
            )
        marked = bool(intake.punctuation or intake.marks or intake.marked)
        if isinstance(getattr(window, "evict", None), Punctuation) and not marked:
            raise DeclarationError(
                "Tumbling(Punctuation()) needs marks: give windowed() punctuation='a SQL condition' or 'end_of_file', "
                "or marks='a SQL condition'"
            )
        attributes = delta_attributes(window)
        intake.require("the attribute of a Delta policy", attributes)
        intake.require_numbers(attributes)
        groups = 1 if needs_one_group(window) else intake.key_groups
        return replace(intake, numbers=attributes, key_groups=groups)


@dataclass(frozen=True)
class WindowedBy:
    """A stream and its window, waiting for what to compute."""

    _input: Input

    def aggregate(self, **aggregates: Aggregate) -> Computed:
        """Declare the result columns. Raises `DeclarationError` for an unknown column or an unfit type."""
        if not aggregates:
            raise DeclarationError("aggregate() needs at least one result column, such as n=agg.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DeclarationError(f"aggregate {name}: {aggregate!r} is none; use agg.max('column') and the like")
            self._input.intake.require(f"aggregate {name}={aggregate}", aggregate.columns)
        return aggregated(self._input, aggregates)

    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | str,
        listeners: Names[Listener] = (),
        handlers: Names[StateHandler] = (),
    ) -> Computed:
        """Declare who handles the window's events, and the columns it emits.

        Args:
            operator: an instance; it is sent to the workers, and sees all columns of the stream.
            output: the emitted columns, as an Arrow schema or as SQL: `"spread double, n bigint"`.
            listeners: hear each event before the operator does, in this order.
            handlers: take part in every checkpoint, in this order; an operator that is a `StateHandler` itself comes
                before them, and the window before all.
        """
        return operated([self._input], operator, output, listeners, handlers)


def _names(given: str | Names[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
