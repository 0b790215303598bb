"""The gap of each row: that of the window, or the value of a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.aggregates.columns import combine
from panekeeper.framework.declarations.durations import LARGEST_SIZE
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.windows import Session

_SECOND = 1_000_000


def gaps_of(window: Session, table: pa.Table) -> np.ndarray:
    """Return the gap of each row in us; 0 or less where a row has none."""
    if window.gap_us is not None:
        return np.full(table.num_rows, window.gap_us, dtype=np.int64)
    column = combine(table.column(window.gap_column))
    if pa.types.is_duration(column.type):
        gaps = column.cast(pa.duration("us")).cast(pa.int64()).fill_null(0).to_numpy()
    elif pa.types.is_integer(column.type):
        whole = np.clip(column.cast(pa.int64()).fill_null(0).to_numpy(), 0, LARGEST_SIZE // _SECOND)
        gaps = whole * _SECOND
    else:
        seconds = np.nan_to_num(pc.cast(column, pa.float64(), safe=False).fill_null(0).to_numpy(), posinf=LARGEST_SIZE)
        gaps = np.rint(np.clip(seconds * _SECOND, 0, LARGEST_SIZE)).astype(np.int64)
    capped: np.ndarray = np.minimum(gaps, LARGEST_SIZE)
    return capped


def require_gap_type(name: str, kind: pa.DataType) -> None:
    """Raise `DeclarationError` unless a column of this type can be a gap."""
    types = pa.types
    if not (types.is_duration(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise DeclarationError(
            f"gap is the column {name!r}, which is {kind}; it must be a day-time interval or a number of seconds"
        )
