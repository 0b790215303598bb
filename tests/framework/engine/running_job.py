"""A job without Spark: what its metrics are read from is real, and a test runs its batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.framework.engine.flow.group_report import GroupReport
from panekeeper.framework.engine.job.callbacks import ReportCallbacks
from panekeeper.framework.engine.job.status import BatchReport, JobState, RunTotals, StageClock, Status
from panekeeper.framework.engine.sink.batch_output import ROW_COUNT_COLUMNS, BatchOutput
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.job_record import LastSavepoint


class Seconds:
    """A clock that moves on by a number of seconds each time it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class RunningJob:
    """A `MeasuredJob`."""

    def __init__(self, name: str = "readings") -> None:
        self.name = name
        self.state = JobState.RUNNING
        self.saved: LastSavepoint | None = None
        self.spark: dict[str, Any] = {}
        self._totals = RunTotals(2)
        self._callbacks = ReportCallbacks(name)

    def run(
        self,
        number: int,
        *,
        late_us: int | None = None,
        firings: int = 0,
        errors: int = 0,
        missed_panes: int = 0,
        **counts: int,
    ) -> None:
        """Run a batch whose rows went as `counts` says, each stage in a second."""
        every = dict.fromkeys(ROW_COUNT_COLUMNS, 0) | counts | {"rows_in": sum(counts.values())}
        failed = [ErrorKind(reason="USER_ERROR", kind="ValueError", count=errors, first="")] if errors else []
        batch = BatchOutput(
            number=number,
            groups=[
                GroupReport(
                    group=1,
                    counts=every,
                    open_panes=2,
                    watermark=now_us() - 90_000_000,
                    missed_panes=missed_panes,
                    late_us=late_us,
                    errors=failed,
                ),
                GroupReport(group=2, counts=dict.fromkeys(ROW_COUNT_COLUMNS, 0), open_panes=3),
            ],
            output_counts={"results": firings, "rejected": 0},
            hashes={},
            driver_tables={},
        )
        clock = StageClock(Seconds(1.0))
        clock.end("plan")
        clock.end("tables")
        self._callbacks.notify(self._totals.add(batch, clock))

    def on_batch(self, callback: Callable[[BatchReport], None]) -> None:
        self._callbacks.add(callback)

    def status(self) -> Status:
        return self._totals.status(self.name, self.state)

    def report(self) -> dict[str, Any]:
        fields = self._totals.report()
        return fields | {"progress": fields["progress"] | self.spark}

    def last_savepoint(self) -> LastSavepoint | None:
        return self.saved
