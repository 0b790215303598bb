"""A running job's metrics, its log, and a callback that raises."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

import pytest

from panekeeper import NotConfirmed, PanekeeperError, TimeInterval, serve_metrics
from panekeeper.recovery.jobs.status import status
from panekeeper.state.checkpoint.folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.engine.conftest import Readings
    from panekeeper import BatchReport


def test_a_job_is_scraped_and_logs_its_batches_and_no_callback_fails_it(
    readings: Readings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What Prometheus reads is what the job did; `panekeeper status` finds the same in the checkpoint.

    It is shown while it is awaited; afterwards a file that came since is left.
    """
    caplog.set_level("INFO", "panekeeper")

    def fail(_: BatchReport) -> None:
        raise ZeroDivisionError

    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("b", "10:05:00", 8))
    job = (
        readings.computed()
        .to_delta(readings.folder / "log")
        .start(checkpoint=readings.checkpoint, trigger="available_now")
    )
    readings.jobs.append(job)
    job.on_batch(fail)
    endpoint = serve_metrics(job, port=0)
    assert job.live(timeout=300)
    readings.put(("a", "10:06:00", 1))
    progress = job.progress()
    assert (progress.left, progress.unit, progress.part) == (1, "files", 0.5)
    with urllib.request.urlopen(endpoint.url, timeout=60) as response:  # noqa: S310 -- our own, by HTTP
        lines = response.read().decode().splitlines()
    endpoint.close()
    name = job.status().name
    assert f'panekeeper_rows_total{{job="{name}",outcome="admitted"}} 3.0' in lines
    assert f'panekeeper_job_running{{job="{name}"}} 0.0' in lines
    assert any(line.startswith("panekeeper_state_size_bytes") and float(line.split()[-1]) > 0 for line in lines)
    found = status(LocalFolder(readings.checkpoint))
    assert (found.state, found.open_panes, found.rows) == ("ended", job.status().open_panes, 3)
    assert found.state_bytes
    records = {(one.name, one.levelname, one.job, one.batch) for one in caplog.records if one.name == "panekeeper.job"}  # type: ignore[attr-defined]
    assert {("panekeeper.job", "INFO", name, 0), ("panekeeper.job", "ERROR", name, 0)} <= records
    printed = capfd.readouterr()
    assert f"job {name}: ended" in printed.out
    assert "ZeroDivisionError" not in printed.err


@pytest.mark.extended
def test_the_open_panes_of_a_batch_that_is_run_again_are_null(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Key groups without rows in it have not reported to that run; the next one has them all. A reset skips nulls.

    The pane is one, with eight partitions in three key groups.
    """
    window = TimeInterval(60, discard_age=3600)
    readings.put(*[(sensor, "10:00:10", 1) for sensor in "abcdefgh"])
    readings.put(("a", "10:00:20", 1))
    for batch in (1, 2):
        fail_at("before-prepare", batch)
        with pytest.raises(PanekeeperError):
            readings.run(window=window)

    def open_panes() -> list[int | None]:
        rows = sorted(readings.rows("log_metrics"), key=lambda row: int(row["batch"]))
        return [row["open_panes"] for row in rows]

    assert open_panes() == [1, None]
    with pytest.raises(NotConfirmed, match="the contents of 1 open pane or"):
        readings.declare(window=window).reset_to_initial_state(checkpoint=readings.checkpoint, confirm="no")
    readings.put(("a", "10:00:30", 1))
    readings.run(window=window)
    assert open_panes() == [1, None, 1]
