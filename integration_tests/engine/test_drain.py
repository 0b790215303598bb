"""Draining a real job: from the driver, by SIGTERM, and what state handlers make of it."""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from panekeeper import (
    CheckpointReason,
    Count,
    DrainTimeout,
    Event,
    EventType,
    JobFailed,
    JobNotRunning,
    NotConfirmed,
    Operator,
    SinkError,
    StateContext,
    StateHandler,
    Tumbling,
    capsule,
    replay,
    windowed,
)
from panekeeper.framework.declarations.operator import Emit
from panekeeper.testing import run_capsule

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.engine.conftest import Readings
    from panekeeper import Job
    from panekeeper.framework.builder.outputs import DeltaJob


class Running(Operator, StateHandler):
    """Emits the total of all windows so far, which nothing but its own state carries."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})

    def __init__(self) -> None:
        self.total = 0
        self.runs = 1

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.total += int(event.column("value").sum())
        emit(kind=event.type.value, total=self.total, runs=self.runs)

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("total", self.total)
        ctx.write("runs", self.runs)

    def reset(self, ctx: StateContext) -> None:
        self.total = ctx.read("total")
        self.runs = ctx.read("runs") + ctx.restarted


class EvictWhenDrained(StateHandler):
    """Evicts every partition before an upgrade."""

    def drain(self, ctx: StateContext) -> None:
        if ctx.reason is CheckpointReason.DRAIN:
            for partition in ctx.partitions():
                ctx.evict_partition(partition.key)


class FailingInDrain(StateHandler):
    """Fails when the job is drained, as often as it is tried."""

    def drain(self, ctx: StateContext) -> None:
        if ctx.reason is CheckpointReason.DRAIN:
            raise RuntimeError("the pump is stuck")


def declare(readings: Readings, *handlers: StateHandler) -> DeltaJob:
    """Return a job that keeps pairs of readings of a sensor, and a running total."""
    stream = windowed(readings.stream(), name="pairs", partition_by="sensor", key_groups=1)
    paired = stream.window(Tumbling(Count(2)))
    computed = paired.operator(Running(), output="kind string, total bigint, runs bigint", handlers=list(handlers))
    return computed.to_delta(readings.folder / "log")


def start(readings: Readings, *handlers: StateHandler, trigger: Any = "immediate") -> Job:
    """Start that job."""
    job = declare(readings, *handlers).start(checkpoint=readings.checkpoint, trigger=trigger)
    readings.jobs.append(job)
    return job


def emitted(readings: Readings) -> list[tuple[Any, ...]]:
    """What the log holds, in the order of the firings."""
    return [
        (row["sensor"], row["kind"], row["total"], row["runs"])
        for row in sorted(readings.rows("log"), key=lambda row: row["firing"])
    ]


def test_a_drained_job_keeps_what_is_open_and_resumes_there(readings: Readings) -> None:
    """Offsets and commits agree, the report says what is open, and an operator's own state goes on."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2), ("b", "10:00:12", 4))
    job = start(readings)
    drained = job.drain(timeout=300)
    assert (drained.open_panes, drained.tuples) == (2, 1)
    assert "drained after batch" in str(drained)
    assert readings.numbers("offsets") == readings.numbers("commits")
    assert job.status().state.value == "ended"
    with pytest.raises(JobNotRunning, match="ended after batch"):
        job.drain()

    readings.put(("b", "10:00:13", 8))
    assert start(readings, trigger="available_now").await_end(timeout=300)
    assert emitted(readings) == [("a", "eviction", 3, 1), ("b", "eviction", 15, 2)]


@pytest.mark.extended
def test_partitions_can_be_evicted_when_a_job_is_drained(readings: Readings) -> None:
    """Their contents are reported in the batch of the drain, and their keys begin again as new.

    Run again, each batch is equal, what handlers have stored and done to the windows included.
    """
    readings.put(("a", "10:00:10", 1), ("b", "10:00:12", 4))
    drained = start(readings, EvictWhenDrained()).drain(timeout=300)
    assert (drained.open_panes, drained.tuples) == (0, 0)
    assert sorted(kind for _, kind, _, _ in emitted(readings)) == ["partition_eviction", "partition_eviction"]
    readings.put(("a", "10:00:13", 8), ("a", "10:00:14", 16))
    assert start(readings, EvictWhenDrained(), trigger="available_now").await_end(timeout=300)
    assert emitted(readings)[-1] == ("a", "eviction", 29, 2)

    job, numbers = declare(readings, EvictWhenDrained()), readings.numbers("commits")
    again = [replay(readings.checkpoint, number, job=job, key={"sensor": "a"}) for number in numbers]
    assert [one.differences for one in again] == [()] * len(numbers)
    assert sum(one.results.num_rows for one in again if one.results is not None) == 2
    shown = [row["kind"] for one in again for step in one.steps() for row in step.results]
    assert shown == ["partition_eviction", "eviction"]
    case = capsule(readings.checkpoint, numbers[-1], {"sensor": "a"}, job=job)
    assert run_capsule(case.to_json()).is_equal


def test_a_drain_that_takes_too_long_goes_on_by_itself(readings: Readings) -> None:
    """The error says that the job is resumable however it ends; it ends at the boundary of its batch."""
    readings.put(("a", "10:00:10", 1))
    job = start(readings)
    with pytest.raises(DrainTimeout, match="if it is killed before, it resumes with that batch"):
        job.drain(timeout=0.001)
    assert job.await_end(timeout=300)
    assert readings.numbers("offsets") == readings.numbers("commits")


