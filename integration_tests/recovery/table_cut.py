"""A power cut takes a file of a table, or a part of it: what the next start makes of it, and where its advice leads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.engine.readings import LOG
from integration_tests.recovery.power_cut import KEPT, Content, PowerCut, leave
from panekeeper import SinkError

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

_ADVICE = re.compile(
    r"all files in _delta_log whose number is (\d+) or greater, also hidden ones, and start the job again"
)
_MISSING = ("is an older copy", "is gone, and this checkpoint has written to it")
"""A start says that batches are missing, or that the table is, and what to do about that."""


class TableCut(PowerCut):
    """A job that has ended, and can be taken back to that as often as wanted, to lose a file of a table."""

    def __init__(self, readings: Readings) -> None:
        super().__init__(readings)
        self.read = sum(row["rows_in"] for row in readings.rows("log_metrics"))

    def cuts(self) -> Iterator[tuple[str, Content]]:
        """Yield the files of tables that have the newest two changes, with what is left of each.

        Nothing, half, all lines to each of them, or not even the name. Also each file of rows that the newest change
        has brought.
        """
        for table in KEPT[1:]:
            commits = sorted((self.copies / table / "_delta_log").glob("*.json"))
            changes = [one for one in commits if '"add"' in one.read_text()][-2:]
            for commit in dict.fromkeys([*changes, commits[-1]]):
                yield from ((self._name(commit), left) for left in _left_of(commit))
            for file in _added_by(changes[-1]) if changes else ():
                yield from ((self._name(file), left) for left in (None, b"", file.read_bytes()[:100]))

    def problem_after(self, file: str, left: Content) -> str | None:
        """Take what is lost from a file, and start: return what is wrong with what follows, None if nothing is."""
        path = self.readings.folder / file
        leave(path, left)
        if left is not None:
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        try:
            self.run()
        except SinkError as error:
            if any(one in str(error) for one in _MISSING):  # that batch is not the last one
                return None
            log = self.readings.folder / file.split("/", maxsplit=1)[0] / "_delta_log"
            return self._problem_of_advice(path, log, str(error))
        return self._problem_of_tables()

    def _problem_of_advice(self, path: Path, log: Path, said: str) -> str | None:
        advice = _ADVICE.search(said)
        if advice is None or path.name not in said or "\n" in said:
            return f"the error names no file, or no way out: {said}"
        for one in [*log.iterdir()]:
            number = one.name.lstrip(".")[:20]
            if one.name == "_last_checkpoint" or (number.isdecimal() and int(number) >= int(advice[1])):
                one.unlink()
        self.clear_memory()
        try:
            self.run()
        except SinkError as error:
            return None if any(one in str(error) for one in _MISSING) else f"the way out leads to: {error}"
        return self._problem_of_tables()

    def _problem_of_tables(self) -> str | None:
        read = sum(row["rows_in"] for row in self.readings.rows("log_metrics"))
        found: tuple[Any, ...] = (
            self.readings.log(),
            self.readings.log("view"),
            len(self.readings.rows("log_quarantine")),
        )
        return None if (*found, read) == (LOG, LOG[1:], 1, self.read + 2) else f"wrong tables: {found}, {read}"

    def _name(self, path: Path) -> str:
        return path.relative_to(self.copies).as_posix()


def _left_of(commit: Path) -> Iterator[Content]:
    content = commit.read_bytes()
    lines = content.splitlines(keepends=True)
    yield from (None, content[: len(content) // 2])
    yield from (b"".join(lines[:kept]) for kept in range(len(lines)))


def _added_by(commit: Path) -> list[Path]:
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    return [commit.parent.parent / one["add"]["path"] for one in actions if "add" in one]
