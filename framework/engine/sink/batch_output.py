"""The output of one micro-batch: the packed rows of the stateful plan, added up; what is small is sent to the driver.

A batch's results are most often a few thousand rows. Those pass through the driver as Arrow tables: writing them
from there needs no Python worker and no second read of the persisted output. What is larger stays there, and is
written beside the record of the batch, packed as it is, before a table has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.core.packed_rows import from_segment
from panekeeper.framework.core.quarantine import ErrorKind, added_up
from panekeeper.framework.engine.flow.group_report import GroupReport
from panekeeper.framework.engine.flow.processor import COUNTS, REJECTED, RESULTS
from panekeeper.state.checkpoint.folder import local_path, sync_file, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

ROW_COUNT_COLUMNS = ("rows_in", "admitted", "refined_late", "dropped_late", "outside", "quarantined", "repeated")
"""Where the rows of a batch went: the first is the sum of the others."""
_HASHES = 2**64
# Texts: with pyspark's functions each batch would make some seventy calls of Java to build the same columns.
_HASH = "xxhash64(n, body) AS hash"
_DRIVER_BODY = "CASE WHEN to_driver THEN body END AS body"


@dataclass(frozen=True, kw_only=True)
class BatchOutput:
    """What one batch did, as the key groups that had something to do reported it.

    Attributes:
        number: Spark's batch id.
        groups: what each of them reported.
        output_counts: tag -> number of rows of that output ("results": firings for the log; "rejected": rows for the
            quarantine; "view": rows for the view, if they are others; "results:hour", "view:hour": of one of several
            windows).
        hashes: tag -> sum of the hashes of its packed rows, modulo 2^64, by which they are known again in any order.
        driver_tables: tag -> these rows, if they are small; others are read from the packed output.
    """

    number: int
    groups: Sequence[GroupReport]
    output_counts: dict[str, int]
    hashes: dict[str, int]
    driver_tables: dict[str, pa.Table] = field(repr=False)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Where its rows went (`ROW_COUNT_COLUMNS`), added up over the groups."""
        return {name: sum(group.counts[name] for group in self.groups) for name in ROW_COUNT_COLUMNS}

    @property
    def missed_panes(self) -> int:
        """How often a row that was kept came too late for one of its panes, once for each pane."""
        return sum(group.missed_panes for group in self.groups)

    @property
    def watermark(self) -> int | None:
        """The greatest watermark a group acted on, us; None before the first."""
        return _max(group.watermark for group in self.groups)

    @property
    def flushed(self) -> bool:
        """Whether it closed everything."""
        return any(group.flushed for group in self.groups)

    @cached_property
    def errors(self) -> list[ErrorKind]:
        """What could not be computed."""
        return added_up(kind for group in self.groups for kind in group.errors)

    @property
    def late_us(self) -> int | None:
        """How long after its instant the most overdue wall-clock work was done; None if none was."""
        return _max(group.late_us for group in self.groups)

    @property
    def outage_counts(self) -> dict[str, int] | None:
        """What the first batch after a stop found overdue, added up; None for any other batch.

        Windows of event time have nothing overdue: their sums are 0.
        """
        if self.resume_file is None:
            return None
        outages = [group.outage_counts for group in self.groups if group.outage_counts is not None]
        sums = {name: sum(outage[name] for outage in outages) for name in ("timers", "results", "tuples", "partitions")}
        return sums | {"back_us": max((outage["back_us"] for outage in outages), default=0)}

    @property
    def resume_file(self) -> int | None:
        """Number of the control file of the start of the run whose first batch this is; None for any other batch."""
        return _max(group.resume_file for group in self.groups)

    @property
    def resumed_us(self) -> int | None:
        """When that run was started, us; None for any other batch."""
        return _max(group.resumed_us for group in self.groups)

    @property
    def drain_file(self) -> int | None:
        """Number of the newest control file with a drain that the batch processed, or None."""
        return _max(group.drain_file for group in self.groups)

    @property
    def control_file(self) -> int | None:
        """Number of the newest control file with a time that the batch processed, or None."""
        return _max(group.control_file for group in self.groups)

    @property
    def firings(self) -> int:
        """Number of rows for all logs."""
        return sum(rows for tag, rows in self.output_counts.items() if tag.partition(":")[0] == RESULTS)

    @property
    def large_tags(self) -> list[str]:
        """Tags of the outputs that are too large for the driver."""
        return [tag for tag, rows in self.output_counts.items() if rows and tag not in self.driver_tables]

    @property
    def errors_by_reason(self) -> dict[str, int]:
        """How many rows, results and firings could not be computed, by the reason that the quarantine gives."""
        return {
            reason: sum(error.count for error in self.errors if error.reason == reason)
            for reason in sorted({error.reason for error in self.errors})
        }

    @property
    def balanced(self) -> bool:
        """Whether every row that came in went somewhere: rows_in is the sum of the other counts."""
        return self.counts["rows_in"] == sum(self.counts[name] for name in ROW_COUNT_COLUMNS[1:])


