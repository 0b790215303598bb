"""What a Python process that Spark starts should know about itself.

With each query Spark starts one that asks a processor for its state, and that tells its steps on the user's screen.

Spark's worker collects all garbage after every task. Looking through everything that pyspark, pandas and Arrow have
imported, again and again, was more than half of what our workers did on small batches.
"""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from pathlib import Path

_STATE_SERVER_MODULE = "pyspark.sql.streaming.transform_with_state_driver_worker"


def silence_stdout() -> None:
    """Say nothing more, if this is the process that only asks. Called as soon as something of ours is loaded."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    if started is not None and started.name == _STATE_SERVER_MODULE:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for as long as the process lives


@cache
def freeze_gc() -> None:
    """Leave what is imported by now out of every later collection. Once a process; called where work begins."""
    gc.collect()
    gc.freeze()
