"""What one micro-batch did: the packed output of the stateful plan, added up and, where it is small, brought along.

A batch's results are most often a few thousand rows. Those pass through the driver as Arrow tables: writing them
from there needs no Python worker and no second look at the persisted output. What is larger stays where it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from framework.engine.flow.packing import from_segment
from framework.engine.sink.tables import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DRIVER_BYTES = 16 << 20  # what the bodies of one batch may weigh in the driver


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one batch did, as the key groups that had something to do reported it.

    Attributes:
        number: Spark's batch id.
        counts: where its rows went (`tables.COUNTS`), summed over the groups.
        rows: tag -> rows of that output ("results": firings for the log; "rejected": rows for the quarantine).
        small: tag -> these rows, where they came along; a tag that is missing here is read from the packed output.
        open_panes: key group -> panes that still take rows.
        watermark: the greatest watermark a group acted on, us; None before the first.
        flushed: whether it closed everything.
        tuples: key group -> tuples kept; None where only partial results are.
        due: key group -> the watermark (us) at which it next does something, or None.
        due_at: key group -> the wall-clock instant (us) at which it next does something by itself, or None.
        late_us: how long after its instant the most overdue wall-clock work was done; None if none was.
        outage: what the first batch after a stop found overdue, summed; None if this is not one. Windows of event time
            know no wall clock and have nothing overdue: their sums are 0.
        drain: number of the newest pulse file that asked for a drain, or None.
        beat: number of the newest pulse file it heard, or None.
    """

    number: int
    counts: dict[str, int]
    rows: dict[str, int]
    small: dict[str, pa.Table] = field(repr=False)
    open_panes: dict[int, int]
    watermark: int | None
    flushed: bool
    tuples: dict[int, int | None] = field(default_factory=dict)
    due: dict[int, int | None] = field(default_factory=dict)
    due_at: dict[int, int | None] = field(default_factory=dict)
    late_us: int | None = None
    outage: dict[str, int] | None = None
    drain: int | None = None
    beat: int | None = None

    @property
    def balanced(self) -> bool:
        """Whether every row that came in went somewhere: rows_in is the sum of the other counts."""
        return self.counts["rows_in"] == sum(self.counts[name] for name in COUNTS[1:])


def collect(packed: DataFrame, number: int, *, groups: int) -> Batch:
    """Run the stateful plan by collecting its packed output: sizes always, bodies where they are small."""
    limit = _DRIVER_BYTES // (2 * groups)
    small = (F.col("tag") == "counts") | (F.octet_length("body") <= limit)
    return summed(number, packed.select("tag", "n", F.when(small, F.col("body")).alias("body")).collect())


def summed(number: int, packed: Iterable[Any]) -> Batch:
    """Return the sum of a batch's packed output rows."""
    collected = list(packed)
    groups = [json.loads(bytes(row.body)) for row in collected if row.tag == "counts"]
    by_tag = {tag: [row for row in collected if row.tag == tag] for tag in ("results", "rejected")}
    return Batch(
        number=number,
        counts={name: sum(group[name] for group in groups) for name in COUNTS},
        rows={tag: sum(row.n for row in rows) for tag, rows in by_tag.items()},
        small={
            tag: pa.concat_tables([from_segment(bytes(row.body)) for row in rows])
            for tag, rows in by_tag.items()
            if rows and all(row.body is not None for row in rows)
        },
        open_panes={group["group"]: group["open_panes"] for group in groups},
        watermark=_greatest(groups, "watermark"),
        flushed=any(group["flushed"] for group in groups),
        tuples={group["group"]: group["tuples"] for group in groups},
        due={group["group"]: group["due"] for group in groups},
        due_at={group["group"]: group["due_at"] for group in groups},
        late_us=_greatest(groups, "late_us"),
        outage=_outage(groups) if any(group["resumed"] for group in groups) else None,
        drain=_greatest(groups, "drain"),
        beat=_greatest(groups, "beat"),
    )


def _outage(groups: list[dict[str, Any]]) -> dict[str, int]:
    told = [group["outage"] for group in groups if group["outage"] is not None]
    sums = {name: sum(one[name] for one in told) for name in ("timers", "results", "tuples", "partitions")}
    return sums | {"back_us": max((one["back_us"] for one in told), default=0)}


def _greatest(groups: list[dict[str, Any]], name: str) -> int | None:
    return max((group[name] for group in groups if group[name] is not None), default=None)
