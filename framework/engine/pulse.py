"""The pulse: time and commands as data, delivered to every key group through a small stream of their own.

Spark runs no batch after a clean restart until a row arrives, so a pane that became due during an outage would
wait for ever. Each start therefore writes one "tick"; it reaches every group in the first new batch and what is
overdue happens then. Commands ("flush") travel the same way. Because they stand in Spark's offset log like any
row, a batch that is replayed sees the same time and the same commands.

The stream is a plain JSON file source over `<checkpoint>/pulse`: no Python process, one immutable file a tick,
numbered from 1, and no batch while nothing is written.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from framework.engine.packing import PACKED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.checkpoint_files import CheckpointFiles

FOLDER = "pulse"

_SCHEMA = "kind string, us bigint, number bigint"
_FIRST, _LAST = -1, 2**31 - 1  # places before and after every input partition


def beat(files: CheckpointFiles, kind: Literal["tick", "flush"]) -> int:
    """Write the next pulse file and return its number. Its time is read once, here, and is data from then on."""
    written = [int(name[:-5]) for name in files.names(FOLDER) if name.endswith(".json") and name[:-5].isdigit()]
    number = max(written, default=0) + 1
    row = {"kind": kind, "us": time.time_ns() // 1000, "number": number}
    files.write_json(f"{FOLDER}/{number:012d}.json", row)
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
    is_flush = F.col("kind") == "flush"
    return beats.select(
        groups.alias("g"),
        "kind",
        F.when(is_flush, F.lit(_LAST)).otherwise(F.lit(_FIRST)).alias("part"),
        F.col("number").alias("pos"),
        F.when(is_flush, F.lit(0)).otherwise(F.col("us")).cast("long").alias("n"),
        F.lit(None).cast("binary").alias("body"),
    ).select(*PACKED.names)
