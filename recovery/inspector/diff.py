"""What has changed between two batches of a job, or two of its savepoints: panes, sessions or partitions."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.engine.session.columns import quoted
from panekeeper.recovery.inspector.opened import opened
from panekeeper.recovery.inspector.panes import Key, frame
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VALUES = ("pane_end", "rows", "state", "firings", "unfired", "waiting", "since_fired")
"""What may change of a pane, session or partition."""
_BEFORE = "{}_before"
"""How the value before is called; no column of ours is called so."""


def diff(
    place: Location,
    before: int | str,
    after: int | str,
    *,
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return which panes, sessions or partitions came, went or changed between two states, one row each.

    Columns, after the partition columns and `pane_start`: `change`, "came", "went" or "changed"; and what `panes`, or
    `partitions`, have of it: the value after, then, with the ending `_before`, the one before.

    Args:
        place: the job's checkpoint, or a location of savepoints.
        before: the number of a batch of the checkpoint, or the name of a savepoint in the location.
        after: as `before`.
        key: only these partitions, by the values of some of their columns.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises as `panes`.
    """
    old, new = (_frame_of(place, one, key, s3, spark) for one in (before, after))
    values = [name for name in new.columns if name in _VALUES]
    names = _identity(new.columns)
    own = [quoted(name) for name in names]
    were = [F.col(name).alias(_BEFORE.format(name)) for name in values]
    old, new = old.select(*own, *were, F.lit(1).alias("_o")), new.select(*own, *values, F.lit(1).alias("_n"))
    same = reduce(
        lambda one, other: one & other, (F.col(f"o.{n}").eqNullSafe(F.col(f"n.{n}")) for n in own), F.lit(True)
    )
    both = old.alias("o").join(new.alias("n"), same, "full_outer")
    differs = reduce(
        lambda one, other: one | other, (~F.col(name).eqNullSafe(F.col(_BEFORE.format(name))) for name in values)
    )
    change = F.when(F.col("_o").isNull(), "came").when(F.col("_n").isNull(), "went").when(differs, "changed")
    is_new = F.col("_n").isNotNull()
    found = both.select(
        *(F.when(is_new, F.col(f"n.{quoted(n)}")).otherwise(F.col(f"o.{quoted(n)}")).alias(n) for n in names),
        change.alias("change"),
        *(column for name in values for column in (F.col(name), F.col(_BEFORE.format(name)))),
    )
    return found.where("change is not null")


def _identity(columns: list[str]) -> list[str]:
    """Return the partition columns, the port, and when the pane starts: by these, one is the same before and after."""
    first = next(at for at, name in enumerate(columns) if name in ("pane_start", "rows"))
    return columns[: first + 1] if columns[first] == "pane_start" else columns[:first]


def _frame_of(
    place: Location, what: int | str, key: Key | None, s3: S3Options | None, spark: SparkSession | None
) -> DataFrame:
    batch, savepoint = (what, None) if isinstance(what, int) else (None, what)
    with opened(place, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        of_panes = [port for port in state.ports if not port.is_arrival]
        return frame(state, of_panes or state.ports, key)
