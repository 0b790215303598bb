"""Folding only the cells that get rows, for aggregates whose state is expensive to read.

A batch has rows for few of the cells of a window. Ranking the texts of all of them, or turning all their states into
Python objects, would make a batch cost by what the window holds instead of by what arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import Ints
from panekeeper.framework.core.aggregates.protocol import State

Fold = Callable[[State, Ints, int, pa.Table, Ints], State]


def fold_changed_cells(fold: Fold, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
    """Return what `fold` returns, called with only the cells that are new or get rows."""
    held = len(state[0])
    is_changed = np.zeros(n_cells, dtype=np.bool_)
    is_changed[held:] = True
    is_changed[cells] = True
    changed = np.flatnonzero(is_changed)
    if len(changed) == n_cells:
        return fold(state, cells, n_cells, rows, seq)
    local = np.cumsum(is_changed) - 1
    before = pa.array(changed[changed < held])
    after = fold([column.take(before) for column in state], local[cells], len(changed), rows, seq)
    source = np.arange(n_cells, dtype=np.int64)
    source[changed] = held + np.arange(len(changed))
    return [pa.concat_arrays([old, new]).take(pa.array(source)) for old, new in zip(state, after, strict=True)]
