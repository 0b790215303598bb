"""Folders go missing as if their volume was not mounted, and what is written in their place is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.faults.volumes import MissingVolume


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job with two tables and a checkpoint."""
    for name in ("log", "log_metrics", "checkpoint"):
        (tmp_path / "jobs" / "batched" / name).mkdir(parents=True)
        (tmp_path / "jobs" / "batched" / name / "file").write_text(name)
    return tmp_path / "jobs" / "batched"


def names(job: Path) -> list[str]:
    """What is in the folder of the job."""
    return sorted(path.relative_to(job).as_posix() for path in job.rglob("*"))


def test_tables_or_checkpoint_are_moved_away_and_put_back(job: Path, tmp_path: Path) -> None:
    """With nothing in their place, or the empty folders of a volume that is not mounted."""
    before = names(job)
    volume = MissingVolume(tmp_path / "away", leaving="nothing")
    assert volume.take(job, "tables") == 2
    assert names(job) == ["checkpoint", "checkpoint/file"]
    assert volume.put_back() == {}
    assert names(job) == before

    volume = MissingVolume(tmp_path / "away", leaving="empty folders")
    assert volume.take(job, "checkpoint") == 1
    assert "checkpoint" in names(job)
    assert "checkpoint/file" not in names(job)
    assert volume.put_back() == {}
    assert names(job) == before


def test_what_was_written_in_their_place_is_reported_by_job(job: Path, tmp_path: Path) -> None:
    """An empty folder, too, if there was none. The original is put back all the same."""
    volume = MissingVolume(tmp_path / "away", leaving="nothing")
    volume.take(job, "tables")
    (job / "log_metrics").mkdir()
    written = volume.put_back()
    assert list(written) == ["batched"]
    assert written["batched"].endswith("log_metrics was made again, while its volume was missing")

    volume = MissingVolume(tmp_path / "away", leaving="empty folders")
    volume.take(job, "checkpoint")
    (job / "checkpoint" / "job.json").write_text("new")
    assert "was made again with job.json" in volume.put_back()["batched"]
    assert (job / "checkpoint" / "file").read_text() == "checkpoint"


def test_a_volume_without_files_is_not_missed(job: Path, tmp_path: Path) -> None:
    """A fault without effect shows nothing."""
    (job / "checkpoint" / "file").unlink()
    with pytest.raises(FaultNotConfirmed, match="no file of the checkpoint"):
        MissingVolume(tmp_path / "away", leaving="nothing").take(job, "checkpoint")
