"""From inputs and what is to be computed from them to a pipeline: the middle of every declaration.

An input is a stream with its window. Aggregates have one, an operator has one or several: its ports, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from framework.builder.outputs import Computed
from framework.core.job_spec import JobSpec, PortSpec
from framework.declarations.aggregates import Aggregate
from framework.declarations.errors import DeclarationError
from framework.declarations.operator import Heard, Listener, Operator
from framework.declarations.policies import PartitionCount, TupleCount
from framework.declarations.windows import Window
from framework.engine.flow.intake import Intake
from framework.engine.flow.pipeline import Pipeline
from state.handler import StateHandler


@dataclass(frozen=True)
class Input:
    """A stream and its window."""

    intake: Intake
    window: Window

    @property
    def in_one_group(self) -> bool:
        """Whether the window needs all partitions in one key group, whatever number was asked for."""
        return needs_one_group(self.window)

    def in_groups(self, key_groups: int) -> Input:
        """Return the same input with another number of key groups."""
        return replace(self, intake=replace(self.intake, key_groups=key_groups))

    def port(self, wanted: set[str]) -> PortSpec:
        """Return what a plan says of this input, of which these columns are wanted."""
        names = [name for name in self.intake.user_columns if name in wanted]
        columns = self.intake.arrow_schema(names)
        keys = pa.schema([columns.field(name) for name in self.intake.partition_by])
        return PortSpec(window=self.window, keys=keys, columns=columns)


def needs_one_group(window: Window) -> bool:
    """Whether partitions share something (docs/decisions/0004-what-is-shared-between-partitions.md)."""
    return isinstance(getattr(window, "partition_eviction", None), PartitionCount | TupleCount)


def aggregated(one: Input, aggregates: Mapping[str, Aggregate]) -> Computed:
    """Return what aggregates make of an input. Raises `DeclarationError` for an unfit type."""
    read = {column for aggregate in aggregates.values() for column in aggregate.columns}
    port = one.port(read | {*one.intake.partition_by, *one.intake.numbers})
    output = pa.schema([pa.field(name, aggregate.bind(port.columns).output) for name, aggregate in aggregates.items()])
    spec = JobSpec(window=port.window, keys=port.keys, columns=port.columns, output=output, aggregates=dict(aggregates))
    return _computed([one], spec)


def operated(
    inputs: Sequence[Input],
    operator: Operator,
    output: pa.Schema | str,
    listeners: Sequence[Listener],
    handlers: Sequence[StateHandler],
) -> Computed:
    """Return what an operator makes of its inputs, which are its ports. Raises `DeclarationError`."""
    if not isinstance(operator, Operator):
        raise DeclarationError(f"operator() takes an instance of a subclass of Operator, not {operator!r}")
    for listener in listeners:
        if not isinstance(listener, Listener):
            raise DeclarationError(f"listeners takes instances of subclasses of Listener, not {listener!r}")
    for handler in handlers:
        if not isinstance(handler, StateHandler):
            raise DeclarationError(f"handlers takes instances of subclasses of StateHandler, not {handler!r}")
    own = (operator,) if isinstance(operator, StateHandler) and operator not in handlers else ()
    first, *other_ports = [one.port(set(one.intake.user_columns)) for one in inputs]
    spec = JobSpec(
        window=first.window,
        keys=first.keys,
        columns=first.columns,
        operator=Heard(operator, tuple(listeners)) if listeners else operator,
        output=_schema(output),
        handlers=(*own, *handlers),
        other_ports=tuple(other_ports),
    )
    return _computed(inputs, spec)


def _computed(inputs: Sequence[Input], spec: JobSpec) -> Computed:
    names = spec.results_schema.names
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(f"the result column {name!r} has the name of a column that every result has")
    intake, *other_ports = [one.intake for one in inputs]
    return Computed(Pipeline(intake=intake, spec=spec, other_ports=tuple(other_ports)))


def _schema(output: pa.Schema | str) -> pa.Schema:
    if isinstance(output, pa.Schema):
        return output
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    try:
        return to_arrow_schema(StructType([*StructType.fromDDL(output)]), timezone="UTC")  # type: ignore[misc]
    except Exception as error:
        raise DeclarationError(f'output is {output!r}; write columns as SQL does: "spread double, n bigint"') from error
