"""The streaming plan: intake -> pack, for each port, -> + control stream -> processor, one row for each segment.

Only connections: what a stage decides is in its own file. The plan's output is packed rows of three tags
(`processor.OUTPUT_SCHEMA`); `unpack` turns those of one tag into ordinary rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.group_batch import BatchRunner
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, TIMESTAMP, JobSpec
from panekeeper.framework.core.ordering import PortOrdering
from panekeeper.framework.core.packed_rows import PACKED_SCHEMA, from_segment
from panekeeper.framework.core.panes.folding import PaneFolding
from panekeeper.framework.core.sessions.folding import SessionFolding
from panekeeper.framework.core.shared_folding import SharedFolding, folding_of
from panekeeper.framework.declarations.operator import OperatorWithListeners
from panekeeper.framework.declarations.windows import Session
from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.control_stream import control_rows
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.framework.engine.flow.packing import BatchWatermark, Packer
from panekeeper.framework.engine.flow.processor import OUTPUT_SCHEMA, KeyGroupProcessor
from panekeeper.framework.engine.flow.refused_rows import rest_of_row
from panekeeper.framework.engine.session.python_workers import DeferredProcessor, freeze_gc
from panekeeper.state.checkpoint.runs import RunRecord, begin_run
from panekeeper.state.codec import nullable_inside, with_columns
from panekeeper.state.history import WINDOWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles


@dataclass(frozen=True, kw_only=True)
class InputPort:
    """One input port: where its rows come from, and the plan of its window; `is_only_port` if it is the only one."""

    intake: Intake
    spec: JobSpec
    is_only_port: bool

    @property
    def carried_columns(self) -> list[str]:
        """Columns that travel: those of the plan, and those that declare the order of arrival."""
        return list(dict.fromkeys([*self.spec.columns.names, *self.intake.order_by]))

    @property
    def uses_watermark_timer(self) -> bool:
        """Whether Spark's watermark drives the window.

        With marks in the stream it does not, nor where Spark does not keep the watermark.
        """
        return self.has_spark_watermark and self.spec.uses_event_time and not self.intake.has_mark_column

    @property
    def has_spark_watermark(self) -> bool:
        """Whether Spark keeps the watermark of the port, if it has one; else each key group does, for all ports.

        Spark does not know several sources of a watermark, nor one that goes on while nothing comes.
        """
        goes_on = self.intake.idle is not None and self.intake.idle.advances
        return self.is_only_port and not goes_on and self.intake.watermark_by is None

    @property
    def uses_wall_clock(self) -> bool:
        """Whether the window waits for instants of the wall clock."""
        if self.spec.uses_event_time:
            return self.intake.idle is not None or self.has_arrival_times
        return self.intake.arrival_time is None and not self.intake.has_mark_column

    @property
    def has_arrival_times(self) -> bool:
        """Whether rows of panes bring the time of their batch, beside their event time."""
        return self.spec.fires_by_clock and not self.intake.has_mark_column

    @property
    def time(self) -> str | None:
        """The time column of the packed rows, or None: where marks set the clock and no arrival time is declared."""
        clocked = (
            self.spec.time_column == ARRIVAL_TIME and self.intake.has_mark_column and self.intake.arrival_time is None
        )
        return None if clocked else self.spec.time_column

    def declaration(self) -> dict[str, Any]:
        """Return what a checkpoint records of this port, and a later start compares."""
        clock: dict[str, Any] = {}
        if self.intake.arrival_time is not None:
            clock["arrival_time"] = self.intake.arrival_time
        if self.intake.pane_time != TIMESTAMP:
            clock["event_time_type"] = "timestamp_ntz"
        if self.intake.watermark_by is not None:
            clock["watermark_by"] = self.intake.watermark_by
        if self.is_only_port and self.intake.idle is not None and self.intake.idle.advances:
            clock["when_idle"] = "advance"
        if self.spec.dedupe is not None:
            clock |= {"dedupe": [*self.spec.dedupe.columns], "dedupe_for_us": self.spec.dedupe.within_us}
        before = self.intake.stateful_operators()
        return {
            **clock,
            **({"operators_before": before} if before else {}),
            "window": self.spec.window.declaration(),
            "partition_by": {field.name: str(field.type) for field in self.spec.keys},
            "event_time": self.intake.event_time,
            "punctuation": self.intake.punctuation,
            "marks": self.intake.marks,
            "column": {field.name: str(field.type) for field in self.spec.columns},
        }

    def packed(self, ids: tuple[int, ...], checkpoint: str, *, quarantines: bool, folds: bool = True) -> DataFrame:
        """Return the port's rows, packed for the key groups of these ids.

        `quarantines`: refused rows are kept; `folds`: rows may be folded, which changes no result.
        """
        watermark = BatchWatermark.of(checkpoint) if folds else None
        rows, packer = self.checked(ids, watermark, quarantines=quarantines)
        return rows.mapInArrow(packer, PACKED_SCHEMA)

    def checked(
        self, ids: tuple[int, ...], watermark: BatchWatermark | None, *, quarantines: bool
    ) -> tuple[DataFrame, Packer]:
        """Return the port's rows as a packer takes them, and that; arguments as for `packed` and `packer`."""
        intake = replace(self.intake, key_groups=len(ids))
        read = self.spec.columns.names  # without those that only order rows, which are dropped on the way
        rest = rest_of_row(intake, read) if quarantines else None
        packer = self.packer(ids, watermark, has_rest=rest is not None)
        rows = checked_rows(
            intake,
            self.carried_columns,
            rest=rest if packer.rest else None,
            arrived=self.time == ARRIVAL_TIME or intake.idle is not None or self.has_arrival_times,
            watermark=self.has_spark_watermark,
        )
        return rows, packer

    def packer(self, ids: tuple[int, ...], watermark: BatchWatermark | None, *, has_rest: bool) -> Packer:
        """Return what packs the port's rows for the key groups of these ids.

        `watermark` reads that of the batch, where there is one; `has_rest`: rows have columns that the job does not
        read, and there is a quarantine for them.
        """
        intake, folding = self.intake, self.folding()
        needs_rest = self._needs_rest() if has_rest else None
        has_own_watermark = self.spec.uses_event_time and not self.has_spark_watermark
        looks_at_watermark = self.uses_watermark_timer and (folding is not None or needs_rest == "late")
        return Packer(
            group_ids=ids,
            carried_columns=intake.arrow_schema(self.carried_columns),
            time=self.time,
            has_arrival_times=self.has_arrival_times,
            marked=intake.has_marks,
            has_batch_time=self.time == ARRIVAL_TIME and intake.arrival_time is None and not intake.has_mark_column,
            by_file=intake.by_file,
            fail_on_error=intake.on_error == "fail",
            port=self.spec.port,
            has_clock=self.time == ARRIVAL_TIME and intake.arrival_time is not None and len(ids) > 1,
            sorted_later=bool(intake.order_by),
            watermark_delay_us=intake.watermark_us if has_own_watermark else None,
            tells_when=intake.idle is not None,
            by_partition=intake.watermark_by is not None,
            folding=folding,
            batch_watermark=watermark if looks_at_watermark else None,
            rest=needs_rest,
        )

    def _needs_rest(self) -> Literal["late", "all"] | None:
        """Return which rows may get into the quarantine behind the intake: those that a function refuses, late ones."""
        for part in self.spec.parts.values():
            accumulators = [bind(aggregate, part.columns) for aggregate in (part.aggregates or {}).values()]
            if any(accumulator.runs_user_code and not accumulator.needs_content for accumulator in accumulators):
                return "all"  # it gets the rows one by one; one that needs all rows of a firing fails with all of them
            if isinstance(part.window, Session) and part.window.has_column_gap:
                return "all"  # a row may have no gap
        return "late" if self.spec.uses_event_time else None

    def folding(self) -> PaneFolding | SessionFolding | SharedFolding | None:
        """Return how rows are folded before the shuffle; None where their order or places between marks matter."""
        intake = self.intake
        if not self.uses_watermark_timer or intake.order_by or intake.has_marks or intake.by_file or intake.dedupe:
            return None
        return folding_of(self.spec)

    def ordering(self) -> PortOrdering:
        """Return what the workers need to put the port's rows in order."""
        return PortOrdering(
            columns=(
                *self.spec.columns.names,
                *([self.time] if self.time else []),
                *([ARRIVAL_TIME] if self.has_arrival_times else []),
            ),
            order_by=self.intake.order_by,
            keys=self.spec.keys,
            has_stream_clock=self.intake.has_mark_column
            or (self.intake.arrival_time is not None and not self.spec.has_panes),
        )


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Intake and plan of one job: all that is needed to build its streaming plan.

    `intake` is that of port 0, which is the only one unless there are `other_ports`.
    """

    intake: Intake
    spec: JobSpec
    other_ports: tuple[Intake, ...] = ()

    @property
    def ports(self) -> list[InputPort]:
        """The input ports, in order."""
        intakes = (self.intake, *self.other_ports)
        is_only_port = not self.other_ports
        pairs = zip(intakes, self.spec.ports, strict=True)
        return [InputPort(intake=intake, spec=spec, is_only_port=is_only_port) for intake, spec in pairs]

    @property
    def uses_watermark_timer(self) -> bool:
        """Whether Spark's watermark drives any window."""
        return any(port.uses_watermark_timer for port in self.ports)

    @property
    def uses_wall_clock(self) -> bool:
        """Whether any window waits for instants of the wall clock."""
        return any(port.uses_wall_clock for port in self.ports)

    def declaration(self) -> dict[str, Any]:
        """Return what a checkpoint records of the job, and a later start compares."""
        spec = self.spec
        if spec.windows:
            return {WINDOWS: {name: replace(self, spec=window).declaration() for name, window in spec.windows.items()}}
        computed: dict[str, Any] = {}
        if spec.aggregates is not None:
            computed["aggregate"] = {name: aggregate.declaration() for name, aggregate in spec.aggregates.items()}
        if spec.operator is not None:
            own = spec.operator.operator if isinstance(spec.operator, OperatorWithListeners) else spec.operator
            computed["operator"] = type(own).__qualname__
        if spec.join is not None:
            computed["join"] = spec.join.declaration()
        if spec.handlers:
            computed["handlers"] = [type(handler).__qualname__ for handler in spec.handlers]
        first, *others = self.ports
        return {
            **first.declaration(),
            **computed,
            "output": {field.name: str(field.type) for field in spec.output},
            **{f"port_{number}": port.declaration() for number, port in enumerate(others, 1)},
        }

    def runner(self) -> BatchRunner:
        """Return what runs the micro-batches of each key group."""
        return BatchRunner(spec=self.spec, orderings=tuple(port.ordering() for port in self.ports))

    def inputs(
        self, files: CheckpointFiles, ids: tuple[int, ...], *, quarantines: bool = True, folds: bool = True
    ) -> DataFrame:
        """Return what the processor gets: the packed rows of all ports, and the control stream; arguments as below."""
        ports = [port.packed(ids, files.place, quarantines=quarantines, folds=folds) for port in self.ports]
        return reduce(lambda rows, more: rows.unionByName(more), [*ports, control_rows(files, ids)])

    def packed(self, files: CheckpointFiles, ids: tuple[int, ...], *, quarantines: bool = True) -> DataFrame:
        """Return the plan's packed output for one more run.

        `files` are the checkpoint's, `ids` those of the key groups; `quarantines`: there is a table for refused rows.
        """
        processor = KeyGroupProcessor(
            self.runner(),
            groups=len(ids),
            timers=self.uses_watermark_timer,
            run=begin_run(files) if self.spec.handlers else RunRecord(),  # only handlers use it
        )
        return (
            self.inputs(files, ids, quarantines=quarantines)
            .groupBy("g")
            .transformWithState(
                statefulProcessor=DeferredProcessor(processor),
                outputStructType=OUTPUT_SCHEMA,
                outputMode="Append",
                timeMode="EventTime" if self.uses_watermark_timer else "None",
            )
        )


