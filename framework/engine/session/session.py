"""Builds the Spark session that Panekeeper's jobs run in: one place for every setting, each with its reason.

It has no notion of windows. A setting that a checkpoint pins at its first start is marked "pinned".
`python -m panekeeper.framework.engine.session.session` fetches the Java libraries of Delta, S3 and Kafka, and no more.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from panekeeper.framework.declarations.errors import DeclarationError, SetupError
from panekeeper.framework.engine.session.environment import check_environment
from panekeeper.framework.engine.session.java_libraries import (
    DELTA,
    KAFKA,
    S3,
    JavaLibraries,
    cached_jars,
    is_submitted,
    java_runs,
    require_libraries,
    spark_home,
    submitted_settings,
)
from panekeeper.framework.engine.session.java_output import start_java
from panekeeper.framework.engine.session.python_workers import prepare_workers
from panekeeper.framework.engine.session.s3_settings import s3_settings
from panekeeper.framework.engine.session.settings import (
    DELTA_EXTENSION,
    DELTA_SETTINGS,
    PARTITIONS,
    STATE_SETTINGS,
    WRITE_SETTINGS,
)
from panekeeper.state.log import progress

# A user's value is added to ours, it does not replace it.
_JOINED = {"spark.jars": ",", "spark.sql.extensions": ",", "spark.driver.extraJavaOptions": " "}
_GIB = 1024**3
_LONGEST_SOCKET_FOLDER = 104 - len("/.01234567-89ab-cdef-0123-456789abcdef.sock") - 1
SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
)
"""For `SPARK_SUBMIT_OPTS` where the Java side lives for a minute: too short for its second compiler to pay.

