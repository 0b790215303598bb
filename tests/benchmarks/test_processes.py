"""What the processes of a run take: found below the driver, counted by the system."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.memory import peak_memory
from benchmarks.processes import processes_of
from benchmarks.processor import ProcessorTime, processor_time, seconds_since

TICK = 1 / os.sysconf("SC_CLK_TCK")


def describe(proc: Path, pid: int, name: str, parent: int, ticks: int = 0, reaped: int = 0) -> None:
    """Describe a process as the system does; half of its time is that of the kernel."""
    (proc / f"{pid}").mkdir()
    times = f"{ticks // 2} {ticks - ticks // 2} {reaped // 2} {reaped - reaped // 2}"
    (proc / f"{pid}" / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0 0 0\n")


def test_processes_are_counted_by_kind_below_the_driver(tmp_path: Path) -> None:
    """Children that have ended are in the count of who reaped them: Java's, the daemon's, the driver's were workers."""
    describe(tmp_path, 1, "init", 0, 1_000_000, 1_000_000)
    describe(tmp_path, 10, "python", 1, 100, 7)
    describe(tmp_path, 20, "java", 10, 200, 30)
    describe(tmp_path, 30, "python (daemon) x", 20, 5, 50)
    describe(tmp_path, 31, "python", 30, 400)
    describe(tmp_path, 99, "java", 1, 1_000_000)
    (tmp_path / "40").mkdir()  # it has just ended
    (tmp_path / "uptime").write_text("1 1")
    seconds = seconds_since([], processes_of(10, tmp_path))
    assert {kind: round(one / TICK) for kind, one in seconds.items()} == {
        "driver": 100,
        "java": 200,
        "workers": 7 + 30 + 5 + 50 + 400,
    }


def test_a_driver_that_has_ended_has_no_processes(tmp_path: Path) -> None:
    """Nor are there any where the system describes none; what others start is not its own."""
    describe(tmp_path, 1, "init", 0, 100)
    assert processes_of(10, tmp_path) == []
    assert seconds_since([], []) == {}
    assert processes_of(10, tmp_path / "missing") == []


def test_a_worker_that_ends_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """Spark's daemon does not reap it, so its time of before is in no counter any more."""
    describe(tmp_path, 10, "python", 1, 100)
    describe(tmp_path, 30, "python", 10, 40)
    describe(tmp_path, 31, "python", 10, 900)
    before = processes_of(10, tmp_path)
    shutil.rmtree(tmp_path / "31")
    shutil.rmtree(tmp_path / "30")
    describe(tmp_path, 30, "python", 10, 60)
    describe(tmp_path, 32, "python", 10, 8)
    seconds = seconds_since(before, processes_of(10, tmp_path))
    assert {kind: round(one / TICK) for kind, one in seconds.items()} == {"driver": 0, "java": 0, "workers": 20 + 8}


def test_a_block_counts_what_it_takes_and_no_more() -> None:
    """This process alone computes in it, until its own counter has risen by five ticks."""
    begin = sum(os.times()[:2])
    with processor_time(os.getpid()) as taken:
        before = sum(os.times()[:2])
        while sum(os.times()[:2]) < before + 5 * TICK:
            pass
    assert 4 * TICK <= taken.seconds["driver"] <= sum(os.times()[:2]) - begin + TICK
    assert taken.seconds["java"] == 0


def test_looking_at_the_memory_is_no_part_of_a_run() -> None:
    """The thread that looks says what it has taken, and that is left out; less than nothing is never left."""
    with peak_memory() as peak:
        pass
    assert 0 < peak.processor_seconds < 60
    taken = ProcessorTime()
    taken.leave_out("driver", 1.0)
    assert taken.seconds == {}
    taken.seconds = {"driver": 3.0, "java": 1.0}
    taken.leave_out("driver", 1.0)
    assert taken.seconds == {"driver": 2.0, "java": 1.0}
    taken.leave_out("java", 1.5)
    assert taken.seconds == {"driver": 2.0, "java": 0.0}
