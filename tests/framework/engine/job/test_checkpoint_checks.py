"""Folders that a start refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper import SinkError
from panekeeper.framework.engine.job.checkpoint_checks import require_separate_folders


def test_folders_beside_each_other_are_taken() -> None:
    """A common beginning of two names is not a common folder; a table that is not wanted has no folder."""
    require_separate_folders("/out/job", {"log": "/out/job_log", "view": None, "metrics": "/out/job-metrics"})
    require_separate_folders("s3a://bucket/job", {"log": "s3a://bucket/job_log", "view": "s3a://other/job"})


@pytest.mark.parametrize(
    ("checkpoint", "log", "view", "problem"),
    [
        ("/out/job", "/out/job/log", None, r"the log table \(/out/job/log\) lies in the folder of the checkpoint"),
        ("/out/log/checkpoint", "/out/log", None, "the checkpoint .* lies in the folder of the log table"),
        ("/out/job", "/out/log", "/out/log", "the view table .* lies in the folder of the log table"),
        ("/out/job", "/out/log", "/out/log/view", "the view table .* lies in the folder of the log table"),
        ("file:/out/job", "/out/job/log", None, "the log table .* lies in the folder of the checkpoint"),
        ("/out/job", "/out/x/../job/log", None, "the log table .* lies in the folder of the checkpoint"),
        ("s3a://b/job/", "s3://b/job/log", None, "the log table .* lies in the folder of the checkpoint"),
        ("s3a://b/job", "s3a://b/x/../job//log", None, "the log table .* lies in the folder of the checkpoint"),
        ("file:///out/log/x", "/out/log", None, "the checkpoint .* lies in the folder of the log table"),
        ("hdfs://h/out/job", "hdfs://h/out/./job/log", None, "the log table .* lies in the folder of the checkpoint"),
    ],
)
def test_a_folder_in_another_one_is_refused(checkpoint: str, log: str, view: str | None, problem: str) -> None:
    """A restore replaces the checkpoint's folder, and VACUUM removes unknown files from a table's folder."""
    with pytest.raises(SinkError, match=problem):
        require_separate_folders(checkpoint, {"log": log, "view": view})


def test_a_link_into_another_folder_is_refused(tmp_path: Path) -> None:
    """What counts is where the folder really is."""
    (tmp_path / "job").mkdir()
    (tmp_path / "elsewhere").symlink_to(tmp_path / "job")
    with pytest.raises(SinkError, match="lies in the folder of the checkpoint"):
        require_separate_folders(str(tmp_path / "job"), {"log": str(tmp_path / "elsewhere" / "log")})
