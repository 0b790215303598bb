"""Reads all that a checkpoint's state holds, through Spark, and decodes each value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from framework.engine.failures import first_line
from framework.errors import CorruptState, PanekeeperError
from state.codec import decode_header, decode_table
from state.spark_store import HEADER, SEGMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def decode_all(spark: SparkSession, checkpoint: Path) -> int:
    """Decode every stored value of a checkpoint as of its last batch and return how many there are.

    Raises:
        CorruptState: Spark cannot read the state, or a value of it cannot be decoded.
        StateVersionError: a value is of another version.
    """
    count = 0
    try:
        for (body,) in _column(spark, checkpoint, HEADER, "value.body"):
            decode_header(bytes(body))
            count += 1
        for (body,) in _column(spark, checkpoint, SEGMENTS, "user_map_value.body"):
            decode_table(bytes(body))
            count += 1
    except PanekeeperError:
        raise
    except Exception as error:
        raise CorruptState(
            f"the state in the copy cannot be read ({first_line(error)}); use another savepoint"
        ) from error
    return count


def _column(spark: SparkSession, checkpoint: Path, variable: str, column: str) -> Iterator[tuple[bytes]]:
    state = spark.read.format("statestore").option("stateVarName", variable).load(str(checkpoint))
    return state.select(column).toLocalIterator()
