"""Versions of a Delta table on a local disk, read from the names and commits in its log. Needs no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from recovery.errors import SavepointError

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\..*)?\.parquet")


def newest_version(table: Path) -> int:
    """Return the newest version. Raises `SavepointError` if there is no Delta table."""
    versions = _commits(table)
    if not versions:
        raise SavepointError(f"{table} is no Delta table any more, so no savepoint can be made that includes it")
    return max(versions)


def has_version(table: Path, version: int) -> bool:
    """Say whether the log still tells what the table held at a version; its files may be gone all the same."""
    commits = _commits(table)
    log = table / "_delta_log"
    names = log.iterdir() if log.is_dir() else ()
    starts = [int(match[1]) for path in names if (match := _CHECKPOINT.fullmatch(path.name))]
    start = max((number for number in starts if number <= version), default=-1)
    return version in commits and all(number in commits for number in range(start + 1, version + 1))


def table_properties(table: Path) -> dict[str, str] | None:
    """Return the properties that were set last; None if that cannot be read without Spark."""
    found = _checkpointed_properties(table)
    for _, commit in _read(table):
        for one in commit:
            if "metaData" in one:
                found = dict(one["metaData"].get("configuration", {}))
    return found


def versions_after_batch(tables: Mapping[str, Path], transactions: Mapping[str, str], batch: int) -> dict[str, int]:
    """Return role -> the newest version that holds no row of a later batch.

    A batch that was interrupted may stand in some tables and not in others. Appends say in the log which batch they
    are; the view is merged without that, so it is cut at the moment at which the metrics of `batch`, which are always
    written last, were committed.

    Args:
        tables: role -> folder.
        transactions: role -> the id under which the job appends.
        batch: the last batch wanted.
    """
    versions = {}
    for role, table in tables.items():
        if role != "view":
            later = [v for v, commit in _read(table) if _batch(commit, transactions[role]) > batch]
            versions[role] = min(later, default=newest_version(table) + 1) - 1
    if "view" in tables:
        ends = [_time(c) for v, c in _read(tables["metrics"]) if v <= versions["metrics"]]
        end = max(ends, default=0)
        # A restore left the view as it was then, however late it came.
        early = [v for v, c in _read(tables["view"]) if v == 0 or _time(c) <= end or _is_restore(c)]
        versions["view"] = max(early, default=newest_version(tables["view"]))
    return versions


def _checkpointed_properties(table: Path) -> dict[str, str] | None:
    """Return the properties in the newest checkpoint of the log: the commit that set them may be cleaned up."""
    newest = max((table / "_delta_log").glob("*.checkpoint.parquet"), default=None)
    if newest is None:
        return None
    column = pq.read_table(newest, columns=["metaData"]).column("metaData")
    found = [dict(one["configuration"] or ()) for one in column.to_pylist() if one is not None]
    return found[0] if found else None


def _commits(table: Path) -> set[int]:
    log = table / "_delta_log"
    names = log.iterdir() if log.is_dir() else ()
    return {int(match[1]) for path in names if (match := _COMMIT.fullmatch(path.name))}


def _read(table: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    for version in sorted(_commits(table)):
        text = (table / "_delta_log" / f"{version:020d}.json").read_text()
        yield version, [json.loads(line) for line in text.splitlines() if line]


def _batch(commit: list[dict[str, Any]], transaction: str) -> int:
    """Return which batch of the job a commit is; -1 for none."""
    ids = [one["txn"]["version"] for one in commit if one.get("txn", {}).get("appId") == transaction]
    return max(ids, default=-1)


def _time(commit: list[dict[str, Any]]) -> int:
    return max((one["commitInfo"]["timestamp"] for one in commit if "commitInfo" in one), default=0)


def _is_restore(commit: list[dict[str, Any]]) -> bool:
    return any(one.get("commitInfo", {}).get("operation") == "RESTORE" for one in commit)
