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

import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import pyarrow as pa

from panekeeper.framework.builder.joins import join_of, require_two_with_times
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.arrival.policies.evaluate import tumbles_at_marks
from panekeeper.framework.core.arrival.policies.registry import require_implementations
from panekeeper.framework.core.job_spec import TIMESTAMP, Dedupe, Idle, JobSpec, PortSpec
from panekeeper.framework.core.sessions.gaps import require_gap_type
from panekeeper.framework.declarations.aggregates import GROUPS, Aggregate, of_groups
from panekeeper.framework.declarations.arrow_types import arrow_type, has_void_inside, named_columns
from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.calls import meant_as_option, named_options
from panekeeper.framework.declarations.display import Displayed, call_text
from panekeeper.framework.declarations.durations import Duration, as_plain_number, days, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import FiringOptions, PaneFiringOptions
from panekeeper.framework.declarations.joins import Join, JoinKind, PaneJoinKind, Within, require_equal_panes
from panekeeper.framework.declarations.operator import Listener, Operator, OperatorWithListeners, require_possible_event
from panekeeper.framework.declarations.policies import Policy, column_read_by
from panekeeper.framework.declarations.windows import (
    ArrivalWindow,
    EventTimeWindow,
    Session,
    SlidingByRow,
    TimeInterval,
    Window,
    columns_of_policies,
    panes_meant,
)
from panekeeper.framework.engine.flow import packing
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.pipeline import Pipeline, spark_schema
from panekeeper.framework.engine.flow.stream_columns import StreamColumns, require_stream
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.engine.sources.cautions import cautions
from panekeeper.state.codec import that_may_be_null
from panekeeper.state.duration_text import us_text
from panekeeper.state.handler import StateHandler
from panekeeper.state.table_roles import KINDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


_OF_THE_CALLER = 3
"""What shows a warning at the line of the user: `named_options` is between that and the function."""


