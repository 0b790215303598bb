"""What a scenario run needs: its folder, its jobs, a seed, and what stands for the outside world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.recovery.drill.process.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from panekeeper.recovery.drill.faults.defects import Defect
    from panekeeper.recovery.drill.faults.faulty_s3 import FaultyStore


@dataclass(frozen=True, kw_only=True)
class DrillSetup:
    """What a scenario run needs.

    Attributes:
        folder: a new folder for its input, tables, checkpoints and logs.
        job_names: names of the jobs.
        seed: of the input and of random kills.
        job: the file of a user's own job.
        savepoint: (location, name); the user's job begins as a clone of it.
        endpoint: URL of the S3 store with that savepoint; None for Amazon's.
        defect: the defect to inject.
        store: returns an S3 store that can fail.
        seconds: how long that store fails.
        launcher: starts the programs.
    """

    folder: Path
    job_names: tuple[str, ...]
    seed: int
    job: Path | None = None
    savepoint: tuple[str, str] | None = None
    endpoint: str | None = None
    defect: Defect | None = None
    store: Callable[[], FaultyStore]
    seconds: float = 10.0
    launcher: type[Launcher] = Launcher
