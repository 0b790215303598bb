"""What does each open pane, session or window by row wait for? As the window says that would fire it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.past_firings import PastFirings

NONE = -1
"""In the place of a number of rows that is not known, or never comes."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What comes next if no row comes, at a watermark, or an instant, and not before; all in us.

    One entry each for a partition in a pane, a session, or a window by row.

    Attributes:
        past: what it has fired, and when the wall clock makes it fire.
        start: its first instant.
        end: the first instant after it; of a window by row its last one.
        fires_at: the watermark at which it fires next; `NEVER` if none makes it.
        closes_at: the watermark that closes it.
        next_rows: after how many further rows it fires; `NONE` if it does not.
        rows: how many rows it has; `NONE` where the window does not know it.
    """

    past: PastFirings
    start: np.ndarray
    end: np.ndarray
    fires_at: np.ndarray
    closes_at: np.ndarray
    next_rows: np.ndarray
    rows: np.ndarray
