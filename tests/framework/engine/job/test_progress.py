"""What a job reports of itself: the sums of its batches, and what Spark says of its query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from panekeeper.framework.engine.flow.group_report import GroupReport
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.query import QueryProgress, read_progress
from panekeeper.framework.engine.job.status import JobState, RunTotals, StageClock
from panekeeper.framework.engine.sink.batch_output import ROW_COUNT_COLUMNS, BatchOutput
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.runs import read_report


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        return self.us

    def seconds(self) -> float:
        return self.us / 1e6


NO_ROWS = dict.fromkeys(ROW_COUNT_COLUMNS, 0)


def batch(number: int, rows: int, groups: dict[int, dict[str, Any]] | None = None, **fields: Any) -> BatchOutput:
    """A batch that admitted its rows; `groups` has what the key groups reported, `fields` what the first one did."""
    first, *others = (groups or {0: {}}).items()
    admitted = NO_ROWS | {"rows_in": rows, "admitted": rows}
    reports = [GroupReport(group=first[0], counts=admitted, **(first[1] | fields))]
    reports += [GroupReport(group=group, counts=NO_ROWS, **own) for group, own in others]
    return BatchOutput(
        number=number, groups=reports, output_counts={"results": 0, "rejected": 0}, hashes={}, driver_tables={}
    )


def test_the_rate_is_that_of_the_last_minute_and_falls_to_0_in_an_idle_one() -> None:
    """Of a run that is younger than a minute, of its whole time."""
    clock = Clock()
    totals = RunTotals(1, clock)
    clock.us = 10_000_000
    totals.add(batch(0, 500), StageClock(clock.seconds))
    assert totals.progress()["rows_per_second"] == 50
    clock.us = 65_000_000
    totals.add(batch(1, 100, watermark=7), StageClock(clock.seconds))
    known = {"since": 0, "at": 65_000_000, "watermark": 7, "rows": 600, "rows_per_second": 10, "errors": {}}
    assert totals.progress() == known | dict.fromkeys(("late", "dropped", "missed_panes", "quarantined"), 0)
    clock.us = 125_000_000
    assert totals.progress()["rows_per_second"] == 0


def test_a_report_of_a_batch_has_the_time_of_each_stage() -> None:
    """A stage begins where the one before has ended."""
    clock = Clock()
    stages = StageClock(clock.seconds)
    for stage, until in (("plan", 3_000_000), ("tables", 4_500_000)):
        clock.us = until
        stages.end(stage)
    clock.us = 5_000_000
    report = RunTotals(1, clock).add(batch(4, 1, late_us=250_000), stages)
    assert (report.stages, report.seconds, report.late_seconds) == ({"plan": 3.0, "tables": 1.5}, 5.0, 0.25)


def test_how_many_panes_are_open_is_not_known_before_each_key_group_has_reported() -> None:
    """A batch that is run again has only the groups with rows in it; the others may have panes, too."""
    totals, clock = RunTotals(2), StageClock()
    again = batch(4, 1, {7: {"open_panes": 2, "kept_rows": 5}})
    assert totals.open_panes_after(again) is None
    assert totals.add(again, clock).open_panes is None
    assert totals.status("readings", JobState.RUNNING).open_panes is None
    assert totals.open_work()["open"] == {"panes": None, "tuples": None, "next_due": None, "next_watermark": None}

    first = batch(5, 1, {7: {"open_panes": 1, "kept_rows": 4}, 8: {"open_panes": 3, "kept_rows": 6}})
    assert totals.open_panes_after(first) == totals.add(first, clock).open_panes == 4
    assert totals.add(batch(6, 1, {8: {"open_panes": 0, "kept_rows": 0}}), clock).open_panes == 1
    assert totals.status("readings", JobState.RUNNING).open_panes == 1
    assert totals.open_work()["open"] == {"panes": 1, "tuples": 4, "next_due": None, "next_watermark": None}


def test_a_pane_that_several_key_groups_have_open_is_one() -> None:
    """In the status, the reports of batches and what is left open; a group that slept still has its panes."""
    totals, clock = RunTotals(2), StageClock()
    first = batch(
        1,
        1,
        {7: {"open_panes": 3, "open_runs": {"": [[1, 3]]}}, 8: {"open_panes": 2, "open_runs": {"": [[3, 4]]}}},
    )
    assert totals.open_panes_after(first) == totals.add(first, clock).open_panes == 4
    second = batch(2, 1, {8: {"open_panes": 1, "open_runs": {"": [[3, 3]]}}})
    assert totals.open_panes_after(second) == totals.add(second, clock).open_panes == 3
    assert totals.status("readings", JobState.RUNNING).open_panes == totals.open_work()["open"]["panes"] == 3


def test_rows_that_a_source_holds_are_counted_where_it_has_offsets_of_rows() -> None:
    """Kafka's, over topics and Kafka partitions, as text or not; a new Kafka partition counts once it is read."""
    kafka = {"endOffset": {"t": {"0": 5, "1": 9}}, "latestOffset": {"t": {"0": 7, "1": 9, "2": 4}}}
    text = {name: json.dumps(value) for name, value in kafka.items()}
    files = {"endOffset": {"logOffset": 3}, "latestOffset": None}
    odd = {"endOffset": "no JSON", "latestOffset": [1]}
    assert read_progress({"sources": [files, kafka, text, odd]}).rows_behind == 4
    assert read_progress({"sources": [files]}).rows_behind is None


def test_the_size_of_the_state_is_that_of_all_its_operators() -> None:
    """As RocksDB reports it; None before any did."""
    operators = [{"customMetrics": {"rocksdbSstFileSize": size}} for size in (3, 4)]
    assert read_progress({"stateOperators": [*operators, {}]}).state_bytes == 7
    assert read_progress({}) == QueryProgress()


def test_a_heartbeat_carries_the_report_and_is_sent_without_one_that_fails(tmp_path: Path) -> None:
    """A report may be missing, a heartbeat may not; and the end record has the last one."""
    folder, clock = LocalFolder(tmp_path), Clock()
    lease = acquire(folder, "readings", now=clock)
    lease.set_report(lambda: {"batch": 3, "progress": {"at": 5}})
    lease.renew()
    assert read_report(folder)["progress"] == {"at": 5}

    def fail() -> dict[str, Any]:
        raise ZeroDivisionError

    lease.set_report(fail)
    clock.us = 9
    lease.renew()
    assert folder.read_json("panekeeper/running.json")["seen"] == 9
    lease.set_report(lambda: {"batch": 4, "progress": {"at": 6}})
    lease.release("ended")
    assert (read_report(folder)["progress"], read_report(folder)["batch"]) == ({"at": 6}, 4)
    again = acquire(folder, "readings")
    assert read_report(folder)["progress"] == {"at": 6}  # until the new run has reported
    again.release("ended")