@dataclass(frozen=True)
class Unpacker:
    """Turns bodies of segments into rows of one schema. Picklable; called by Spark's `mapInArrow`."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack one partition."""
        freeze_gc()
        for batch in batches:
            for body in batch.column(0):
                yield from with_columns(from_segment(body.as_py()), self.schema).to_batches()


def unpack(packed: DataFrame, tag: str, schema: pa.Schema) -> DataFrame:
    """Return the rows in the segments of one tag."""
    bodies = packed.where(F.col("tag") == tag).select("body")
    return bodies.mapInArrow(Unpacker(schema), spark_schema(schema))


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows in Arrow as a frame, all within nullable: Arrow refuses to cast what Spark has NOT NULL in a struct.

    With its schema: without it Spark would take a time without zone for one of the session's zone. And without empty
    chunks, as of a group without rows: Spark reads no further than the first one.
    """
    free = with_columns(rows, pa.schema([field.with_type(nullable_inside(field.type)) for field in rows.schema]))
    full = pa.Table.from_batches([chunk for chunk in free.to_batches() if chunk.num_rows], free.schema)
    return spark.createDataFrame(full, spark_schema(full.schema))


def as_frame(spark: SparkSession, rows: pa.Table | DataFrame) -> DataFrame:
    """Return rows as a frame; those that the driver has, for one file."""
    return frame_of(spark, rows).coalesce(1) if isinstance(rows, pa.Table) else rows


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark types of an Arrow schema."""
    return from_arrow_schema(schema)
