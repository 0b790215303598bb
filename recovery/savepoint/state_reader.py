"""Reads the state of a checkpoint with Spark, and decodes each stored value: step 3 of a savepoint, and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CorruptState, PanekeeperError
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.recovery.savepoint.checkpoint_files import temporary_copy
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.codec import decode_header, decode_table
from panekeeper.state.handler import HandlerState
from panekeeper.state.records import HANDLERS, LifecycleRecord, is_header
from panekeeper.state.spark_store import HEADER, SEGMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WINDOWS = 0  # Spark numbers stateful operators from the end of the query


def decode_all(spark: SparkSession, checkpoint: str, *, advice: str) -> int:
    """Decode every stored value of a checkpoint as of its last batch.

    Args:
        spark: the session that reads.
        checkpoint: full name of the folder.
        advice: what to do if Spark cannot read the state, for the error.

    Returns:
        How many values there are.

    Raises:
        CorruptState: Spark cannot read the state, or a value of it cannot be decoded.
        StateVersionError: a value is of another version.
    """
    count = 0
    try:
        with format_of_state(spark, checkpoint):
            for (body,) in _rows(spark, checkpoint, HEADER, "value.body"):
                decode_header(bytes(body))
                count += 1
            for kind, body in _rows(spark, checkpoint, SEGMENTS, "user_map_key.kind", "user_map_value.body"):
                if kind == HANDLERS:
                    LifecycleRecord.decode(bytes(body))
                elif is_header(kind):
                    decode_header(bytes(body))
                else:
                    decode_table(bytes(body))
                count += 1
    except PanekeeperError:
        raise
    except Exception as error:
        raise CorruptState(f"the state in the copy cannot be read ({first_line(error)}); {advice}") from error
    return count


def stored_handlers(spark: SparkSession, checkpoint: str) -> dict[tuple[str, int], HandlerState]:
    """Return what state handlers have stored.

    Args:
        spark: the session that reads.
        checkpoint: full name of the folder.

    Returns:
        (class name of the handler, version) -> one of its stored states.

    Raises:
        StateError: a value cannot be decoded.
    """
    found = {}
    with format_of_state(spark, checkpoint):
        segments = stored_state(spark, checkpoint, SEGMENTS).where(F.col("user_map_key.kind") == HANDLERS)
        for (body,) in segments.select("user_map_value.body").toLocalIterator():
            for state in LifecycleRecord.decode(bytes(body)).handlers:
                found[(state.name, state.version)] = state
    return found


def _rows(spark: SparkSession, checkpoint: str, variable: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    return stored_state(spark, checkpoint, variable).select(*columns).toLocalIterator()


def digests(spark: SparkSession, checkpoint: str) -> dict[tuple[Any, ...], str]:
    """Return the SHA-256 of each stored value of a checkpoint as of its last batch.

    Args:
        spark: the session that reads.
        checkpoint: full name of the folder.

    Returns:
        Key of a value -> its digest; key of a timer -> an empty text; store and digest of an entry of another operator
        in the query, as `dropDuplicates` before the window -> how many there are.

    Raises:
        CorruptState: Spark cannot read the state.
    """
    value, entry = F.sha2("value.body", 256), F.sha2("user_map_value.body", 256)
    found: dict[tuple[Any, ...], str] = {}
    try:
        with format_of_state(spark, checkpoint):
            for row in stored_state(spark, checkpoint, HEADER).select("key.g", value).toLocalIterator():
                found[(HEADER, *row[:-1])] = row[-1]
            segments = stored_state(spark, checkpoint, SEGMENTS).select("key.g", "user_map_key.*", entry)
            for row in segments.toLocalIterator():
                found[(SEGMENTS, *row[:-1])] = row[-1]
            for operator, store, properties in _stores(spark, checkpoint):
                if operator != _WINDOWS:
                    for row in _entries(spark, checkpoint, operator, store).toLocalIterator():
                        found[(operator, store, row[0])] = str(row[1])
                elif "EventTime" in properties:
                    for row in _timers(spark, checkpoint).toLocalIterator():
                        found[("timer", *row)] = ""
    except Exception as error:
        raise CorruptState(
            f"the state in {checkpoint} cannot be read ({first_line(error)}); restore the job from a savepoint"
        ) from error
    return found


def _stores(spark: SparkSession, checkpoint: str) -> list[tuple[int, str, str]]:
    """Return the number of each stateful operator of the query, the name of a store of its, and its properties."""
    stores = spark.read.format("state-metadata").load(checkpoint)
    found = stores.select("operatorId", "stateStoreName", "operatorProperties").collect()
    return [(row[0], row[1], row[2] or "") for row in found]


def _entries(spark: SparkSession, checkpoint: str, operator: int, store: str) -> DataFrame:
    """Return the digest of each entry in a store, and how many have it."""
    state = spark.read.format("statestore").option("operatorId", operator).option("storeName", store).load(checkpoint)
    entry = F.to_json(F.struct("key", "value"), {"ignoreNullFields": "false"})
    return state.groupBy(F.sha2(entry, 256).alias("entry")).count()


def _timers(spark: SparkSession, checkpoint: str) -> DataFrame:
    state = spark.read.format("statestore").option("readRegisteredTimers", True).load(checkpoint)
    return state.select("key.g", "expiration_timestamp_ms")


def decode_savepoint(
    archive: Archive,
    manifest: Manifest,
    *,
    advice: str,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Decode every stored value of a savepoint, in a copy on this host.

    Args:
        archive: where the files are; the manifest need not be there yet.
        manifest: the savepoint.
        advice: what to do if the state cannot be read, for the error.
        s3: how S3 is reached.
        spark: the session that reads; a new one, which could also restore the savepoint, if not given.

    Returns:
        How many values there are.

    Raises:
        DamagedSavepoint: a file is missing or altered.
        CorruptState: Spark cannot read the state, or a value of it cannot be decoded.
        StateVersionError: a value is of another version.
    """
    session = session_for((manifest.checkpoint, *(table.path for table in manifest.tables.values())), spark, s3)
    with temporary_copy(archive, manifest) as folder:
        return decode_all(session, folder, advice=advice)
