"""`report`: what a job has done, as one page of HTML, made from its checkpoint and its tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from panekeeper.diagnostics.report.figures import Figures, read_drills, read_figures, with_open_panes
from panekeeper.diagnostics.report.page import page
from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 120
"""So many batches are shown if nothing else is said: more could not be told apart."""
_MOST_BATCHES = 2000


@dataclass(frozen=True, kw_only=True)
class Report(Result):
    """What a job has done, as a page. A notebook shows the page.

    Attributes:
        html: the page; it needs no other file, and no network.
        job: the name of the job.
        batches: how many batches are shown.
        panes: how many panes are shown, each of all partitions.
        notes: what is not shown, and why.
        file: where it was written; None if it was not.
    """

    html: str
    job: str | None
    batches: int
    panes: int
    notes: tuple[str, ...]
    file: str | None = None
    _computed: ClassVar[Mapping[str, str]] = {"bytes": "size"}
    _not_in_json: ClassVar[Collection[str]] = ("html",)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, in the place of one that is there. Raises `OSError` if that cannot be written."""
        Path(path).write_text(self.html, encoding="utf-8")

    @property
    def size(self) -> int:
        """The size of the page, in bytes."""
        return len(self.html.encode())

    def _described(self) -> Iterator[str]:
        where = "" if self.file is None else f", in {self.file} ({format_bytes(self.size)})"
        yield f"report of job {self.job!r}: {self.batches:,} batches and {self.panes:,} panes{where}"
        yield from self.notes

    def _repr_html_(self) -> str:
        style = "width:100%;height:80vh;border:0"
        return f'<iframe style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def report(
    checkpoint: Location,
    *,
    batches: int = BATCHES,
    open_panes: bool = True,
    drill: str | os.PathLike[str] | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    now: Callable[[], int] = now_us,
) -> Report:
    """Return what a job has done as one page: panes, watermark, rows, late rows, times, state, errors, downtimes.

    The job may run meanwhile. Tables are read without Spark; one that only Spark can read is left out, with a note.

    Args:
        checkpoint: the job's checkpoint.
        batches: how many of the last batches to show, up to 2000.
        open_panes: whether to show the panes that have not fired yet, from the state.
        drill: a file with what `panekeeper drill --json` has printed of the job: its last drill.
        s3: how S3 is reached.
        spark: the session that reads the state, if only Spark can; a new one if not given.
        now: the present, in us since the epoch.

    Raises:
        CheckpointError: it is no checkpoint.
        DeclarationError: `batches` is no such number, or `drill` no such file of this job.
    """
    if type(batches) is not int or not 0 < batches <= _MOST_BATCHES:
        raise DeclarationError(f"batches is {batches!r}; give a number from 1 to {_MOST_BATCHES}")
    figures = read_figures(checkpoint_at(checkpoint, s3), batches=batches, now=now())
    if drill is not None:
        figures = replace(figures, drills=read_drills(drill, figures.status.job))
    if open_panes and figures.status.state != "flushed" and figures.status.last_commit is not None:
        figures = _with_open_panes(figures, checkpoint, s3, spark)
    return Report(
        html=page(figures),
        job=figures.status.job,
        batches=len(figures.batches),
        panes=len(figures.panes),
        notes=tuple(figures.notes),
    )


def _with_open_panes(
    figures: Figures, checkpoint: Location, s3: S3Options | None, spark: SparkSession | None
) -> Figures:
    from panekeeper.diagnostics.inspector.opened import opened
    from panekeeper.diagnostics.inspector.panes import open_panes

    with suppress(DeclarationError):  # the window has no panes
        try:
            with opened(checkpoint, s3=s3, spark=spark) as state:
                return with_open_panes(figures, open_panes(state)[0])
        except DeclarationError:
            raise
        except PanekeeperError as error:
            return replace(figures, notes=[*figures.notes, f"The panes that are open cannot be read: {error}"])
    return figures
