"""What a scenario run needs: its folder, its jobs, a seed, and what stands for the outside world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.process.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.drills.faults.defects import Defect
    from integration_tests.drills.faults.faulty_s3 import FaultyStore


@dataclass(frozen=True, kw_only=True)
class DrillSetup:
    """What a scenario run needs.

    Attributes:
        folder: a new folder for its input, tables, checkpoints and logs.
        job_names: names of the jobs.
        seed: of the input and of random kills.
        defect: the defect to inject.
        store: returns an S3 store that can fail.
        seconds: how long that store fails.
        launcher: starts the programs.
    """

    folder: Path
    job_names: tuple[str, ...]
    seed: int
    defect: Defect | None = None
    store: Callable[[], FaultyStore]
    seconds: float = 10.0
    launcher: type[Launcher] = Launcher
