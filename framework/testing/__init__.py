"""The public test kit: plays scripts and worked examples through the real windows, without Spark or on it.

`run` plays a script of rows, clock, watermark and restarts through what a user declares, and returns the rows of its
log.

`play` runs one *vector* (a window and its input, item by item) and returns what happened; `difference` compares that
with what should have happened. Vectors are plain JSON objects, so a bug report can be one.

    >>> from panekeeper.framework.testing import play
    >>> vector = {
    ...     "window": {"kind": "timeInterval", "intervalDuration": 10, "event_time": "ts"},
    ...     "input": [{"value": {"ts": 7}}, {"watermark": 10}],
    ... }
    >>> [event["event"] for event in play(vector, cut="each", restart_after="each")]
    ['insertion', 'initial_full', 'trigger', 'close']

batch_files.py      how is each micro-batch of a test on Spark a file?
capsule.py          what came of one partition in a batch of a real job, as a case? `run_capsule`
causes.py           why do results depend on where micro-batches end?
compare.py          do two lists of events say the same? `difference`
declared_json.py    how does a declaration become JSON, with the code of the user's by its name?
draw.py             how is a window drawn? `draw`
every_cut.py        are results the same wherever micro-batches end? `assert_same_for_every_cut`
lifecycle.py        which methods of state handlers does a lifecycle vector call?
memory_intake.py    which rows of a script are good, without Spark?
memory_job.py       how does a job run in memory, batch after batch?
play_vector.py      how is a vector played, and how does it run on the core alone? `play`
results.py          what does a script give? `Results`
run.py              how is a script with its declaration checked and played? `run`
run_in_memory.py    how does a script run without Spark?
run_on_spark.py     how does a script run as a job?
script.py           what may a script have in it? `Clock`, `Flush`, `Restart`, `Watermark`
scripted_job.py     what is the job of a script, for both engines?
scripted_stream.py  what does a declaration see of a stream that is a script?
spark_run.py        how does a vector run as a streaming query?
sql.py              for which rows does a condition of SQL hold, in memory?
started_job.py      how does a user's test start, kill and restart a job?
steps.py            which batches of steps are the items of a vector, and which of its events is what happens?
tried_merge.py      is `merge` of a user's aggregate what its `add` says?
vector.py           what does a vector say, checked field by field?
"""

from __future__ import annotations

from panekeeper.framework.testing.capsule import CapsuleRun, run_capsule
from panekeeper.framework.testing.compare import difference
from panekeeper.framework.testing.draw import Drawing, draw
from panekeeper.framework.testing.every_cut import assert_same_for_every_cut, assert_survives_restarts
from panekeeper.framework.testing.play_vector import play
from panekeeper.framework.testing.results import Results
from panekeeper.framework.testing.run import run
from panekeeper.framework.testing.script import Clock, Flush, Restart, Watermark

__all__ = [
    "CapsuleRun",
    "Clock",
    "Drawing",
    "Flush",
    "Restart",
    "Results",
    "Watermark",
    "assert_same_for_every_cut",
    "assert_survives_restarts",
    "difference",
    "draw",
    "play",
    "run",
    "run_capsule",
]
