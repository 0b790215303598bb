"""The pulse: time and commands as data, delivered to every key group through a small stream of their own.

Spark runs no batch after a clean restart until a row arrives, so a pane that became due during an outage would
wait for ever. Each start therefore writes one "resume"; it reaches every group in the first new batch and what is
overdue happens then. While the job runs, the `Waker` writes a "tick" whenever a window's next instant has come.
Commands ("drain", "savepoint", "flush") travel the same way. Because they stand in Spark's offset log like any
row, a batch that is replayed sees the same time and the same commands.

The stream is a plain JSON file source over `<checkpoint>/pulse`: no Python process, one immutable file a tick,
numbered from 1, and no batch while nothing is written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal

from framework.engine.flow.packing import PACKED
from state.checkpoint.owner import wall_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.session.checkpoint_files import CheckpointFiles
    from state.checkpoint.folder import CheckpointFolder

FOLDER = "pulse"

_SCHEMA = "kind string, us bigint, number bigint"
FIRST, LAST = -1, 2**31 - 1
"""Places before and after every input partition."""


CHECKPOINTS = ("drain", "savepoint")
"""Commands that ask for a checkpoint of a kind and leave the windows as they are."""

Kind = Literal["resume", "tick", "drain", "savepoint", "flush"]


def beat(files: CheckpointFolder, kind: Kind) -> int:
    """Write the next pulse file and return its number. Its time is read once, here, and is data from then on.

    The job and a command from outside may write at the same time; whose number is taken goes on to the next.
    """
    written = [int(name[:-5]) for name in files.names(FOLDER) if name.endswith(".json") and name[:-5].isdigit()]
    number = max(written, default=0) + 1
    row = {"kind": kind, "us": wall_us()}
    while True:
        try:
            files.write_json(f"{FOLDER}/{number:012d}.json", row | {"number": number})
        except FileExistsError:
            number += 1
        else:
            return number


def pulse_rows(files: CheckpointFiles, ids: tuple[int, ...]) -> DataFrame:
    """Return the pulse as packed rows: each beat once for every key group."""
    from pyspark.sql import functions as F  # noqa: N812

    files.make_folder(FOLDER)
    beats = (
        files.spark.readStream.schema(_SCHEMA)
        .option("pathGlobFilter", "*.json")
        .option("maxFileAge", "36500d")  # a clock that went back must not make Spark skip a beat
        .json(files.path(FOLDER))
    )
    groups = F.explode(F.array(*[F.lit(group) for group in ids]))
    is_command = F.col("kind").isin(*CHECKPOINTS, "flush")  # it comes after the rows of its batch
    return beats.select(
        groups.alias("g"),
        F.lit(0).alias("port"),
        "kind",
        F.lit(None).cast("string").alias("lot"),
        F.when(is_command, F.lit(LAST)).otherwise(F.lit(FIRST)).alias("part"),
        F.col("number").alias("pos"),
        F.col("us").alias("n"),
        F.lit(None).cast("binary").alias("body"),
    ).select(*PACKED.names)


def prune(files: CheckpointFiles, before: int) -> None:
    """Remove beats older than number `before`: a batch that heard it is committed. The newest keeps the numbering."""
    for name in files.names(FOLDER):
        if name.endswith(".json") and name[:-5].isdigit() and int(name[:-5]) < before:
            files.remove(f"{FOLDER}/{name}")


class Waker:
    """Writes a tick when the next wall-clock instant of the windows has come, and is silent otherwise."""

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._due: int | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="panekeeper-waker", daemon=True)
        self._thread.start()

    def expect(self, due_us: int | None) -> None:
        """Tick at this instant, us since the epoch, instead of the one told before; None for not at all."""
        with self._changed:
            self._due = due_us
            self._changed.notify()

    def close(self) -> None:
        """Tick no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = None if self._due is None else (self._due - wall_us()) / 1e6
                if self._closed:
                    return
                if wait is None or wait > 0:
                    self._wait(wait)
                    continue
                self._due = None  # the batch that hears the tick tells the next instant
            beat(self._files, "tick")

    def _wait(self, seconds: float | None) -> None:
        """Wait so long, or until something changed."""
        self._changed.wait(seconds)
