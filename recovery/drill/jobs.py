"""What is drilled: one job for each kind of window, and for what else has state; each with an oracle.

A check that lives by the wall clock is `clocked`: its sizes are hours, so that the minutes a drill takes mean nothing,
and it meets only scenarios about time. The others take the time from the rows, or need none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.declarations import aggregates as agg
from framework.declarations.durations import hours, minutes
from framework.declarations.policies import Count, Delta, PartitionAge, Punctuation, Time
from framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling, Window
from recovery.drill.expected import arrival_oracle as oracle
from recovery.drill.expected import state_oracle as oracle_special
from recovery.drill.expected.arrival_oracle import HOUR, Oracle
from recovery.drill.expected.history import COLUMNS
from recovery.drill.process.operators import LettingGo, Total

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.builder.outputs import Computation, DeltaJob

_AGGREGATED = ("sensor", "n", "total", "first", "last", "reason")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """How a table is compared.

    Attributes:
        columns: which columns, in the order in which the oracle tells them; `pane_start` and `event_time` in seconds of
            the day. None for all but those that tell when something was done.
        identity: how many of them say which result it is; the others, what it is. 0 if it is not known.
    """

    columns: tuple[str, ...] | None
    identity: int


@dataclass(frozen=True, kw_only=True)
class Check:
    """One job and how it is judged.

    Attributes:
        name: what the table of outcomes calls it.
        window: of the job; None for a user's own.
        oracle: a new one for each judgement.
        second: of a second port, if there is one. Small values come to the first port, large ones to the second.
        options: what `windowed` is given beside name, partitions and key groups.
        operator: in place of the aggregates.
        clocked: whether it lives by the wall clock.
        tables: by role, how each is compared.
    """

    name: str
    window: Window
    oracle: Callable[[], Oracle]
    second: Window | None = None
    options: dict[str, Any] = field(default_factory=dict)
    operator: type[Total | LettingGo] | None = None
    clocked: bool = False
    tables: dict[str, Compared] = field(default_factory=lambda: {"log": Compared(columns=_AGGREGATED, identity=1)})

    def declare(self, spark: SparkSession, files: Path, folder: Path) -> DeltaJob:
        """Return the job that reads `files` and writes to `folder`."""
        from framework.builder.ports import ports
        from framework.builder.windowed import windowed

        options: dict[str, Any] = {"name": self.name, "partition_by": "sensor", "key_groups": 2} | self.options

        def stream(condition: str) -> Any:
            rows = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(str(files))
            return windowed(rows.where(condition), **options)

        if self.second is None:
            windows = stream("true").window(self.window)
        else:
            small = f"value < {oracle_special.LARGE}"
            windows = ports(stream(small).window(self.window), stream(f"NOT {small}").window(self.second))
        computed = self._computed(windows)
        return computed.to_delta(folder / "log", view=folder / "view" if "view" in self.tables else None)

    def _computed(self, windows: Any) -> Computation:
        if self.operator is not None:
            computed: Computation = windows.operator(self.operator(), output=self.operator.output)
            return computed
        told = {"n": agg.count(), "total": agg.sum("id")}
        if not isinstance(self.window, TimeInterval):
            told |= {"first": agg.first("id"), "last": agg.last("id")}
        aggregated: Computation = windows.aggregate(**told)
        return aggregated


_BY_ROW = {"arrival_time": "at", "key_groups": 1}  # one clock a key group: rows of all sensors must move the same one

CHECKS: tuple[Check, ...] = (
    Check(name="tumbling-count", window=Tumbling(Count(3)), oracle=lambda: oracle.TumblingCount(3)),
    Check(
        name="tumbling-time",
        window=Tumbling(Time(hours(1))),
        options=_BY_ROW,
        oracle=lambda: oracle.TumblingTime(by_row=True, period=HOUR),
    ),
    Check(
        name="sliding-count",
        window=Sliding(evict=Count(4), trigger=Count(2)),
        oracle=lambda: oracle.SlidingCount(4, 2),
    ),
    Check(
        name="sliding-time",
        window=Sliding(evict=Time(hours(2)), trigger=Time(hours(1))),
        options=_BY_ROW,
        oracle=lambda: oracle.SlidingTime(2 * HOUR, by_row=True, period=HOUR),
    ),
    Check(
        name="time-interval",
        window=TimeInterval(hours(1), creation_period=minutes(30), discard_age=hours(1)),
        options={"event_time": "seen"},
        oracle=lambda: oracle_special.Interval(HOUR, period=HOUR // 2, discard_age=HOUR),
        tables={
            "log": Compared(columns=("sensor", "pane_start", "n", "total", "refinement", "reason"), identity=2),
            "view": Compared(columns=("sensor", "pane_start", "n", "total", "refinement", "reason"), identity=2),
            "quarantine": Compared(columns=("reason", "event_time"), identity=2),
        },
    ),
    Check(name="batched", window=Batched(retain=3, every=2), oracle=lambda: oracle.BatchedCount(3, 2)),
    Check(
        name="delta",
        window=Sliding(evict=Delta("value", 6), trigger=Count(2)),
        oracle=lambda: oracle.SlidingDelta(6, 2),
    ),
    Check(
        name="punctuation",
        window=Tumbling(Punctuation()),
        options={"punctuation": "value % 4 = 0"},
        oracle=lambda: oracle.Punctuated(4),
    ),
    Check(
        name="state-handler",
        window=Tumbling(Count(2)),
        operator=Total,
        oracle=lambda: oracle_special.RunningTotal(2),
        tables={"log": Compared(columns=("sensor", "windows", "total", "reason"), identity=2)},
    ),
    Check(
        name="two-ports",
        window=Tumbling(Count(2)),
        second=Tumbling(Count(3)),
        operator=Total,
        oracle=lambda: oracle_special.RunningTotal(2, 3),
        tables={"log": Compared(columns=("sensor", "windows", "total", "port", "reason"), identity=2)},
    ),
    Check(
        name="eviction-in-drain",
        window=Tumbling(Count(4)),
        operator=LettingGo,
        oracle=lambda: oracle_special.LetGo(4),
        tables={"log": Compared(columns=("sensor", "kind", "n", "total"), identity=2)},
    ),
    Check(
        name="clock-tumbling",
        window=Tumbling(Time(hours(2))),
        clocked=True,
        oracle=lambda: oracle.TumblingTime(period=2 * HOUR),
    ),
    Check(
        name="clock-sliding",
        window=Sliding(evict=Time(hours(4)), trigger=Time(hours(2))),
        clocked=True,
        oracle=lambda: oracle.SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR),
    ),
    Check(
        name="clock-batched",
        window=Batched(within=hours(4), every=hours(2), retain=3),
        clocked=True,
        oracle=lambda: oracle.BatchedTime(4 * HOUR, 3, period=2 * HOUR),
    ),
    Check(
        name="clock-partition-age",
        window=Tumbling(Count(3), partition_eviction=PartitionAge(hours(2))),
        clocked=True,
        oracle=lambda: oracle.TumblingCount(3, age=2 * HOUR),
    ),
)


def named(name: str) -> Check:
    """Return a check by its name."""
    return next(check for check in CHECKS if check.name == name)
