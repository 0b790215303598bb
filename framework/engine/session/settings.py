"""The settings that a job cannot do without, in a session from `panekeeper.session()` or one of the user's own.

Some have one value for the life of a checkpoint. Spark pins most of them itself, by the offsets of each batch: the
state store, its encoding, the number of shuffle partitions, the policy of several watermarks. It restores those at each
start, whatever the session says. Those that it does not pin are in the job's record (`settings_to_record`), or follow
from the state itself (its format).

How many tasks a new checkpoint is made for, where the user has not said it, goes by the cores of the cluster, and not
by those of the driver's machine: shuffle partitions are fixed at the first batch (`panekeeper rescale` changes them),
key groups for the life of a checkpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.calendar import zone_data
from panekeeper.framework.declarations.errors import IncompatibleCheckpoint, SetupError
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.s3_settings import FILE_MANAGER, is_s3
from panekeeper.framework.engine.session.spark_folder import MANAGER_SETTING
from panekeeper.state.checkpoint.job_record import is_new
from panekeeper.state.key_groups import MAX_KEY_GROUPS
from panekeeper.state.store import SEGMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

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
STATE_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"

STATE_SETTINGS = {
    # Pinned by a checkpoint. Python's stateful operators need RocksDB.
    STATE_PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Version 2 names each state file after the attempt that wrote it, so a task that Spark gave up on but that
    # lives on cannot overwrite a good file. It demands that every batch really runs its plan: the sink
    # materialises a batch before Delta may skip its write. Who reads state needs the same value.
    STATE_FORMAT: "2",
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
PARTITIONS = "spark.sql.shuffle.partitions"
_SPARKS_OWN = 200
"""Shuffle partitions of a query of the user's own in a session without the setting."""
_FEWEST_KEY_GROUPS = 8
"""Of a checkpoint whose key groups the user has not chosen: a small one may get more cores later."""


def settings_to_record(spark: SparkSession, numbers: TaskNumbers) -> dict[str, str]:
    """Return the settings that a new checkpoint records: those that Spark does not pin from its start on."""
    return {TIME_ZONE: session_zone(spark)} | ({PARTITIONS: str(numbers.partitions)} if numbers.to_set else {})


def session_zone(spark: SparkSession) -> str:
    """Return the time zone of a session: that of the machine, if the setting was not set."""
    return str(spark.conf.get(TIME_ZONE))


_NAMES_OF_UTC = frozenset({"UTC", "Z", "GMT", "UCT", "ZULU", "UNIVERSAL", "GREENWICH", "GMT0", "+00:00", "UTC+00:00"})


def is_same_zone(zone: str, other: str) -> bool:
    """Return whether two names of a time zone are of the same one: `UTC` and `Etc/UTC`, `Asia/Kolkata` and its old one.

    >>> is_same_zone("UTC", "Etc/UTC"), is_same_zone("Europe/Berlin", "Europe/Paris")
    (True, False)
    """
    if zone == other or (_is_utc(zone) and _is_utc(other)):
        return True
    try:
        return zone_data(zone) == zone_data(other)
    except (OSError, ValueError):  # such as +02:00, a zone of Java's alone
        return False


def _is_utc(zone: str) -> bool:
    return zone.upper().removeprefix("ETC/") in _NAMES_OF_UTC


def require_recorded_settings(files: CheckpointFiles, record: JobRecord) -> None:
    """Refuse a session with another time zone, in which days, and times in text, would be others."""
    before, now = record.settings.get(TIME_ZONE), session_zone(files.spark)
    if before is not None and not is_same_zone(before, now):
        raise IncompatibleCheckpoint(
            f"the session of job {record.name!r} has {TIME_ZONE}={now}, and its checkpoint {files.root} was begun "
            f"with {before}: dates, and times in text, would mean others. Set it back: "
            f'spark.conf.set("{TIME_ZONE}", "{before}")'
        )


