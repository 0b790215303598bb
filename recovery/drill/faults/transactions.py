"""Do the tables of a job refuse the batches of an earlier epoch? Read without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from panekeeper.framework.engine.sink.small_commits import FENCED
from panekeeper.state.checkpoint.job_record import JobRecord


def fence_problems(tables: Mapping[str, str], record: JobRecord) -> list[str]:
    """Return what is wrong with the fences of an epoch, a line for each table.

    Args:
        tables: role -> folder of the job's tables, on this host.
        record: the job's record in the epoch that must be fenced off.
    """
    found = {role: _problem(Path(path), record.transaction(role)) for role, path in tables.items()}
    return [f"{role}: {problem}" for role, problem in found.items() if problem is not None]


def _problem(table: Path, transaction: str) -> str | None:
    versions = _transaction_versions(table, transaction)
    if FENCED not in versions:
        return f"its log has no fence of {transaction}"
    late = versions[versions.index(FENCED) + 1 :]
    return f"batch {late[0]} of {transaction} was committed after its fence" if late else None


def _transaction_versions(table: Path, transaction: str) -> list[int]:
    """Return the versions that were committed under a transaction id, in the order of the commits."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    actions = (json.loads(line) for path in commits for line in path.read_text().splitlines())
    transactions = (action["txn"] for action in actions if "txn" in action)
    return [one["version"] for one in transactions if one["appId"] == transaction]