def run_and_collect(packed: DataFrame, number: int) -> BatchOutput:
    """Run the stateful plan by collecting its packed output: sizes always, bodies where they are for the driver."""
    return add_up(number, packed.selectExpr("tag", "n", _HASH, _DRIVER_BODY).collect())


def add_up(number: int, packed: Iterable[Any]) -> BatchOutput:
    """Return what a batch did, added up over its packed output rows (`processor.OUTPUT_SCHEMA`)."""
    collected = list(packed)
    by_tag: dict[str, list[Any]] = {RESULTS: [], REJECTED: []}
    for row in collected:
        if row.tag != COUNTS:
            by_tag.setdefault(row.tag, []).append(row)
    return BatchOutput(
        number=number,
        groups=[GroupReport.from_bytes(bytes(row.body)) for row in collected if row.tag == COUNTS],
        output_counts={tag: sum(row.n for row in rows) for tag, rows in by_tag.items()},
        hashes={tag: sum(row.hash for row in rows) % _HASHES for tag, rows in by_tag.items()},
        driver_tables={
            tag: pa.concat_tables([from_segment(bytes(row.body)) for row in rows])
            for tag, rows in by_tag.items()
            if rows and all(row.body is not None for row in rows)
        },
    )


def _max(numbers: Iterable[int | None]) -> int | None:
    return max((number for number in numbers if number is not None), default=None)


_SCHEMA = "tag string, n bigint, body binary, place bigint"
_OF_GLOBS = re.compile(r"[\[\]{}*?\\]")


def write_large_rows(packed: DataFrame, tags: Collection[str], folder: str) -> None:
    """Write the packed rows of some tags to a new folder, which is flushed as the record of the batch is."""
    place = F.monotonically_increasing_id().alias("place")  # those of a key group are in the order of its firings
    rows = packed.where(F.col("tag").isin(*tags)).select("tag", "n", "body", place)
    rows.write.option("compression", "snappy").parquet(folder)
    local = local_path(folder)
    if local is not None:
        for path in local.iterdir():
            sync_file(path)
        sync_folder(local)
        sync_folder(local.parent)


def read_large_rows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the packed rows that `write_large_rows` has written, in their order."""
    return read_whole(spark.read.schema(_SCHEMA), folder).orderBy("place").drop("place")


def read_whole(reader: DataFrameReader, folder: str) -> DataFrame:
    """Return what the files of a folder hold, or fail, also where the session passes over files that cannot be read."""
    path = _OF_GLOBS.sub(r"\\\g<0>", folder)  # else Spark looks for folders that fit a name with such a character
    return reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(path)


def rows_and_hashes(packed: DataFrame) -> dict[str, tuple[int, int]]:
    """Return of packed rows, by tag, how many rows they hold and what their hash is, as `BatchOutput` has it."""
    by_tag = packed.groupBy("tag").agg(
        F.sum("n").alias("rows"), F.sum(F.xxhash64("n", "body").cast("decimal(20,0)")).alias("hash")
    )
    return {row.tag: (row.rows, int(row.hash) % _HASHES) for row in by_tag.collect()}
