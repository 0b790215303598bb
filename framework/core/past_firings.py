"""What has fired before, and what has come since: one value, whichever kind of window has kept it.

Each kind keeps of its firings as little as its rules need, and stores it in a way of its own:

panes/refinements.py      panes that fire at their ends: only the partitions of complete panes that late rows reach
panes/firing_rules.py     panes with rules of their own: each partition in each pane
sessions/open_table.py    each open session
by_row/firing_numbers.py  only the windows that have fired another number of times than most

Who decides what fires next, calls an operator, writes a result row or tells what is open reads it as `PastFirings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SOME = -1
"""In the place of a number of rows: there are such, and they are not counted."""


@dataclass(frozen=True, kw_only=True)
class PastFirings:
    """One entry each for a partition in a pane, a session, or a window by row.

    Attributes:
        codes: the partition.
        fired: how often it has fired.
        complete: whether it has fired as complete.
        new: how many rows it has that no firing had, or `SOME`.
        due_us: when the wall clock makes it fire; `NEVER` if it does not.
    """

    codes: np.ndarray
    fired: np.ndarray
    complete: np.ndarray
    new: np.ndarray
    due_us: np.ndarray

    @property
    def waits(self) -> np.ndarray:
        """Whether it fires once a watermark is there: it has new rows, or has not fired as complete."""
        waits: np.ndarray = (self.new != 0) | ~self.complete
        return waits

    @property
    def is_without_rows(self) -> np.ndarray:
        """Whether it has never had a row, as what is filled."""
        without: np.ndarray = (self.new == 0) & (self.fired == 0)
        return without

    def __len__(self) -> int:
        return len(self.codes)
