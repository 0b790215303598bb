"""What a Python process does first that Spark has started.

With each query Spark starts one that queries a processor for its state variables, and that prints its steps to the
user's terminal.

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
    """Print nothing more, if this process only queries state variables. Called when our code is imported."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    if started is not None and started.name == _STATE_SERVER_MODULE:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for as long as the process lives


@cache
def freeze_gc() -> None:
    """Leave what is imported by now out of every later collection. Once a process; called where work begins."""
    gc.collect()
    gc.freeze()
