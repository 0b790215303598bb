"""A user's own job: its declaration, with results and checkpoint in a scratch folder, and an end once all is read.

Its sources are read as ever; nothing else is touched.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from framework.builder.outputs import DeltaJob
from recovery.upgrade.job_file import load_job

if TYPE_CHECKING:
    from framework.engine.job.job import Job


def start_own(file: str, folder: Path) -> Job:
    """Start the job of a file (`recovery.upgrade.job_file`) in a scratch folder.

    Raises:
        JobFileError: the file declares none.
        PanekeeperError: as `start`.
    """
    declared = load_job(file)
    for name, module in [*sys.modules.items()]:
        if name.startswith("_panekeeper_job_"):  # the workers cannot import what was loaded from a file
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return _in_scratch(declared, folder).start(checkpoint=folder / "checkpoint", trigger="available_now")


def _in_scratch(declared: DeltaJob, folder: Path) -> DeltaJob:
    scratch = replace(
        declared.tables,
        log=str(folder / "log"),
        view=None if declared.tables.view is None else str(folder / "view"),
        quarantine=str(folder / "log_quarantine"),
        metrics=str(folder / "log_metrics"),
        downtime=str(folder / "log_downtime"),
    )
    return replace(declared, _tables=scratch)
