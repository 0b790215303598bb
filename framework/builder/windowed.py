"""From a streaming DataFrame to what is computed on it, one declaration after the other.

    windowed(df, name=..., ...)      where rows come from, which are valid, their time and order
      .window(TimeInterval(...))     which rows are computed on together, and when
      .aggregate(n=agg.count())      what is computed from them; or .operator(MyOperator(), output="...")
      .to_delta(path, view=...)      where results go; or .transform(checkpoint=...) for any other sink (`outputs.py`)
      .start(checkpoint=...)         run it

One operator over the windows of several streams, its input ports:

    orders = windowed(orders_df, name="match", partition_by="symbol").window(Tumbling(Time(1)))
    quotes = windowed(quotes_df, name="match", partition_by="symbol").window(Sliding(evict=Count(20)))
    ports(orders, quotes).operator(Match(), output="price double").to_delta(path).start(checkpoint=folder)

Several windows on the rows of one stream, with a log each:

    windowed(df, name="flights", event_time="t").windows(hour=TimeInterval("1 hour"), day=Calendar("day", zone="UTC"))
      .aggregate(n=agg.count()).to_delta("out/flights")

Two streams without windows are joined, row by row:

    ports(clicks, views).join_within(before="5 minutes", after="0 seconds", how="left").to_delta(path)

Each step checks what it was given and returns a new object; nothing runs before `start()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Never, NoReturn, ParamSpec

from panekeeper.framework.builder.computations import aggregated, with_operator, with_several_windows
from panekeeper.framework.builder.fitting_windows import (
    Input,
    cautions_of,
    fitting_window,
    input_of,
    naming,
    require_window_name,
    shown_stream,
)
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.builder.stream_options import conditions_of, dedupe_of, idle_of
from panekeeper.framework.declarations.aggregates import Aggregate, refusal_of_aggregate
from panekeeper.framework.declarations.calls import meant_as_option, named_options, warn_caller
from panekeeper.framework.declarations.durations import Duration, as_plain_number, days, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import Listener, Operator
from panekeeper.framework.declarations.steps import Step
from panekeeper.framework.declarations.windows import ArrivalWindow, Window
from panekeeper.framework.engine.flow import packing
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.stream_columns import StreamColumns, require_stream
from panekeeper.state.handler import StateHandler

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

P = ParamSpec("P")


@named_options
def windowed(  # noqa: PLR0913 -- the declaration of a stream, all by keyword
    df: DataFrame,
    *,
    name: str,
    partition_by: str | Column | Sequence[str | Column] | None = None,
    event_time: str | Column | None = None,
    watermark: Duration | None = None,
    idle_after: Duration | None = None,
    when_idle: Literal["wait", "advance"] | None = None,
    watermark_by: Literal["partition"] | None = None,
    dedupe: str | Column | Sequence[str | Column] | None = None,
    dedupe_for: Duration | None = None,
    arrival_time: str | Column | None = None,
    order_by: str | Column | Sequence[str | Column] | None = None,
    max_ahead: Duration | None = days(1),  # noqa: B008 -- a timedelta does not change
    reject: Mapping[str, str] | None = None,
    on_error: Literal["quarantine", "fail"] | None = None,
    punctuation: str | None = None,
    marks: str | None = None,
    key_groups: int | None = None,
    _marks: bool = False,
) -> WindowedStream:
    """Declare where rows come from: the first step of a job.

    Durations are text such as `"10 minutes"`, a `timedelta`, `minutes(10)`, or seconds as a number. Columns are found
    as Spark finds them, by a name in upper or lower case, or by `F.col(name)`.

    Args:
        df: any streaming DataFrame.
        name: names the job, for ever: it is part of its checkpoint and of its transactions.
        partition_by: each value of these columns has windows of its own.
        event_time: the timestamp column with the time at which a row happened. `TimeInterval` and `Session` need it.
        watermark: how far event time may lag behind the latest seen before a pane is complete: a duration >= 0. None: 0
            seconds, with a warning where a window without `discard_age` then leaves out rows that come out of order.
        idle_after: how long the stream, or one of its partitions, brings no row, by the wall clock, until it is idle:
            then it does not hold back the watermark of the others. None: never.
        when_idle: `"wait"`, also if not given: the watermark stands still while all streams are idle. `"advance"`: it
            goes on with the wall clock then, so that the last panes of a stream that has ended fire. Rows that come
            later are late by the ordinary rules (docs/semantics.md section 14).
        watermark_by: `"partition"`: each partition of the topics has a watermark of its own, and that of the stream is
            the least of those that are not idle. For Kafka; the stream keeps its columns `topic` and `partition`. None:
            the greatest event time of all rows counts.
        dedupe: columns of an id: of rows of a partition with equal ids only the first to arrive counts. The others are
            counted as `repeated`, and go nowhere. Null is an id like any other (docs/semantics.md section 17).
        dedupe_for: how far apart the event times of a row and of its repeat are at most: a duration > 0. Ids are kept
            for so long, and until a repeat would be late. Needed with `dedupe`.
        arrival_time: the timestamp column with the time at which a row arrived; the time of its micro-batch if not
            given. The clock of `Tumbling`, `Sliding` and `Batched`.
        order_by: columns that declare the order of arrival within a micro-batch; without them it is the order of the
            input files. For windows in arrival order with an `arrival_time=` it begins with that column.
        max_ahead: a row whose event time is further than this duration after its arrival is quarantined, because it
            would close every pane; so is one whose arrival time is so far after its micro-batch, because it would
            move the clock for ever. None for no limit.
        reject: reason -> SQL condition; rows for which it holds are quarantined with that reason.
        on_error: what is done about a bad row, and about a firing that cannot be computed (a function of yours raises,
            a sum is beyond 64 bits). `"quarantine"`: it goes to the quarantine table with the reason, and the job goes
            on. `"fail"`: the first one fails the job. None: quarantine, except that what an operator raises fails a
            job with state handlers (docs/semantics.md section 12).
        punctuation: a SQL condition: a window mark follows each row for which it holds; or `"end_of_file"`: one
            follows each input file, oldest file first. For `Tumbling(Punctuation())`.
        marks: a SQL condition: rows for which it holds are window marks themselves, and join no window.
        key_groups: number of buckets that share out the partitions; the most tasks that can run at once. Fixed
            for the life of a checkpoint. None: as many as the checkpoint has; for a new one, as many as the cluster has
            cores, and at least 8.

    Returns:
        The stream, which takes a window.

    Raises:
        DeclarationError: a column that is not there or has an unfit type, a bad name, rule or duration.
    """
    stream = require_stream(df)
    columns = StreamColumns(stream, packing.MARKS if _marks else ())
    columns.require_distinct()
    keys = columns.find_all("partition_by", partition_by)
    intake = Intake(
        stream=stream,
        name=name,
        partition_by=keys,
        event_time=None if event_time is None else columns.find("event_time", event_time),
        watermark_us=0 if watermark is None else to_us(watermark, "watermark"),
        has_declared_delay=watermark is not None,
        arrival_time=None if arrival_time is None else columns.find("arrival_time", arrival_time),
        order_by=columns.find_all("order_by", order_by),
        max_ahead_us=None if max_ahead is None else to_us(max_ahead, "max_ahead"),
        reject=conditions_of(reject),
        on_error=on_error,
        punctuation=punctuation,
        marks=marks,
        key_groups=as_plain_number(key_groups) if keys else 1,
        has_mark_column=_marks,
        idle=idle_of(idle_after, when_idle, event_time),
        watermark_by=watermark_by,
        dedupe=dedupe_of(columns.find_all("dedupe", dedupe), dedupe_for, event_time),
    )
    warn_caller(stream.cautions(name, event_time=intake.event_time))
    return WindowedStream(intake)


@dataclass(frozen=True)
class WindowedStream(Step):
    """A checked stream without its window. Made by `windowed`."""

    _place = 0
    _intake: Intake

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        return f"stream of job {self._intake.name}, without a window", shown_stream(self._intake)

    @named_options
    def window(self, window: Window, *further: Never) -> StreamWithWindow:
        """Declare the window: which rows are computed on together, and when.

        Args:
            window: `TimeInterval`, `Session` or `SlidingByRow` for event time; `Tumbling`, `Sliding` or `Batched` for
                arrival order.
            further: none; a slide is an option of the window.

        Returns:
            The stream with its window, which takes a computation.

        Raises:
            DeclarationError: no window, or one that does not fit the stream: it needs an event time, a column that a
                policy reads, partitions that can be evicted, or a `Delta` has a size that its column does not take.
        """
        window = fitting_window(self._intake, window, *further)
        warn_caller(cautions_of([(self._intake, window)]))
        return StreamWithWindow(input_of(self._intake, window))

    @named_options
    def windows(self, **windows: Window) -> StreamWithWindows:
        """Declare several windows on the same rows: one pass over the source, one checkpoint, a log for each.

        The job has the results of a job for each window (docs/semantics.md section 19).

        Args:
            windows: name -> window of event time, as in `hour=TimeInterval("1 hour"), burst=Session("10 minutes")`. The
                name ends that of its log and view.

        Returns:
            The stream with its windows, which take aggregates.

        Raises:
            DeclarationError: no window, one in arrival order, or a name that cannot be that of a table.
        """
        if not windows:
            raise DeclarationError('windows() needs a window by its name, such as hour=TimeInterval("1 hour")')
        inputs: dict[str, Input] = {}
        for name, window in windows.items():
            require_window_name(name, inputs)
            if isinstance(window, ArrivalWindow):
                raise DeclarationError(
                    f"{name} is a {type(window).__name__} window, in arrival order; several windows of one job are of "
                    "event time, so give it a job of its own"
                )
            with naming(name):
                inputs[name] = input_of(self._intake, fitting_window(self._intake, window))
        warn_caller(cautions_of((stream.intake, stream.window) for stream in inputs.values()))
        return StreamWithWindows(inputs)


def _in_order_of_call(step: Callable[P, Computation]) -> Callable[P, Computation]:
    """Return a method that knows the order of the names in its call: Python hands over those of options apart."""
    method: Any = step

    @wraps(step)
    def called(*given: Any, **named: Any) -> Computation:  # no name of its own: a result may have any
        stream, *unnamed = given
        computed: Computation = method(replace(stream, _named=tuple(named)), *unnamed, **named)
        return computed

    return called


@dataclass(frozen=True)
class StreamWithWindow(Step):
    """A stream with its window, without its computation. Made by `WindowedStream.window`."""

    _place = 1
    _input: Input
    _named: tuple[str, ...] = ()
    """The names that `aggregate` is called with, in their order."""

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        return f"stream of job {self._input.intake.name}, without a computation", self._input.shown

    @_in_order_of_call
    def aggregate(
        self,
        *unnamed: Aggregate,
        group_within: str | Sequence[str] | Aggregate | None = None,
        top: int | Aggregate | None = None,
        by: str | Aggregate | None = None,
        **aggregates: Aggregate,
    ) -> Computation:
        """Declare the result columns: one aggregate each, in this order.

        Args:
            unnamed: none; an aggregate needs the name of its result column.
            group_within: columns by which the rows of a pane are grouped, for `TimeInterval`: a firing has a row for
                each group, with these columns, the results, and `rank`, which counts from 1. The view has a row for
                each rank.
            top: only so many groups, the first ones `by` a result.
            by: the result column that ranks groups, as in `"total desc"`; of equals the smaller group comes first, and
                null comes last. Not given, the grouping columns rank them.
            aggregates: result column -> aggregate, as in `worst=agg.max("delay")`; it may have the name of an option.

        Returns:
            The computation, which takes a place for its results.

        Raises:
            DeclarationError: no aggregate, or a column that is missing or has a type that its aggregate does not take;
                groups in a window of another kind, or with `results="retracting"`, by a partition column, or by what is
                no result.
        """
        options = {"group_within": group_within, "top": top, "by": by}
        aggregates |= {name: option for name, option in options.items() if isinstance(option, Aggregate)}
        aggregates = {name: aggregates[name] for name in self._named if name in aggregates}
        given = {
            name: option for name, option in options.items() if not (option is None or isinstance(option, Aggregate))
        }
        if unnamed or not aggregates:
            without = f", and {', '.join(map(str, unnamed))} has no name" if unnamed else ""
            raise DeclarationError(f"aggregate() needs at least one result column, such as n=agg.count(){without}")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DeclarationError(
                    f"aggregate {name} is {refusal_of_aggregate(aggregate, meant_as_option(name, [*options]))}"
                )
        return aggregated(self._input, aggregates, given)

    @named_options
    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | StructType | Mapping[str, Any] | str,
        listeners: Sequence[Listener] = (),
        handlers: Sequence[StateHandler] = (),
    ) -> Computation:
        """Declare the operator that handles the events of the window, and the columns it emits.

        Args:
            operator: an instance; it is sent to the workers, and its events have all columns of the stream.
            output: the emitted columns, as SQL, `"spread double, n bigint"`, as a schema of Arrow or Spark, or as names
                with types, `{"spread": float, "n": "int64"}`.
            listeners: receive each event before the operator does, in this order.
            handlers: take part in every checkpoint, in this order; an operator that is a `StateHandler` itself comes
                before them, and the window before all.

        Returns:
            The computation, which takes a place for its results.

        Raises:
            DeclarationError: not instances of the right classes, an operator or listener whose `events` can never
                happen in this window (docs/semantics.md section 5.1), or an output that is no schema.
        """
        return with_operator([self._input], operator, output, listeners, handlers)


@dataclass(frozen=True)
class StreamWithWindows(Step):
    """A stream with several windows, without what is computed of them. Made by `WindowedStream.windows`."""

    _place = 1
    _inputs: Mapping[str, Input]

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        first = next(iter(self._inputs.values())).intake
        windows = {name: repr(stream.window) for name, stream in self._inputs.items()}
        return f"stream of job {first.name}, without a computation", {"windows": windows, **shown_stream(first)}

    def aggregate(self, *unnamed: Aggregate, **aggregates: Any) -> Computation:
        """Declare the result columns of all windows, or of each.

        Args:
            unnamed: none; an aggregate needs the name of its result column.
            aggregates: as `StreamWithWindow.aggregate` takes them, for all windows alike: `n=agg.count()`; or, for each
                window by its name, a mapping of them: `hour={"n": agg.count()}, day={"worst": agg.max("delay")}`.

        Returns:
            The computation, which takes a place for its results: a log, and a view, for each window.

        Raises:
            DeclarationError: a window without aggregates, or aggregates of a window that is not there; both ways at
                once; or as `StreamWithWindow.aggregate`.
        """
        names = ", ".join(self._inputs)
        of_each = {name: of_window for name, of_window in aggregates.items() if isinstance(of_window, Mapping)}
        if of_each and (unnamed or len(of_each) < len(aggregates)):
            shared = ", ".join(map(str, [*unnamed, *(name for name in aggregates if name not in of_each)]))
            raise DeclarationError(
                f"aggregate() has {', '.join(of_each)} by window, and {shared} for all; give either aggregates for all "
                "windows, or a mapping of them for each"
            )
        if of_each and of_each.keys() != self._inputs.keys():
            raise DeclarationError(
                f"aggregate() has {', '.join(of_each)}, and the windows are {names}; give each of them its aggregates"
            )
        pipelines = {}
        for name, stream in self._inputs.items():
            with naming(name):
                computed = StreamWithWindow(stream).aggregate(*unnamed, **of_each.get(name, aggregates))
            pipelines[name] = computed._pipeline  # noqa: SLF001 -- both are steps of one declaration
        return with_several_windows(pipelines)

    def operator(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `DeclarationError`: an operator handles the events of one window of a stream."""
        raise DeclarationError(
            f"operator() handles the events of one window, and these are {', '.join(self._inputs)}; use "
            ".aggregate(...), or a job with .window(...).operator(...) for each"
        )
