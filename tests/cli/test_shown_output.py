"""What the guides show of a command's output is what the command prints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from panekeeper.diagnostics.what_if.advise import Advice, Advised
from panekeeper.diagnostics.what_if.comparison import Comparison, Difference
from panekeeper.diagnostics.what_if.trial import Figures, Results, Trial, TriedWindow
from panekeeper.recovery.jobs.fleet import Fleet
from panekeeper.recovery.jobs.status import JobStatus, Limits, NewestSavepoint, with_health
from panekeeper.recovery.upgrade.check import UpgradeReport
from panekeeper.recovery.upkeep.maintain import TableUpkeep, Upkeep
from panekeeper.state.compatibility import Change, Compatibility
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
    fleet = Fleet(jobs=tuple(with_health(one, Limits()) for one in (orders, quotes, trades)))
    assert str(fleet) == shown("operations.md", "job  ")


def test_the_output_of_an_upkeep_is_as_the_guide_shows_it() -> None:
    """The first tables of a job whose savepoints keep files of one of them."""
    log = TableUpkeep(
        role="log", path="p", compacted=412, added=1, removed=380, bytes=9_200_000, kept=41, retained_hours=168
    )
    view = TableUpkeep(role="view", path="p", compacted=96, added=1, removed=211, bytes=4_100_000, retained_hours=168)
    done = Upkeep(checkpoint="/data/out/checkpoint", job="worst-delay", dry_run=False, savepoints=3, tables=(log, view))
    assert str(done) == shown("tables.md", "tables of job")


MINUTES = 60_000_000
RECORDED = Figures(
    rows=4604,
    refined_late=316,
    dropped_late=1,
    quarantined=472,
    results=4894,
    refinements=332,
    delay_us=(30 * MINUTES, 415 * MINUTES, 1475 * MINUTES),
)


def test_what_a_trial_found_is_as_the_guide_shows_it() -> None:
    """Figures side by side, and the results that only the trial has; `plan` prints the same below its own."""
    tried = replace(RECORDED, refined_late=117, dropped_late=0, results=4700, refinements=135)
    starts = [datetime(2013, 3, 8, 12, 20, tzinfo=UTC) + number * timedelta(minutes=20) for number in range(3)]
    panes = [{"pane_start": start, "pane_end": start + timedelta(hours=1)} for start in starts]
    values = {"worst": 470, "flight": "FL361 to ATL", "mean": 470.0, "n": 1}
    trial = Trial(
        job="worst-delay",
        first=0,
        last=17,
        changes=("watermark: 30m at the last start, 2h now",),
        begins="the beginning",
        recorded=RECORDED,
        tried=replace(tried, delay_us=(120 * MINUTES, 455 * MINUTES, 1555 * MINUTES)),
        results=Comparison(
            same=4562,
            only_after=3,
            first=tuple(
                Difference(place={"carrier": "FL", "origin": "LGA", **pane}, before=None, after=values)
                for pane in panes
            ),
        ),
    )
    command, _, text = shown(
        "what-if.md", "$ panekeeper try out/demo/checkpoint --job examples/flights/job.py --w"
    ).partition("\n")
    assert command.endswith('--watermark "2 hours"')
    assert str(trial) == text
    state = Change(item="state", compatibility=Compatibility.COMPATIBLE, why="it is read")
    plan = UpgradeReport(savepoint="one", checkpoint="c", job="a", new_job="a", items=(state,), tried=trial)
    assert str(plan).endswith(f"tried: {text}")
    assert plan.fields()["tried"] == trial.fields()
    untried = replace(plan, tried="it is gone")
    assert str(untried).endswith("\nnot tried: it is gone")
    assert untried.fields()["tried"] == {"problem": "it is gone"}


def test_each_of_several_windows_has_a_section_of_a_trial() -> None:
    """With its own results, delays and differences, below those of the job."""
    results = Results(results=40, refinements=2, delay_us=None)
    hour = TriedWindow(recorded=results, tried=replace(results, results=39), results=Comparison(same=38, changed=1))
    trial = Trial(
        job="flights",
        first=0,
        last=1,
        changes=(),
        begins="the beginning",
        recorded=RECORDED,
        tried=RECORDED,
        results=Comparison(same=38, changed=1),
        windows={"hour": hour},
    )
    _, _, section = str(trial).partition("window hour\n")
    assert section.splitlines() == [
        "                  recorded  tried",
        "results           40        39",
        "refinements       2         2",
        "delay of results  none      none",
        "newest results: 38 the same, 1 changed",
        "  and more; --limit N prints them",
    ]


def test_the_advised_delays_are_as_the_guide_shows_them() -> None:
    """The delay of the job first."""

    def advised(share: str | None, delay: int, late: int, *figures: int) -> Advised:
        refined, dropped, results, *delays = figures
        found = replace(RECORDED, refined_late=refined, dropped_late=dropped, results=results)
        least, median, greatest = (one * MINUTES for one in delays)
        behind = None if share is None else late
        own = replace(found, delay_us=(least, median, greatest))
        return Advised(share=share, delay_us=delay * MINUTES, late=late, behind=behind, figures=own)

    delays = (
        advised(None, 30, 334, 316, 1, 4894, 30, 415, 1475),
        advised("99", 209, 41, 37, 0, 4609, 210, 540, 1655),
        advised("99.9", 328, 4, 4, 0, 4566, 330, 660, 1775),
        advised("99.99", 470, 0, 0, 0, 4565, 470, 780, 1915),
    )
    advice = Advice(job="worst-delay", first=0, last=17, rows=4132, begins="the beginning", delays=delays)
    _, _, text = shown("what-if.md", "$ panekeeper advise").partition("\n")
    assert str(advice) == text
