"""The public test kit: plays worked examples through the real windows, without Spark or on it.

`play` runs one *vector* (a window and its input, item by item) and returns what happened; `difference` compares that
with what should have happened. Vectors are plain JSON objects, so a bug report can be one.

    >>> from panekeeper.framework.testing import play
    >>> vector = {
    ...     "window": {"kind": "timeInterval", "intervalDuration": 10, "event_time": "ts"},
    ...     "input": [{"value": {"ts": 7}}, {"watermark": 10}],
    ... }
    >>> [event["event"] for event in play(vector, cut="each", restart_after="each")]
    ['insertion', 'initial_full', 'trigger', 'close']

batch_results.py  what does a window compute on a few rows, in memory? `batch_results`
compare.py        do two lists of events say the same? `difference`
lifecycle.py      which methods of state handlers does a lifecycle vector call?
play_vector.py    how is a vector played, and how does it run on the core alone? `play`
spark_run.py      how does a vector run as a streaming query?
sql.py            for which rows does a condition of SQL hold, in memory?
steps.py          which batches of steps are the items of a vector, and which of its events is what happens?
vector.py         what does a vector say, checked field by field?
"""

from __future__ import annotations

from panekeeper.framework.testing.batch_results import batch_results
from panekeeper.framework.testing.compare import difference
from panekeeper.framework.testing.play_vector import play

__all__ = ["batch_results", "difference", "play"]
