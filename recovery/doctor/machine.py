"""What a machine has that runs Python for a job: the driver itself, and each executor by a task on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panekeeper.state.checkpoint.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("panekeeper", "pyspark", "pyarrow", "pandas", "numpy", "protobuf")
"""What the Python workers of a job import."""
_TASKS_AN_EXECUTOR = 4


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What runs on one host.

    Attributes:
        host: its name, as it names itself.
        python: version, such as "3.11".
        packages: versions of those of `PACKAGES` that are installed; "?" if only the code is there.
        clock_s: seconds by which its clock is ahead of the driver's, at least; negative: behind; 0.0: not known to be.
    """

    host: str
    python: str
    packages: dict[str, str]
    clock_s: float


def driver() -> Machine:
    """Return what this process has."""
    (found,) = _probe(PACKAGES)(())
    return _machine(found, now_us(), now_us())


def executors(spark: SparkSession) -> list[Machine]:
    """Return what each host has that runs tasks, in order of their names. Runs one small Spark job."""
    context = spark.sparkContext
    before = now_us()
    tasks = max(2, context.defaultParallelism) * _TASKS_AN_EXECUTOR
    found = context.parallelize(range(tasks), tasks).mapPartitions(_probe(PACKAGES)).collect()
    after = now_us()
    hosts = {one["host"]: one for one in found}
    return [_machine(hosts[host], before, after) for host in sorted(hosts)]


def _machine(found: dict[str, Any], before: int, after: int) -> Machine:
    ahead = found["us"] - after if found["us"] > after else min(0, found["us"] - before)
    own = {name: found[name] for name in ("host", "python", "packages")}
    return Machine(**own, clock_s=round(ahead / 1e6, 3))


def _probe(packages: tuple[str, ...]) -> Callable[[Iterable[Any]], Iterator[dict[str, Any]]]:
    """Return a function that runs where nothing of Panekeeper is installed: Spark sends it by its code."""

    def probe(_: Iterable[Any]) -> Iterator[dict[str, Any]]:
        import socket
        import sys
        import time
        from importlib import metadata, util

        found = {}
        for name in packages:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                if util.find_spec(name) is not None:
                    found[name] = "?"
        python = ".".join(map(str, sys.version_info[:2]))
        yield {"host": socket.gethostname(), "python": python, "packages": found, "us": time.time_ns() // 1000}

    return probe
