"""What windows by row are made of beside their rows: what a firing becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.rows import OrderedRows
from panekeeper.framework.declarations.events import Reason


@dataclass(frozen=True)
class Windows:
    """Windows that fire together, one entry each: partition, last instant (us), and which of the rows are in it."""

    rows: OrderedRows
    codes: np.ndarray
    lasts: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fired: np.ndarray
    """How often it has fired before."""
    closes: np.ndarray
    """Whether it closes with this firing."""


class ByRowOutput(Protocol):
    """What events become: results of aggregates."""

    def on_drop(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        """Handle rows that are too late; `detail(event time)` is a text that says by how much."""
        ...

    def on_transitions(self, windows: Windows, reason: Reason) -> None:
        """Handle windows that fire, and perhaps close."""
        ...
