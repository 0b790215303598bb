"""From a checked declaration to what a job computes: its streams, and what the workers need of it (`JobSpec`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panekeeper.framework.builder.fitting_windows import Input
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.builder.result_columns import output_schema, require_type_of_spark
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import TIMESTAMP, JobSpec, PortSpec
from panekeeper.framework.declarations.aggregates import GROUPS, Aggregate, of_groups
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import FiringOptions, PaneFiringOptions
from panekeeper.framework.declarations.joins import Join, Within
from panekeeper.framework.declarations.methods import require_plain_methods
from panekeeper.framework.declarations.operator import Listener, Operator, OperatorWithListeners, require_possible_event
from panekeeper.framework.declarations.windows import EventTimeWindow, Session, SlidingByRow, TimeInterval, Window
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.pipeline import Pipeline
from panekeeper.state.handler import StateHandler

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_LAST_OF_GROUPS = ("top", "by")
"""Results of groups that have the name of an option: their partial results are stored behind the others."""


def aggregated(stream: Input, aggregates: Mapping[str, Aggregate], groups: Mapping[str, Any]) -> Computation:
    """Return what is computed of each firing of a window; `groups` are the options of groups within panes.

    Raises as `StreamWithWindow.aggregate`.
    """
    intake, window, names = stream.intake, stream.window, [*aggregates]
    if groups:
        aggregates = {GROUPS: _of_groups(stream, groups, aggregates)}
    of_stream: dict[str, Aggregate] = {}
    conditions: dict[str, str] = {}
    for name, aggregate in aggregates.items():
        what = f"aggregate {name}={aggregate}"
        of_stream[name] = aggregate.over(aggregates).of_stream(intake.user_columns, partial(intake.find, what))
        if getattr(window, "needs_partial_results", False) and aggregate.needs_content:
            raise DeclarationError(
                f"{what} needs all rows of a pane, and by results='discarding' or fires_when= there are partial "
                "results only; use an aggregate that merges, or another rule"
            )
        for column, where in of_stream[name].conditions.items():
            intake.require_condition(what, where)
            conditions[column] = where
    condition = getattr(window, "condition", None)
    if condition is not None:
        condition = condition.over(aggregates).of_stream(intake.user_columns, partial(intake.find, "fires_when"))
        conditions |= condition.conditions
    of_all = [*of_stream.values(), *([] if condition is None else [condition])]
    columns = {column for aggregate in of_all for column in aggregate.read_columns}
    columns |= {*intake.dedupe.columns} if intake.dedupe is not None else set()
    columns |= {window.gap_column} if isinstance(window, Session) and window.has_column_gap else set()
    intake = replace(intake, conditions=conditions)
    port = port_spec(intake, window, columns | {*intake.partition_by, *intake.numeric_columns})
    fields = [pa.field(name, bind(aggregate, port.columns).output) for name, aggregate in of_stream.items()]
    if groups:
        *shown, rank = fields[0].type.value_type
        results = sorted(shown[-len(names) :], key=lambda field: names.index(field.name))
        fields = [*shown[: -len(names)], *results, rank]
    spec = JobSpec(
        **vars(port),
        output=pa.schema(fields),
        aggregates=of_stream,
        fires_when=condition,
        pane_time=intake.pane_time,
    )
    return computation([intake], spec)


def _of_groups(stream: Input, given: Mapping[str, Any], aggregates: Mapping[str, Aggregate]) -> Aggregate:
    """Return the aggregate of groups within the panes of this window, or raise `DeclarationError`."""
    window, intake = stream.window, stream.intake
    if "group_within" not in given:
        raise DeclarationError(f"{', '.join(given)} without group_within, the columns by which rows are grouped")
    if not isinstance(window, TimeInterval) or window.results == "retracting":
        what = 'results="retracting"' if isinstance(window, TimeInterval) else f"a {type(window).__name__}"
        raise DeclarationError(f"group_within is for the panes of a TimeInterval, and not with {what}")
    if window.fires_when is not None:
        raise DeclarationError(f"fires_when is {window.fires_when!r}, a rule for one result; leave out group_within")
    if window.fill is not None:
        raise DeclarationError(f"fill is {window.fill!r}, of one result a pane; leave out group_within")
    columns = given["group_within"]
    if isinstance(columns, str | list | tuple):
        columns = [
            intake.find("group_within", column) for column in ([columns] if isinstance(columns, str) else columns)
        ]
    as_stored = {name: aggregate for name, aggregate in aggregates.items() if name not in _LAST_OF_GROUPS}
    as_stored |= {name: aggregates[name] for name in _LAST_OF_GROUPS if name in aggregates}
    return of_groups(as_stored, columns, given.get("top"), given.get("by"), intake.partition_by)


def with_several_windows(pipelines: Mapping[str, Pipeline]) -> Computation:
    """Return what is computed of several windows on the rows of one stream, by the pipeline of each alone."""
    first = next(iter(pipelines.values()))
    conditions = {
        column: where for pipeline in pipelines.values() for column, where in pipeline.intake.conditions.items()
    }
    intake = replace(first.intake, conditions=conditions)
    read = {column for pipeline in pipelines.values() for column in pipeline.spec.columns.names}
    spec = JobSpec(
        **vars(port_spec(intake, first.spec.window, read)),
        windows={name: pipeline.spec for name, pipeline in pipelines.items()},
        output=pa.schema([]),
        pane_time=intake.pane_time,
    )
    return Computation(Pipeline(intake=intake, spec=spec))


def with_operator(
    inputs: Sequence[Input],
    operator: Operator,
    output: pa.Schema | StructType | Mapping[str, Any] | str,
    listeners: Sequence[Listener],
    handlers: Sequence[StateHandler],
) -> Computation:
    """Return the computation of an operator on its ports, in this order. Raises as `StreamWithWindow.operator`."""
    _require_instances("operator()", [operator], Operator)
    _require_instances("listeners", listeners, Listener)
    _require_instances("handlers", handlers, StateHandler)
    for receiver in (operator, *listeners, *handlers):
        _require_plain(receiver)
    # Each handler once: the operator, if it is one, those that were given, then listeners.
    given = {id(handler) for handler in handlers}
    own, others = (
        [handler for handler in some if isinstance(handler, StateHandler) and id(handler) not in given]
        for some in ([operator], listeners)
    )
    all_handlers = (*own, *handlers, *others)
    for stream in inputs:
        if isinstance(stream.window, SlidingByRow):
            raise DeclarationError(
                f"the window is {stream.window!r}, which is for aggregates; use .aggregate(...), with agg.collect or a "
                "function of your own (agg.user) for the rows of each window"
            )
        if isinstance(stream.window, PaneFiringOptions) and stream.window.fires_when is not None:
            raise DeclarationError(
                f"fires_when is {stream.window.fires_when!r}, a condition over aggregates; an operator has none, so "
                "leave it out, or use .aggregate(...)"
            )
        if isinstance(stream.window, FiringOptions) and stream.window.results != "accumulating":
            raise DeclarationError(
                f"results is {stream.window.results!r}, which is for aggregates; an operator gets the whole content of "
                f"{stream.window.what_fires}, and emits what it will: leave out results"
            )
        if isinstance(stream.window, PaneFiringOptions) and stream.window.fill is not None:
            raise DeclarationError(
                f"fill is {stream.window.fill!r}, which is for aggregates; an operator gets rows, so leave it out"
            )
        require_possible_event(operator, [stream.window], has_handlers=bool(all_handlers))
    for listener in listeners:
        require_possible_event(listener, [stream.window for stream in inputs], has_handlers=bool(all_handlers))
    times = {stream.intake.pane_time: stream.intake for stream in inputs if isinstance(stream.window, EventTimeWindow)}
    if len(times) > 1:
        named = ", ".join(f"{intake.event_time!r} of {intake.name!r}" for intake in times.values())
        raise DeclarationError(
            f"the event times of the inputs are of two types, timestamp and timestamp_ntz ({named}); cast one of them"
        )
    first, *other_ports = [
        port_spec(stream.intake, stream.window, set(stream.intake.user_columns)) for stream in inputs
    ]
    spec = JobSpec(
        **vars(first),
        operator=OperatorWithListeners(operator, tuple(listeners)) if listeners else operator,
        output=output_schema(output),
        handlers=all_handlers,
        other_ports=tuple(other_ports),
        pane_time=next(iter(times), TIMESTAMP),
    )
    return computation([stream.intake for stream in inputs], spec)


def _require_plain(receiver: object) -> None:
    kinds = {
        Operator: "emit each row by emit(...)",
        Listener: "return nothing",
        StateHandler: "store its state by ctx.write(...)",
    }
    for kind, instead in kinds.items():
        if isinstance(receiver, kind):
            require_plain_methods(receiver, kind, instead)


def _require_instances(what: str, given: Sequence[object], kind: type) -> None:
    for instance in given:
        if not isinstance(instance, kind):
            hint = f"; make an instance: {instance.__name__}(...)" if isinstance(instance, type) else ""
            raise DeclarationError(f"{what} takes instances of subclasses of {kind.__name__}, not {instance!r}{hint}")


def joined(intakes: Sequence[Intake], ports: Sequence[PortSpec], join: Join, output: pa.Schema) -> Computation:
    """Return what is computed of the rows of two ports, whose results have these columns."""
    first, second = ports
    spec = JobSpec(**vars(first), join=join, output=output, other_ports=(second,), pane_time=intakes[0].pane_time)
    return computation(intakes, spec)


def port_spec(intake: Intake, window: Window | Within, read: set[str]) -> PortSpec:
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


def computation(intakes: Sequence[Intake], spec: JobSpec) -> Computation:
    """Return a computation whose results Spark and Delta can hold, or raise `DeclarationError`."""
    names = spec.results_schema.names
    folded = [name.lower() for name in names]
    for name in reversed(names):  # those of every result come first
        if folded.count(name.lower()) > 1:
            raise DeclarationError(
                f"the result column {name!r} has the name of another one, and Delta does not look at upper and lower "
                f"case (result columns: {', '.join(names)}); choose another name"
            )
    for field in spec.results_schema:
        require_type_of_spark(field)
    intake, *other_ports = intakes
    if not other_ports:
        intake.require_own_watermark()
        if intake.idle is not None and not intake.idle.advances and intake.watermark_by is None:
            raise DeclarationError(
                "idle_after changes nothing here: there is no other stream or partition to go on without this one. Add "
                "when_idle='advance' or watermark_by='partition', or leave it out"
            )
    return Computation(Pipeline(intake=intake, spec=spec, other_ports=tuple(other_ports)))
