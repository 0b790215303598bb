"""What a Python worker of Spark should know about itself.

Spark's worker collects all garbage after every task. Looking through everything that pyspark, pandas and Arrow have
imported, again and again, was more than half of what our workers did on small batches.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Leave what is imported by now out of every later collection. Once a process; called where work begins."""
    gc.collect()
    gc.freeze()
