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
from panekeeper.state.spark_store import TIMER
from panekeeper.state.store import HEADER, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class StoredGroups:
    """The state of key groups as of a batch: id of the group -> what is stored; and the timers that Spark has, ms."""

    stores: defaultdict[int, MemoryStore] = field(default_factory=lambda: defaultdict(MemoryStore))
    timers: dict[int, int] = field(default_factory=dict)

    def put(self, rows: pa.Table) -> None:
        """Take over stored values, those of the same place in their order; one without a body is gone."""
        for g, kind, slot, seq, body in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind == TIMER:
                if body is None:
                    self.timers.pop(g, None)
                else:
                    self.timers[g] = int(body)
            elif kind == HEADER:
                self.stores[g].write_header(body)
            elif body is None:
                self.stores[g].remove(kind, slot, seq)
            else:
                self.stores[g].write(kind, slot, seq, body)


def stored_groups(
    spark: SparkSession, checkpoint: str, batch: int, *, group: int | None = None
) -> tuple[StoredGroups, StoredGroups]:
    """Return the state before a batch and after it, of all key groups or one, read at once; before batch 0 is none.

    What is read of the batch is what it has changed. Raises `CorruptState`.
    """
    try:
        with format_of_state(spark):
            rows = stored_state(spark, checkpoint, batch, changed=True).withColumn("changed", F.lit(True))
            if batch:
                before_it = stored_state(spark, checkpoint, batch - 1).withColumn("changed", F.lit(False))
                rows = before_it.union(rows)
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
    after.stores.update({g: store.copy() for g, store in before.stores.items()})
    after.put(values.filter(is_change))
    return before, after
