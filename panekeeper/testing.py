"""The public test kit.

`run` plays a script of rows, clock, watermark and restarts through a window with its aggregates or operator, in memory
or on Spark, and returns the rows of the log. `play` runs a worked example through the real windows and returns its
events, and `difference` compares.

>>> from panekeeper.testing import Clock, Restart, Watermark, difference, play, run
"""

from __future__ import annotations

from panekeeper.framework.testing import Clock, Restart, Results, Watermark, difference, play, run

__all__ = ["Clock", "Restart", "Results", "Watermark", "difference", "play", "run"]
