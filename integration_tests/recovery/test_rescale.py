"""Another number of shuffle partitions: what the job goes on to say is what it would have said without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from framework import JobFailed
from integration_tests.engine.story import FILES, LOG
from recovery.checkpoint_folder import read_checkpoint
from recovery.errors import SavepointRefused
from recovery.rescale import PARTITIONS, Rescaled, rescale
from recovery.restore import restore

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

pytestmark = pytest.mark.slow


class Killed(Exception):
    """The process ends here."""


def test_a_rescaled_job_goes_on_with_the_same_results(readings: Readings, fail_at: Callable[[str, int], None]) -> None:
    """Fewer partitions after a batch that failed between two tables, then more; both halves of it killed once."""

    def again(partitions: int, killed_after: str) -> Rescaled:
        def reached(step: str) -> None:
            if step == killed_after:
                raise Killed

        return rescale(
            readings.checkpoint, partitions, to=readings.folder / "savepoints", spark=readings.spark, reached=reached
        )

    for rows in FILES[:3]:
        readings.put(*rows)
    fail_at("between-delta", 2)
    with pytest.raises(JobFailed):
        readings.run()
    with pytest.raises(Killed):
        again(2, "copied")
    fewer = again(2, "never")
    assert (fewer.old, fewer.new, fewer.busiest, fewer.idle) == (4, 2, 2, 0)
    assert fewer.values >= 4  # a header for each key group
    readings.run()

    with pytest.raises(Killed):
        again(8, "aside")
    with pytest.raises(SavepointRefused, match=r"interrupted; complete it first: panekeeper restore .*-before-rescale"):
        again(8, "never")
    name = next(path.stem for path in (readings.folder / "savepoints/savepoints").glob("*-before-rescale-1-*"))
    restore(readings.folder / "savepoints", name, checkpoint=readings.checkpoint, spark=readings.spark)
    assert read_checkpoint(readings.checkpoint).settings[PARTITIONS] == "8"
    readings.put(*FILES[3])
    readings.run()

    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    metrics = readings.rows("log_metrics")
    assert sum(row["rows_in"] for row in metrics) == 8
    assert len({row["batch"] for row in metrics}) == len(metrics)
    with pytest.raises(SavepointRefused, match="has 8 shuffle partitions already"):
        again(8, "never")
