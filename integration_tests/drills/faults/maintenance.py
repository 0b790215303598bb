"""What the owner of a table may do to it while a job writes to it: compact it, vacuum it, alter it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.drills.actions import Statement

TABLES = ("log", "view")
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"

SQL: dict[Statement, str] = {
    "OPTIMIZE": "OPTIMIZE {}",
    "VACUUM": "VACUUM {}",
    "VACUUM RETAIN 0": "VACUUM {} RETAIN 0 HOURS",
    "SET TBLPROPERTIES": "ALTER TABLE {} SET TBLPROPERTIES ('own.note' = 'was here')",
    "ADD COLUMNS": "ALTER TABLE {} ADD COLUMNS (note STRING)",
}
"""Name of a statement -> the statement, with the table. `VACUUM RETAIN 0` needs a table without open writes."""


def maintain(spark: SparkSession, folder: Path, statements: Iterable[Statement]) -> None:
    """Run statements on the log and the view of a job.

    Args:
        spark: the session.
        folder: of the job; a table in it that is not there is left out.
        statements: their names.
    """
    spark.conf.set(_CHECK, "false")  # VACUUM RETAIN 0
    for statement in statements:
        for table in TABLES:
            if (folder / table).exists():
                spark.sql(SQL[statement].format(f"delta.`{folder / table}`")).collect()


def operations(folder: Path) -> Counter[str]:
    """Return how often each statement was committed to the log of a job, by its name in Delta's log."""
    found: Counter[str] = Counter()
    for path in (folder / "log" / "_delta_log").glob("*.json"):
        for line in path.read_text().splitlines():
            found[str(json.loads(line).get("commitInfo", {}).get("operation"))] += 1
    return found


def missing_operations(before: Counter[str], after: Counter[str], statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements that have left no commit in a log: an OPTIMIZE of one file changes nothing.

    Args:
        before: `operations` before them.
        after: `operations` after them.
        statements: their names.
    """
    names = {one: "VACUUM END" if one.startswith("VACUUM") else one for one in statements}
    return [one for one, name in names.items() if after[name] <= before[name]]
