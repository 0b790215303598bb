"""Builds the pipeline of a job from its inputs and from what is computed on them.

An input is a stream with its window. Aggregates have one, an operator has one or several: its ports, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import JobSpec, PortSpec
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.arrow_types import has_void_inside
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import Listener, Operator, OperatorWithListeners, require_possible_event
from panekeeper.framework.declarations.policies import Policy
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.pipeline import Pipeline
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.state.codec import that_may_be_null
from panekeeper.state.handler import StateHandler


@dataclass(frozen=True)
class Input:
    """A stream with its window.

    Attributes:
        intake: the checked stream.
        window: its window.
    """

    intake: Intake
    window: Window

    @property
    def needs_single_group(self) -> bool:
        """Whether the window needs all partitions in one key group, whatever `key_groups=` says."""
        return shares_state_between_partitions(self.window)

    def with_key_groups(self, key_groups: int | None) -> Input:
        """Return the same input with another number of key groups."""
        return replace(self, intake=replace(self.intake, key_groups=key_groups))

    def port_spec(self, read: set[str]) -> PortSpec:
        """Return the port of a job spec for this input, with those of the columns `read` that it has."""
        names = [name for name in self.intake.user_columns if name in read]
        columns = self.intake.arrow_schema(names)
        keys = pa.schema([columns.field(name) for name in self.intake.partition_by])
        return PortSpec(window=self.window, keys=keys, columns=columns, on_error=self.intake.on_error)


def shares_state_between_partitions(window: Window) -> bool:
    """Whether partitions share a limit, so that one key group must have all (docs/semantics.md section 10.1)."""
    limit: Policy | None = getattr(window, "partition_eviction", None)
    return limit is not None and limit.spans_partitions


def build_aggregate_pipeline(one: Input, aggregates: Mapping[str, Aggregate]) -> Computation:
    """Return the computation of aggregates on one input.

    Args:
        one: the input.
        aggregates: the aggregate of each result column, in order.

    Raises:
        DeclarationError: a column of a type that its aggregate does not take, or a result column with a reserved name.
    """
    read = {column for aggregate in aggregates.values() for column in aggregate.columns}
    port = one.port_spec(read | {*one.intake.partition_by, *one.intake.numeric_columns})
    output = pa.schema([pa.field(name, bind(aggregate, port.columns).output) for name, aggregate in aggregates.items()])
    spec = JobSpec(
        window=port.window,
        keys=port.keys,
        columns=port.columns,
        on_error=port.on_error,
        output=output,
        aggregates=dict(aggregates),
    )
    return _build([one], spec)


def build_operator_pipeline(
    inputs: Sequence[Input],
    operator: Operator,
    output: pa.Schema | str,
    listeners: Sequence[Listener],
    handlers: Sequence[StateHandler],
) -> Computation:
    """Return the computation of an operator on its inputs, which are its ports in this order.

    Args:
        inputs: one or several.
        operator: handles the events of all of them.
        output: the columns that it emits, as an Arrow schema or as SQL.
        listeners: called before the operator, in this order.
        handlers: further state handlers, in this order.

    Raises:
        DeclarationError: an object of another class, an operator or listener none of whose events can happen, an output
            that is no schema, or a result column with a reserved name.
    """
    _require_instances("operator()", [operator], Operator)
    _require_instances("listeners", listeners, Listener)
    _require_instances("handlers", handlers, StateHandler)
    all_handlers = _all_handlers(operator, listeners, handlers)
    has_handlers = bool(all_handlers)
    for one in inputs:
        require_possible_event(operator, [one.window], has_handlers=has_handlers)
    for listener in listeners:
        require_possible_event(listener, [one.window for one in inputs], has_handlers=has_handlers)
    first, *other_ports = [one.port_spec(set(one.intake.user_columns)) for one in inputs]
    spec = JobSpec(
        window=first.window,
        keys=first.keys,
        columns=first.columns,
        on_error=first.on_error,
        operator=OperatorWithListeners(operator, tuple(listeners)) if listeners else operator,
        output=_output_schema(output),
        handlers=all_handlers,
        other_ports=tuple(other_ports),
    )
    return _build(inputs, spec)


def _all_handlers(
    operator: Operator, listeners: Sequence[Listener], given: Sequence[StateHandler]
) -> tuple[StateHandler, ...]:
    """Return the state handlers of a job, each once: the operator, if it is one, those that were given, listeners."""
    known = {id(one) for one in given}
    operators, others = (
        [one for one in some if isinstance(one, StateHandler) and id(one) not in known]
        for some in ([operator], listeners)
    )
    return (*operators, *given, *others)


def _require_instances(what: str, given: Sequence[object], kind: type) -> None:
    for one in given:
        if not isinstance(one, kind):
            hint = f"; make an instance: {one.__name__}(...)" if isinstance(one, type) else ""
            raise DeclarationError(f"{what} takes instances of subclasses of {kind.__name__}, not {one!r}{hint}")


def _build(inputs: Sequence[Input], spec: JobSpec) -> Computation:
    names = spec.results_schema.names
    folded = [name.lower() for name in names]
    for name in reversed(names):  # those of every result come first
        if folded.count(name.lower()) > 1:
            raise DeclarationError(
                f"the result column {name!r} has the name of another one, and Delta does not look at upper and lower "
                f"case (result columns: {', '.join(names)}); choose another name"
            )
    for field in spec.results_schema:
        if has_void_inside(field.type):
            raise DeclarationError(
                f"the result column {field.name!r} is of {field.type}, and Delta stores no void, the type of a NULL "
                "without one, within a column; cast it before the window, as to string"
            )
    intake, *other_ports = [one.intake for one in inputs]
    if not other_ports:
        intake.require_own_watermark()
    return Computation(Pipeline(intake=intake, spec=spec, other_ports=tuple(other_ports)))


def _output_schema(output: pa.Schema | str) -> pa.Schema:
    """Return what an operator emits; a row may lack any column, as that of a window mark does."""
    if isinstance(output, pa.Schema):
        return that_may_be_null(output)
    from pyspark.sql.types import StructType

    try:
        declared = arrow_schema(StructType([*StructType.fromDDL(output)]))  # type: ignore[misc]
    except Exception as error:
        raise DeclarationError(f'output is {output!r}; write columns as SQL does: "spread double, n bigint"') from error
    return that_may_be_null(declared)
