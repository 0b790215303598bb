"""The public test kit.

`play` runs a worked example through the real windows, in memory or on Spark, and `difference` compares. `batch_results`
runs rows through a window with policies and aggregates of your own, in memory.

>>> from panekeeper.testing import batch_results, difference, play
"""

from __future__ import annotations

from panekeeper.framework.testing import batch_results, difference, play

__all__ = ["batch_results", "difference", "play"]
