"""`panekeeper maintain` beside a running job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panekeeper.cli.main import main


class Upkeep:
    """Runs the command in every batch of a running job, after its plan and before its commits."""

    def __init__(self, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.checkpoint = checkpoint
        self.capsys = capsys
        self.results: list[dict[str, Any]] = []

    def matches(self, point: str, batch: int) -> bool:
        return point == "before-delta" and batch > 0

    def trigger(self) -> None:
        self.capsys.readouterr()
        assert main(["maintain", str(self.checkpoint), "--json"]) == 0
        self.results.append(json.loads(self.capsys.readouterr().out))

    def total(self, field: str, role: str) -> int:
        tables = [table for result in self.results for table in result["tables"] if table["role"] == role]
        return sum(table[field] for table in tables)
