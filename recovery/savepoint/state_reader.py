"""Reads the state of a checkpoint with Spark, and decodes each stored value: step 3 of a savepoint, and more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CorruptState, PanekeeperError
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.codec import decode_header, decode_table
from panekeeper.state.handler import HandlerState
from panekeeper.state.log import progress
from panekeeper.state.records import HANDLERS, LifecycleRecord, is_header
from panekeeper.state.spark_store import TIMER
from panekeeper.state.store import SEGMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_WINDOWS = 0  # Spark numbers stateful operators from the end of the query


def stored_handlers(spark: SparkSession, checkpoint: str) -> dict[tuple[str, int], HandlerState]:
    """Return (class name of a state handler, version) -> one of the states that it has stored."""
    states = {}
    with format_of_state(spark):
        segments = stored_state(spark, checkpoint).where(F.col("kind") == HANDLERS)
        for (body,) in segments.select("body").toLocalIterator():
            for state in LifecycleRecord.decode(bytes(body)).handlers:
                states[(state.name, state.version)] = state
    return states


def digests(spark: SparkSession, checkpoint: str) -> dict[tuple[Any, ...], str]:
    """Return the SHA-256 of each stored value of a checkpoint as of its last batch, by the key of the value.

    Key of a timer -> an empty text; store and digest of an entry of another operator in the query, as `dropDuplicates`
    before the window -> how many there are.
    """
    digest_by_key: dict[tuple[Any, ...], str] = {}
    try:
        with format_of_state(spark):
            segments = stored_state(spark, checkpoint).select("g", "kind", "slot", "seq", F.sha2("body", 256))
            for row in segments.toLocalIterator():
                digest_by_key[(SEGMENTS, *row[:-1])] = row[-1]
            stores = spark.read.format("state-metadata").load(checkpoint)
            named = stores.select("operatorId", "stateStoreName", "operatorProperties").collect()
            for operator, store, properties in named:
                state = spark.read.format("statestore").option("operatorId", operator)
                if operator != _WINDOWS:
                    whole = F.to_json(F.struct("key", "value"), {"ignoreNullFields": "false"})
                    entries = state.option("storeName", store).load(checkpoint).groupBy(F.sha2(whole, 256)).count()
                    for digest, count in entries.toLocalIterator():
                        digest_by_key[(operator, store, digest)] = str(count)
                elif "EventTime" in (properties or ""):
                    timers = state.option("readRegisteredTimers", True).load(checkpoint)
                    for row in timers.select("key.g", "expiration_timestamp_ms").toLocalIterator():
                        digest_by_key[("timer", *row)] = ""
    except Exception as error:
        raise CorruptState(
            f"the state in {checkpoint} cannot be read. Restore the job from a savepoint\n{all_said(error)}"
        ) from error
    return digest_by_key


def decode_savepoint(
    archive: Archive,
    manifest: Manifest,
    *,
    advice: str,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> int:
    """Decode every stored value of a savepoint, in a copy on this host, and return how many there are.

    The manifest need not be in the archive yet. `advice` is what to do if the state cannot be read, for the error.
    """
    session = session_for((manifest.checkpoint, *(table.path for table in manifest.tables.values())), spark, s3)
    count = 0
    progress.info("decoding the values of savepoint %s", manifest.name)
    with temporary_copy(archive, manifest) as folder:
        try:
            with format_of_state(session):
                for kind, body in stored_state(session, folder).select("kind", "body").toLocalIterator():
                    if kind == TIMER:
                        int(body)
                    elif kind == HANDLERS:
                        LifecycleRecord.decode(bytes(body))
                    elif is_header(kind):
                        decode_header(bytes(body))
                    else:
                        decode_table(bytes(body))
                    count += 1
        except PanekeeperError:
            raise
        except Exception as error:
            raise CorruptState(f"the state in the copy cannot be read; {advice}\n{all_said(error)}") from error
    return count
