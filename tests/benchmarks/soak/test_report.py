"""What a load test writes: a page that says what is right, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.soak.account import Differences
from benchmarks.soak.commits import DeltaLog, pane_us
from benchmarks.soak.footprint import Footprint
from benchmarks.soak.latency import PaneLatency, Recovery
from benchmarks.soak.load import SECOND
from benchmarks.soak.report import figures, page
from benchmarks.soak.run import JobOptions, Outcome
from tests.benchmarks.soak.loads import SMALL, START

JOB = JobOptions(pane="5 seconds", watermark="2 seconds", discard_age="60 seconds", trigger="immediate", most_rows=100)
BEGIN = SMALL.start_us / SECOND
OUTCOME = Outcome(
    sent=25_000,
    sending_seconds=25.0,
    most_behind=3,
    lag_rows=1_500,
    drain_seconds=2.5,
    latencies=[PaneLatency(pane=START, stored=BEGIN + 8, visible=BEGIN + 9.5)],
    recoveries=[
        Recovery(began=BEGIN - 2, committed=BEGIN + 1, caught_up=BEGIN + 2, until=BEGIN + 2),
        Recovery(began=BEGIN + 12, committed=BEGIN + 20, caught_up=None, until=BEGIN + 25),
    ],
    kills=1,
    differences=Differences(results=300, rows=25_000),
    footprint=Footprint(),
    problems=[],
)


def content(outcome: Outcome) -> dict[str, Any]:
    """The figures as they are read from the file."""
    setting = {"minutes": 0.4, "capacity": 2_000, "load": [1.0, 2.0]}
    found: dict[str, Any] = json.loads(json.dumps(figures(SMALL, JOB, outcome, setting)))
    return found


def test_a_right_run_says_how_many_rows_were_counted_and_how_late() -> None:
    """The median and the greatest latency, and what each kill cost."""
    text = page(content(OUTCOME))
    assert "**All 25,000 rows are in their results, once" in text
    assert "| all | 1 | 1.5 | 1.5 | 1.5 |" in text
    assert "| killed | 0.2 | 8 | - |" in text


def test_a_run_with_a_lost_row_is_not_right() -> None:
    """The page begins with what is wrong, and names an example."""
    lost = Differences(results=300, rows=25_000, lost=1, examples=("key 4, pane of 0: sent 3 rows",))
    outcome = replace(OUTCOME, differences=lost)
    assert not outcome.is_right
    text = page(content(outcome))
    assert "**Not right:** 1 rows lost" in text
    assert "* key 4, pane of 0: sent 3 rows" in text
    assert "All 25,000" not in text


def test_a_job_that_ended_by_itself_is_a_problem_though_all_rows_are_right() -> None:
    """It should end only when it is killed or drained."""
    outcome = replace(OUTCOME, problems=["the job ended by itself: no space left"])
    assert not outcome.is_right
    assert "no space left" in page(content(outcome))


def test_commits_of_the_job_are_read_with_their_batch_and_their_last_pane(tmp_path: Path) -> None:
    """Those of others, such as a compaction, and of other tables are left out; each is read once."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    log = DeltaLog(tmp_path, "log")
    log.look()
    stats = [json.dumps({"maxValues": {"pane_start": f"2023-11-14T22:13:{at}.000Z"}}) for at in (20, 25)]
    batch: list[dict[str, Any]] = [{"add": {"path": one, "stats": one}} for one in stats]
    batch += [{"add": {"path": "c"}}, {"txn": {"appId": "soak/log@abc#1", "version": 7}}, {"commitInfo": {}}]
    for version, actions in enumerate([[{"protocol": {}}], batch, [{"add": {"path": "d"}}]]):
        (folder / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    log.look()
    log.look()
    (commit,) = log.commits
    assert (commit.batch, pane_us(commit)) == (7, START + 5 * SECOND)
    assert commit.at == (folder / f"{1:020d}.json").stat().st_mtime
