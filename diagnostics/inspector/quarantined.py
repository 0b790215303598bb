"""What does the quarantine have of a partition? Its rows are texts of JSON, in which the partition columns are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.inspector.opened import Opened
from panekeeper.diagnostics.keys import TypedKey
from panekeeper.diagnostics.tables.rows import read_plain_table
from panekeeper.framework.core.inspection.refusals import Refusal
from panekeeper.framework.core.job_spec import PORT, WINDOW
from panekeeper.framework.declarations.durations import time_us

if TYPE_CHECKING:
    from panekeeper.framework.core.inspection.one_key import Values
    from panekeeper.framework.core.inspection.recorded import RecordedPort

_MOST_ROWS = 50_000
"""Of more rows in the quarantine Spark looks for those of a partition."""
_STARTS = ("pane_start", "session_start")


def refused_of(state: Opened, port: RecordedPort, key: TypedKey) -> list[Refusal]:
    """Return what the quarantine has of a partition as of the batch that is looked at, in the order of batches."""
    path = state.tables.get("quarantine")
    if path is None:
        return []
    plain = read_plain_table(path, {})
    if plain is not None:
        refusals = refused_in(plain, port, key.values, until=state.batch, has_ports=state.has_ports)
        if refusals is not None:
            return refusals
    return _by_spark(state, port, key, path)


def refused_in(
    table: pa.Table, port: RecordedPort, values: Values, *, until: int, has_ports: bool = False
) -> list[Refusal] | None:
    """Return what rows of the quarantine are of a partition; None if Spark must say which text is which value.

    Args:
        table: the rows of the quarantine.
        port: the window of the partition.
        values: partition column -> its value.
        until: the last batch that counts.
        has_ports: whether there is a column with the port.
    """
    kinds = port.keys.types
    if table.num_rows > _MOST_ROWS or not all(map(_is_plain, kinds)):
        return None
    wanted = [values[name].as_py() for name in port.log_keys]
    refusals = []
    for quarantined_row in table.filter(pc.less_equal(table.column("batch"), until)).sort_by("batch").to_pylist():
        row = json.loads(quarantined_row["row"])
        if port.window and quarantined_row[WINDOW] not in (None, port.window):
            continue
        if has_ports and quarantined_row[PORT] != port.number:
            continue
        if wanted not in ([row.get(name) for name in names] for names in port.rows_of):
            continue
        if quarantined_row["event_time"] is None and not {*_STARTS}.isdisjoint(row):
            return None
        us, refused_at = (
            None if quarantined_row[name] is None else time_us(quarantined_row[name], name)
            for name in ("event_time", "quarantined_at")
        )
        refusals.append(
            Refusal(
                reason=quarantined_row["reason"],
                detail=quarantined_row["detail"] or "",
                at=us,
                batch=quarantined_row["batch"],
                refused_at=refused_at,
            )
        )
    return refusals


def refused_keys(state: Opened, port: RecordedPort) -> list[tuple[Any, ...]]:
    """Return the partitions of which the quarantine has rows as of the batch that is looked at.

    They are told by texts and integers alone, and where the table is read without Spark: they are hints.
    """
    path, kinds = state.tables.get("quarantine"), port.keys.types
    plain = None if path is None else read_plain_table(path, {}, ["batch", "row"])
    if plain is None or plain.num_rows > _MOST_ROWS or not all(map(_is_plain, kinds)):
        return []
    texts = plain.filter(pc.less_equal(plain.column("batch"), state.batch)).column("row").unique().to_pylist()
    rows = [json.loads(text) for text in texts]
    return [*{tuple(row[name] for name in names) for row in rows for names in port.rows_of if {*names} <= row.keys()}]


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether a text of JSON has the values as they are."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _by_spark(state: Opened, port: RecordedPort, key: TypedKey, path: str) -> list[Refusal]:
    from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import TimestampType

    table = state.frame(path).where(F.col("batch") <= state.batch)
    if port.window:
        table = table.where(F.col(WINDOW).isNull() | (F.col(WINDOW) == port.window))
    if state.has_ports:
        table = table.where(F.col(PORT) == port.number)
    is_of = F.lit(False)
    for names in port.rows_of:
        is_key = F.lit(True)
        for name, kind, log_name in zip(names, port.keys.types, port.log_keys, strict=True):
            text = F.get_json_object("row", f"$['{name}']")
            is_key &= text.try_cast(from_arrow_type(kind)).eqNullSafe(key.columns[log_name])
        is_of |= is_key
    table = table.where(is_of)
    time = F.expr("unix_micros(cast(event_time as timestamp_ltz))")
    begins = [F.get_json_object("row", f"$.{name}").try_cast(TimestampType()) for name in _STARTS]
    start = F.coalesce(*(F.unix_micros(begin) for begin in begins))  # of a firing
    refused_at = F.unix_micros("quarantined_at").alias("refused_at")
    columns = ("reason", "detail", "batch", time.alias("at"), start.alias("start"), refused_at)
    return [
        Refusal(
            reason=row.reason,
            detail=row.detail or "",
            at=row.start if row.at is None else row.at,
            batch=row.batch,
            of_firing=row.at is None and row.start is not None,
            refused_at=row.refused_at,
        )
        for row in table.select(*columns).orderBy("batch").collect()
    ]
