"""What a micro-batch is made of, for one key group: rows, and the time and commands between them.

Time and commands are data. The core reads no clock: a batch that is run again is the same list of steps and has the
same outcome.

Each step except `EventTimeProgress` is for the window of one input port, `port`. A time or a command for several ports
is one step for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa


@dataclass(frozen=True)
class Rows:
    """Rows in arrival order: the columns of the job spec, and one of Panekeeper's.

    `_t` (int64, us) is the event time, for a time interval. `_at` (int64, us) is the arrival time, if one is declared;
    without it rows arrive at the time of the last tick. `has_stream_clock`: it is the stream's own; else it is the wall
    clock, which may come late.
    """

    table: pa.Table
    port: int = 0
    has_stream_clock: bool = True


@dataclass(frozen=True)
class PartialRows:
    """Rows in arrival order, folded on their way to the key group (`core.panes.partial_rows`); none of them is late."""

    table: pa.Table
    port: int = 0


@dataclass(frozen=True)
class Watermark:
    """No row with an earlier event time is expected any more; us since the epoch."""

    us: int
    port: int = 0


@dataclass(frozen=True)
class EventTimeProgress:
    """The greatest event time of this batch on some of several ports, less the port's watermark delay: (port, us).

    It follows the rows of all ports: whether they are late is decided by the watermark before the batch.
    """

    max_event_times: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tick:
    """The time of the wall clock, us since the epoch.

    `resume` marks the first tick after the process was down: what became due meanwhile is overdue, not on time.
    `is_last_at_instant` says that no more rows of this instant come, so that a batched window may update at it.
    """

    us: int
    resume: bool = False
    is_last_at_instant: bool = False
    port: int = 0


@dataclass(frozen=True)
class ArrivalClock:
    """The time of a stream with declared arrival times, us since the epoch: rows of any key group have come until then.

    Nothing is overdue by it: it only passes with rows.
    """

    us: int
    port: int = 0


@dataclass(frozen=True)
class Mark:
    """A mark in the stream: a window mark, or the final mark, which is the end of the stream.

    `at_us` is when a window mark arrived, us since the epoch; None: with the rows before it.
    """

    kind: Literal["window", "final"]
    at_us: int | None = None
    port: int = 0


@dataclass(frozen=True)
class Flush:
    """Fire what is open, close everything, and take no more rows."""

    port: int = 0


@dataclass(frozen=True)
class EvictPartitions:
    """Evict these partitions, a table of the partition columns. Only for windows in arrival order (section 4)."""

    keys: pa.Table
    port: int = 0


PortStep = Rows | PartialRows | Watermark | Tick | ArrivalClock | Mark | Flush | EvictPartitions
"""A step for the window of one port."""

Step = PortStep | EventTimeProgress
