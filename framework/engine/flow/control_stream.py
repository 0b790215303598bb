"""The control stream: time and commands as data, delivered to every key group by a small stream of their own.

After a clean restart Spark runs no batch until a row arrives, so a pane that became due while the job was down would
not fire. Each start therefore writes one "resume", which reaches every group in the first new batch; what is overdue
happens there. While the job runs, the `TickScheduler`
(`framework/engine/clock/tick_scheduler.py`) writes a "tick" whenever the next instant of a window has come.
Commands ("drain", "savepoint", "flush") travel the same way. All of them are in Spark's offset log like any row, so a
batch that is replayed sees the same time and the same commands.

The stream is a plain JSON file source over the control files of the checkpoint (`state/checkpoint/control_files.py`):
it needs no Python process, and no batch while nothing is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from panekeeper.framework.core.packed_rows import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS, PACKED
from panekeeper.state.checkpoint.control_files import COMMANDS
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_PATTERN = re.compile(r"[\\{}\[\]*?]")
"""What stands for other characters where Spark looks for the files of a folder."""
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
        .options(ignoreCorruptFiles="false", ignoreMissingFiles="false")  # whatever the session does with its inputs
        .json(_PATTERN.sub(r"\\\g<0>", files.path(CONTROL_FOLDER)))
    )
    groups = F.explode(F.array(*[F.lit(group) for group in ids]))
    is_command = F.col("kind").isin(*COMMANDS)
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
