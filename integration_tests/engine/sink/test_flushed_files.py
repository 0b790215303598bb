"""What is on a local disk when a batch is recorded: all that the record does not bring back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES, LOG
from panekeeper.recovery.drill.faults import armed

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

TABLES = ("log", "view", "log_quarantine", "log_metrics")


class Disk:
    """Compares the files that are there, in each batch that was just recorded, with those that were written through."""

    def __init__(self, readings: Readings, on_fsync: Callable[[Callable[[Path], None]], None]) -> None:
        self.readings = readings
        self.batches: list[int] = []
        self.lost: set[str] = set()
        self.flushed: set[Path] = set()
        on_fsync(self.flushed.add)

    def matches(self, point: str, batch: int) -> bool:
        if point != "before-delta":
            return False
        self.batches.append(batch)
        return True

    def trigger(self) -> None:
        checkpoint, root = self.readings.checkpoint, self.readings.folder
        there = self.tables() | {*(checkpoint / "state").rglob("*")}
        there |= {root, *(path for path in checkpoint.rglob("*") if path.is_dir())}
        self.lost |= {str(path) for path in there - self.flushed if not is_uploaded_later(path)}

    def tables(self) -> set[Path]:
        """All files and folders of the tables."""
        return {path for table in TABLES for path in (self.readings.folder / table).rglob("*")}


def is_uploaded_later(path: Path) -> bool:
    """Whether Spark may write a file beside the batches: a snapshot of the state; without it older changes do."""
    return ".zip" in path.name or ".sst" in path.name


@pytest.fixture
def disk(readings: Readings, on_fsync: Callable[[Callable[[Path], None]], None]) -> Iterator[Disk]:
    """The disk of a job that has all files of the readings."""
    for rows in FILES:
        readings.put(*rows)
    found = Disk(readings, on_fsync)
    armed.arm(found)
    yield found
    armed.disarm(found)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, id="written by the library"),
        pytest.param({"delta.enableDeletionVectors": "true"}, id="written by Spark", marks=pytest.mark.extended),
    ],
)
def test_all_that_a_power_cut_could_take_for_good_is_flushed_before_a_batch_is_recorded(
    readings: Readings, disk: Disk, properties: dict[str, str]
) -> None:
    """Its state, the tables as they were made, and all that they got from the batches before, of the last run, too."""

    def run() -> None:
        log, view = readings.folder / "log", readings.folder / "view"
        declared = readings.computed().to_delta(
            log, view=view, properties={"delta.checkpointInterval": "2"} | properties
        )
        job = declared.start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)
        assert disk.tables() <= disk.flushed  # others may build on them now, as an ALTER TABLE

    run()
    readings.put(("z", "10:20:00", 1))
    run()
    assert set(LOG) < set(readings.log())
    assert len(set(disk.batches)) > len(FILES)
    assert disk.lost == set()
