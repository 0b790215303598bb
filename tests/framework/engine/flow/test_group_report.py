"""What a key group tells the driver arrives under the names that it has in the key group."""

from __future__ import annotations

from dataclasses import fields

from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.framework.engine.flow.group_report import GroupReport


def test_a_report_arrives_as_it_was_sent() -> None:
    """Each of its fields, whatever it holds."""
    error = ErrorKind(reason="USER_ERROR", kind="ValueError at f", count=2, first="\u00e9")
    report = GroupReport(
        group=7,
        counts={"rows_in": 3},
        missed_panes=1,
        due_watermark_us=2,
        due_us=3,
        late_us=4,
        open_panes=5,
        open_runs={"hour": [[1, 3]]},
        watermark=6,
        kept_rows=8,
        outage_counts={"timers": 9},
        errors=[error],
        resume_file=10,
        resumed_us=11,
        drain_file=12,
        control_file=13,
        flushed=True,
    )
    assert all(getattr(report, one.name) != one.default for one in fields(report))
    assert GroupReport.from_bytes(report.to_bytes()) == report


def test_what_an_outcome_has_keeps_its_name() -> None:
    """Only the tables stay behind, which are packed rows of their own."""
    outcome = {one.name for one in fields(BatchOutcome)}
    report = {one.name for one in fields(GroupReport)}
    assert outcome - report == {"results", "view", "rejected", "windows"}
    assert report - outcome == {"group", "resume_file", "resumed_us", "drain_file", "control_file", "flushed"}