@named_options
def windowed(  # noqa: PLR0913 -- the declaration of a stream, all by keyword
    df: DataFrame,
    *,
    name: str,
    partition_by: str | Column | Sequence[str | Column] | None = None,
    event_time: str | Column | None = None,
    watermark: Duration = 0,
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
        watermark: how far event time may lag behind the latest seen before a pane is complete: a duration >= 0.
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
    columns = StreamColumns(require_stream(df), packing.MARKS if _marks else ())
    columns.require_distinct()
    keys = columns.find_all("partition_by", partition_by)
    intake = Intake(
        df=df,
        name=name,
        partition_by=keys,
        event_time=None if event_time is None else columns.find("event_time", event_time),
        watermark_us=to_us(watermark, "watermark"),
        arrival_time=None if arrival_time is None else columns.find("arrival_time", arrival_time),
        order_by=columns.find_all("order_by", order_by),
        max_ahead_us=None if max_ahead is None else to_us(max_ahead, "max_ahead"),
        reject=_conditions(reject),
        on_error=on_error,
        punctuation=punctuation,
        marks=marks,
        key_groups=as_plain_number(key_groups) if keys else 1,
        has_mark_column=_marks,
        idle=_idle(idle_after, when_idle, event_time),
        watermark_by=watermark_by,
        dedupe=_dedupe(columns.find_all("dedupe", dedupe), dedupe_for, event_time),
    )
    for caution in cautions(df, name, event_time=intake.event_time):
        warnings.warn(caution, stacklevel=_OF_THE_CALLER)
    return WindowedStream(intake)


def _of_stream(intake: Intake) -> dict[str, str]:
    """Return what is shown of a stream, without what it does not have."""
    watermark = us_text(intake.watermark_us) if intake.event_time else None
    shown = {
        "partition_by": ", ".join(intake.partition_by),
        "event_time": intake.event_time,
        "watermark": watermark,
        "arrival_time": intake.arrival_time,
        "columns": ", ".join(intake.user_columns),
    }
    return {name: value for name, value in shown.items() if value}


def _of_input(one: _Input) -> dict[str, str]:
    return {"window": call_text(one.window), **_of_stream(one.intake)}


@dataclass(frozen=True)
class _Input:
    """A checked stream with its window."""

    intake: Intake
    window: Window


@dataclass(frozen=True)
class WindowedStream(Displayed):
    """A checked stream without its window. Made by `windowed`."""

    _intake: Intake

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        return f"stream of job {self._intake.name}, without a window", _of_stream(self._intake)

    @named_options
    def window(self, window: Window) -> StreamWithWindow:
        """Declare the window: which rows are computed on together, and when.

        Args:
            window: `TimeInterval`, `Session` or `SlidingByRow` for event time; `Tumbling`, `Sliding` or `Batched` for
                arrival order.

        Returns:
            The stream with its window, which takes a computation.

        Raises:
            DeclarationError: no window, or one that does not fit the stream: it needs an event time, a column that a
                policy reads, partitions that can be evicted, or a `Delta` has a size that its column does not take.
        """
        if not isinstance(window, Window):
            raise DeclarationError(f"window() takes a window such as TimeInterval(hours(1)), not {window!r}")
        if isinstance(window, EventTimeWindow):
            if self._intake.event_time is None:
                kind = type(window).__name__
                raise DeclarationError(f"a {kind} is a range of event time: give windowed() an event_time column")
            if getattr(window, "fires_by_clock", False) and self._intake.arrival_time is not None:
                raise DeclarationError(
                    f"the window fires by the wall clock, and arrival_time={self._intake.arrival_time!r} is another "
                    "clock; leave out arrival_time, or let it fire by Every(rows=...) or Every(event_time=...)"
                )
            if isinstance(window, Calendar) and self._intake.pane_time != TIMESTAMP and window.zone != "UTC":
                raise DeclarationError(
                    f"zone is {window.zone!r}, but the event time {self._intake.event_time!r} is a timestamp_ntz, "
                    "which is in no zone; give zone='UTC' for the calendar that it is in, or cast it to timestamp"
                )
            if isinstance(window, Session):
                window = _with_found_gap(window, self._intake)
            return StreamWithWindow(_Input(self._intake, window))
        options = {"idle_after": self._intake.idle, "watermark_by": self._intake.watermark_by}
        for option, given in (options | {"dedupe": self._intake.dedupe}).items():
            if given is not None:
                raise DeclarationError(
                    f"{option} is for a TimeInterval or a Session: a {type(window).__name__} window is in arrival "
                    "order, and has no watermark; leave it out"
                )
        window = _with_found_columns(window, self._intake)
        if self._intake.event_time is not None and self._intake.arrival_time is None and (meant := panes_meant(window)):
            warnings.warn(
                f"a {type(window).__name__} window of time counts by arrival, the wall clock, and event_time="
                f"{self._intake.event_time!r} and the watermark have no part in it. For windows of event time use "
                f"{meant}; else leave out event_time",
                stacklevel=_OF_THE_CALLER,
            )
        return StreamWithWindow(_Input(self._in_arrival_order(window), window))

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
        inputs: dict[str, _Input] = {}
        for name, window in windows.items():
            _require_window_name(name, inputs)
            if isinstance(window, ArrivalWindow):
                raise DeclarationError(
                    f"{name} is a {type(window).__name__} window, in arrival order; several windows of one job are of "
                    "event time, so give it a job of its own"
                )
            with _naming(name):
                inputs[name] = self.window(window)._input  # noqa: SLF001 -- both are steps of one declaration
        return StreamWithWindows(inputs)

    def _in_arrival_order(self, window: ArrivalWindow) -> Intake:
        intake, limit = self._intake, window.partition_eviction
        if limit is not None and not intake.partition_by:
            raise DeclarationError(
                f"partition_eviction is {limit!r}, but the window has no partitions: use partition_by"
            )
        marked = bool(intake.punctuation or intake.marks or intake.has_mark_column)
        require_implementations(window)
        if tumbles_at_marks(window) and not marked:
            raise DeclarationError(
                "Tumbling(Punctuation()) needs marks: give windowed() punctuation='a SQL condition' or 'end_of_file', "
                "or marks='a SQL condition'"
            )
        read = columns_of_policies(window)
        for policy, column in read:
            intake.require_fits(policy, column)
        groups = 1 if _needs_single_group(window) else intake.key_groups
        if intake.arrival_time and intake.order_by and intake.order_by[0] != intake.arrival_time and groups != 1:
            raise DeclarationError(
                f"order_by is {list(intake.order_by)}, but arrival_time={intake.arrival_time!r} is the clock: in "
                "another order the arrival of a row would depend on which keys share a key group. Let order_by begin "
                f"with {intake.arrival_time!r}, or use key_groups=1"
            )
        return replace(intake, numeric_columns=tuple(dict.fromkeys(column for _, column in read)), key_groups=groups)


@dataclass(frozen=True)
class StreamWithWindow(Displayed):
    """A stream with its window, without its computation. Made by `WindowedStream.window`."""

    _input: _Input

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        return f"stream of job {self._input.intake.name}, without a computation", _of_input(self._input)

    def aggregate(
        self,
        *unnamed: Aggregate,
        group_within: str | Sequence[str] | Aggregate | None = None,
        top: int | Aggregate | None = None,
        by: str | Aggregate | None = None,
        **aggregates: Aggregate,
    ) -> Computation:
        """Declare the result columns: one aggregate each.

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
        aggregates |= {name: one for name, one in options.items() if isinstance(one, Aggregate)}
        given = {name: one for name, one in options.items() if not (one is None or isinstance(one, Aggregate))}
        if unnamed or not aggregates:
            without = f", and {', '.join(map(str, unnamed))} has no name" if unnamed else ""
            raise DeclarationError(f"aggregate() needs at least one result column, such as n=agg.count(){without}")
        intake = self._input.intake
        found: dict[str, Aggregate] = {}
        conditions: dict[str, str] = {}
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DeclarationError(
                    f"aggregate {name} is {aggregate!r}; use an aggregate such as agg.max('column')"
                    f"{meant_as_option(name, [*options])}"
                )
        if given:
            aggregates = {GROUPS: self._of_groups(given, aggregates)}
        for name, aggregate in aggregates.items():
            what = f"aggregate {name}={aggregate}"
            found[name] = aggregate.over(aggregates).of_stream(intake.user_columns, partial(intake.find, what))
            if getattr(self._input.window, "needs_partial_results", False) and aggregate.needs_content:
                raise DeclarationError(
                    f"{what} needs all rows of a pane, and by results='discarding' or fires_when= there are partial "
                    "results only; use an aggregate that merges, or another rule"
                )
            for column, where in found[name].conditions.items():
                intake.require_condition(what, where)
                conditions[column] = where
        condition = getattr(self._input.window, "condition", None)
        if condition is not None:
            condition = condition.over(aggregates).of_stream(intake.user_columns, partial(intake.find, "fires_when"))
            conditions |= condition.conditions
        of_all = [*found.values(), *([] if condition is None else [condition])]
        columns = {column for aggregate in of_all for column in aggregate.read_columns}
        window = self._input.window
        columns |= {*intake.dedupe.columns} if intake.dedupe is not None else set()
        columns |= {window.gap_column} if isinstance(window, Session) and window.has_column_gap else set()
        own = replace(self._input, intake=replace(intake, conditions=conditions))
        port = _port_spec(own.intake, own.window, columns | {*intake.partition_by, *intake.numeric_columns})
        fields = [pa.field(name, bind(aggregate, port.columns).output) for name, aggregate in found.items()]
        if given:
            fields = list(fields[0].type.value_type)
        spec = JobSpec(
            **vars(port),
            output=pa.schema(fields),
            aggregates=found,
            fires_when=condition,
            pane_time=intake.pane_time,
        )
        return _computation([own.intake], spec)

    def _of_groups(self, given: Mapping[str, Any], aggregates: Mapping[str, Aggregate]) -> Aggregate:
        """Return the aggregate of groups within the panes of this window, or raise `DeclarationError`."""
        window, intake = self._input.window, self._input.intake
        if "group_within" not in given:
            raise DeclarationError(f"{', '.join(given)} without group_within, the columns by which rows are grouped")
        if not isinstance(window, TimeInterval) or window.results == "retracting":
            what = 'results="retracting"' if isinstance(window, TimeInterval) else f"a {type(window).__name__}"
            raise DeclarationError(f"group_within is for the panes of a TimeInterval, and not with {what}")
        if window.fires_when is not None:
            raise DeclarationError(
                f"fires_when is {window.fires_when!r}, a rule for one result; leave out group_within"
            )
        if window.fill is not None:
            raise DeclarationError(f"fill is {window.fill!r}, of one result a pane; leave out group_within")
        columns = given["group_within"]
        if isinstance(columns, str | list | tuple):
            columns = [intake.find("group_within", one) for one in ([columns] if isinstance(columns, str) else columns)]
        return of_groups(aggregates, columns, given.get("top"), given.get("by"), intake.partition_by)

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
        return _with_operator([self._input], operator, output, listeners, handlers)


@dataclass(frozen=True)
class StreamWithWindows(Displayed):
    """A stream with several windows, without what is computed of them. Made by `WindowedStream.windows`."""

    _inputs: Mapping[str, _Input]

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        first = next(iter(self._inputs.values())).intake
        windows = {name: call_text(one.window) for name, one in self._inputs.items()}
        return f"stream of job {first.name}, without a computation", {"windows": windows, **_of_stream(first)}

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
        of_each = {name: one for name, one in aggregates.items() if isinstance(one, Mapping)}
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
        for name, one in self._inputs.items():
            with _naming(name):
                computed = StreamWithWindow(one).aggregate(*unnamed, **of_each.get(name, aggregates))
            pipelines[name] = computed._pipeline  # noqa: SLF001 -- both are steps of one declaration
        first = next(iter(pipelines.values()))
        conditions = {column: where for one in pipelines.values() for column, where in one.intake.conditions.items()}
        intake = replace(first.intake, conditions=conditions)
        read = {column for one in pipelines.values() for column in one.spec.columns.names}
        spec = JobSpec(
            **vars(_port_spec(intake, first.spec.window, read)),
            windows={name: one.spec for name, one in pipelines.items()},
            output=pa.schema([]),
            pane_time=intake.pane_time,
        )
        return Computation(Pipeline(intake=intake, spec=spec))

    def operator(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `DeclarationError`: an operator handles the events of one window of a stream."""
        raise DeclarationError(
            f"operator() handles the events of one window, and these are {', '.join(self._inputs)}; use "
            ".aggregate(...), or a job with .window(...).operator(...) for each"
        )


@overload
def ports(*streams: StreamWithWindow) -> Ports: ...
@overload
def ports(*streams: WindowedStream) -> PortsWithoutWindows: ...
def ports(*streams: StreamWithWindow | WindowedStream) -> Ports | PortsWithoutWindows:
    """Make streams the input ports of one computation: with windows of one operator, without windows of a join.

    The rows of each stream are validated, ordered and timed as it declares; a batch processes the rows of port 0 before
    those of port 1. Ports that declare an event time share a watermark: the least of theirs.

    Args:
        streams: two or more, of one job name, with partition columns of the same types in the same order (the names
            may differ: results have those of port 0) and the same `key_groups`.

    Returns:
        The ports, which take one operator or a join; of streams without windows, `join_within`.

    Raises:
        DeclarationError: fewer than two, some without a window and others with one, one with its computation already,
            or ports with other names, key types or numbers of key groups than each other.
    """
    without = [stream for stream in streams if isinstance(stream, WindowedStream)]
    if len(without) == len(streams) > 1:
        return PortsWithoutWindows(_that_fit([one._intake for one in without], [False] * len(without)))  # noqa: SLF001 -- both are steps of one declaration
    for number, stream in enumerate(streams):
        if isinstance(stream, WindowedStream):
            raise DeclarationError(f"port {number} has no window: give ports() streams with .window(...)")
        if not isinstance(stream, StreamWithWindow):
            raise DeclarationError(
                f"port {number} is a {type(stream).__name__}; ports() takes windowed(...).window(...) without a "
                "computation, and one operator for all of them: ports(...).operator(...)"
            )
    if len(streams) < 2:  # noqa: PLR2004 -- ports are two or more
        raise DeclarationError(
            f"ports() has {len(streams)} stream(s), it takes two or more; "
            "an operator over one window is declared by windowed(...).window(...).operator(...)"
        )
    inputs = [stream._input for stream in streams if isinstance(stream, StreamWithWindow)]  # noqa: SLF001 -- as above
    intakes = _that_fit([one.intake for one in inputs], [_needs_single_group(one.window) for one in inputs])
    return Ports([replace(one, intake=intake) for one, intake in zip(inputs, intakes, strict=True)])


def _that_fit(intakes: Sequence[Intake], shared: Sequence[bool]) -> list[Intake]:
    """Return the streams of one job with the same key groups; `shared`: whether a window needs all in one.

    Raises:
        DeclarationError: their names, key types or numbers of key groups differ.
    """
    names = list(dict.fromkeys(one.name for one in intakes))
    if len(names) > 1:
        raise DeclarationError(
            f"the ports of one job have its name, but these have {', '.join(map(repr, names))}; "
            "give each windowed() the same name"
        )
    kinds = [[kind.simpleString() for kind in one.key_types] for one in intakes]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DeclarationError(
                f"partition_by: port 0 has keys of ({', '.join(kinds[0])}), port {number} of ({', '.join(kind)}); "
                "the same key must be the same on every port: cast the columns to the same types"
            )
    # A port that says nothing takes the key groups of the others; all have one if any needs all partitions in one.
    declared = sorted({one.key_groups or 0 for one, single in zip(intakes, shared, strict=True) if not single})
    declared = [number for number in declared if number]
    if len(declared) > 1:
        raise DeclarationError(
            f"key_groups is {' and '.join(map(str, declared))}; the ports of one operator share the key "
            "groups: give each windowed() the same number"
        )
    groups = 1 if any(shared) else next(iter(declared), None)
    return [replace(one, key_groups=groups) for one in intakes]


class Ports(Displayed):
    """Several streams with their windows, without their operator. Made by `ports`."""

    def __init__(self, inputs: Sequence[_Input]) -> None:
        self._inputs = inputs

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        shown = {f"port {number}": _of_input(one) for number, one in enumerate(self._inputs)}
        return f"ports of job {self._inputs[0].intake.name}, without a computation", shown

    @named_options
    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | StructType | Mapping[str, Any] | str,
        listeners: Sequence[Listener] = (),
        handlers: Sequence[StateHandler] = (),
    ) -> Computation:
        """Declare the operator that handles the events of all ports, and the columns it emits.

        `event.port` is the number of the port; result rows have it in the column `port`. The arguments are those of
        `StreamWithWindow.operator`; listeners and handlers, too, are one set for all ports.

        Raises:
            DeclarationError: as `StreamWithWindow.operator`; each port must have an event that the operator receives.
        """
        return _with_operator(self._inputs, operator, output, listeners, handlers)

    def aggregate(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: aggregates are computed from one window."""
        raise DeclarationError(
            "aggregate() computes from one window, and these are several: use .operator(...), "
            "or a job with .aggregate(...) for each stream"
        )

    @named_options
    def join(self, *, how: PaneJoinKind = "inner", on: str | Sequence[str] | None = None) -> Computation:
        """Join the rows of two streams that lie in the same pane (docs/semantics.md section 16.2).

        Both streams have the same `TimeInterval`. A partition fires when the pane is complete for both, with all rows
        that it has together; and, as in any pane, again for late rows of either stream, with a higher `refinement`: the
        firing with the highest is what holds. `emit="on_close"` has one firing, when no late row can come any more.

        Results have the pane, the columns that must be equal once, by their names on port 0, then the other columns of
        port 0, then those of port 1. A name that both have becomes `left_name` and `right_name`.

        Args:
            how: whose rows go out with nulls if they have no match: of none, `"inner"`; of port 0, `"left"`; of port 1,
                `"right"`; or of both, `"full"`. `"semi"` has the rows of port 0 that have a match, once each; `"anti"`
                those that have none, and where late rows have left none of an earlier firing, one row of nulls.
            on: columns by the same name in both streams that must be equal, beside the partition columns. Null is equal
                to nothing.

        Returns:
            The join, which takes a place for its results: a log. There is no view of it.

        Raises:
            DeclarationError: other than two streams, other windows than one `TimeInterval`, no partition columns; event
                times, or columns of `on`, of two types; a column that a stream lacks.
        """
        intakes, windows = [one.intake for one in self._inputs], [one.window for one in self._inputs]
        require_two_with_times("join()", intakes)
        require_equal_panes(windows)
        specs = [_port_spec(one, window, {*one.user_columns}) for one, window in zip(intakes, windows, strict=True)]
        join, output = join_of(intakes, specs, how, on, of_panes=True)
        return _joined(intakes, specs, join, output)

    def join_within(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: rows within a time of each other are joined without windows."""
        raise DeclarationError(
            "join_within() joins rows by their times, not by windows: give ports() the streams without .window(...)"
        )


class PortsWithoutWindows(Displayed):
    """Several streams without windows. Made by `ports`."""

    def __init__(self, intakes: Sequence[Intake]) -> None:
        self._intakes = intakes

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        shown = {f"port {number}": _of_stream(one) for number, one in enumerate(self._intakes)}
        return f"ports of job {self._intakes[0].name}, without windows", shown

    @named_options
    def join_within(
        self,
        *,
        before: Duration | None = None,
        after: Duration | None = None,
        how: JoinKind = "inner",
        on: str | Sequence[str] | None = None,
        discard_age: Duration = 0,
    ) -> Computation:
        """Join the rows of two streams whose times are near enough (docs/semantics.md section 16).

        A row of port 0 at t meets the rows of port 1 at `[t - before, t + after]` with equal partition columns. A pair
        goes out in the micro-batch of its later row, a row without a match once the watermark of both has passed its
        last possible partner. Each is final: the log has every pair once, and no result is taken back.

        Results have the columns of both rows: those that must be equal once, by their names on port 0, then those of
        port 0, then those of port 1. A name that both have becomes `left_name` and `right_name`; `reason` is MATCH,
        NO_MATCH, or FLUSH.

        Args:
            before: how much earlier than a row of port 0 one of port 1 may be.
            after: how much later it may be. Either may be negative, as in `before="-1 minute"`: at least so much
                later; their sum may not.
            how: whose rows go out with nulls if they have no match: of none, `"inner"`; of port 0, `"left"`; of port 1,
                `"right"`; or of both, `"full"`.
            on: columns by the same name in both streams that must be equal, too. Partition columns may be named again.
                Null is equal to nothing.
            discard_age: how far behind the watermark a row may come; later it is quarantined, with reason LATE.

        Returns:
            The join, which takes a place for its results: a log. There is no view of it.

        Raises:
            DeclarationError: other than two streams; no bound, event time or partition column; event times, or columns
                of `on`, of two types; a column that a stream lacks.
        """
        require_two_with_times("join_within()", self._intakes)
        if before is None or after is None:
            missing = " and ".join(name for name, bound in (("before", before), ("after", after)) if bound is None)
            raise DeclarationError(
                f"join_within() is without {missing}, and a join without bounds would keep every row for ever; give "
                'both, such as before="5 minutes", after="0 seconds"'
            )
        window = Within(before, after, discard_age=discard_age)
        first, second = (_port_spec(one, window, {*one.user_columns}) for one in self._intakes)
        join, output = join_of(self._intakes, [first, second], how, on, of_panes=False)
        return _joined(self._intakes, [first, second], join, output)

    def join(self, **_: Any) -> NoReturn:
        """Raise `DeclarationError`: it is for panes."""
        raise DeclarationError(
            "join() joins the panes of two streams: give ports() streams with .window(TimeInterval(...)), or join rows "
            "by their times with join_within(before=..., after=...)"
        )

    def operator(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `DeclarationError`: an operator handles the events of windows."""
        raise DeclarationError("port 0 has no window: give ports() streams with .window(...)")

    aggregate = operator


def _joined(intakes: Sequence[Intake], ports: Sequence[PortSpec], join: Join, output: pa.Schema) -> Computation:
    first, second = ports
    spec = JobSpec(**vars(first), join=join, output=output, other_ports=(second,), pane_time=intakes[0].pane_time)
    return _computation(intakes, spec)


def _idle(after: Duration | None, when: object, event_time: object) -> Idle | None:
    """Return when a stream is idle, and what its watermark does then."""
    if when not in (None, "wait", "advance"):
        raise DeclarationError(f"when_idle is {when!r}; it must be 'wait' or 'advance'")
    if after is None:
        if when is not None:
            raise DeclarationError(f"when_idle is {when!r} without idle_after; say after how long the stream is idle")
        return None
    us = to_us(after, "idle_after")
    if us <= 0:
        raise DeclarationError(f"idle_after is {us_text(us)}; it must be positive")
    if event_time is None:
        raise DeclarationError("idle_after needs event_time: a window in arrival order has no watermark")
    return Idle(after_us=us, advances=when == "advance")


def _dedupe(columns: tuple[str, ...], within: Duration | None, event_time: object) -> Dedupe | None:
    """Return which rows of a stream are repeats."""
    if not columns:
        if within is not None:
            raise DeclarationError(f"dedupe_for is {within!r} without dedupe; name the columns of the id, as in ['id']")
        return None
    if within is None:
        raise DeclarationError(
            "dedupe is without dedupe_for, and every id would be kept for ever; say within how much event time a row "
            'may repeat another, such as dedupe_for="1 hour"'
        )
    us = to_us(within, "dedupe_for")
    if us <= 0:
        raise DeclarationError(f"dedupe_for is {us_text(us)}; it must be positive")
    if event_time is None:
        raise DeclarationError("dedupe needs event_time: ids are kept for so long by the time of the rows")
    return Dedupe(columns=columns, within_us=us)


def _conditions(reject: Any) -> dict[str, str]:
    """Return the user's rules; `DeclarationError` for what is no mapping of reasons."""
    if reject is None:
        return {}
    if not isinstance(reject, Mapping) or not all(isinstance(reason, str) and reason for reason in reject):
        raise DeclarationError(f'reject is {reject!r}; give reasons with conditions, such as {{"BAD": "value < 0"}}')
    return dict(reject)


def _with_found_columns(window: ArrivalWindow, intake: Intake) -> ArrivalWindow:
    """Return the window with the columns of its policies as the stream has them."""
    for role in ("evict", "trigger"):
        policy: Any = getattr(window, role, None)
        column = None if policy is None else column_read_by(policy)
        if column is not None and (found := intake.find(f"the attribute of {policy!r}", column)) != column:
            window = replace(window, **{role: replace(policy, attribute=found)})
    return window


def _with_found_gap(window: Session, intake: Intake) -> Session:
    """Return the window with the column of its gap, if it has one, as the stream has it."""
    if not window.has_column_gap:
        return window
    found = intake.find("gap", window.gap)
    require_gap_type(found, intake.arrow_schema([found]).field(0).type)
    return replace(window, gap=found)


_WINDOW_NAME = re.compile(r"[a-z]\w*", re.ASCII | re.IGNORECASE)


def _require_window_name(name: str, others: Collection[str]) -> None:
    """Refuse a name that, at the end of a table's, is no name of its own."""
    if not _WINDOW_NAME.fullmatch(name):
        raise DeclarationError(
            f"the window {name!r} names tables; use letters, digits and '_', beginning with a letter"
        )
    if name.lower() in KINDS:
        raise DeclarationError(f"the window {name!r} has the name of another table of the job; choose another one")
    if name.lower() in {one.lower() for one in others}:
        raise DeclarationError(
            f"the window {name!r} differs from another one only in upper and lower case, and names tables; rename it"
        )


@contextmanager
def _naming(window: str) -> Iterator[None]:
    """Say in an error of this block of which window it is."""
    try:
        yield
    except DeclarationError as error:
        raise DeclarationError(f"window {window}: {error}") from None


def _needs_single_group(window: Window) -> bool:
    """Whether partitions share a limit, so that one key group must have all (docs/semantics.md section 10.1)."""
    limit: Policy | None = getattr(window, "partition_eviction", None)
    return limit is not None and limit.spans_partitions


def _port_spec(intake: Intake, window: Window | Within, read: set[str]) -> PortSpec:
    """Return the port of a stream, with those of the columns `read` that it has, and the conditions of aggregates."""
    columns = intake.arrow_schema([*(name for name in intake.user_columns if name in read), *intake.conditions])
    keys = pa.schema([columns.field(name) for name in intake.partition_by])
    return PortSpec(
        window=window,
        keys=keys,
        columns=columns,
        on_error=intake.on_error,
        idle=intake.idle,
        dedupe=intake.dedupe,
        origin=intake.origin_columns,
    )


def _with_operator(
    inputs: Sequence[_Input],
    operator: Operator,
    output: pa.Schema | StructType | Mapping[str, Any] | str,
    listeners: Sequence[Listener],
    handlers: Sequence[StateHandler],
) -> Computation:
    """Return the computation of an operator on its ports, in this order. Raises as `StreamWithWindow.operator`."""
    _require_instances("operator()", [operator], Operator)
    _require_instances("listeners", listeners, Listener)
    _require_instances("handlers", handlers, StateHandler)
    # Each handler once: the operator, if it is one, those that were given, then listeners.
    given = {id(one) for one in handlers}
    own, others = (
        [one for one in some if isinstance(one, StateHandler) and id(one) not in given]
        for some in ([operator], listeners)
    )
    all_handlers = (*own, *handlers, *others)
    for one in inputs:
        if isinstance(one.window, SlidingByRow):
            raise DeclarationError(
                f"the window is {one.window!r}, which is for aggregates; use .aggregate(...), with agg.collect or a "
                "function of your own (agg.user) for the rows of each window"
            )
        if isinstance(one.window, PaneFiringOptions) and one.window.fires_when is not None:
            raise DeclarationError(
                f"fires_when is {one.window.fires_when!r}, a condition over aggregates; an operator has none, so leave "
                "it out, or use .aggregate(...)"
            )
        if isinstance(one.window, FiringOptions) and one.window.results != "accumulating":
            raise DeclarationError(
                f"results is {one.window.results!r}, which is for aggregates; an operator gets the whole content of "
                f"{one.window.what_fires}, and emits what it will: leave out results"
            )
        if isinstance(one.window, PaneFiringOptions) and one.window.fill is not None:
            raise DeclarationError(
                f"fill is {one.window.fill!r}, which is for aggregates; an operator gets rows, so leave it out"
            )
        require_possible_event(operator, [one.window], has_handlers=bool(all_handlers))
    for listener in listeners:
        require_possible_event(listener, [one.window for one in inputs], has_handlers=bool(all_handlers))
    times = {one.intake.pane_time: one.intake for one in inputs if isinstance(one.window, EventTimeWindow)}
    if len(times) > 1:
        named = ", ".join(f"{intake.event_time!r} of {intake.name!r}" for intake in times.values())
        raise DeclarationError(
            f"the event times of the inputs are of two types, timestamp and timestamp_ntz ({named}); cast one of them"
        )
    first, *other_ports = [_port_spec(one.intake, one.window, set(one.intake.user_columns)) for one in inputs]
    spec = JobSpec(
        **vars(first),
        operator=OperatorWithListeners(operator, tuple(listeners)) if listeners else operator,
        output=output_schema(output),
        handlers=all_handlers,
        other_ports=tuple(other_ports),
        pane_time=next(iter(times), TIMESTAMP),
    )
    return _computation([one.intake for one in inputs], spec)


def _require_instances(what: str, given: Sequence[object], kind: type) -> None:
    for one in given:
        if not isinstance(one, kind):
            hint = f"; make an instance: {one.__name__}(...)" if isinstance(one, type) else ""
            raise DeclarationError(f"{what} takes instances of subclasses of {kind.__name__}, not {one!r}{hint}")


def _computation(intakes: Sequence[Intake], spec: JobSpec) -> Computation:
    names = spec.results_schema.names
    folded = [name.lower() for name in names]
    for name in reversed(names):  # those of every result come first
        if folded.count(name.lower()) > 1:
            raise DeclarationError(
                f"the result column {name!r} has the name of another one, and Delta does not look at upper and lower "
                f"case (result columns: {', '.join(names)}); choose another name"
            )
    for field in spec.results_schema:
        _require_type_of_spark(field)
    intake, *other_ports = intakes
    if not other_ports:
        intake.require_own_watermark()
        if intake.idle is not None and not intake.idle.advances and intake.watermark_by is None:
            raise DeclarationError(
                "idle_after changes nothing here: there is no other stream or partition to go on without this one. Add "
                "when_idle='advance' or watermark_by='partition', or leave it out"
            )
    return Computation(Pipeline(intake=intake, spec=spec, other_ports=tuple(other_ports)))


def _require_type_of_spark(field: pa.Field) -> None:
    """Raise `DeclarationError` for a result column that Spark or Delta has no type for."""
    if has_void_inside(field.type):
        raise DeclarationError(
            f"the result column {field.name!r} is of {field.type}, and Delta stores no void, the type of a NULL "
            "without one, within a column; cast it before the window, as to string"
        )
    try:
        spark_schema(pa.schema([field]))
    except Exception as error:
        raise DeclarationError(
            f"the result column {field.name!r} is of {field.type}, a type that Spark does not have: {error}; declare "
            'another, such as "bigint", "double" or "timestamp"'
        ) from error


def output_schema(output: Any) -> pa.Schema:
    """Return what an operator emits; a row may lack any column, as that of a window mark does."""
    try:
        return that_may_be_null(declared_columns(output))
    except Exception as error:
        raise DeclarationError(
            f'output is {output!r}; write columns as SQL does, "spread double, n bigint", or give a schema of Arrow or '
            "Spark"
        ) from error


def declared_columns(output: Any) -> pa.Schema:
    """Return columns that are declared as a schema of Arrow or Spark, names with types, or SQL. Raises any error."""
    if isinstance(output, pa.Schema):
        return output
    if isinstance(output, Mapping):
        return pa.schema([(name, arrow_type(kind, "output", repr(name))) for name, kind in output.items()])
    from pyspark.sql.types import StructType

    if not isinstance(output, str):
        return arrow_schema(StructType([*output]))
    try:
        return arrow_schema(StructType([*StructType.fromDDL(output)]))  # type: ignore[misc]
    except Exception:  # noqa: BLE001 -- Spark has a class of its own for each fault of a text
        return named_columns(output)  # by the names of Arrow's types
