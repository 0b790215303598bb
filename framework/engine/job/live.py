"""How a job is shown while it runs: what it has done, and a view that refreshes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from panekeeper.framework.declarations.display import Displayed, format_bytes
from panekeeper.framework.engine.job.shutdown import is_in_a_kernel
from panekeeper.state.checkpoint.clock import monotonic_seconds
from panekeeper.state.duration_text import duration_text

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.backlog import Progress
    from panekeeper.framework.engine.job.status import Status

_SHARE = 10
"""To look takes at most one part in so many of the time: files of a large folder are counted for it."""


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
        "bad": status.quarantined,
        "repeated": status.repeated or None,
        "state": None if size is None else format_bytes(size),
        "errors": status.errors or None,
        "no tick": status.tick_error,
        "error": report.get("error"),
    }
    return f"job {status.name}: {status.state.value}", {
        name: value for name, value in shown.items() if value is not False
    }


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
