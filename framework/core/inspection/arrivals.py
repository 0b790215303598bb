"""What has each partition of a window in arrival order, and when does it fire? As its policies say."""

from __future__ import annotations

import pyarrow as pa

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.evaluate import rows_to_fire
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.declarations.windows import ArrivalWindow
from panekeeper.state.codec import with_columns
from panekeeper.state.records import NEVER, SequenceRecord
from panekeeper.state.store import KeyGroupStore

PARTITION_TIMES = ("last_row", "next_clock", "evicted_at")
"""The columns of `live_partitions` that are times, in us since the epoch; null where there is none."""


def partition_schema(port: RecordedPort) -> pa.Schema:
    """Return the columns of `live_partitions`."""
    names = ("rows", "waiting", "since_fired", "last_row", "next_rows", "next_clock", "evicted_at")
    return pa.schema([*port.keys, *(pa.field(name, pa.int64()) for name in names)])


def live_partitions(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each live partition of a key group.

    `rows` in the window, `waiting` for the next batch, `since_fired` since it fired last; after `next_rows` more rows
    it fires, and by the clock at `next_clock`: null where no number of rows, or no instant, makes it. `evicted_at`:
    when the partition leaves if no row comes.
    """
    window, keys = port.declared, PartitionKeys(port.keys)
    assert isinstance(window, ArrivalWindow)
    partitions = Partitions(keys, pa.float64())
    codes = partitions.load(SequenceRecord.decode(store.read_header()).partitions)
    last, due, rows = partitions.last_at[codes], partitions.due[codes], rows_to_fire(window, partitions)[codes]
    age = None if window.partition_eviction is None else running_policy(window.partition_eviction).partition_age_us
    columns = {
        "rows": partitions.inside[codes],
        "waiting": partitions.waiting[codes],
        "since_fired": partitions.since[codes],
        "last_row": pa.array(last, mask=partitions.last_seq[codes] < 0),
        "next_rows": pa.array(rows, mask=rows == NONE),
        "next_clock": pa.array(due, mask=due == NEVER),
        "evicted_at": pa.nulls(len(codes)) if age is None else partitions.leave_at(age)[codes],
    }
    return with_columns(with_keys(pa.table(columns), keys, codes), partition_schema(port))
