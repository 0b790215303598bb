"""What the logs of the job's Delta tables say: read as they grow, without Spark and without the job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.soak.load import SECOND

_RESULT = ["key", "pane_start", "n", "total", "refinement"]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit of one batch.

    Attributes:
        at: when its file was written, seconds since the epoch: from then on readers see it.
        batch: number of the batch.
        greatest: the greatest value of each column in the rows that it added, where Delta keeps it.
    """

    at: float
    batch: int
    greatest: dict[str, Any]


class DeltaLog:
    """The commits of a job to one of its tables.

    Args:
        table: the folder of the table, which may not be there yet.
        role: what the job calls the table.
    """

    def __init__(self, table: Path, role: str) -> None:
        self.commits: list[Commit] = []
        self._log = table / "_delta_log"
        self._role = f"/{role}@"
        self._version = 0

    def look(self) -> None:
        """Read the commits that are new."""
        while (path := self._log / f"{self._version:020d}.json").exists():
            actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            batches = [action["txn"]["version"] for action in actions if self._role in _transaction(action)]
            if batches:
                self.commits.append(Commit(at=path.stat().st_mtime, batch=batches[0], greatest=_greatest(actions)))
            self._version += 1


def pane_us(commit: Commit) -> int | None:
    """Return the start of the last pane that a commit to the log has, us; None if it has none."""
    newest = commit.greatest.get("pane_start")
    return None if newest is None else round(datetime.fromisoformat(newest).timestamp() * SECOND)


def results_of(table: Path, panes: range) -> pa.Table:
    """Return the results of these panes."""
    first, end = (pa.scalar(us, pa.timestamp("us", tz="UTC")).as_py() for us in (panes[0], panes[-1] + panes.step))
    within = [("pane_start", ">=", first), ("pane_start", "<", end)]
    return DeltaTable(str(table)).to_pyarrow_table(columns=_RESULT, filters=within)


def results_outside(table: Path, panes: range) -> int:
    """Return how many results there are of panes that got no rows."""
    first, end = (pa.scalar(us, pa.timestamp("us", tz="UTC")).as_py() for us in (panes[0], panes[-1] + panes.step))
    outside = [[("pane_start", "<", first)], [("pane_start", ">=", end)]]
    return int(DeltaTable(str(table)).to_pyarrow_table(columns=["key"], filters=outside).num_rows)


def _transaction(action: dict[str, Any]) -> str:
    return str(action.get("txn", {}).get("appId", ""))


def _greatest(actions: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for action in actions:
        stats = action.get("add", {}).get("stats")
        for name, value in (json.loads(stats).get("maxValues", {}) if stats else {}).items():
            found[name] = max(value, found[name]) if name in found else value
    return found
