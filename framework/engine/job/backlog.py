"""How much the sources of a job still hold, and how long it takes to read that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.engine.job.query import has_stopped
from panekeeper.framework.engine.sources.streams import count_files
from panekeeper.state.duration_text import duration_text
from panekeeper.state.spark_logs import files_of_source

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.status import Status
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.state.checkpoint.job_record import Input

_BAR = 20


@dataclass(frozen=True, kw_only=True)
class Progress(Displayed):
    """How far a job is with what its sources hold. Shown as a bar.

    Attributes:
        name: of the job.
        state: running, ended, failed or flushed.
        rows: rows read since its start.
        rows_per_second: of the last minute.
        left: how much its sources held that it had not read, when they last said so; None where one does not tell.
        unit: of `left`: "rows" of Kafka, "files" of a folder; None if it is not known.
        part: how much of it is read, from 0 to 1; None if that is not known.
        seconds_left: how long it takes to read the rest, at the pace of the last minute; None if that is not known.
    """

    name: str
    state: str
    rows: int
    rows_per_second: float
    left: int | None = None
    unit: str | None = None
    part: float | None = None
    seconds_left: float | None = None

    def _described(self) -> tuple[str, dict[str, Any]]:
        left = "unknown" if self.left is None else f"{self.left:,} {self.unit}"
        time_left = None if self.seconds_left is None else f"about {duration_text(round(self.seconds_left))}"
        more = {"left": left, "rows": self.rows, "rows/s": self.rows_per_second, "time left": time_left or "unknown"}
        return f"job {self.name}: {self.state}", {"progress": self.bar, **more}

    @property
    def bar(self) -> str | None:
        """The part that is read, drawn; None if it is not known."""
        if self.part is None:
            return None
        full = int(self.part * _BAR)
        return f"{'█' * full}{'░' * (_BAR - full)} {self.part:.0%}"


def progress_of(
    status: Status,
    rows_per_second: float,
    *,
    kinds: Sequence[str],
    rows_left: int | None,
    files: tuple[int, int] | None,
    before: tuple[int, int],
) -> Progress:
    """Return how far a job is.

    Args:
        status: how it stands.
        rows_per_second: rows read in a second of the last minute.
        kinds: of its sources.
        rows_left: what its sources hold and it has not read, where they count rows.
        files: how many files its sources have read, and how many there are; None if that is not known.
        before: files and rows that had been read at an earlier look in this run, from which on rows of a file are told.
    """
    known: dict[str, Any] = {}
    if files is not None and {*kinds} == {"files"}:
        read, left = files[0], max(0, files[1] - files[0])
        known = {"left": left, "unit": "files", "part": read / (read + left) if read + left else 1.0}
        new_files, new_rows = read - before[0], status.rows - before[1]
        if not left:
            known["seconds_left"] = 0.0
        elif new_files > 0 and new_rows > 0 and rows_per_second > 0:
            known["seconds_left"] = left * new_rows / new_files / rows_per_second
    elif rows_left is not None and {*kinds} == {"kafka"}:
        part = status.rows / (status.rows + rows_left) if status.rows + rows_left else 1.0
        known = {"left": rows_left, "unit": "rows", "part": part}
        if not rows_left or rows_per_second > 0:
            known["seconds_left"] = rows_left / rows_per_second if rows_left else 0.0
    return Progress(
        name=status.name, state=status.state.value, rows=status.rows, rows_per_second=rows_per_second, **known
    )


class Backlog:
    """What the sources of a run hold that it has not read. Of Kafka the rows are known, of folders the files."""

    def __init__(self, files: CheckpointFiles, sources: Sequence[Input]) -> None:
        self._files, self._sources = files, sources
        self._read_before: tuple[int, int] | None = None  # files and rows at the first look

    def progress(self, status: Status, reported: Mapping[str, Any]) -> Progress:
        """Return how far a job of this status is; `reported` is what it reports of itself (`RunTotals.progress`)."""
        files = self._count_files()
        if files is not None and self._read_before is None:
            is_whole = status.batch is not None and status.batch + 1 == status.batches  # this run has read all of them
            self._read_before = (0, 0) if is_whole else (files[0], status.rows)
        return progress_of(
            status,
            reported["rows_per_second"],
            kinds=[source.kind for source in self._sources],
            rows_left=reported.get("rows_behind"),
            files=files,
            before=self._read_before or (0, 0),
        )

    def _count_files(self) -> tuple[int, int] | None:
        """Return how many files the sources have read, and how many there are; None if one is no folder, or is away."""
        spark, sources = self._files.spark, self._sources
        if any(source.kind != "files" for source in sources) or has_stopped(spark):
            return None
        try:
            read = sum(sum(1 for _ in files_of_source(self._files, number)) for number in range(len(sources)))
            return read, sum(count_files(spark, source.place) for source in sources)
        except Exception:  # noqa: BLE001 -- a store that is away must not end what is only looked at
            return None
