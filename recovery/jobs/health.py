"""The health of a job: one word for its status, which alarms and exit codes go by, and the reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from panekeeper.recovery.jobs.job_status import Health, JobStatus
from panekeeper.state.checkpoint.lease import HEARTBEAT_TIMEOUT_US


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Beyond what a running job is behind; None: no limit.

    Attributes:
        lag: of its watermark behind the present, in seconds.
        age: of its last batch, in seconds. A job whose source has no rows runs no batch.
        rows: that its source holds and it has not read.
    """

    lag: float | None = None
    age: float | None = None
    rows: int | None = None


def with_health(status: JobStatus, limits: Limits) -> JobStatus:
    """Return a status with its health, and the reason.

    Args:
        status: all but these two.
        limits: beyond what it is behind.
    """
    health, why = _health(status, limits)
    return replace(status, health=health.value, why=why)


def _health(status: JobStatus, limits: Limits) -> tuple[Health, str]:
    if status.state == "flushed":
        return Health.HEALTHY, "it was flushed, and is finished"
    if not status.resumable:
        return Health.UNUSABLE, status.why_not or "it cannot be resumed"
    if status.state == "failed":
        return Health.DOWN, "it failed: its own log has the cause; remove it, and start the job again"
    if status.state == "lost":
        return Health.DOWN, "its process exited without releasing its lease: start the job again"
    if not status.running:
        return Health.STOPPED, "it was never started" if status.state == "new" else "it ended as it should"
    reasons = [*_behind(status, limits)]
    return (Health.BEHIND, "; ".join(reasons)) if reasons else (Health.HEALTHY, "it runs")


def _behind(status: JobStatus, limits: Limits) -> Iterator[str]:
    silent, lag, rows = status.heartbeat_age or 0, status.watermark_lag, status.rows_behind
    if silent < -HEARTBEAT_TIMEOUT_US / 1e6:
        yield "its last heartbeat is in the future, so whether it runs is not known: a clock is wrong"
    if silent > HEARTBEAT_TIMEOUT_US / 1e6:
        yield f"its process has sent no heartbeat for {_seconds(silent)}"
    if status.tick_error is not None:
        yield f"no tick of the wall clock can be written since {status.no_tick_since}: {status.tick_error}"
    if limits.lag is not None and lag is not None and lag > limits.lag:
        yield f"its watermark is {_seconds(lag)} behind the present, and {_seconds(limits.lag)} are allowed"
    age = min(one for one in (status.run_age, status.last_batch_age, math.inf) if one is not None)
    if limits.age is not None and limits.age < age < math.inf:
        yield f"no batch has ended for {_seconds(age)}, and {_seconds(limits.age)} are allowed"
    if limits.rows is not None and rows is not None and rows > limits.rows:
        yield f"its source holds {rows} rows that it has not read, and {limits.rows} are allowed"


def _seconds(value: float) -> str:
    """Return seconds without an exponent: a watermark may be years behind, as of a replay.

    >>> _seconds(438_377_000.04), _seconds(0.5)
    ('438,377,000 s', '0.5 s')
    """
    return f"{round(value, 1):,.12g} s"
