"""What happened to a window: one event, its key, its pane and its rows.

Reading a property that the type of the event does not have raises `EventError` with its name. Contents are Arrow slices
of one larger table, made on first use, so an unread event costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa

from panekeeper.framework.declarations.arrow_types import python_rows
from panekeeper.framework.declarations.durations import to_datetime
from panekeeper.framework.declarations.errors import EventError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

T = TypeVar("T")


class EventType(Enum):
    """The events of a window; which window has which is in docs/semantics.md section 5.1.

    Attributes:
        INSERTION: rows joined the window.
        EVICTION: rows left it; in a tumbling window, all of them.
        TRIGGER: the window fired; not in a tumbling window.
        INITIAL_FULL: a sliding window was full, or a pane complete, for the first time.
        CLOSE: a pane takes no more late rows and is removed.
        PARTITION_EVICTION: a whole partition left.
        FINAL: the stream ended by its final mark or by a flush; the rows are what is left.
        DROP: a row came too late for all panes it belongs to.
        MERGE: a row made one session of several; the rows are theirs, without that row, whose INSERTION follows.
    """

    INSERTION = "insertion"
    EVICTION = "eviction"
    TRIGGER = "trigger"
    INITIAL_FULL = "initial_full"
    CLOSE = "close"
    PARTITION_EVICTION = "partition_eviction"
    FINAL = "final"
    DROP = "drop"
    MERGE = "merge"


class Timing(Enum):
    """Whether a partition's pane fires before it is complete, as complete for the first time, or again for late rows.

    The rules are docs/semantics.md sections 6.3 and 6.7.
    """

    EARLY = "early"
    ON_COMPLETE = "onComplete"
    LATE = "late"


class Reason(Enum):
    """Why a window fired; the `reason` column of the result log (docs/semantics.md sections 6.6, 7.5 and 16)."""

    EARLY = "EARLY"
    WATERMARK = "WATERMARK"
    LATE = "LATE"
    FILLED = "FILLED"
    COUNT = "COUNT"
    TIME = "TIME"
    DELTA = "DELTA"
    PUNCTUATION = "PUNCTUATION"
    POLICY = "POLICY"
    OVERDUE = "OVERDUE"
    FLUSH = "FLUSH"
    DRAIN = "DRAIN"
    MATCH = "MATCH"
    NO_MATCH = "NO_MATCH"
    SETTLED = "SETTLED"


class Pane(NamedTuple):
    """An interval `[start, end)` of event time, in microseconds since the epoch.

    Attributes:
        start_us: its first instant.
        end_us: the first instant after it.
    """

    start_us: int
    end_us: int

    @property
    def start(self) -> datetime:
        """The first instant of the pane (UTC)."""
        return to_datetime(self.start_us)

    @property
    def end(self) -> datetime:
        """The first instant after the pane (UTC)."""
        return to_datetime(self.end_us)

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"


class Event:
    """One event of one partition, passed to `Operator.handle_event` and `Listener.handle_event`.

    Attributes:
        type: what happened.
        key: the partition key: the value of the one partition column, a tuple of several, None without partitions.
        reason: why a TRIGGER fired; None for other events.
        refinement: how often this partition and pane fired before (0 the first time); None unless TRIGGER.
        port: number of the input port whose window the event is of; 0 for an operator over one window.
    """

    __slots__ = (
        "_at",
        "_content",
        "_index",
        "_merged",
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
        merged: tuple[Pane, ...] | None = None,
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
        self._merged = merged

    @property
    def pane(self) -> Pane:
        """The pane of the event, or its session. Raises `EventError` for a window without panes, and for DROP."""
        return self._require("pane", self._pane)

    @property
    def merged(self) -> tuple[Pane, ...]:
        """The sessions that became one, in the order of their times. Raises `EventError` unless MERGE."""
        return self._require("sessions that became one", self._merged)

    @property
    def timing(self) -> Timing:
        """Whether it fires early, as complete, or again. Raises `EventError` unless TRIGGER of a time interval."""
        return self._require("timing", self._timing)

    @property
    def index(self) -> int:
        """How often this partition and pane fired before. Raises `EventError` unless TRIGGER of a time interval."""
        return self._require("index", self._index)

    @property
    def at_us(self) -> int:
        """Wall-clock instant of the event, in microseconds since the epoch. Raises `EventError` for a time interval."""
        return self._require("wall-clock instant", self._at)

    @property
    def at(self) -> datetime:
        """Wall-clock instant of the event (UTC). Raises `EventError` for a time interval."""
        return to_datetime(self.at_us)

    @property
    def table(self) -> pa.Table:
        """The rows, in arrival order: new ones (INSERTION), removed ones (EVICTION), else the whole content."""
        if self._table is None:
            self._table = self._content()
        return self._table

    def column(self, name: str) -> np.ndarray:
        """Return one column of the rows as a numpy array. Raises `EventError` for an unknown column."""
        if name not in self.table.schema.names:
            raise EventError(f"the rows have no column {name!r}; they have {', '.join(self.table.schema.names)}")
        values: np.ndarray = self.table.column(name).to_numpy()
        return values

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, by column name; a map within one is a dict as well."""
        return python_rows(self.table)

    def _require(self, name: str, value: T | None) -> T:
        if value is None:
            raise EventError(f"a {self.type.name} event of this window has no {name}")
        return value

    def __repr__(self) -> str:
        port = f", port={self.port}" if self.port else ""
        pane = f", pane={self._pane}" if self._pane else ""
        return f"Event({self.type.name}, key={self.key!r}{port}{pane})"