@pytest.mark.extended
def test_two_who_drain_a_job_at_once_do_not_meet(readings: Readings) -> None:
    """A signal and a hook before the end, say: one drains it, the other finds it drained."""
    readings.put(("a", "10:00:10", 1))
    job = start(readings, trigger=timedelta(hours=1))  # it sleeps, so a drain ends it and starts it again

    def drain(_: int) -> str:
        try:
            return f"drained after {job.drain(timeout=300).batch}"
        except JobNotRunning:
            return "not running"

    with ThreadPoolExecutor(2) as both:
        said = sorted(both.map(drain, range(2)))
    assert said == [f"drained after {readings.numbers('commits')[-1]}", "not running"]
    assert readings.numbers("offsets") == readings.numbers("commits")


@pytest.mark.extended
def test_a_folder_whose_name_is_a_pattern_for_spark_has_a_control_stream(readings: Readings) -> None:
    """Its characters stand for themselves, or no command and no tick would ever be read."""
    readings.put(("a", "10:00:10", 1))
    job = readings.declare().start(checkpoint=readings.folder / "{a}[b]" / "checkpoint")
    readings.jobs.append(job)
    assert job.drain(timeout=120).batch is not None


def test_sigterm_drains(readings: Readings) -> None:
    """A service manager's stop ends the job at a batch boundary, and `await_end` returns."""
    readings.put(("a", "10:00:10", 1))
    job = start(readings)
    job.on_batch(lambda report: os.kill(os.getpid(), signal.SIGTERM) if report.batch == 0 else None)
    assert job.await_end(timeout=300)
    assert job.status().state.value == "ended"
    assert readings.numbers("offsets") == readings.numbers("commits")


def test_a_handler_that_raises_fails_the_batch_and_nothing_of_it_stays(readings: Readings) -> None:
    """The error says which; with the handler fixed the job continues as if nothing had happened."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2))
    job = start(readings, FailingInDrain())
    job.process_available()
    readings.put(("a", "10:00:12", 4), ("a", "10:00:13", 8))
    with pytest.raises(JobFailed, match="the pump is stuck"):
        job.drain(timeout=300)

    readings.spark.streams.resetTerminated()
    fixed = type("FailingInDrain", (StateHandler,), {})()
    fixed.__class__.__qualname__ = "FailingInDrain"
    assert start(readings, fixed, trigger="available_now").await_end(timeout=300)
    assert [(key, total) for key, _, total, _ in emitted(readings)] == [("a", 3), ("a", 15)]


def test_a_job_goes_back_to_its_initial_state_only_when_confirmed(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """The error names what would be discarded; a reset that was interrupted is finished by the next start.

    Tables that are gone begin empty with it, also those that went amid it: then by another reset.
    """
    readings.put(("a", "10:00:10", 1), ("b", "10:00:30", 2), ("a", "10:02:10", 4))
    readings.put(("a", "10:04:10", 8))
    readings.run()
    first = readings.log()
    with pytest.raises(NotConfirmed, match=r"discards: the contents of \d+ open panes? .* confirm='readings'"):
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint)
    readings.run()
    assert readings.log() == first

    fail_at("during-reset", 1)
    with pytest.raises(ConnectionError):
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    job = readings.start(trigger="immediate")
    job.process_available()
    job.drain(timeout=60)  # its command has a lower number than those before the reset
    assert readings.log() == sorted([*first, *first])
    assert readings.log("view") == first
    readings.put(("c", "10:30:10", 16), ("c", "10:40:10", 32))
    readings.run()  # once more in the new epoch: Delta has the numbers of the old one's batches
    view = readings.log("view")
    assert [row for row in view if row[0] == "c"] == [("c", "10:30", 16, 1, 0, "WATERMARK")]

    # The log is gone, and what a commit that failed has left is there; then the view is, too, amid the reset.
    shutil.rmtree(readings.folder / "log")
    (readings.folder / "log" / "_delta_log" / "_staged_commits").mkdir(parents=True)
    with pytest.raises(NotConfirmed, match=r"made again without rows by the next start: the log \S+/log\."):
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint)
    assert readings.log("view") == view
    fail_at("during-reset", 1)
    with pytest.raises(ConnectionError):
        readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    shutil.rmtree(readings.folder / "view")
    with pytest.raises(SinkError, match=r"the reset of .* is not complete, and the table \S+/view is gone"):
        readings.start()
    readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    readings.run()
    assert readings.log() == readings.log("view") == view


@pytest.mark.extended
def test_a_reset_empties_no_view_but_that_of_its_job(readings: Readings) -> None:
    """Another job's view, in a declaration by mistake, keeps its rows; nothing of the reset is done."""
    own = readings.folder / "others"
    readings.put(("a", "10:00:10", 1), ("a", "10:02:10", 2))
    readings.run()
    first = readings.log("view")
    other = readings.computed(name="others").to_delta(own / "log", view=own / "view")
    other.start(checkpoint=own / "checkpoint", trigger="available_now").await_end()
    mistaken = readings.computed(name="others").to_delta(own / "log", view=readings.folder / "view")
    with pytest.raises(SinkError, match=r"would empty the view .*, and the job of .* was last started with the view"):
        mistaken.reset_to_initial_state(checkpoint=own / "checkpoint", confirm="others")
    assert readings.log("view") == first
    other.start(checkpoint=own / "checkpoint", trigger="available_now").await_end()
