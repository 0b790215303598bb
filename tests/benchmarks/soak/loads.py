"""A small load, and the table that a job would make of it."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.soak.account import sent_sums
from benchmarks.soak.load import SECOND, Load

START = 1_700_000_000 * SECOND  # a boundary of panes
SMALL = Load(
    seed=3,
    rate=1_000,
    rows=25_000,
    keys=50,
    hot_share=0.2,
    start_us=START + SECOND // 2,
    pane_us=5 * SECOND,
    delay_us=2 * SECOND,
)


def right_log(load: Load = SMALL) -> pa.Table:
    """The log of a job that has counted every row once."""
    sums = sent_sums(load, load.panes)
    return pa.table(
        {
            "key": sums.key,
            "pane_start": pa.array(sums.pane, pa.timestamp("us", tz="UTC")),
            "n": sums.count,
            "total": sums.total,
            "refinement": pa.array([0] * len(sums.key), pa.int64()),
        }
    )
