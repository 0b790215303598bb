"""The public test kit.

`run` plays a script of rows, clock, watermark, restarts and a flush through a window with its aggregates or operator,
in memory or on Spark, and returns the rows of the log. `play` runs a worked example through the real windows and
returns its events, and `difference` compares. `assert_same_for_every_cut` and `assert_survives_restarts` play a script
in many ways and show the first difference. `draw` makes a picture of a window. `run_capsule` runs a case that
`panekeeper capsule` has taken from a real job.

>>> from panekeeper.testing import Clock, Flush, Restart, Watermark, run
>>> from panekeeper.testing import assert_same_for_every_cut, assert_survives_restarts
>>> from panekeeper.testing import difference, draw, play, run_capsule
"""

from __future__ import annotations

from panekeeper.framework.testing import (
    CapsuleRun,
    Clock,
    Drawing,
    Flush,
    Restart,
    Results,
    Watermark,
    assert_same_for_every_cut,
    assert_survives_restarts,
    difference,
    draw,
    play,
    run,
    run_capsule,
)

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
