"""What the batches of a job have read, kept in a scratch folder, so that several rehearsals read it.

Spark reads the source once for each batch that has rows, and checks the rows as the declared intake says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.recovery.what_if.rehearsal import CheckedBatch, Control, latest_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.recovery.replay.recorded_rows import RecordedBatches


@dataclass(frozen=True, kw_only=True)
class RecordedInput:
    """The rows of a range of batches, as a `Packer` takes them.

    Attributes:
        first: the first batch.
        last: the last batch.
        schemas: of the rows of each port.
        folder: has a file of rows for each batch and port with rows.
        control: the time and the commands of each batch.
    """

    first: int
    last: int
    schemas: tuple[pa.Schema, ...]
    folder: Path
    control: dict[int, tuple[Control, ...]]

    def __iter__(self) -> Iterator[CheckedBatch]:
        """Yield the batches, in order."""
        for number in range(self.first, self.last + 1):
            tables = tuple(self._table(number, port) for port in range(len(self.schemas)))
            yield CheckedBatch(number=number, tables=tables, control=self.control[number])

    @property
    def is_flushed(self) -> bool:
        """Whether one of the batches has closed all windows."""
        return any(one.kind == "flush" for rows in self.control.values() for one in rows)

    def latest(self, before_us: int | None) -> dict[int, int | None]:
        """Return batch -> the greatest event time of the batches before it, us; of several ports, that of the last one.

        `before_us` is that before the first batch. None: a port has had no row yet.
        """
        found, latest = dict[int, int | None](), [before_us] * len(self.schemas)
        for batch in self:
            found[batch.number] = None if None in latest else min(us for us in latest if us is not None)
            for port, table in enumerate(batch.tables):
                times = [us for us in (latest[port], latest_of(table)) if us is not None]
                latest[port] = max(times, default=None)
        return found

    def _table(self, number: int, port: int) -> pa.Table:
        path = _path(self.folder, number, port)
        if not path.exists():
            return self.schemas[port].empty_table()
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()


def read_input(
    recorded: RecordedBatches, pipeline: Pipeline, ids: tuple[int, ...], *, first: int, folder: Path
) -> RecordedInput:
    """Read what a job has read from a batch on, until its last one, for the key groups of these ids.

    Raises:
        CheckpointError: what is needed of a batch is not kept.
        RowsGone: the source no longer has the rows.
    """
    checked = [port.checked(ids, None, quarantines=True) for port in pipeline.ports]
    schemas = tuple(arrow_schema(rows.schema) for rows, _ in checked)
    control = {}
    for number in range(first, recorded.last + 1):
        control[number] = _control(recorded, number, needed=pipeline.uses_wall_clock)
        for port, (rows, _) in enumerate(checked):
            if recorded.has_read(number, port):
                _read(recorded, number, port, rows, _path(folder, number, port))
    return RecordedInput(first=first, last=recorded.last, schemas=schemas, folder=folder, control=control)


def _read(recorded: RecordedBatches, number: int, port: int, rows: DataFrame, path: Path) -> None:
    def keep(found: DataFrame) -> None:
        table = found.toArrow()
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    recorded.rows(keep, first=number, last=number, port=port, declared=lambda _: rows)


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
