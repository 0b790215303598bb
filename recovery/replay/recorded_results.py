"""What a batch has left in the state: what is stored of each key group before and after it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
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

    def put(self, rows: pa.Table) -> None:
        """Take over stored values, those of the same place in their order; one without a body is gone."""
        for g, kind, slot, seq, body in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind is None:
                self.stores[g].header = body
            elif not kind:
                self.timers[g] = slot
            elif body is None:
                self.stores[g].remove(kind, slot, seq)
            else:
                self.stores[g].write(kind, slot, seq, body)


def stored_groups(
    spark: SparkSession, checkpoint: str, batch: int, *, group: int | None = None, timers: bool = False
) -> tuple[StoredGroups, StoredGroups]:
    """Return the state before a batch and after it, of all key groups or one, read at once; before batch 0 is none.

    What is read of the batch is what it has changed. `timers`: there are such; those before it are read. Raises
    `CorruptState`.
    """
    try:
        with format_of_state(spark):
            changes = stored_rows(spark, checkpoint, batch, changed=True)
            rows = changes
            if batch:
                rows = stored_rows(spark, checkpoint, batch - 1, timers=timers).union(changes)
            if group is not None:
                rows = rows.where(F.col("g") == group)
            table = rows.toArrow()
    except Exception as error:
        what = f"the state in {checkpoint} before or after batch {batch} cannot be read"
        raise CorruptState(f"{what}\n{all_said(error)}") from error
    is_change, values = table.column("changed"), table.drop_columns(["changed"])
    before = StoredGroups()
    before.put(values.filter(pc.invert(is_change)))
    after = StoredGroups()
    after.stores.update({g: one.copy() for g, one in before.stores.items()})
    after.put(values.filter(is_change))
    return before, after


def stored_rows(
    spark: SparkSession, checkpoint: str, batch: int, *, timers: bool = False, changed: bool = False
) -> DataFrame:
    """Return the stored values as of a batch, or those it has `changed`: a header has no kind, a timer an empty one."""
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in _PLACE]
    headers = stored_state(spark, checkpoint, HEADER, batch, changed=changed).select("key.g", *nothing, "value.body")
    segments = stored_state(spark, checkpoint, SEGMENTS, batch, changed=changed)
    rows = headers.union(segments.select("key.g", "user_map_key.*", "user_map_value.body"))
    if timers:
        due = stored_state(spark, checkpoint, TIMER, batch)
        rows = rows.union(due.select("key.g", F.lit("").alias("kind"), "value.ms", nothing[2], F.lit(b"")))
    return rows.withColumn("changed", F.lit(changed))


_PLACE = (("kind", "string"), ("slot", "long"), ("seq", "long"))
