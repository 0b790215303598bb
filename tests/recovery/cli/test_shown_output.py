"""What the guides show of a command's output is what the command prints."""

from __future__ import annotations

from dataclasses import asdict

from panekeeper.recovery.cli.output import jobs_lines, maintain_lines
from panekeeper.recovery.jobs.status import JobStatus, Limits, NewestSavepoint, with_health
from panekeeper.recovery.upkeep.maintain import TableUpkeep, Upkeep
from tests.project.sources import ROOT, blocks_of


def shown(page: str, first_line: str) -> str:
    """Return the block of a guide that begins so, without the line that stands for more of the same."""
    (text,) = [block.text for block in blocks_of(ROOT / "docs" / page) if block.text.startswith(first_line)]
    return text.removesuffix("...\n").rstrip("\n")


def test_the_table_of_jobs_is_as_the_guide_shows_it() -> None:
    """A healthy job, one whose process was killed, and a checkpoint that cannot be read."""
    saved = NewestSavepoint(name="a", location="s", made_at="2026-03-01T07:00:00Z", age=18_000.0, batch=1)
    orders = JobStatus(
        checkpoint="/data/jobs/orders/checkpoint",
        state="running",
        running=True,
        resumable=True,
        why_not=None,
        job="orders",
        last_commit=1204,
        last_batch_age=3.0,
        watermark_lag=600.0,
        rows_behind=0,
        rows_per_second=850.0,
        last_savepoint=saved,
    )
    quotes = JobStatus(
        checkpoint="/data/jobs/quotes/checkpoint",
        state="lost",
        resumable=True,
        why_not=None,
        job="quotes",
        last_commit=877,
        last_batch_age=840.0,
        watermark_lag=1_860.0,
    )
    trades = JobStatus(
        checkpoint="/data/jobs/trades/checkpoint",
        state="damaged",
        resumable=False,
        why_not="job.json is missing: restore the job from a savepoint",
    )
    fields = {"jobs": [asdict(with_health(one, Limits())) for one in (orders, quotes, trades)]}
    assert jobs_lines(fields) == shown("operations.md", "job  ")


def test_the_output_of_an_upkeep_is_as_the_guide_shows_it() -> None:
    """The first tables of a job whose savepoints keep files of one of them."""
    log = TableUpkeep(
        role="log", path="p", compacted=412, added=1, removed=380, bytes=9_200_000, kept=41, retained_hours=168
    )
    view = TableUpkeep(role="view", path="p", compacted=96, added=1, removed=211, bytes=4_100_000, retained_hours=168)
    done = Upkeep(checkpoint="/data/out/checkpoint", job="worst-delay", dry_run=False, savepoints=3, tables=(log, view))
    assert maintain_lines(asdict(done)) == shown("tables.md", "tables of job")
