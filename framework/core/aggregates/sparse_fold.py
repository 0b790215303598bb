"""Folding only the cells that get rows, for aggregates whose every state entry is dear to read.

A batch touches few of the cells that a window keeps open; ranking all their texts, or turning all their states
into Python objects, would make a batch cost what the window holds instead of what arrived.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from framework.core.aggregates.columns import Ints
from framework.core.aggregates.protocol import State

Fold = Callable[[State, Ints, int, pa.Table, Ints], State]


def fold_changed_cells(fold: Fold, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
    """Return what `fold` would, having shown it only the cells that are new or get rows."""
    held = len(state[0])
    wanted = np.zeros(n_cells, dtype=np.bool_)
    wanted[held:] = True
    wanted[cells] = True
    touched = np.flatnonzero(wanted)
    if len(touched) == n_cells:
        return fold(state, cells, n_cells, rows, seq)
    local = np.cumsum(wanted) - 1
    before = pa.array(touched[touched < held])
    after = fold([column.take(before) for column in state], local[cells], len(touched), rows, seq)
    source = np.arange(n_cells, dtype=np.int64)
    source[touched] = held + np.arange(len(touched))
    return [pa.concat_arrays([old, new]).take(pa.array(source)) for old, new in zip(state, after, strict=True)]
