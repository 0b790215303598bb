"""What a batch has left: the state of each key group before and after it, and the rows that its commits have added."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CorruptState
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import batch_of_commit, newest_first
from panekeeper.recovery.inspector.plain_tables import read_plain_files
from panekeeper.recovery.storage.locations import table_at
from panekeeper.state.spark_store import HEADER, SEGMENTS, TIMER
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.recovery.storage.s3 import S3Options


@dataclass
class StoredGroups:
    """The state of key groups as of a batch: id of the group -> what is stored; and the timers that Spark has, ms."""

    stores: defaultdict[int, MemoryStore] = field(default_factory=lambda: defaultdict(MemoryStore))
    timers: dict[int, int] = field(default_factory=dict)


def stored_groups(
    spark: SparkSession, checkpoint: str, batches: Sequence[int], *, group: int | None = None, timers: bool = False
) -> list[StoredGroups]:
    """Return the state as of some batches, of all key groups or one, read at once; before batch 0 there is none.

    `timers`: there are such; those of the first one are read. Raises `CorruptState`.
    """
    found = {batch: StoredGroups() for batch in batches}
    try:
        with format_of_state(spark):
            each = [
                _stored(spark, checkpoint, batch, timers=timers and batch == batches[0])
                for batch in batches
                if batch >= 0
            ]
            rows = reduce(lambda one, other: one.union(other), each)
            if group is not None:
                rows = rows.where(F.col("g") == group)
            table = rows.toArrow()
    except Exception as error:
        raise CorruptState(
            f"the state in {checkpoint} as of batch {max(batches)} cannot be read\n{all_said(error)}"
        ) from error
    for batch, g, kind, slot, seq, body in zip(*(column.to_pylist() for column in table.columns), strict=True):
        own = found[batch]
        if kind is None:
            own.stores[g].header = bytes(body)
        elif not kind:
            own.timers[g] = slot
        else:
            own.stores[g].entries[kind, slot, seq] = bytes(body)
    return [found[batch] for batch in batches]


def _stored(spark: SparkSession, checkpoint: str, batch: int, *, timers: bool) -> DataFrame:
    """Return the stored values as of a batch: a header has no kind, a timer an empty one."""
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in _PLACE]
    headers = stored_state(spark, checkpoint, HEADER, batch).select("key.g", *nothing, "value.body")
    segments = stored_state(spark, checkpoint, SEGMENTS, batch)
    rows = headers.union(segments.select("key.g", "user_map_key.*", "user_map_value.body"))
    if timers:
        due = stored_state(spark, checkpoint, TIMER, batch)
        rows = rows.union(due.select("key.g", F.lit("").alias("kind"), "value.ms", nothing[2], F.lit(b"")))
    return rows.select(F.lit(batch).alias("batch"), *rows.columns)


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
            paths = [unquote(str(one["add"]["path"])) for one in commit if "add" in one]
            if (plain := read_plain_files(path, paths)) is not None and {*columns} <= {*plain.column_names}:
                return plain.select(columns)
            added = [one.rpartition("/")[2] for one in paths]
            table = spark.read.format("delta").option("versionAsOf", version).load(path)
            try:
                own = table.where(F.col("_metadata.file_name").isin(added))
                return own.select(*map(quoted, columns)).toArrow()
            except Exception:  # noqa: BLE001 -- vacuumed files, most often; whatever it is, there is nothing to compare
                return None
    else:
        if version != 0:
            return None
    return pa.table({name: pa.nulls(0) for name in columns})
