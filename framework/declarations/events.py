"""What happened to a window: one event, its key, its pane and its tuples.

An event answers only what it can: asking for something its type has not got raises `EventError` and names it.
Contents are Arrow slices of one larger table, made when asked for, so an unread event costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from framework.declarations.durations import as_time
from framework.declarations.errors import EventError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

T = TypeVar("T")


class EventType(Enum):
    """The moments of a window's life [S1][S3]."""

    INSERTION = "insertion"
    EVICTION = "eviction"
    TRIGGER = "trigger"
    INITIAL_FULL = "initial_full"
    CLOSE = "close"
    PARTITION_EVICTION = "partition_eviction"
    FINAL = "final"
    DROP = "drop"


class Timing(Enum):
    """Whether a pane fires for the first time or again because late rows joined it [S0]."""

    ON_COMPLETE = "onComplete"
    LATE = "late"


class Reason(Enum):
    """Why a window fired; the `reason` column of the result log."""

    WATERMARK = "WATERMARK"
    LATE = "LATE"
    COUNT = "COUNT"
    TIME = "TIME"
    DELTA = "DELTA"
    PUNCTUATION = "PUNCTUATION"
    OVERDUE = "OVERDUE"
    FLUSH = "FLUSH"


class Pane(NamedTuple):
    """An interval `[start, end)` of event time, in microseconds since the epoch."""

    start_us: int
    end_us: int

    @property
    def start(self) -> datetime:
        """The first instant of the pane (UTC)."""
        return as_time(self.start_us)

    @property
    def end(self) -> datetime:
        """The first instant after the pane (UTC)."""
        return as_time(self.end_us)

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"


class Event:
    """One event of one partition, handed to `Operator.handle_event`.

    Attributes:
        type: what happened.
        key: the partition: the value of the one partition column, a tuple of several, None without partitioning.
        reason: why a TRIGGER fired; None for other events.
        refinement: how often this partition and pane fired before (0 the first time); None unless TRIGGER.
        port: number of the input port whose window it happened to; 0 for an operator over one window.
    """

    __slots__ = (
        "_at",
        "_content",
        "_index",
        "_pane",
        "_table",
        "_timing",
        "key",
        "port",
        "reason",
        "refinement",
        "type",
    )

    def __init__(  # noqa: PLR0913 -- only the windows make events
        self,
        type: EventType,  # noqa: A002 -- the event model of the field calls it `type`
        key: Any,
        content: Callable[[], pa.Table],
        *,
        pane: Pane | None = None,
        timing: Timing | None = None,
        index: int | None = None,
        at_us: int | None = None,
        reason: Reason | None = None,
        refinement: int | None = None,
        port: int = 0,
    ) -> None:
        self.type = type
        self.key = key
        self.reason = reason
        self.refinement = refinement
        self.port = port
        self._content = content
        self._table: pa.Table | None = None
        self._pane = pane
        self._timing = timing
        self._index = index
        self._at = at_us

    @property
    def pane(self) -> Pane:
        """The interval the event belongs to. Raises `EventError` for a window without panes, and for DROP."""
        return self._have("pane", self._pane)

    @property
    def timing(self) -> Timing:
        """On complete, or late. Raises `EventError` unless this is the TRIGGER of a time interval."""
        return self._have("timing", self._timing)

    @property
    def index(self) -> int:
        """Number of the pane's trigger round, from 0. Raises `EventError` unless TRIGGER of a time interval."""
        return self._have("index", self._index)

    @property
    def at_us(self) -> int:
        """Wall-clock instant of the event, us since the epoch. Raises `EventError` for a time interval."""
        return self._have("wall-clock instant", self._at)

    @property
    def at(self) -> datetime:
        """Wall-clock instant of the event (UTC). Raises `EventError` for a time interval."""
        return as_time(self.at_us)

    @property
    def table(self) -> pa.Table:
        """The tuples, in arrival order: new ones (INSERTION), removed ones (EVICTION), else the whole content."""
        if self._table is None:
            self._table = self._content()
        return self._table

    def column(self, name: str) -> np.ndarray:
        """Return one column of the tuples as a numpy array. Raises `EventError` for an unknown column."""
        if name not in self.table.schema.names:
            raise EventError(f"the tuples have no column {name!r}; they have {', '.join(self.table.schema.names)}")
        values: np.ndarray = self.table.column(name).to_numpy()
        return values

    def to_pandas(self) -> pd.DataFrame:
        """Return the tuples as a pandas frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Return the tuples as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def _have(self, name: str, value: T | None) -> T:
        if value is None:
            raise EventError(f"a {self.type.name} event of this window has no {name}")
        return value

    def __repr__(self) -> str:
        port = f", port={self.port}" if self.port else ""
        pane = f", pane={self._pane}" if self._pane else ""
        return f"Event({self.type.name}, key={self.key!r}{port}{pane})"
