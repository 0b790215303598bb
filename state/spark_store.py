# ruff: noqa: D102 -- what these methods mean is said in `KeyGroupStore`
"""The state of one key group in Spark's state store (RocksDB): a map "segments", the header and the timer among them.

Every call is a blocking round trip to the JVM (measured: 0.2 to 5 ms), and reading costs by stored byte; so the
core keeps few, large, compressed entries, reads them by key and drops them whole. It is one map as Spark reads the
state of a checkpoint by variable, and opens its files anew for each. This is the only file of `state` that imports
pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from panekeeper.state.store import SEGMENTS, KeyGroupStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

TIMER = "timer"
"""Kind of the timer that Spark has for a group: its ms, as text."""

# Structs, not DDL strings: parsing a string costs a call to the JVM in every task.
_VALUE = StructType([StructField("body", BinaryType())])
_KEY = StructType([StructField("kind", StringType()), StructField("slot", LongType()), StructField("seq", LongType())])


class SparkStore(KeyGroupStore):
    """A `KeyGroupStore` on the state of the key that Spark is processing. Made in `StatefulProcessor.init`."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._segments = handle.getMapState(SEGMENTS, _KEY, _VALUE)

    def read_timer(self) -> int | None:
        """Return the timer that Spark has for the group, ms; none if it has none. Only of windows in event time."""
        value = self.find(TIMER, 0, 0)
        return None if value is None else int(value)

    def write_timer(self, ms: int | None) -> None:
        """Store the timer that Spark has now."""
        if ms is None:
            self.remove(TIMER, 0, 0)
        else:
            self.write(TIMER, 0, 0, str(ms).encode())

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        value = self._segments.getValue((kind, slot, seq))
        return None if value is None else bytes(value[0])

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        self._segments.updateValue((kind, slot, seq), (value,))

    def remove(self, kind: str, slot: int, seq: int) -> None:
        self._segments.removeKey((kind, slot, seq))