def require_state_settings(files: CheckpointFiles) -> None:
    """Check the session of a query of the user's own, to which no settings can be given. Raises `SetupError`."""
    conf = files.spark.conf
    for name in (STATE_PROVIDER, STATE_FORMAT):
        if conf.get(name, None) != STATE_SETTINGS[name]:
            raise SetupError(
                "a query of your own on transform() needs a session from panekeeper.session(), or one with "
                f"{name}={STATE_SETTINGS[name]}"
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

    `recorded` are the settings in the job's record.
    """
    recorded = recorded or {}
    # From the first batch on Spark pins it.
    chosen = {name: recorded[name] for name in (PARTITIONS,) if name in recorded and is_new(files)}
    chosen[_OFFSETS_FORMAT] = "1"  # others name sources otherwise: what a batch has read could not be looked up
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
            activate(active)


def activate(spark: SparkSession) -> None:
    """Make a session the one that Spark and Delta find in this thread; a thread that is new has none."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- a session is made the active one by no public call
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 -- as above


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@dataclass(frozen=True, kw_only=True)
class TaskNumbers:
    """How many shuffle partitions and key groups a new checkpoint begins with."""

    partitions: int
    key_groups: int
    source: str
    """Where the numbers come from, for the log."""
    to_set: bool
    """Whether the session of its query must be given the partitions."""

    def __str__(self) -> str:
        """Return what a user should know of them at the first start."""
        return (
            f"{self.key_groups} key groups on {self.partitions} shuffle partitions, by {self.source}. Each key of the "
            "windows is in one key group for ever, and as many tasks process windows at a time as the lesser of the "
            f"numbers says. `panekeeper rescale CHECKPOINT --partitions {self.key_groups} --to LOCATION` changes the "
            "shuffle partitions, up to the number of key groups; key groups are fixed for the life of the checkpoint. "
            f"To begin with others: a new checkpoint folder, windowed(..., key_groups=...), and {PARTITIONS} in the "
            "session"
        )


def default_partitions(cores: int, executors: int) -> int:
    """Return one shuffle partition for each core of each executor.

    >>> default_partitions(4, 3)
    12
    """
    return min(max(1, cores) * max(1, executors), MAX_KEY_GROUPS)


def default_key_groups(partitions: int) -> int:
    """Return the least number of key groups that fills each shuffle partition alike, but not fewer than 8.

    >>> default_key_groups(2), default_key_groups(3), default_key_groups(32)
    (8, 9, 32)
    """
    partitions = min(partitions, MAX_KEY_GROUPS)
    return max(1, -(-_FEWEST_KEY_GROUPS // partitions)) * partitions


def task_numbers(spark: SparkSession, key_groups: int | None, *, own_query: bool) -> TaskNumbers:
    """Return what a new checkpoint begins with, and with so many key groups if the declaration says it.

    `own_query`: the query is one of the user's own, which no setting can be given to.
    """
    given = spark.conf.get(PARTITIONS, None)
    if given is not None:
        partitions = int(given)
        groups = key_groups or default_key_groups(partitions)
        return TaskNumbers(partitions=partitions, key_groups=groups, source=f"{PARTITIONS}={given}", to_set=False)
    cores, executors = _cores_and_executors(spark)
    partitions = default_partitions(cores, executors)
    groups = key_groups or default_key_groups(partitions)
    return TaskNumbers(
        partitions=_SPARKS_OWN if own_query else min(partitions, groups),  # one without a key group does nothing
        key_groups=groups,
        source=f"{cores * executors} cores (executors: {executors})",
        to_set=not own_query,
    )


def _cores_and_executors(spark: SparkSession) -> tuple[int, int]:
    """Return the cores of an executor, and how many there are: registered now, or to come by the settings."""
    context: Any = spark.sparkContext
    conf = context.getConf()
    if context.master.startswith("local"):
        return int(context.defaultParallelism), 1
    if not _cores_now(context):
        spark.range(1).count()  # waits until the first ones have registered
    registered = _cores_now(context)
    each = int(conf.get("spark.executor.cores", "0")) or max(registered, default=1)
    return each, max(len(registered), int(conf.get("spark.executor.instances", "0")), 1)


def _cores_now(context: Any) -> list[int]:
    """Return the cores of each registered executor."""
    every = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 -- Python has no such call
    executors = [every.apply(number) for number in range(every.size())]
    return [int(executor.totalCores()) for executor in executors if executor.id() != "driver"]


def format_of_state(spark: SparkSession) -> AbstractContextManager[None]:
    """Give the session the format of the state that it reads: with another one Spark finds none."""
    return session_settings(spark, {STATE_FORMAT: STATE_SETTINGS[STATE_FORMAT]})


def stored_state(spark: SparkSession, checkpoint: str, batch: int | None = None, *, changed: bool = False) -> DataFrame:
    """Return what the key groups have stored as of the last committed batch, or an earlier one that Spark keeps.

    Columns: `g`, the key group; `kind`, `slot`, `seq`, `body`, as a `KeyGroupStore` has them; of the kinds `HEADER` and
    `TIMER` there is one for each group. `changed`: what the batch has written, in that order; a removed value has no
    body. Read it while `format_of_state` lasts.
    """
    # Creates the coordinator to which a state store reports its snapshots. Without it, reading fails in a session that
    # has run no query yet, such as that of a subcommand.
    spark.streams.active  # noqa: B018
    options: dict[str, Any] = {} if batch is None else {"batchId": batch}
    if changed:
        options = {"readChangeFeed": True, "changeStartBatchId": batch, "changeEndBatchId": batch}
    stored = spark.read.format("statestore").option("stateVarName", SEGMENTS).options(**options).load(checkpoint)
    return stored.select("key.g", "user_map_key.*", "user_map_value.body")
