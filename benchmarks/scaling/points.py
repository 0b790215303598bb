"""The points that are measured: a job into Delta tables, with so many keys and so many key groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import panekeeper_jobs, spark_windows
from benchmarks.contenders import RunEnvironment
from benchmarks.data import write_input
from benchmarks.into_delta import DeltaContender
from benchmarks.measure import BenchmarkRun, steady_batches
from benchmarks.tables import PanekeeperTableJob, SparkTableJob, TableJob
from panekeeper import TimeInterval

PANEKEEPER, SPARK = "panekeeper", "spark groupBy(window)"
_COLUMNS = (*panekeeper_jobs.PANES, "highest", "n")
_WINDOW = TimeInterval(50)
_KEYS = (1_000, 10_000, 100_000, 1_000_000)
_KEY_GROUPS = (2, 8, 32, 128, 512)
_KEYS_OF_KEY_GROUPS = 100_000
WARM = 2
"""Batches at the beginning of a run that do not count."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One job.

    Attributes:
        contender: `PANEKEEPER` or `SPARK`.
        keys: how many different ones its rows have.
        key_groups: of Panekeeper; None: as many as it chooses.
    """

    contender: str
    keys: int
    key_groups: int | None = None

    def job(self) -> TableJob:
        """Return the job."""
        if self.contender == SPARK:
            return SparkTableJob(name=SPARK, query=spark_windows.panes_query("50 seconds"))
        panes = partial(panekeeper_jobs.panes, window=_WINDOW, key_groups=self.key_groups)
        return PanekeeperTableJob(name=PANEKEEPER, computed=panes)


def points() -> list[Point]:
    """Return all points: against keys, for both, then against key groups."""
    against_keys = [Point(contender=name, keys=keys) for keys in _KEYS for name in (PANEKEEPER, SPARK)]
    against_groups = [
        Point(contender=PANEKEEPER, keys=_KEYS_OF_KEY_GROUPS, key_groups=groups) for groups in _KEY_GROUPS
    ]
    return [*against_keys, *against_groups]


def warm_up() -> list[Point]:
    """Return what runs first and is not counted: Java compiles what it runs often, the results of many keys, too."""
    return [Point(contender=name, keys=_KEYS[-1]) for name in (PANEKEEPER, SPARK)]


def seconds_a_batch(point: Point, environment: RunEnvironment, cache: Path, *, rows: int, files: int) -> float:
    """Run a job over its rows and return the median of its steady batches, s."""
    given = write_input(cache, files=files, rows=rows, keys=point.keys)
    contender = DeltaContender(job=point.job(), columns=_COLUMNS)
    run = BenchmarkRun(contender=contender, given=given, warm=min(WARM, files - 1))
    return median(steady_batches(contender.measure(given, environment), run))
