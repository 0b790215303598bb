"""How often has each window by row fired, where that does not follow from what it is?

Most windows fire as often as all of their kind: one that is complete has fired once. So only the others are stored.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.pane_index import SortedCells
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys

LAST_COLUMN = "_last"
"""Column of stored numbers: the last instant of a window, us."""
FIRED_COLUMN = "_fired"


class FiringNumbers:
    """The windows that have fired more, or less, often than usual: partition, last instant (us), number."""

    def __init__(self, stored: pa.Table | None, keys: PartitionKeys) -> None:
        """Take what `stored` returned."""
        self.codes, self.lasts, self.numbers = (np.empty(0, dtype=np.int64) for _ in range(3))
        if stored is not None:
            self.codes = keys.encode(stored)
            self.lasts, self.numbers = (stored.column(name).to_numpy() for name in (LAST_COLUMN, FIRED_COLUMN))

    def of(self, codes: np.ndarray, lasts: np.ndarray, usual: np.ndarray) -> np.ndarray:
        """Return how often each window has fired: `usual`, if nothing else is known."""
        if not len(self.codes):
            return usual
        known = SortedCells(self.codes, self.lasts)
        low, high = known.between(codes, lasts, lasts + 1)
        fired = usual.copy()
        fired[low < high] = self.numbers[known.order[low[low < high]]]
        return fired

    def put(self, codes: np.ndarray, lasts: np.ndarray, numbers: np.ndarray, usual: np.ndarray) -> None:
        """Note how often distinct windows have fired now; `usual` is what needs no note."""
        noted = numbers != usual
        if len(self.codes) and len(codes):
            low, high = SortedCells(codes, lasts).between(self.codes, self.lasts, self.lasts + 1)
            self.keep(low == high)
        if noted.any():
            self.codes = np.concatenate([self.codes, codes[noted]])
            self.lasts = np.concatenate([self.lasts, lasts[noted]])
            self.numbers = np.concatenate([self.numbers, numbers[noted]])

    def keep(self, some: np.ndarray) -> None:
        """Forget all but those of a mask."""
        self.codes, self.lasts, self.numbers = self.codes[some], self.lasts[some], self.numbers[some]

    def stored(self, keys: PartitionKeys) -> pa.Table | None:
        """Return them as they are stored, by partition and last instant; None if there are none."""
        if not len(self.codes):
            return None
        at = SortedCells(self.codes, self.lasts).order
        columns = {LAST_COLUMN: self.lasts[at], FIRED_COLUMN: self.numbers[at]}
        return with_keys(pa.table(columns), keys, self.codes[at])