Without that compiler Java would reserve a fifth of the usual room for compiled code, which a dozen queries fill up.
Hadoop starts a process, `chmod`, for each file that it writes. `VFORK` starts it without another one in between, which
is a seventh of the processor time of a test.
"""


def session(
    app_name: str = "panekeeper",
    *,
    cores: int | str = "*",
    s3: bool | int | str = False,
    kafka: bool | int | str = False,
    **conf: object,
) -> SparkSession:
    """The Spark session for Panekeeper's jobs: with Delta, RocksDB state and settings that fit small machines too.

    A session that is already running is handed out again, with `conf` applied. A program started by `spark-submit`
    keeps the settings given there, and must be given Delta there, too, as nothing is fetched then
    (docs/clusters.md): `--packages io.delta:delta-spark_4.2_2.13:4.4.0`, or `delta-spark_4.1_2.13` on Spark 4.1.

    Jobs run in a session of your own, too, if it has Delta. Rows then reach Python fastest with the limits of Arrow
    batches that are set here: `spark.sql.execution.arrow.maxBytesPerBatch=2147483647` and
    `spark.sql.execution.arrow.maxRecordsPerBatch=2000`; lower the latter for rows of more than 1 MB each.

    Args:
        app_name: what Spark calls the program.
        cores: how many cores of this machine to use ("*": all); without meaning when `spark.master` is given.
        s3: let checkpoints and tables lie on S3, as `s3a://bucket/path`. The store and the credentials are those of the
            environment variables that boto3 reads: `AWS_ENDPOINT_URL` (not needed for Amazon's own), `AWS_REGION`,
            `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; on Amazon's machines, of their role.
        kafka: let streams read topics of Kafka: `spark.readStream.format("kafka")` (docs/kafka.md).
        **conf: Spark settings by their own names, which win over ours:
            `session(**{"spark.master": "spark://host:7077"})`.

    Raises:
        DeclarationError: a setting's name does not begin with `spark.`.
        SetupError: Java, a package or a Java library is missing or wrong, or this process has started Spark without
            Delta, or without S3 or Kafka where it is wanted: its Java side stays when the session is stopped, and takes
            no more libraries.
    """
    for name in conf:
        if not name.startswith("spark."):
            raise DeclarationError(f"{name} is not a Spark setting: the names of settings begin with `spark.`")
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in conf.items()}
    builder = SparkSession.builder.appName(app_name)
    wanted = [DELTA, *([S3] if s3 else []), *([KAFKA] if kafka else [])]
    if java_runs():
        for libraries in wanted:
            require_libraries(libraries)
    running = _running()
    if running is None:
        progress.info("starting Spark")
        given = _settings_of_a_start(given, wanted, cores=cores, s3=bool(s3))
        if not is_submitted():
            start_java({"spark.app.name": app_name, **given})
    elif DELTA_EXTENSION not in (running.conf.get("spark.sql.extensions", "") or ""):
        raise SetupError(
            "a Spark session without Delta's settings runs in this process already. Stop it, and call "
            "panekeeper.session() then"
        )
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    prepare_workers(spark)
    return spark


def _running() -> SparkSession | None:
    """The session of this process, also from a thread that did not make it: there Spark has no "active" one."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _settings_of_a_start(
    given: dict[str, str], wanted: list[JavaLibraries], *, cores: int | str, s3: bool
) -> dict[str, str]:
    check_environment(given_delta=is_submitted())
    jars = []
    if is_submitted():
        given = submitted_settings() | given
        for libraries in wanted:
            require_libraries(libraries)
    else:
        jars = [jar for libraries in wanted for jar in cached_jars(libraries)]
    master = given.setdefault("spark.master", f"local[{cores}]")
    local = master.startswith("local")
    # Variables of this process that the Java machine and its Python workers inherit: they have no Spark setting, or one
    # that only `spark-submit` reads.
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # a shell's python3 would not have our packages
        os.environ["SPARK_HOME"] = str(spark_home())  # not another Spark that this machine holds
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # without it a start may wait for the host's name
    else:
        python = given.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", sys.executable)
        os.environ["PYSPARK_PYTHON"] = python
    ours = spark_settings(cores=_usable_cores(cores) if local else None, memory=usable_memory(), jars=jars)
    ours |= s3_settings(os.environ) if s3 else {}
    ours |= _local_settings() if local else {"spark.log.level": "ERROR"}
    joined = {
        name: separator.join(dict.fromkeys((*ours[name].split(separator), *given[name].split(separator))))
        for name, separator in _JOINED.items()
        if name in ours and name in given
    }
    return ours | given | joined


def spark_settings(*, cores: int | None, memory: int, jars: list[Path]) -> dict[str, str]:
    """Return every setting of ours. On a cluster `cores` are None: they are seen when a job starts."""
    return {
        # Delta, from local files: no start but the first needs the network.
        **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
        **DELTA_SETTINGS,
        # Two tasks to read a table's log; the default of 50 costs more than a small batch.
        "spark.databricks.delta.snapshotPartitions": "2",
        **STATE_SETTINGS,
        **WRITE_SETTINGS,
        # How many batches a checkpoint can be looked back into. Savepoints are copies and do not depend on it.
        "spark.sql.streaming.minBatchesToRetain": "100",
        # Pinned. One task a core: each loads and commits a state store of its own, which a small batch feels most.
        **({} if cores is None else {PARTITIONS: str(cores)}),
        # With any other limit in bytes Spark computes the size of the Arrow batch after every row, which costs more
        # than the rows. The limit in rows is low instead: rows of up to 1 MB stay under the 2 GB that a batch can have.
        # Packing gathers these batches. The same limits hold for the segments on their way to the state.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        # Time is UTC inside; a local zone would shift timestamps on their way through pandas.
        "spark.sql.session.timeZone": "UTC",
        # A quarter of the memory: Python workers and RocksDB live outside the Java heap and need the rest.
        "spark.driver.memory": f"{min(8, max(1, memory // _GIB // 4))}g",
        # Nothing in the launch directory shadows a package in the Python workers, but what the program itself imports
        # from there: on this machine `prepare_workers` gives them its path.
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        # Quiet: a job reports by its own status.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _local_settings() -> dict[str, str]:
    """What only holds when driver and workers share this machine."""
    settings = {}
    if _fits_socket_names(folder := tempfile.gettempdir()):
        # TCP waits for the acknowledgement of a small message, 40 ms at each step into Python; these sockets do not.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = folder
    if "SPARK_CONF_DIR" not in os.environ:  # else the user has a log configuration of their own
        log = Path(__file__).with_name("log4j2.properties")
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={log.as_uri()}"
    return settings


def _fits_socket_names(folder: str) -> bool:
    """Return whether Spark can create sockets in a temporary folder: their paths have at most 104 bytes on macOS."""
    return hasattr(socket, "AF_UNIX") and len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER


def _usable_cores(cores: int | str) -> int:
    if cores != "*":
        return int(cores)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory() -> int:
    """The memory this process may use: the machine's, or less if it lives in a container."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.is_file() else "max"
    return machine if allowed == "max" else min(machine, int(allowed))


if __name__ == "__main__":
    try:
        check_environment()
        for java_libraries in (DELTA, S3, KAFKA):
            cached_jars(java_libraries)
    except SetupError as error:
        sys.exit(str(error))
