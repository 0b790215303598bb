"""What the batches of a job have read, kept in a scratch folder, so that several rehearsals read it.

Spark reads the source once for each batch that has rows, and checks the rows as the declared intake says. Each batch
stays one: by their cut rows are late or not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.testing.memory_job import CheckedBatch, Control, latest_of
from panekeeper.state.log import progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.recovery.jobs.recorded_rows import RecordedBatches


@dataclass(frozen=True, kw_only=True)
class RecordedInput:
    """What a range of batches have read, but for the rows.

    Attributes:
        first: the first batch.
        last: the last batch.
        control: the time and the commands of each batch.
        reached: batch and port -> the greatest event time of the good rows, us, where there are some.
        ports: how many ports there are.
    """

    first: int
    last: int
    control: Mapping[int, tuple[Control, ...]]
    reached: Mapping[tuple[int, int], int | None]
    ports: int

    @property
    def is_flushed(self) -> bool:
        """Whether one of the batches has closed all windows."""
        return any(row.kind == "flush" for rows in self.control.values() for row in rows)

    def latest(self, before_us: int | None) -> dict[int, int | None]:
        """Return batch -> the greatest event time of the batches before it, us; of several ports, that of the last one.

        `before_us` is that before the first batch. None: a port has had no row yet.
        """
        latest_before, latest = dict[int, int | None](), [before_us] * self.ports
        for number in range(self.first, self.last + 1):
            latest_before[number] = None if None in latest else min(us for us in latest if us is not None)
            reached = [self.reached.get((number, port)) for port in range(self.ports)]
            latest = [
                max((us for us in both if us is not None), default=None) for both in zip(latest, reached, strict=True)
            ]
        return latest_before


@dataclass(frozen=True, kw_only=True)
class RecordedTables(RecordedInput):
    """What a range of batches have read, with the rows as a `Packer` takes them: a file for each batch and port.

    Attributes:
        schemas: of the rows of each port.
        folder: has the files.
    """

    schemas: tuple[pa.Schema, ...]
    folder: Path

    def __iter__(self) -> Iterator[CheckedBatch]:
        """Yield the batches, in order."""
        for number in range(self.first, self.last + 1):
            tables = tuple(self._table(number, port) for port in range(self.ports))
            yield CheckedBatch(number=number, tables=tables, control=self.control[number])

    def _table(self, number: int, port: int) -> pa.Table:
        path = _path(self.folder, number, port)
        if not path.exists():
            return self.schemas[port].empty_table()
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()


def read_tables_of(
    recorded: RecordedBatches, pipeline: Pipeline, ids: tuple[int, ...], *, first: int, folder: Path
) -> RecordedTables:
    """Read what a job has read from a batch on, until its last one, for the key groups of these ids.

    Raises:
        CheckpointError: what is needed of a batch is not kept.
        RowsGone: the source no longer has the rows.
    """
    reached = dict[tuple[int, int], int | None]()

    def keep(number: int, port: int, rows: DataFrame) -> None:
        table = rows.toArrow()
        reached[number, port] = latest_of(table)
        with pa.OSFile(str(_path(folder, number, port)), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    checked = [port.checked(ids, None, quarantines=True) for port in pipeline.ports]
    control = read_batches(recorded, pipeline, [rows for rows, _ in checked], keep, first=first)
    return RecordedTables(
        first=first,
        last=recorded.last,
        control=control,
        reached=reached,
        ports=len(checked),
        schemas=tuple(arrow_schema(rows.schema) for rows, _ in checked),
        folder=folder,
    )


def read_batches(
    recorded: RecordedBatches,
    pipeline: Pipeline,
    checked: Sequence[DataFrame],
    keep: Callable[[int, int, DataFrame], None],
    *,
    first: int,
) -> dict[int, tuple[Control, ...]]:
    """Call `keep` with both numbers and the rows of each batch and port that has read some; in order.

    `checked` are the streams of the ports, as a `Packer` takes their rows. Returns the time and the commands of each
    batch. Raises as `read_tables_of`.
    """
    control = {}
    progress.info("reading the rows of batches %d to %d again", first, recorded.last)
    for number in range(first, recorded.last + 1):
        control[number] = _control(recorded, number, needed=pipeline.uses_wall_clock)
        for port in range(len(checked)):
            if recorded.has_read(number, port):
                use, stream = partial(keep, number, port), partial(_as_given, checked[port])
                recorded.rows(use, first=number, last=number, port=port, declared=stream)
    return control


def _as_given(stream: DataFrame, _: DataFrame) -> DataFrame:
    return stream


def _path(folder: Path, number: int, port: int) -> Path:
    return folder / f"{number}-{port}.arrow"


def _control(recorded: RecordedBatches, number: int, *, needed: bool) -> tuple[Control, ...]:
    """Return the control rows of a batch; those that are not kept are left out where no window goes by the clock."""
    try:
        return tuple(_rows(recorded.control_files(number).values()))
    except CheckpointError:
        if needed:
            raise
        return ()


def _rows(files: Iterable[bytes]) -> Iterator[Control]:
    for content in files:
        row = json.loads(content)
        yield Control(str(row["kind"]), int(row["us"]), int(row["number"]))
