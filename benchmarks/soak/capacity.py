"""How many rows a second this machine can process: the job reads a backlog, as fast as it can."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.soak.latency import ReadRows
from benchmarks.soak.run import Soak

USED = 0.25
"""Share of the capacity at which a run is loaded: generator and broker need their part of the machine, and a job that
was down must be able to catch up."""
WARM_BATCHES = 3
"""The first batches do not count: Java compiles, and workers start."""
_LIMIT_SECONDS = 1_200.0
_POLL = 0.2


def capacity(soak: Soak, rows: int) -> float:
    """Send all rows, let the job read them, and return the rows a second of its steady batches.

    Args:
        soak: a run whose load has these rows, some ten batches of them.
        rows: their number.

    Raises:
        TimeoutError: the rows were not read.
    """
    generator = soak.generate(paced=False)
    deadline = time.time() + _LIMIT_SECONDS
    try:
        while generator.exit_code is None:
            time.sleep(_POLL)
        if generator.exit_code:
            raise TimeoutError(f"the generator failed: {generator.tail()}")
        job = soak.unsupervised()
        try:
            while soak.tables.rows() < rows:
                if time.time() > deadline:
                    raise TimeoutError(f"the job has not read {rows:,} rows within {_LIMIT_SECONDS:g} s")
                job.keep_running()
                time.sleep(_POLL)
                soak.tables.look()
        finally:
            job.close()
    finally:
        generator.kill()
    return steady_rate(soak.tables.batches())


def steady_rate(batches: Sequence[ReadRows]) -> float:
    """Return the rows a second from the end of the warm-up to the end of the last batch that has read rows.

    >>> steady_rate([ReadRows(at=t, rows=r) for t, r in [(5, 9), (6, 9), (7, 9), (8, 20), (9, 30), (20, 0)]])
    25.0
    """
    reading = [batch for batch in batches if batch.rows]
    counted = reading[WARM_BATCHES:]
    if not counted:
        raise ValueError(f"a rate needs more than {WARM_BATCHES} batches, not {len(reading)}")
    return sum(batch.rows for batch in counted) / (counted[-1].at - reading[WARM_BATCHES - 1].at)


def rounded_rate(capacity: float) -> int:
    """Return the rate of a run on a machine of this capacity, to two digits.

    >>> rounded_rate(43_210.0), rounded_rate(0.5)
    (17000, 1)
    """
    return max(1, round(float(f"{capacity * USED:.2g}")))
