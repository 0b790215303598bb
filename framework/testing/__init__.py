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

batch_results.py        what does a window compute on a few rows, in memory? `batch_results`
batching.py             where is the input split into micro-batches, and where does the process restart?
compare.py              do two lists of events say the same? `difference`
fields.py               which fields of a vector are refused?
lifecycle.py            which methods of state handlers does a lifecycle vector call?
lifecycle_spark_run.py  how does a lifecycle vector run on Spark?
memory_run.py           how does a vector run on the core alone?
play_vector.py          how is a vector played? `play`
recorder.py             how do the events of a window become those of a vector?
spark_run.py            how does a vector run as a streaming query?
steps.py                which steps of a key group are the items of a vector?
vector.py               what does a vector say, checked field by field?
window_fields.py        which window does a vector declare?
"""

from __future__ import annotations

from panekeeper.framework.testing.batch_results import batch_results
from panekeeper.framework.testing.compare import difference
from panekeeper.framework.testing.play_vector import play

__all__ = ["batch_results", "difference", "play"]
