"""The jobs of a drill: one for each kind of window and join, and operators with state. Each has an oracle.

A job with `uses_wall_clock` has windows of hours, so that the minutes which a drill takes change nothing. It is run in
scenarios about time only. The other jobs take the time from the rows, or use no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.drills.expected import arrival_oracle as oracle
from integration_tests.drills.expected import event_time_oracle, state_oracle
from integration_tests.drills.expected.arrival_oracle import HOUR, Oracle
from integration_tests.drills.expected.compare import TableComparison
from integration_tests.drills.expected.history import COLUMNS
from integration_tests.drills.process.operators import EvictOnDrainOperator, RunningTotalOperator
from panekeeper.framework.declarations import aggregates as agg
from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.durations import hours, minutes
from panekeeper.framework.declarations.firing import Every
from panekeeper.framework.declarations.policies import Count, Delta, PartitionAge, Punctuation, Time
from panekeeper.framework.declarations.windows import (
    ArrivalWindow,
    Batched,
    Cumulate,
    Session,
    Sliding,
    SlidingByRow,
    TimeInterval,
    Tumbling,
    Window,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import Computation, DeltaJob

_AGGREGATED = ("sensor", "n", "total", "first", "last", "reason")


@dataclass(frozen=True, kw_only=True)
class DrillJob:
    """One job, and how its tables are compared.

    Attributes:
        name: of the job; shown in reports as the check.
        window: of the job, or of its first port; None for a join of rows by their times.
        oracle: returns a new oracle; called once for each comparison.
        second_window: of the second port, if there is one. Small values go to the first port, large ones to the second.
        options: arguments of `windowed`, in addition to name, partition key and number of key groups.
        operator: computes the results, in place of the aggregates.
        join: joins the two ports, in place of the aggregates.
        uses_wall_clock: whether the window's time is the wall clock.
        tables: by role, how each table is compared.
    """

    name: str
    window: Window | None
    oracle: Callable[[], Oracle]
    second_window: Window | None = None
    options: dict[str, Any] = field(default_factory=dict)
    operator: type[RunningTotalOperator | EvictOnDrainOperator] | None = None
    join: Callable[[Any], Computation] | None = None
    uses_wall_clock: bool = False
    tables: dict[str, TableComparison] = field(
        default_factory=lambda: {"log": TableComparison(columns=_AGGREGATED, identity=1)}
    )

    def declare(self, spark: SparkSession, files: Path, folder: Path, rejected: Sequence[int] = ()) -> DeltaJob:
        """Return the declaration of the job.

        Args:
            spark: the session.
            files: the input folder.
            folder: the tables are written here, each in a subfolder with the name of its role.
            rejected: rows with one of these values are refused, by a rule for each.
        """
        from panekeeper.framework.builder.ports import ports
        from panekeeper.framework.builder.windowed import windowed

        options: dict[str, Any] = {"name": self.name, "partition_by": "sensor", "key_groups": 2} | self.options
        options["reject"] = {f"value {value}": f"value = {value}" for value in rejected}

        def stream(condition: str, window: Window | None) -> Any:
            reader = spark.readStream.schema(COLUMNS).option("stream", condition)  # by which one of two is known
            rows = reader.option("maxFilesPerTrigger", 1).json(str(files))
            declared = windowed(rows.where(condition), **options)
            return declared if window is None else declared.window(window)

        if self.second_window is None and self.join is None:
            windows = stream("true", self.window)
        else:
            small = f"value < {event_time_oracle.LARGE}"
            windows = ports(stream(small, self.window), stream(f"NOT {small}", self.second_window))
        computed = self._computed(windows)
        return computed.to_delta(folder / "log", view=folder / "view" if "view" in self.tables else None)

    def _computed(self, windows: Any) -> Computation:
        if self.join is not None:
            return self.join(windows)
        if self.operator is not None:
            computed: Computation = windows.operator(self.operator(), output=self.operator.output)
            return computed
        aggregates = {"n": agg.count(), "total": agg.sum("id")}
        if isinstance(self.window, ArrivalWindow):
            aggregates |= {"first": agg.first("id"), "last": agg.last("id")}
        aggregated: Computation = windows.aggregate(**aggregates)
        return aggregated


_ROW_CLOCK = {"arrival_time": "at"}
_EVENT_TIME = {"event_time": "seen"}


def _tables(*firing: str, log: Sequence[str] = (), start: str = "pane") -> dict[str, TableComparison]:
    """Return how the tables of a window in event time are compared; `log` are columns that the view does not have."""
    columns = ("sensor", f"{start}_start", f"{start}_end", "n", "total")
    return {
        "log": TableComparison(columns=(*columns, *log, *firing), identity=3),
        "view": TableComparison(columns=(*columns, *firing), identity=3),
        "quarantine": TableComparison(columns=("reason", "event_time", "row.id"), identity=3),
    }


DRILL_JOBS: tuple[DrillJob, ...] = (
    DrillJob(name="tumbling-count", window=Tumbling(Count(3)), oracle=lambda: oracle.TumblingCount(3)),
    DrillJob(
        name="tumbling-time",
        window=Tumbling(Time(hours(1))),
        options=_ROW_CLOCK,
        oracle=lambda: oracle.TumblingTime(by_row=True, period=HOUR),
    ),
    DrillJob(
        name="sliding-count",
        window=Sliding(evict=Count(4), trigger=Count(2)),
        oracle=lambda: oracle.SlidingCount(4, 2),
    ),
    DrillJob(
        name="sliding-time",
        window=Sliding(evict=Time(hours(2)), trigger=Time(hours(1))),
        options=_ROW_CLOCK,
        oracle=lambda: oracle.SlidingTime(2 * HOUR, by_row=True, period=HOUR),
    ),
    DrillJob(
        name="time-interval",
        window=TimeInterval(hours(1), creation_period=minutes(30), discard_age=hours(1)),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveTimeInterval(HOUR, period=HOUR // 2, discard_age=HOUR),
        tables=_tables("refinement", "reason"),
    ),
    DrillJob(
        name="cumulate",
        window=Cumulate(minutes(30), hours(2), discard_age=hours(1)),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveCumulate(HOUR // 2, 2 * HOUR, discard_age=HOUR),
        tables=_tables("refinement", "reason"),
    ),
    DrillJob(
        name="calendar",
        window=Calendar(
            "day", zone="Atlantic/South_Georgia", discard_age=hours(5), early=Every(event_time=minutes(10))
        ),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveDays(2 * HOUR, discard_age=5 * HOUR, early=HOUR // 6),
        tables=_tables("refinement", "reason"),
    ),
    DrillJob(
        name="session",
        window=Session(minutes(20), discard_age=hours(2)),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveSessions(HOUR // 3, discard_age=2 * HOUR),
        tables=_tables("refinement", "reason", log=["replaces"], start="session"),
    ),
    DrillJob(
        name="by-row",
        window=SlidingByRow(minutes(40), discard_age=hours(2), right=False),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveByRow(2 * HOUR // 3, discard_age=2 * HOUR),
        tables=_tables("refinement", "reason"),
    ),
    DrillJob(
        name="join-within",
        window=None,
        join=lambda streams: streams.join_within(
            before=minutes(30), after=minutes(15), how="full", discard_age=hours(1)
        ),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaiveWithin(before=HOUR // 2, after=HOUR // 4, discard_age=HOUR),
        tables={"log": TableComparison(columns=("sensor", "left_id", "right_id", "reason"), identity=3)},
    ),
    DrillJob(
        name="join-of-panes",
        window=TimeInterval(hours(1), discard_age=hours(1)),
        second_window=TimeInterval(hours(1), discard_age=hours(1)),
        join=lambda streams: streams.join(how="left"),
        options=_EVENT_TIME,
        oracle=lambda: event_time_oracle.NaivePaneJoin(HOUR, period=HOUR, discard_age=HOUR),
        tables={
            "log": TableComparison(
                columns=("sensor", "pane_start", "left_id", "right_id", "refinement", "reason"), identity=4
            )
        },
    ),
    DrillJob(name="batched", window=Batched(retain=3, every=2), oracle=lambda: oracle.BatchedCount(3, 2)),
    DrillJob(
        name="delta",
        window=Sliding(evict=Delta("value", 6), trigger=Count(2)),
        oracle=lambda: oracle.SlidingDelta(6, 2),
    ),
    DrillJob(
        name="punctuation",
        window=Tumbling(Punctuation()),
        options={"punctuation": "value % 4 = 0"},
        oracle=lambda: oracle.PunctuationWindow(4),
    ),
    DrillJob(
        name="state-handler",
        window=Tumbling(Count(2)),
        operator=RunningTotalOperator,
        oracle=lambda: state_oracle.RunningTotal(2),
        tables={"log": TableComparison(columns=("sensor", "windows", "total", "reason"), identity=2)},
    ),
    DrillJob(
        name="two-ports",
        window=Tumbling(Count(2)),
        second_window=Tumbling(Count(3)),
        operator=RunningTotalOperator,
        oracle=lambda: state_oracle.RunningTotal(2, 3),
        tables={"log": TableComparison(columns=("sensor", "windows", "total", "port", "reason"), identity=2)},
    ),
    DrillJob(
        name="eviction-in-drain",
        window=Tumbling(Count(4)),
        operator=EvictOnDrainOperator,
        oracle=lambda: state_oracle.EvictOnDrain(4),
        tables={"log": TableComparison(columns=("sensor", "kind", "n", "total"), identity=2)},
    ),
    DrillJob(
        name="clock-tumbling",
        window=Tumbling(Time(hours(2))),
        uses_wall_clock=True,
        oracle=lambda: oracle.TumblingTime(period=2 * HOUR),
    ),
    DrillJob(
        name="clock-sliding",
        window=Sliding(evict=Time(hours(4)), trigger=Time(hours(2))),
        uses_wall_clock=True,
        oracle=lambda: oracle.SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR),
    ),
    DrillJob(
        name="clock-each",
        window=Sliding(evict=Time(hours(4)), trigger=Time(hours(2)), catch_up="each"),
        uses_wall_clock=True,
        oracle=lambda: oracle.SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR, catch_up="each"),
    ),
    DrillJob(
        name="clock-batched",
        window=Batched(within=hours(4), every=hours(2), retain=3),
        uses_wall_clock=True,
        oracle=lambda: oracle.BatchedTime(4 * HOUR, 3, period=2 * HOUR),
    ),
    DrillJob(
        name="clock-partition-age",
        window=Tumbling(Count(3), partition_eviction=PartitionAge(hours(2))),
        uses_wall_clock=True,
        oracle=lambda: oracle.TumblingCount(3, age=2 * HOUR),
    ),
)


def drill_job(name: str) -> DrillJob:
    """Return the job of that name."""
    return next(job for job in DRILL_JOBS if job.name == name)
