"""The control stream: time and commands as data, delivered to every key group by a small stream of their own.

After a clean restart Spark runs no batch until a row arrives, so a pane that became due while the job was down would
not fire. Each start therefore writes one "resume", which reaches every group in the first new batch; what is overdue
happens there. While the job runs, the `TickScheduler` writes a "tick" whenever the next instant of a window has come.
Commands ("drain", "savepoint", "flush") travel the same way. All of them are in Spark's offset log like any row, so a
batch that is replayed sees the same time and the same commands.

The stream is a plain JSON file source over the control files of the checkpoint (`state/checkpoint/control_files.py`):
it needs no Python process, and no batch while nothing is written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from framework.engine.flow.packing import PACKED
from state.checkpoint.clock import now_us
from state.checkpoint.control_files import CHECKPOINT_COMMANDS, write_control_file
from state.checkpoint.layout import CONTROL_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.session.checkpoint_files import CheckpointFiles

BEFORE_ALL_PARTITIONS, AFTER_ALL_PARTITIONS = -1, 2**31 - 1
"""The input partition of a control row, which orders it before or after all rows of its batch."""

_SCHEMA = "kind string, us bigint, number bigint"


def control_rows(files: CheckpointFiles, ids: tuple[int, ...]) -> DataFrame:
    """Return the control stream as packed rows: each control file once for every key group.

    Args:
        files: the job's checkpoint.
        ids: representative ids of the key groups.
    """
    from pyspark.sql import functions as F  # noqa: N812

    files.make_folder(CONTROL_FOLDER)
    rows = (
        files.spark.readStream.schema(_SCHEMA)
        .option("pathGlobFilter", "*.json")
        .option("maxFileAge", "36500d")  # with a clock that went back, Spark would skip a file as too old
        .json(files.path(CONTROL_FOLDER))
    )
    groups = F.explode(F.array(*[F.lit(group) for group in ids]))
    is_command = F.col("kind").isin(*CHECKPOINT_COMMANDS, "flush")  # acts after the rows of its batch
    part = F.when(is_command, F.lit(AFTER_ALL_PARTITIONS)).otherwise(F.lit(BEFORE_ALL_PARTITIONS))
    return rows.select(
        groups.alias("g"),
        F.lit(0).alias("port"),
        "kind",
        F.lit(None).cast("string").alias("lot"),
        part.alias("part"),
        F.col("number").alias("pos"),
        F.col("us").alias("n"),
        F.lit(None).cast("binary").alias("body"),
    ).select(*PACKED.names)


class TickScheduler:
    """Writes a tick to the control stream when the next wall-clock instant of the windows has come."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._due: int | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="panekeeper-ticks", daemon=True)
        self._thread.start()

    def schedule(self, due_us: int | None) -> None:
        """Write the next tick at this time (us since the epoch), None: no tick."""
        with self._changed:
            self._due = due_us
            self._changed.notify()

    def close(self) -> None:
        """Write no more ticks."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = None if self._due is None else (self._due - now_us()) / 1e6
                if self._closed:
                    return
                if wait is None or wait > 0:
                    self._wait(wait)
                    continue
                self._due = None  # the batch that processes the tick schedules the next one
            write_control_file(self._files, "tick")

    def _wait(self, seconds: float | None) -> None:
        """Wait these seconds, or until something changed."""
        self._changed.wait(seconds)
