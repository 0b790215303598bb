"""What a running demo looks like: a live bar on a terminal, a line a batch elsewhere.

Independent of Spark: it gets figures and draws them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from examples.flights.data import NEW_YORK


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How far the replay is: totals since its first start, over all runs."""

    rows: int
    batch: int
    watermark: datetime | None
    open_panes: int | None
    firings: int
    late: int
    dropped: int
    quarantined: int

    def cells(self, rate: float) -> dict[str, str]:
        """Return the figures as texts, by their labels."""
        watermark = (
            self.watermark.astimezone(ZoneInfo(NEW_YORK)).strftime("%a %d %b %H:%M") if self.watermark else "none yet"
        )
        return {
            "flights in": f"{self.rows:,}",
            "flights/s": f"{rate:,.0f}",
            "watermark": watermark,
            "open panes": "not known" if self.open_panes is None else f"{self.open_panes:,}",
            "firings": f"{self.firings:,}",
            "late": f"{self.late:,}",
            "too late": f"{self.dropped:,}",
            "bad": f"{self.quarantined:,}",
        }


class ReplayView:
    """The live view. Use it as a context manager and call `show` after each batch, from any thread."""

    def __init__(self, console: Console, *, rows: int, batches: int, done: int) -> None:
        """Begin with `done` of `rows` rows processed by earlier runs."""
        self._console, self._rows, self._batches = console, rows, batches
        self._began, self._done = time.monotonic(), done
        self._bar = Progress(
            TextColumn("[bold]replaying 2013[/]"),
            BarColumn(bar_width=None, complete_style="blue", finished_style="green"),
            TaskProgressColumn(),
            TextColumn("{task.fields[where]}"),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("replay", total=rows, completed=done, where="")
        self._live: Live | None = None

    def show(self, figures: Figures) -> None:
        """Draw the figures of the batch that just ended."""
        rate = (figures.rows - self._done) / max(time.monotonic() - self._began, 1e-9)
        where = f"batch {min(figures.batch, self._batches)} of {self._batches}"
        cells = figures.cells(rate)
        if self._live is None:
            line = ", ".join(f"{name} {value}" for name, value in cells.items())
            self._console.print(f"{where}: {line}", highlight=False, soft_wrap=True)
            return
        self._bar.update(self._task, completed=figures.rows, where=where)
        self._live.update(Group(self._bar, _grid(cells)))

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._bar, console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


@contextmanager
def waiting(console: Console, what: str) -> Iterator[None]:
    """Show that something takes a while: a spinner on a terminal, one line elsewhere."""
    if not console.is_terminal:
        console.print(what, highlight=False)
        yield
        return
    with console.status(what, spinner="dots"):
        yield


def _grid(cells: dict[str, str]) -> Table:
    grid = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 3, 0, 0))
    for name in cells:
        grid.add_column(name, style="bold", header_style="dim", no_wrap=True)
    grid.add_row(*cells.values())
    return grid
