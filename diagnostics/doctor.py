"""Can a cluster run jobs, and if not, what is missing where?

What the driver and the executors have (Python, packages), the settings of the session, and whether driver and
executors can write a place for checkpoints and tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from panekeeper.framework.builder.places import qualified_path
from panekeeper.framework.declarations.display import Part, Result, TextTable
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.environment import class_is_loadable
from panekeeper.framework.engine.session.settings import DELTA_EXTENSION, DELTA_SETTINGS
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.folder import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PACKAGES = ("panekeeper", "pyspark", "pyarrow", "pandas", "numpy", "protobuf")
"""What the Python workers of a job import."""
_TASKS_AN_EXECUTOR = 4


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What runs on one host: its name, the version of Python, those of `PACKAGES` ("?" if only the code is there)."""

    host: str
    python: str
    packages: dict[str, str]


def driver() -> Machine:
    """Return what this process has."""
    (fields,) = _probe(PACKAGES)(())
    return Machine(**fields)


def executors(spark: SparkSession) -> list[Machine]:
    """Return what each host has that runs tasks, in order of their names. Runs one small Spark job."""
    context = spark.sparkContext
    tasks = max(2, context.defaultParallelism) * _TASKS_AN_EXECUTOR
    probed = context.parallelize(range(tasks), tasks).mapPartitions(_probe(PACKAGES)).collect()
    hosts = {fields["host"]: fields for fields in probed}
    return [Machine(**hosts[host]) for host in sorted(hosts)]


def _probe(packages: tuple[str, ...]) -> Callable[[Iterable[Any]], Iterator[dict[str, Any]]]:
    """Return a function that runs where nothing of Panekeeper is installed: Spark sends it by its code."""

    def probe(_: Iterable[Any]) -> Iterator[dict[str, Any]]:
        import socket
        import sys
        from importlib import metadata, util

        versions = {}
        for name in packages:
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                if util.find_spec(name) is not None:
                    versions[name] = "?"
        python = ".".join(map(str, sys.version_info[:2]))
        yield {"host": socket.gethostname(), "python": python, "packages": versions}

    return probe


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong in the session, on a host or at a place, and what to do.

    Jobs do not run after an error; after a warning they run, and something may not be as expected.
    """

    level: Literal["error", "warning"]
    where: str
    problem: str


def _error(where: str, problem: str) -> Finding:
    return Finding(level="error", where=where, problem=problem)


def _warning(where: str, problem: str) -> Finding:
    return Finding(level="warning", where=where, problem=problem)


def check_settings(settings: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield what is wrong with the settings of a session."""
    for name, wanted in DELTA_SETTINGS.items():
        if wanted not in (settings.get(name) or ""):
            yield _error("session", f"it has no Delta: set {name}={wanted}")


def check_machines(driver: Machine, executors: Sequence[Machine]) -> Iterator[Finding]:
    """Yield what is wrong with the executors beside the driver."""
    for machine in executors:
        if machine.python != driver.python:
            yield _error(
                machine.host,
                f"Python {machine.python} runs there and {driver.python} in the driver: set spark.pyspark.python, or "
                "send the driver's environment along (docs/clusters.md)",
            )
        for name in PACKAGES:
            version, wanted = machine.packages.get(name), driver.packages.get(name)
            if version is None:
                problem = f"the Python package {name} is missing: install it there, or send it along (docs/clusters.md)"
                yield _error(machine.host, problem)
            elif wanted is not None and "?" not in (wanted, version) and version != wanted:
                problem = f"{name} {version} is there and {wanted} in the driver: install the same version"
                same_series = name != "panekeeper" and version.split(".")[0] == wanted.split(".")[0]
                yield (_warning if same_series else _error)(machine.host, problem)


_ROWS = 1000


def place_problem(spark: SparkSession, place: str) -> str | None:
    """Return why jobs cannot use a folder, which need not exist; None if they can. It removes what it writes there."""
    try:
        folder = qualified_path(place)
    except DeclarationError as error:
        return str(error)
    if ":/" not in place and local_path(folder) is not None and not str(spark.sparkContext.master).startswith("local"):
        return (
            "it is a folder of each machine: a cluster needs one that all of them share. Give it as a URL "
            "(s3a://bucket/path), or as file:///path if every machine mounts the same disk there"
        )
    scratch = f"{folder.rstrip('/')}/_panekeeper_doctor_{uuid.uuid4().hex[:8]}"
    try:
        CheckpointFiles(spark, scratch).write_json("driver.json", {"written": True})
        spark.range(_ROWS).write.parquet(f"{scratch}/executors")
        rows_read = spark.read.parquet(f"{scratch}/executors").count()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the result
        return f"it cannot be written and read back: {first_line(error)}"
    finally:
        jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
        path = jvm.org.apache.hadoop.fs.Path(scratch)
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001 -- as above
    return None if rows_read == _ROWS else f"executors wrote {_ROWS} rows to it, and {rows_read} were read back"


@dataclass(frozen=True, kw_only=True)
class Examination(Result):
    """What was found: versions, where tasks run and how many at a time, the machines, and what is wrong."""

    spark: str
    java: str
    master: str
    cores: int
    driver: Machine
    executors: tuple[Machine, ...]
    findings: tuple[Finding, ...]
    _computed: ClassVar[Mapping[str, str]] = {"can_run": "can_run"}

    @property
    def can_run(self) -> bool:
        """Whether no finding keeps jobs from running."""
        return not any(finding.level == "error" for finding in self.findings)

    def _described(self) -> Iterator[Part]:
        yield f"Spark {self.spark} on Java {self.java}, {self.master}, {self.cores} cores"
        machines = [("driver", self.driver), *(("executor", machine) for machine in self.executors)]
        rows = [
            (role, machine.host, machine.python, ", ".join(map(" ".join, machine.packages.items())))
            for role, machine in machines
        ]
        yield TextTable.of(("role", "host", "Python", "packages"), rows)
        yield from (f"{finding.level}: {finding.where}: {finding.problem}" for finding in self.findings)
        yield "jobs can run" if self.can_run else "jobs cannot run"


def examine(spark: SparkSession, places: Sequence[str] = ()) -> Examination:
    """Examine a session, the machines of its cluster, and places for checkpoints and tables."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- only the Java side knows its version and classes
    settings = {name: spark.conf.get(name, None) for name in DELTA_SETTINGS}
    findings = list(check_settings(settings))
    if not class_is_loadable(jvm, DELTA_EXTENSION):
        problem = "its Java side has no Delta: give spark-submit the jars of Delta (docs/clusters.md)"
        findings.append(_error("session", problem))
    here, there = driver(), executors(spark)
    findings += check_machines(here, there)
    for place in places:
        if (problem_there := place_problem(spark, place)) is not None:
            findings.append(_error(place, problem_there))
    return Examination(
        spark=spark.version,
        java=jvm.java.lang.System.getProperty("java.version"),
        master=str(spark.sparkContext.master),
        cores=spark.sparkContext.defaultParallelism,
        driver=here,
        executors=tuple(there),
        findings=tuple(findings),
    )
