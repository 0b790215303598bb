"""What a batch has left in the state: what is stored of each key group before and after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CorruptState
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.state.spark_store import HEADER, SEGMENTS, TIMER
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
                stored_rows(spark, checkpoint, batch, timers=timers and batch == batches[0])
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


def stored_rows(spark: SparkSession, checkpoint: str, batch: int, *, timers: bool = False) -> DataFrame:
    """Return the stored values as of a batch: a header has no kind, a timer an empty one. As `stored_state`."""
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in _PLACE]
    headers = stored_state(spark, checkpoint, HEADER, batch).select("key.g", *nothing, "value.body")
    segments = stored_state(spark, checkpoint, SEGMENTS, batch)
    rows = headers.union(segments.select("key.g", "user_map_key.*", "user_map_value.body"))
    if timers:
        due = stored_state(spark, checkpoint, TIMER, batch)
        rows = rows.union(due.select("key.g", F.lit("").alias("kind"), "value.ms", nothing[2], F.lit(b"")))
    return rows.select(F.lit(batch).alias("batch"), *rows.columns)


_PLACE = (("kind", "string"), ("slot", "long"), ("seq", "long"))
