"""Starts a user's own job with its tables and checkpoint in a scratch folder; it ends when all input is read.

The job reads its own sources. Its own tables and checkpoint are neither read nor written.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.recovery.upgrade.job_file import load_job

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.job import Job


def start_user_job(file: str, folder: Path) -> Job:
    """Start the job of a file in a scratch folder.

    Args:
        file: declares the job; see `recovery/upgrade/job_file.py`.
        folder: for the tables and the checkpoint.

    Raises:
        JobFileError: the file declares no job.
        PanekeeperError: as `start` of the job.
    """
    declared = load_job(file)
    for name, module in [*sys.modules.items()]:
        if name.startswith("_panekeeper_job_"):  # workers cannot import a module that was loaded from a file
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return _in_scratch_folder(declared, folder).start(checkpoint=folder / "checkpoint", trigger="available_now")


def _in_scratch_folder(declared: DeltaJob, folder: Path) -> DeltaJob:
    scratch = replace(
        declared.tables,
        log=str(folder / "log"),
        view=None if declared.tables.view is None else str(folder / "view"),
        quarantine=str(folder / "log_quarantine"),
        metrics=str(folder / "log_metrics"),
        downtime=str(folder / "log_downtime"),
    )
    return replace(declared, _tables=scratch, _named=False)
