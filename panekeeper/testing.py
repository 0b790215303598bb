"""The public test kit: `play` a worked example through the real windows, in memory or on Spark, and compare.

>>> from panekeeper.testing import difference, play
"""

from __future__ import annotations

from framework.testing import difference, play

__all__ = ["difference", "play"]
