"""Rows that came too late are settled: into log and view, once, through a kill and a restore; and the job goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.readings import FILES
from panekeeper import SavepointRefused, TimeInterval, agg, restore, savepoint, settle, why, windowed
from panekeeper.framework.core.inspection.reasons import Verdict
from panekeeper.framework.engine.sink import fault_points
from panekeeper.recovery.jobs.checkpoint import holding
from panekeeper.recovery.settle.panes import Outcome
from panekeeper.recovery.storage.files import LocalFiles

if TYPE_CHECKING:
    from pathlib import Path

    from integration_tests.engine.conftest import Reading, Readings

LATE: list[Reading] = [("a", "10:00:50", 256), ("b", "10:04:30", 512), ("d", "10:00:30", 1024), ("c", "10:09:40", 2048)]
END: list[Reading] = [("c", "10:30:00", 1)]


def in_time(*files: list[Reading]) -> dict[tuple[str, str], tuple[int, int]]:
    """Total and number of the readings of each sensor and minute, whenever they came; open minutes left out."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for sensor, at, value in (row for rows in files for row in rows):
        if at is not None and value is not None and at < "10:30":
            total, n = found.get((sensor, at[:5]), (0, 0))
            found[sensor, at[:5]] = (total + value, n + 1)
    return found


def newest(rows: list[tuple[Any, ...]]) -> dict[tuple[str, str], tuple[int, int]]:
    """The last result of each sensor and minute."""
    return {(sensor, minute): (total, n) for sensor, minute, total, n, _, _ in sorted(rows, key=lambda row: row[4])}


def require_row_settled(readings: Readings) -> None:
    """A row that a settlement has added is told as that."""
    answer = why(readings.checkpoint, row={"sensor": "b", "at": "2024-05-01T10:04:30"}, spark=readings.spark)
    assert answer.verdict is Verdict.SETTLED
    assert "a settlement has added them" in answer.reasons


@pytest.mark.extended
def test_late_rows_are_settled_once_through_a_kill_and_a_restore(
    readings: Readings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Log and view are those of a run in which no row was late. A dry run, or a second one, writes nothing.

    What takes long is told as it begins.
    A restore to a savepoint from before takes the settlement back, and it can be made again.
    """
    for rows in (*FILES, LATE, END):
        readings.put(*rows)
    readings.run()
    job, before = readings.declare(), readings.log()
    wanted = in_time(*FILES, LATE)
    assert {row["reason"] for row in readings.rows("log_quarantine")} == {"LATE", "NULL_EVENT_TIME"}
    savepoint(readings.checkpoint, "before", to=tmp_path / "saved", decode=False)

    with caplog.at_level("INFO", "panekeeper.progress"):
        preview = settle(readings.checkpoint, job, since="2020-01-01T00:00", reason="LATE", dry_run=True)
    told = [one.getMessage() for one in caplog.records if one.name == "panekeeper.progress"]
    assert [one.partition(" ")[0] for one in told] == ["reading", "computing", "reading"]
    assert told[0] == f"reading the quarantine {readings.folder / 'log_quarantine'}"
    shown = {
        (one.key["sensor"], f"{one.pane_start:%H:%M}"): (one.before and one.before["total"], one.after["total"])
        for one in preview.panes
        if one.after is not None
    }
    assert shown == {("a", "10:00"): (17, 273), ("b", "10:04"): (None, 512), ("d", "10:00"): (None, 1024)}
    assert readings.log() == before

    def kill(step: str, number: int, _: str) -> None:
        if (step, number) == ("during-settlement", 2):
            raise KeyboardInterrupt

    fault_points.hook = kill
    try:
        with pytest.raises(KeyboardInterrupt):
            settle(readings.checkpoint, job)
    finally:
        fault_points.hook = None
    assert newest(readings.log()) == wanted
    assert newest(readings.log("view")) != wanted
    savepoint(readings.checkpoint, "torn", to=tmp_path / "saved", decode=False)
    torn = restore(tmp_path / "saved", "torn", checkpoint=readings.checkpoint, spark=readings.spark)
    assert settle(readings.checkpoint, job).counts[Outcome.SETTLED] == 3
    done = settle(readings.checkpoint, job)
    assert {one.outcome for one in done.panes} == {Outcome.UNCHANGED}
    assert newest(readings.log()) == newest(readings.log("view")) == wanted
    settled = [row for row in readings.log() if row[5] == "SETTLED"]
    assert settled == [
        ("a", "10:00", 273, 3, 2, "SETTLED"),
        ("b", "10:04", 512, 1, 0, "SETTLED"),
        ("d", "10:00", 1024, 1, 0, "SETTLED"),
    ]

    require_row_settled(readings)
    back = restore(tmp_path / "saved", "before", checkpoint=readings.checkpoint, spark=readings.spark)
    assert (torn.settled, back.settled) == (0, 3)
    assert readings.log() == before
    assert settle(readings.checkpoint, job).counts[Outcome.SETTLED] == 3
    assert newest(readings.log()) == newest(readings.log("view")) == wanted

    readings.put(("c", "10:30:10", 2), ("e", "10:00:00", 4))
    readings.put(("c", "11:00:00", 8))
    readings.run()
    assert ("c", "10:30", 3, 2, 0, "WATERMARK") in readings.log("view")
    with (
        holding(LocalFiles(readings.epoch), "readings", "the upkeep of job"),
        pytest.raises(SavepointRefused, match="is in use"),
    ):
        settle(readings.checkpoint, job, dry_run=True)
    settle(readings.checkpoint, job, since=len(FILES) + 2)
    assert ("e", "10:00", 4, 1, 0, "SETTLED") in readings.log("view")
    assert len([row for row in readings.log() if row[5] == "SETTLED"]) == 4


@pytest.mark.release  # CI settles one window
def test_each_of_several_windows_is_settled(readings: Readings) -> None:
    """In its own log and view: the one that is asked for, then all of them; and once."""
    last: list[Reading] = [("a", "10:05:10", 4096)]
    for rows in (*FILES, LATE, END, last):
        readings.put(*rows)
    stream = windowed(readings.stream(), name="several", partition_by="sensor", event_time="at", key_groups=2)
    by_time = stream.windows(minute=TimeInterval(60, discard_age=120), day=TimeInterval("1 day"), ten=TimeInterval(600))
    computed = by_time.aggregate(total=agg.sum("value"), n=agg.count())
    job = computed.to_delta(readings.folder / "log", view=readings.folder / "view")
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)
    wanted, before = in_time(*FILES, LATE, last), readings.log("log_ten")

    only = settle(readings.checkpoint, job, window="minute")
    assert {one.window for one in only.panes} == {"minute"}
    assert only.counts[Outcome.SETTLED] == 4
    assert newest(readings.log("log_minute")) == newest(readings.log("view_minute")) == wanted
    assert readings.log("log_ten") == before

    found = [(one.window, one.outcome) for one in settle(readings.checkpoint, job).panes]
    assert {*found} == {("minute", Outcome.UNCHANGED), ("ten", Outcome.SETTLED)}
    tens: dict[tuple[str, str], tuple[int, int]] = {}
    for (sensor, _), (total, n) in wanted.items():
        old = tens.get((sensor, "10:00"), (0, 0))
        tens[sensor, "10:00"] = (old[0] + total, old[1] + n)
    assert newest(readings.log("log_ten")) == newest(readings.log("view_ten")) == tens
    assert {one.outcome for one in settle(readings.checkpoint, job).panes} == {Outcome.UNCHANGED}
