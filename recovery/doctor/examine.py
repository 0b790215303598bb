"""Everything that `panekeeper doctor` looks at, for one session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.session.environment import class_is_loadable
from panekeeper.framework.engine.session.required_settings import DELTA_EXTENSION, DELTA_SETTINGS, STATE_SETTINGS
from panekeeper.recovery.doctor.checks import Finding, check_machines, check_settings
from panekeeper.recovery.doctor.machine import Machine, driver, executors
from panekeeper.recovery.doctor.places import place_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found.

    Attributes:
        spark: version of Spark.
        java: version of the driver's Java.
        master: where tasks run.
        cores: tasks that can run at a time, as far as executors have registered.
        driver: what this process has.
        executors: what each host has that runs tasks.
        findings: what is wrong; none: jobs can run.
    """

    spark: str
    java: str
    master: str
    cores: int
    driver: Machine
    executors: tuple[Machine, ...]
    findings: tuple[Finding, ...]

    @property
    def can_run(self) -> bool:
        """Whether no finding keeps jobs from running."""
        return not any(one.level == "error" for one in self.findings)


def examine(spark: SparkSession, places: Sequence[str] = ()) -> Examination:
    """Examine a session, the machines of its cluster, and places for checkpoints and tables.

    Args:
        spark: the session of the jobs.
        places: paths or URLs; a small folder is written there and removed.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- only the Java side knows its version and classes
    settings = {name: spark.conf.get(name, None) for name in (*DELTA_SETTINGS, *STATE_SETTINGS)}
    findings = list(check_settings(settings))
    if not class_is_loadable(jvm, DELTA_EXTENSION):
        problem = "its Java side has no Delta: give spark-submit the jars of Delta (docs/clusters.md)"
        findings.append(Finding(level="error", where="session", problem=problem))
    here, there = driver(), executors(spark)
    findings += check_machines(here, there)
    for place in places:
        if (problem_there := place_problem(spark, place)) is not None:
            findings.append(Finding(level="error", where=place, problem=problem_there))
    return Examination(
        spark=spark.version,
        java=jvm.java.lang.System.getProperty("java.version"),
        master=str(spark.sparkContext.master),
        cores=spark.sparkContext.defaultParallelism,
        driver=here,
        executors=tuple(there),
        findings=tuple(findings),
    )
