"""Reads a Delta table's rows from its files, without Spark.

A finished run shows its results at once, and the comparison must not depend on the code that it checks. Only what this
demo's tables use is supported: plain Parquet files named by JSON commits. Anything else is an error.
"""

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

LOG, VIEW, QUARANTINE, METRICS, CHECKPOINT = (
    "worst_delay",
    "worst_delay_current",
    "worst_delay_quarantine",
    "worst_delay_metrics",
    "checkpoint",
)
"""Folders of the demo's tables and of its checkpoint."""


def has_table(path: Path) -> bool:
    """Return whether there is a Delta table here."""
    return (path / "_delta_log" / f"{0:020d}.json").exists()


def read_table(path: Path, *, columns: list[str] | None = None) -> pa.Table:
    """Return all rows of the newest version, in no particular order. A table without rows has no columns either.

    Raises:
        FileNotFoundError: no table, or its log does not begin with version 0.
        ValueError: the table uses a feature of Delta that this reader does not support.
    """
    if not has_table(path):
        raise FileNotFoundError(f"there is no Delta table in {path}")
    files = _live_files(path)
    if not files:
        return pa.table({})
    return pa.concat_tables(
        [_as_one_writer(pq.read_table(file, columns=columns, coerce_int96_timestamp_unit="us")) for file in files]
    )


def _as_one_writer(table: pa.Table) -> pa.Table:
    """Return the rows of a file with the same types, whichever library wrote it.

    Spark writes timestamps in the old form of 96 bits, which carries no zone; they are UTC. What `deltalake` has merged
    comes with views of text instead of text.
    """
    types = {
        field.name: pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else pa.string()
        for field in table.schema
        if pa.types.is_timestamp(field.type) or pa.types.is_string_view(field.type)
    }
    return table.cast(pa.schema([field.with_type(types.get(field.name, field.type)) for field in table.schema]))


def _live_files(path: Path) -> list[Path]:
    live: dict[str, None] = {}
    commits = sorted((path / "_delta_log").glob("?" * 20 + ".json"))
    for version, commit in enumerate(commits):
        if int(commit.stem) != version:
            raise FileNotFoundError(f"version {version} is missing in the log of {path}")
        for line in commit.read_text(encoding="utf-8").splitlines():
            _apply(json.loads(line), live)
    return [path / unquote(name) for name in live]


def _apply(action: dict[str, dict[str, object]], live: dict[str, None]) -> None:
    if "add" in action:
        if action["add"].get("deletionVector") or action["add"].get("partitionValues"):
            raise ValueError("the table has deletion vectors or partitions: read it with Spark")
        live[str(action["add"]["path"])] = None
    elif "remove" in action:
        live.pop(str(action["remove"]["path"]), None)
