"""Several windows in one job, into Delta: each has the tables that a job of its own would have."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from integration_tests.engine.conftest import Readings
from panekeeper import (
    Calendar,
    IncompatibleCheckpoint,
    Session,
    TimeInterval,
    agg,
    capsule,
    clone,
    replay,
    restore,
    savepoint,
    windowed,
)
from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.sink import fault_points
from panekeeper.testing import run_capsule

MINUTE = TimeInterval(60, discard_age=120)
BURST = Session("2 minutes", discard_age="1 minute")
FILES: list[list[tuple[str, str | None, int | None]]] = [
    [("a", "10:00:05", 1), ("b", "10:00:40", 2), ("a", None, 3)],
    [("a", "10:03:00", 4), ("b", "10:02:10", 8)],
    [("a", "10:01:50", 16), ("a", "10:02:59", 32), ("b", "10:09:00", 64)],
    [("b", "10:00:00", 128), ("a", "10:30:00", 256)],
]


def declared(readings: Readings, **windows: Any) -> DeltaJob:
    """Return the job of two windows, or of others, into the folder of the readings."""
    stream = windowed(readings.stream(), name="several", partition_by="sensor", event_time="at", key_groups=3)
    computed = stream.windows(**(windows or {"minute": MINUTE, "burst": BURST})).aggregate(
        total=agg.sum("value"), n=agg.count()
    )
    return computed.to_delta(readings.folder / "log", view=readings.folder / "view")


def run(readings: Readings) -> None:
    """Let the job process what is there."""
    job = declared(readings).start(checkpoint=readings.checkpoint, trigger="available_now")
    readings.jobs.append(job)
    assert job.await_end(timeout=300)


def tables(readings: Readings) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the logs and views, in an order of their own."""
    return {
        f"{kind}_{name}": sorted(
            (row["sensor"], f"{row[start]:%H:%M}", row["total"], row["n"], row["refinement"], row["reason"])
            for row in readings.rows(f"{kind}_{name}")
        )
        for kind in ("log", "view")
        for name, start in (("minute", "pane_start"), ("burst", "session_start"))
    }


EXPECTED = {
    "log_minute": [
        ("a", "10:00", 1, 1, 0, "WATERMARK"),
        ("a", "10:01", 16, 1, 0, "LATE"),
        ("a", "10:02", 32, 1, 0, "LATE"),
        ("a", "10:03", 4, 1, 0, "WATERMARK"),
        ("b", "10:00", 2, 1, 0, "WATERMARK"),
        ("b", "10:02", 8, 1, 0, "WATERMARK"),
        ("b", "10:09", 64, 1, 0, "WATERMARK"),
    ],
    "log_burst": [
        ("a", "10:00", 1, 1, 0, "WATERMARK"),
        ("a", "10:00", 53, 4, 1, "WATERMARK"),
        ("b", "10:00", 10, 2, 0, "WATERMARK"),
        ("b", "10:09", 64, 1, 0, "WATERMARK"),
    ],
}


