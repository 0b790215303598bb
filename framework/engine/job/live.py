"""How a job is shown while it runs: what it has done, how much its sources still hold, a view that refreshes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from panekeeper.framework.declarations.display import Displayed, format_bytes
from panekeeper.framework.engine.job.shutdown import is_in_a_kernel
from panekeeper.framework.engine.job.status import Status
from panekeeper.state.checkpoint.clock import monotonic_seconds
from panekeeper.state.duration_text import duration_text

_BAR = 20
_SHARE = 10
"""To look takes at most one part in so many of the time: files of a large folder are counted for it."""


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


def described(
    status: Status, checkpoint: str, *, now: int, report: Mapping[str, Any], progress: Progress | None
) -> tuple[str, dict[str, Any]]:
    """Return what is shown of a job; `now` in us, `report` as the job reports of itself, `progress` while it runs."""
    mark, said = status.watermark, report.get("progress", {})
    behind = None if mark is None else duration_text(round(now / 1e6 - mark.timestamp(), 1))
    size = said.get("state_bytes")
    shown = {
        "checkpoint": checkpoint,
        "progress": progress and progress.bar,
        "left": progress and progress.left is not None and f"{progress.left:,} {progress.unit}",
        "batch": status.batch,
        "batches": status.batches,
        "rows": status.rows,
        "rows/s": said.get("rows_per_second"),
        "watermark": mark,
        "behind the present": behind,
        "open panes": status.open_panes,
        "results": status.firings,
        "late": status.late,
        "too late": status.dropped,
        "missed panes": status.missed_panes or None,
        "outside": status.outside or None,
        "quarantined": status.quarantined,
        "repeated": status.repeated or None,
        "state": None if size is None else format_bytes(size),
        "errors": status.errors or None,
        "no tick": status.tick_error,
        "error": report.get("error"),
    }
    return f"job {status.name}: {status.state.value}", {name: one for name, one in shown.items() if one is not False}


class View:
    """Shows one thing again and again: in the output of a cell, or in the place where a terminal showed it before.

    Where the output is a file, only when the view begins and ends.
    """

    def __init__(
        self, shown: Displayed, every: float, *, out: TextIO | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self._shown, self._every = shown, every
        self._out, self._clock = out or sys.stdout, clock or monotonic_seconds
        self._next: float | None = None
        self._lines = 0
        self._handle: Any = None

    def refresh(self) -> None:
        """Show it, unless that was done a moment ago."""
        now = self._clock()
        if self._next is None or (now >= self._next and self._can_refresh):
            self._show()
            self._next = now + max(self._every, _SHARE * (self._clock() - now))

    def end(self) -> None:
        """Show it for the last time."""
        self._show()

    @property
    def _can_refresh(self) -> bool:
        return is_in_a_kernel() or self._out.isatty()

    def _show(self) -> None:
        if is_in_a_kernel():
            from IPython.display import display

            if self._handle is None:
                self._handle = display(self._shown, display_id=True)  # type: ignore[no-untyped-call]
            else:
                self._handle.update(self._shown)
            return
        text = str(self._shown)
        if self._lines and self._out.isatty():
            self._out.write(f"\x1b[{self._lines}F\x1b[J")
        self._out.write(f"{text}\n")
        self._out.flush()
        self._lines = text.count("\n") + 1
