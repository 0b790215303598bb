"""What a batch has left: the state of each key group before and after it, and the rows that its commits have added."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CorruptState
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import batch_of_commit, newest_first
from panekeeper.recovery.storage.locations import table_at
from panekeeper.state.spark_store import HEADER, SEGMENTS, TIMER
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from panekeeper.recovery.storage.s3 import S3Options


@dataclass
class StoredGroups:
    """The state of key groups as of a batch: id of the group -> what is stored; and the timers that Spark has, ms."""

    stores: defaultdict[int, MemoryStore] = field(default_factory=lambda: defaultdict(MemoryStore))
    timers: dict[int, int] = field(default_factory=dict)


def stored_groups(
    spark: SparkSession, checkpoint: str, batch: int, *, group: int | None = None, timers: bool = False
) -> StoredGroups:
    """Return the state as of a batch, of all key groups or one; `timers`: there are such. Raises `CorruptState`."""
    found = StoredGroups()
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in _PLACE]
    try:
        with format_of_state(spark):
            headers = stored_state(spark, checkpoint, HEADER, batch).select("key.g", *nothing, "value.body")
            segments = stored_state(spark, checkpoint, SEGMENTS, batch)
            rows = headers.union(segments.select("key.g", "user_map_key.*", "user_map_value.body"))
            if timers:
                due = stored_state(spark, checkpoint, TIMER, batch).select(
                    "key.g", F.lit("").alias("kind"), F.col("value.ms").alias("slot"), nothing[2], F.lit(b"")
                )
                rows = rows.union(due)
            if group is not None:
                rows = rows.where(F.col("g") == group)
            table = rows.toArrow()
    except Exception as error:
        raise CorruptState(
            f"the state in {checkpoint} as of batch {batch} cannot be read\n{all_said(error)}"
        ) from error
    for g, kind, slot, seq, body in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if kind is None:
            found.stores[g].header = bytes(body)
        elif not kind:
            found.timers[g] = slot
        else:
            found.stores[g].entries[kind, slot, seq] = bytes(body)
    return found


_PLACE = (("kind", "string"), ("slot", "long"), ("seq", "long"))


def rows_of_batch(
    spark: SparkSession, path: str, transaction: str, batch: int, columns: list[str], s3: S3Options
) -> pa.Table | None:
    """Return these columns of the rows that a batch has added to a table by its commit; none if it made no commit.

    None if that cannot be found out any more: the commit is no longer in the log of the table, or its files are gone.
    """
    version = -1
    for version, commit in newest_first(table_at(path, s3)):
        found = batch_of_commit(commit, transaction)
        if 0 <= found < batch:
            break
        if found == batch:
            added = [unquote(str(one["add"]["path"])).rpartition("/")[2] for one in commit if "add" in one]
            table = spark.read.format("delta").option("versionAsOf", version).load(path)
            try:
                own = table.where(F.col("_metadata.file_name").isin(added))
                return own.select(*map(quoted, columns)).toArrow()
            except Exception:  # noqa: BLE001 -- vacuumed files, most often; whatever it is, there is nothing to compare
                return None
    else:
        if version != 0:
            return None
    return spark.read.format("delta").load(path).select(*map(quoted, columns)).limit(0).toArrow()