def test_a_batch_that_is_killed_between_the_tables_of_its_windows_is_in_all_of_them_once(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the tables has the batch, and the next start writes the others. A restore takes all of them back.

    Run again in memory, that batch and the next one give what each of the tables has of them.
    """
    commits: list[str] = []

    def kill(step: str, number: int, table: str) -> None:
        if step == "before-commit" and number == 2:
            commits.append(table)
            if not table.endswith("log_minute"):
                raise RuntimeError("killed")

    for file in FILES[:3]:
        readings.put(*file)
    monkeypatch.setattr(fault_points, "hook", kill)
    with pytest.raises(PanekeeperError):
        run(readings)
    assert {table.rpartition("/")[2] for table in commits} >= {"log_minute", "log_burst"}
    monkeypatch.setattr(fault_points, "hook", None)
    run(readings)
    assert readings.numbers("commits")[:4] == [0, 1, 2, 3]

    made = savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", spark=readings.spark)
    roles = {f"{kind}_{name}" for kind in ("log", "view") for name in ("minute", "burst")}
    assert set(made.manifest.tables) == roles | {"quarantine", "metrics", "downtime"}
    before = tables(readings)
    readings.put(*FILES[3])
    run(readings)
    found = tables(readings)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["view_burst"] == EXPECTED["log_burst"][1:]
    assert found["view_minute"] == EXPECTED["log_minute"]
    quarantine = [(row["window"], row["reason"]) for row in readings.rows("log_quarantine")]
    assert sorted(map(str, quarantine)) == sorted(
        map(str, [(None, "NULL_EVENT_TIME"), ("minute", "LATE"), ("burst", "LATE")])
    )
    metrics = readings.rows("log_metrics")
    assert all(row["balanced"] for row in metrics)
    assert [sum(row[name] for row in metrics) for name in ("rows_in", "dropped_late", "firings")] == [10, 1, 11]

    job = declared(readings)
    again = [replay(readings.checkpoint, number, job=job, spark=readings.spark) for number in (2, 3)]
    assert [one.differences for one in again] == [(), ()]
    assert again[0].compared == ("state", "log_minute", "log_burst", "quarantine", "metrics")
    assert {name: rows.num_rows for name, rows in again[0].windows.items()} == {"minute": 3, "burst": 1}
    case = capsule(readings.checkpoint, 2, {"sensor": "a"}, job=job, spark=readings.spark)
    ran = run_capsule(json.loads(json.dumps(case.to_json())))
    assert ran.is_equal
    assert [row["total"] for row in ran.results.windows["minute"]] == [1]

    restore(readings.folder / "savepoints", "one", spark=readings.spark)
    assert tables(readings) == before
    run(readings)
    assert tables(readings) == found


@pytest.mark.release  # CI does so with one window, and with several in memory
def test_a_window_is_upgraded_cloned_and_reset_as_the_only_one_of_a_job(readings: Readings) -> None:
    """Each window follows the rules for it; windows that come or go need a flush. A reset empties each view."""
    for file in FILES[:2]:
        readings.put(*file)
    run(readings)
    more = declared(readings, minute=MINUTE, burst=BURST, day=Calendar("day", zone="UTC"))
    with pytest.raises(IncompatibleCheckpoint, match="windows: absent in the checkpoint, 'day' now"):
        more.start(checkpoint=readings.checkpoint)
    shorter = declared(readings, minute=TimeInterval(30), burst=BURST)
    with pytest.raises(IncompatibleCheckpoint, match=r"minute: window\.interval_duration: 1m in the checkpoint"):
        shorter.start(checkpoint=readings.checkpoint)

    savepoint(readings.checkpoint, "one", to=readings.folder / "savepoints", spark=readings.spark)
    copy = clone(readings.folder / "savepoints", "one", into=readings.folder / "copy", spark=readings.spark)
    assert {path.rpartition("/")[2] for path in copy.tables.values()} >= {"log_minute", "view_burst", "log_metrics"}
    stream = windowed(readings.stream(), name="several", partition_by="sensor", event_time="at", key_groups=3)
    sums: dict[str, Any] = {"total": agg.sum("value"), "n": agg.count()}
    windows = stream.windows(burst=BURST, minute=TimeInterval(60, discard_age=timedelta(minutes=30)))
    upgraded = windows.aggregate(minute={**sums, "top": agg.max("value")}, burst=sums).to_delta(
        readings.folder / "copy" / "log", view=readings.folder / "copy" / "view"
    )
    for file in FILES[2:]:
        readings.put(*file)
    job = upgraded.start(checkpoint=copy.checkpoint, trigger="available_now")
    readings.jobs.append(job)
    assert job.await_end(timeout=300)
    tops = {row["pane_start"].minute: row["top"] for row in readings.rows("copy/view_minute") if row["sensor"] == "a"}
    assert tops == {0: None, 1: None, 2: None, 3: None}
    assert {row["top"] for row in readings.rows("copy/view_minute") if row["sensor"] == "b"} == {None, 64}

    declared(readings).reset_to_initial_state(checkpoint=readings.checkpoint, confirm="several")
    assert readings.rows("view_minute") == readings.rows("view_burst") == []
    assert len(readings.rows("log_minute")) > 0
