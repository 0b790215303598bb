"""The tick scheduler on a folder, with clocks that a test sets: what it writes to the control stream, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, LocalFolder, control_file

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
HOUR = 3600.0


class Clocks:
    """The wall clock (us) and the monotonic clock (s) of a host."""

    def __init__(self) -> None:
        self.wall_us = START_US
        self.seconds = 0.0

    def pass_(self, seconds: float) -> None:
        """Let time pass on both, as while a process runs or is stopped."""
        self.wall_us += int(seconds * SECOND_US)
        self.seconds += seconds

    def set_ahead(self, seconds: float) -> None:
        """Set the wall clock alone, as after the host was suspended, or by its administrator."""
        self.wall_us += int(seconds * SECOND_US)


class FullDisk(LocalFolder):
    """A folder on a disk that can be full."""

    is_full = False

    def write_json(self, name: str, value: Any, *, replace: bool = False) -> None:
        if FullDisk.is_full:
            raise OSError(28, "No space left on device")
        super().write_json(name, value, replace=replace)


@pytest.fixture
def clocks() -> Clocks:
    """Clocks that agree."""
    return Clocks()


@pytest.fixture
def folder(tmp_path: Path) -> FullDisk:
    """A checkpoint on a disk with room."""
    FullDisk.is_full = False
    return FullDisk(tmp_path)


@pytest.fixture
def outages() -> list[int]:
    """When each outage began, us after the start."""
    return []


@pytest.fixture
def scheduler(folder: FullDisk, clocks: Clocks, outages: list[int]) -> TickScheduler:
    """A scheduler without a thread."""
    return TickScheduler(
        folder,
        now=lambda: clocks.wall_us,
        monotonic=lambda: clocks.seconds,
        on_outage=lambda us: outages.append(us - START_US),
    )


def written(folder: LocalFolder) -> list[str]:
    """Return the kinds of the control files, in order."""
    return [folder.read_json(f"{CONTROL_FOLDER}/{name}")["kind"] for name in folder.names(CONTROL_FOLDER)]


def run(scheduler: TickScheduler, clocks: Clocks, seconds: float) -> int:
    """Let a scheduler run for so long and return how often it looked."""
    end, looks = clocks.seconds + seconds, 0
    while clocks.seconds < end:
        clocks.pass_(max(scheduler.look(), 0.001))
        looks += 1
    return looks


def test_a_tick_is_written_when_it_is_due_and_not_before(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks
) -> None:
    """Until a batch has processed it there is no other one."""
    scheduler.schedule(START_US + 12 * SECOND_US)
    run(scheduler, clocks, 11)
    assert written(folder) == []
    run(scheduler, clocks, 600)
    assert written(folder) == ["tick"]
    scheduler.schedule(clocks.wall_us)
    scheduler.look()
    assert written(folder) == ["tick", "tick"]


def test_without_due_work_nothing_is_written(scheduler: TickScheduler, folder: FullDisk, clocks: Clocks) -> None:
    """In a day of looks at the clock."""
    scheduler.schedule(None)
    assert run(scheduler, clocks, 24 * HOUR) == pytest.approx(24 * HOUR / 5, abs=2)
    assert written(folder) == []


@pytest.mark.parametrize("due", [1, None])
def test_a_suspended_host_is_an_outage(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks, outages: list[int], due: int | None
) -> None:
    """The monotonic clock stands still meanwhile. One "resume" for all that fell due, and without anything due, too."""
    scheduler.look()
    scheduler.schedule(None if due is None else START_US + due * SECOND_US)
    clocks.set_ahead(8 * HOUR)
    run(scheduler, clocks, 60)
    assert written(folder) == ["resume"]
    assert outages == [0]


def test_a_process_that_was_stopped_is_an_outage(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks, outages: list[int]
) -> None:
    """Both clocks go on while its threads stand still."""
    scheduler.schedule(START_US + 10 * SECOND_US)
    run(scheduler, clocks, 4)
    clocks.pass_(8 * HOUR)
    run(scheduler, clocks, 60)
    assert written(folder) == ["resume"]
    assert 0 <= outages[0] <= 5 * SECOND_US


def test_a_clock_that_goes_forward_and_back_is_two_outages(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks
) -> None:
    """After the second the windows have the right time again (docs/semantics.md section 7.6)."""
    scheduler.look()
    clocks.set_ahead(10_000 * HOUR)
    run(scheduler, clocks, 20)
    clocks.set_ahead(-10_000 * HOUR)
    run(scheduler, clocks, 20)
    times = [folder.read_json(control_file(number))["us"] - START_US for number in (1, 2)]
    assert written(folder) == ["resume", "resume"]
    assert times[0] > 9_999 * HOUR * SECOND_US
    assert times[1] < HOUR * SECOND_US


def test_a_clock_that_is_corrected_by_less_than_a_minute_is_none(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks
) -> None:
    """Time servers do that, and so does a busy host."""
    for seconds in (50, -50):
        scheduler.look()
        clocks.set_ahead(seconds)
        run(scheduler, clocks, 20)
    assert written(folder) == []


def test_a_tick_that_cannot_be_written_is_repeated(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks, caplog: pytest.LogCaptureFixture
) -> None:
    """Ever less often; a warning says so, and when it is over."""
    FullDisk.is_full = True
    scheduler.schedule(START_US)
    assert run(scheduler, clocks, 20) <= 8
    assert scheduler.failure is not None
    assert (scheduler.failure.since_us, "No space left" in scheduler.failure.error) == (START_US, True)
    assert "no tick could be written to pulse" in caplog.text
    FullDisk.is_full = False
    run(scheduler, clocks, 31)
    assert written(folder) == ["tick"]
    assert str(scheduler.failure) == "None"
    assert "can be written again" in caplog.text


def test_a_disk_that_was_full_for_hours_is_an_outage(
    scheduler: TickScheduler, folder: FullDisk, clocks: Clocks, outages: list[int]
) -> None:
    """Windows of a second would have fallen due thousands of times."""
    scheduler.schedule(START_US)
    FullDisk.is_full = True
    assert run(scheduler, clocks, 8 * HOUR) < 1_000
    FullDisk.is_full = False
    run(scheduler, clocks, 31)
    assert written(folder) == ["resume"]
    assert set(outages) == {0}


def test_the_thread_ends_when_it_is_closed(scheduler: TickScheduler) -> None:
    """However long it would wait."""
    thread = scheduler.start()._thread
    scheduler.close()
    assert thread is not None
    thread.join(timeout=60)
    assert not thread.is_alive()
