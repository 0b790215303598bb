"""How a job is shown while it runs: how far it is, and a view that refreshes in its place."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from panekeeper import Progress, Status
from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.engine.job.backlog import progress_of
from panekeeper.framework.engine.job.live import View, described
from panekeeper.framework.engine.job.status import JobState

AT = datetime(2024, 5, 1, 10, tzinfo=UTC)


def status(**fields: Any) -> Status:
    """A job that runs."""
    counts: dict[str, Any] = dict.fromkeys(("late", "dropped", "outside", "quarantined", "firings"), 0)
    known: dict[str, Any] = {
        "name": "fares",
        "state": JobState.RUNNING,
        "batch": 4,
        "batches": 2,
        "rows": 3000,
        "watermark": AT,
        "open_panes": 7,
    }
    return Status(**{**counts, **known, **fields})


def progress(**given: Any) -> Progress:
    """How far a job is that reads 100 rows a second from one folder."""
    known: dict[str, Any] = {"kinds": ["files"], "rows_left": None, "files": None, "before": (0, 0)}
    return progress_of(status(), 100.0, **(known | given))


def test_files_that_are_left_take_the_time_of_those_that_were_read() -> None:
    """30 files with 3,000 rows at 100 rows a second: the 10 that are left take ten seconds."""
    found = progress(files=(30, 40))
    assert (found.left, found.unit, found.part, found.seconds_left) == (10, "files", 0.75, 10.0)
    later = progress(files=(30, 40), before=(10, 2000))  # since that look 1,000 rows of 20 files
    assert later.seconds_left == 5.0


def test_rows_of_kafka_that_are_left_take_the_time_of_those_that_were_read() -> None:
    """7,000 rows are left; all that this run will read are 10,000."""
    found = progress(kinds=["kafka"], rows_left=7000)
    assert (found.left, found.unit, found.part, found.seconds_left) == (7000, "rows", 0.3, 70.0)
    assert progress(kinds=["kafka"], rows_left=0).part == 1.0


@pytest.mark.parametrize(
    "given",
    [
        {"kinds": ["delta"]},
        {"kinds": ["kafka"]},
        {"kinds": ["kafka", "files"], "rows_left": 5},
        {"kinds": ["files"]},
    ],
)
def test_what_a_source_does_not_tell_is_unknown(given: dict[str, Any]) -> None:
    """Another source; one that has not said it yet; two that count otherwise; a folder that cannot be read."""
    found = progress(**given)
    assert (found.left, found.part, found.seconds_left) == (None, None, None)
    assert str(found).splitlines() == [
        "job fares: running",
        "  left       unknown",
        "  rows       3,000",
        "  rows/s     100.0",
        "  time left  unknown",
    ]


def test_progress_is_a_bar() -> None:
    """With what is left, and how long that takes."""
    found = progress(files=(30, 40))
    assert found.bar == "█" * 15 + "░" * 5 + " 75%"
    assert "left       10 files" in str(found)
    assert "time left  about 10s" in str(found)
    assert "75%" in found._repr_html_()


def test_files_that_were_removed_after_they_were_read_leave_nothing() -> None:
    """Of 30 that were read, 20 are there."""
    found = progress(files=(30, 20))
    assert (found.left, found.part, found.seconds_left) == (0, 1.0, 0.0)


def test_a_job_is_shown_with_its_watermark_against_the_present() -> None:
    """And its backlog while it runs; what is not known is left out."""
    now = round(AT.timestamp() + 90) * 1_000_000
    title, shown = described(status(), "/c", now=now, report={}, progress=progress(files=(30, 40)))
    assert title == "job fares: running"
    assert shown["behind the present"] == "1m 30s"
    assert (shown["left"], shown["late"]) == ("10 files", 0)
    _, counted = described(status(late=4, dropped=1, quarantined=3), "/c", now=now, report={}, progress=None)
    assert [counted[name] for name in ("late", "too late", "bad")] == [4, 1, 3]
    _, ended = described(status(watermark=None), "/c", now=now, report={"error": "no space"}, progress=None)
    assert (ended["behind the present"], ended["error"], ended.get("left")) == (None, "no space", None)


class Counter(Displayed):
    """Counts how often it is shown."""

    def __init__(self) -> None:
        self.shown = 0

    def _described(self) -> tuple[str, dict[str, Any]]:
        self.shown += 1
        return "job", {"shown": self.shown}


class Terminal(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_view_in_a_terminal_is_written_over_the_one_before() -> None:
    """Not more often than it should be, and rarely if to look takes long: here from 1.0 to 1.5."""
    times, out = iter([0.0, 0.0, 0.5, 1.0, 1.5, 5.9]), Terminal()
    view = View(Counter(), 1.0, out=out, clock=lambda: next(times))
    for _ in range(4):
        view.refresh()
    view.end()
    again = "\x1b[2F\x1b[J"
    assert out.getvalue() == f"job\n  shown  1\n{again}job\n  shown  2\n{again}job\n  shown  3\n"


def test_a_view_in_a_file_is_written_when_it_begins_and_when_it_ends() -> None:
    """Without anything that only a terminal understands."""
    times, out = iter(range(10)), StringIO()
    view = View(Counter(), 1.0, out=out, clock=lambda: next(times))
    for _ in range(4):
        view.refresh()
    view.end()
    assert out.getvalue() == "job\n  shown  1\njob\n  shown  2\n"


def test_a_view_in_a_notebook_is_one_output_that_changes() -> None:
    """The table of the last look, in the output of the cell that began the view."""
    cell = """
from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.engine.job.live import View

class Counter(Displayed):
    shown = 0
    def _described(self):
        self.shown += 1
        return "job", {"shown": self.shown}

view = View(Counter(), 0)
view.refresh()
view.refresh()
view.end()
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120).execute()
    (output,) = notebook.cells[0].outputs
    first, last = output.data["text/html"], output.data["text/plain"]
    assert "<b>job</b>" in first
    assert int(re.findall(r">(\d+)<", first)[0]) >= 2
    assert last
