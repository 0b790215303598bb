"""What the control stream becomes in a key group: which of its rows are steps, and in which order."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.packed_rows import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS
from panekeeper.framework.core.steps import Flush, Step, Tick

Packed = namedtuple("Packed", "kind pos n part port lot body")  # noqa: PYI024 -- as Spark's rows: fields by name


def control(number: int, kind: str, us: int) -> Any:
    """Return a row of the control stream."""
    after = kind in ("drain", "savepoint", "flush")
    return Packed(kind, number, us, AFTER_ALL_PARTITIONS if after else BEFORE_ALL_PARTITIONS, 0, None, None)


def steps(*rows: Any) -> list[Step]:
    """Return what a window of one port gets of these rows."""
    return to_steps(rows, [PortOrdering(columns=("v",), keys=pa.schema([]))])


def test_of_several_starts_the_last_one_counts() -> None:
    """Those before it came to no batch: each of them would make what is overdue happen once more."""
    assert steps(control(4, "resume", 30), control(2, "resume", 10), control(3, "resume", 20)) == [
        Tick(30, resume=True)
    ]


def test_a_tick_that_a_crash_left_unread_comes_before_the_start() -> None:
    """What it was written for happens at its time, and only what is left is overdue."""
    assert steps(control(2, "resume", 30), control(1, "tick", 10)) == [Tick(10), Tick(30, resume=True)]


def test_a_flush_comes_after_what_is_due() -> None:
    """By the wall clock, with its own reason; a stream with its own time does not take the time of the flush."""
    assert steps(control(1, "flush", 30)) == [Tick(30), Flush()]
    own_time = PortOrdering(columns=("v",), keys=pa.schema([]), has_stream_clock=True)
    assert to_steps([control(1, "flush", 30)], [own_time]) == [Flush()]
