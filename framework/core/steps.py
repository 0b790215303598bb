"""What a micro-batch is made of, for one key group: rows, and the time and commands that came between them.

Time and commands are data. Nothing behind this point reads a clock; a batch that is replayed is the same list of
steps and gives the same outcome.

Each step but `Progress` is for the window of one input port, `port`; a time or a command for several is a step for
each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa


@dataclass(frozen=True)
class Rows:
    """Tuples in arrival order: the columns of the plan, and our own.

    `_t` (int64, us) is the event time, for a time interval; `_at` (int64, us) the arrival time, if one is declared:
    else tuples arrive when the clock last said so.
    """

    table: pa.Table
    port: int = 0


@dataclass(frozen=True)
class Watermark:
    """No row with an earlier event time is expected any more; us since the epoch."""

    us: int
    port: int = 0


@dataclass(frozen=True)
class EventTimeProgress:
    """How far event time has come on some of several ports: (port, us less the port's delay), of this batch.

    It comes after the rows of all ports: those of a batch are judged by what was known before it.
    """

    max_event_times: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tick:
    """The wall clock says so; us since the epoch.

    `resume` marks the first tick after the process was down: what fell due meanwhile is overdue, not on time.
    `closed` says that no more rows of this very instant come, so that a batched window may update at it.
    """

    us: int
    resume: bool = False
    is_last_at_instant: bool = False
    port: int = 0


@dataclass(frozen=True)
class Mark:
    """A punctuation in the stream: the end of a window's worth of tuples, or of the stream."""

    kind: Literal["window", "final"]
    port: int = 0


@dataclass(frozen=True)
class Flush:
    """Fire what is open, close everything, and take no more rows."""

    port: int = 0


@dataclass(frozen=True)
class EvictPartitions:
    """Let go of these partitions; a table of the partition columns. Only windows in arrival order know it [S3]."""

    keys: pa.Table
    port: int = 0


PortStep = Rows | Watermark | Tick | Mark | Flush | EvictPartitions
"""What the window of one port takes."""

Step = PortStep | EventTimeProgress
