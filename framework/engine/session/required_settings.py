"""The settings that a job cannot do without, in a session from `panekeeper.session()` or one of the user's own.

Some have one value for the life of a checkpoint. Spark pins most of them itself, by the offsets of each batch: the
state store, its encoding, the number of shuffle partitions, the policy of several watermarks. It restores those at each
start, whatever the session says. Those that it does not pin are in the job's record (`settings_to_record`), or follow
from the state itself (its format).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import IncompatibleCheckpoint, SetupError
from panekeeper.framework.engine.session.cluster_size import PARTITIONS
from panekeeper.framework.engine.session.file_manager import FORMAT_SETTING, MANAGER_SETTING
from panekeeper.framework.engine.session.s3_settings import FILE_MANAGER, is_s3
from panekeeper.state.checkpoint.job_record import is_new
from panekeeper.state.spark_logs import state_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.session.cluster_size import TaskNumbers
    from panekeeper.state.checkpoint.job_record import JobRecord

_one_start = threading.Lock()
"""A query copies the settings of its session when it starts, and jobs may share one."""
_LONGEST_START_MS = 60_000
"""After this long other jobs may start, whatever keeps the sources of one."""

DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"

DELTA_SETTINGS = {
    "spark.sql.extensions": DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What makes a session write Delta tables. A session has them from its start; of the first it may have more values."""

STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"

STATE_SETTINGS = {
    # Pinned by a checkpoint. Python's stateful operators need RocksDB.
    STATE_PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A batch uploads what changed, not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read before each write, and rows of state say nothing here: they are packed.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
"""How state is stored. A query copies them from its session when it starts, and a job sets them for its start."""

WRITE_SETTINGS = {
    # The library of small commits misreads far times in INT96, the default.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spark alone knows which files have days and times of the Julian calendar.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""How a job writes the files of its tables by Spark: so that the library which makes small commits reads the same."""

READ_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""How Spark reads the tables of a job to write rows again: the files of that library say nothing of a calendar, and
what cannot be read just now is not gone."""

_OFFSETS_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
TIME_ZONE = "spark.sql.session.timeZone"


def settings_to_record(spark: SparkSession, numbers: TaskNumbers) -> dict[str, str]:
    """Return the settings that a new checkpoint records: those that Spark does not pin, or not before its first batch.

    Args:
        spark: the session of the job.
        numbers: with how many tasks the checkpoint begins.
    """
    found = {name: spark.conf.get(name, None) for name in (TIME_ZONE, FORMAT_SETTING)}
    found[PARTITIONS] = str(numbers.partitions) if numbers.to_set else None
    return {name: value for name, value in found.items() if value is not None}


def require_recorded_settings(files: CheckpointFiles, record: JobRecord) -> None:
    """Refuse a session in which the columns of the job mean something else.

    Raises:
        IncompatibleCheckpoint: the time zone is another one: days, and times in text, would be others.
    """
    before, now = record.settings.get(TIME_ZONE), files.spark.conf.get(TIME_ZONE, None)
    if before is not None and before != now:
        raise IncompatibleCheckpoint(
            f"the session of job {record.name!r} has {TIME_ZONE}={now}, and its checkpoint {files.root} was begun "
            f"with {before}: dates, and times in text, would mean others. Set it back: "
            f'spark.conf.set("{TIME_ZONE}", "{before}")'
        )


def require_state_settings(files: CheckpointFiles) -> None:
    """Check the session of a query of the user's own, to which no settings can be given.

    Raises:
        SetupError: its queries do not keep their state in RocksDB, or not in the format of the checkpoint, or do not
            write whole files on S3.
    """
    conf = files.spark.conf
    name, wanted = STATE_PROVIDER, STATE_SETTINGS[STATE_PROVIDER]
    if conf.get(name, None) != wanted:
        raise SetupError(
            f"a query of your own on transform() needs a session from panekeeper.session(), or one with {name}={wanted}"
        )
    stored, now = state_format(files), conf.get(FORMAT_SETTING, None) or "1"
    if stored not in (None, now):
        raise SetupError(
            f"the checkpoint {files.root} keeps its state in format {stored}, and the session of your query has "
            f"{FORMAT_SETTING}={now}: Spark would not find it. Use a session with {FORMAT_SETTING}={stored}"
        )
    if (offsets := conf.get(_OFFSETS_FORMAT, None)) not in (None, "1"):
        raise SetupError(f"the session of your query has {_OFFSETS_FORMAT}={offsets}; a job needs 1, Spark's default")
    if is_s3(files.root) and conf.get(MANAGER_SETTING, None) != FILE_MANAGER:
        raise SetupError(
            f"a query of your own with its checkpoint on S3 needs {MANAGER_SETTING}={FILE_MANAGER} in its session, "
            "which then takes no checkpoint elsewhere"
        )


def start_with_settings(
    start: Callable[[], StreamingQuery], files: CheckpointFiles, recorded: Mapping[str, str]
) -> StreamingQuery:
    """Start a query with `query_settings`, one at a time, and return it when its sources are there.

    Spark makes them a moment after the query has started, in its thread; they look up in the session, and not in the
    query's copy of its settings, how they write their logs. An error in that moment is the query's, and raised by it.
    """
    from py4j.protocol import Py4JJavaError

    with _one_start, query_settings(files, recorded):
        query = start()
        with suppress(Py4JJavaError):
            query._jsq.streamingQuery().awaitInitialization(_LONGEST_START_MS)  # noqa: SLF001 -- not in Python
        return query


@contextmanager
def query_settings(files: CheckpointFiles, recorded: Mapping[str, str] | None = None) -> Iterator[None]:
    """Give the session what the query needs while it starts: a query keeps a copy of the settings it started with.

    Args:
        files: its checkpoint. State that is there stays in its format, whatever the session says.
        recorded: the settings in the job's record.
    """
    recorded = recorded or {}
    # From the first batch on Spark pins it.
    chosen = {name: recorded[name] for name in (PARTITIONS,) if name in recorded and is_new(files)}
    chosen[_OFFSETS_FORMAT] = "1"  # others name sources otherwise: what a batch has read could not be looked up
    if (stored := state_format(files) or recorded.get(FORMAT_SETTING)) is not None:
        chosen[FORMAT_SETTING] = stored
    with (
        session_settings(files.spark, STATE_SETTINGS | WRITE_SETTINGS | chosen),
        session_settings(files.spark, files.manager_setting()),
    ):
        yield


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Give the session these settings while the block lasts; None: not set."""
    before = {name: spark.conf.get(name, None) for name in settings}
    _set(spark, settings)
    try:
        yield
    finally:
        _set(spark, before)


@contextmanager
def session_of_its_own(spark: SparkSession) -> Iterator[SparkSession]:
    """Provide a copy of a session, as Spark makes one for each query: what is set in it is set nowhere else."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    try:
        own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 -- not in Python
        _set(own, WRITE_SETTINGS)
        yield own
    finally:
        if active is not None:  # to make a frame of rows is to make its session the active one
            jvm: Any = spark._jvm  # noqa: SLF001 -- as above
            jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(active._jsparkSession)  # noqa: SLF001 -- as above


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
