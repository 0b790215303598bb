"""What a job reports of itself to other processes, and what Spark reports of its query.

The report is written to the checkpoint with each heartbeat of the lease and at the end (`lease.py`), so that
`panekeeper status` and `panekeeper jobs` show it without Spark. Its fields are stored, and each is optional when read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.clock.tick_scheduler import TickFailure
    from panekeeper.framework.engine.job.run_totals import RunTotals

_STATE_BYTES = "rocksdbSstFileSize"


@dataclass(frozen=True, kw_only=True)
class QueryProgress:
    """What Spark reports of the last batch of a query.

    Attributes:
        rows_behind: rows that the sources held and the query had not read; None where no source counts them. Kafka
            does.
        state_bytes: size of the state on disk, over all shuffle partitions; None before the first batch.
    """

    rows_behind: int | None = None
    state_bytes: int | None = None


def report_fields(
    totals: RunTotals, query: StreamingQuery | None, tick_failure: TickFailure | None = None
) -> dict[str, Any]:
    """Return the report of a job: batch, open (`RunTotals.open_work`) and progress.

    Args:
        totals: what its batches did.
        query: None before it starts.
        tick_failure: why no tick can be written; None if all is well.
    """
    spark = {} if query is None else asdict(query_progress(query))
    ticks = {"no_tick_since": tick_failure.since_us, "tick_error": tick_failure.error} if tick_failure else {}
    return totals.open_work() | {"progress": totals.progress() | spark | ticks}


def query_progress(query: StreamingQuery) -> QueryProgress:
    """Return the progress of a query; empty before its first batch has ended."""
    last = query._jsq.lastProgress()  # noqa: SLF001 -- one call; the public form makes one for each field
    return QueryProgress() if last is None else read_progress(json.loads(last.json()))


def read_progress(fields: Mapping[str, Any]) -> QueryProgress:
    """Return what a progress of Spark's, as it writes it in JSON, says.

    >>> read_progress({"sources": [{"endOffset": {"t": {"0": 7}}, "latestOffset": {"t": {"0": 9}}}]}).rows_behind
    2
    """
    behind = [rows for source in fields.get("sources", ()) if (rows := _rows_behind(source)) is not None]
    sizes = [one.get("customMetrics", {}).get(_STATE_BYTES) for one in fields.get("stateOperators", ())]
    known = [size for size in sizes if size is not None]
    return QueryProgress(rows_behind=sum(behind) if behind else None, state_bytes=sum(known) if known else None)


def _rows_behind(source: Mapping[str, Any]) -> int | None:
    """Return the rows that a source held and a batch had not read, from offsets by topic and Kafka partition."""
    with suppress(AttributeError, TypeError, ValueError):
        latest, end = (_offsets(source[name]) for name in ("latestOffset", "endOffset") if source.get(name))
        return sum(max(0, offset - end.get(place, offset)) for place, offset in latest.items())
    return None


def _offsets(value: Any) -> dict[tuple[str, str], int]:
    topics = json.loads(value) if isinstance(value, str) else value
    return dict(_flat(topics.items()))


def _flat(topics: Iterable[tuple[str, Any]]) -> Iterable[tuple[tuple[str, str], int]]:
    for topic, partitions in topics:
        for partition, offset in partitions.items():
            yield (topic, partition), int(offset)
