"""Starts that came to no batch: they count neither as runs nor as ends of an outage."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.state.checkpoint.folder import RUNNING_FILE, LocalFolder
from panekeeper.state.checkpoint.runs import PreviousRun


class Runs:
    """One start after the other on one checkpoint; the clock stands at `us`."""

    def __init__(self, folder: Any) -> None:
        self.folder = LocalFolder(folder)
        self.us = 0

    def start(self, at: int) -> Lease:
        self.us = at
        return acquire(self.folder, "job", now=lambda: self.us)

    def crash(self, lease: Lease, at: int) -> None:
        """End a process without its own doing: its lease stays, with its last heartbeat."""
        self.us = at
        lease.renew()
        left = self.folder.read_json(RUNNING_FILE)
        lease.roll_back()
        self.folder.write_json(RUNNING_FILE, left | {"pid": 2**22 + 1, "started": None}, replace=True)

    def end(self, lease: Lease, at: int, state: str = "ended") -> None:
        """End a run as one that "ended" or "failed", or by a "crash"."""
        if state == "crash":
            self.crash(lease, at)
            return
        self.us = at
        lease.release(state)


def test_after_two_aborted_starts_the_run_before_them_is_the_last_one(tmp_path: Any) -> None:
    """One of them crashed and one failed; the time since the last batch is the outage, not that since the last try."""
    runs = Runs(tmp_path)
    first = runs.start(10)
    first.set_previous(None)
    runs.end(first, 20)
    runs.crash(runs.start(100), 105)
    runs.end(runs.start(200), 201, "failed")
    assert runs.start(300).previous == PreviousRun(name="job", since_us=10, seen_us=20, clean=True)


def test_a_run_that_crashed_counts_from_its_last_heartbeat(tmp_path: Any) -> None:
    """With an aborted start after it as well."""
    runs = Runs(tmp_path)
    first = runs.start(10)
    first.set_previous(None)
    runs.crash(first, 20)
    runs.crash(runs.start(100), 105)
    assert runs.start(300).previous == PreviousRun(name="job", since_us=10, seen_us=20, clean=False)


def test_starts_before_the_first_batch_of_all_are_no_runs(tmp_path: Any) -> None:
    """There was no outage before the first run."""
    runs = Runs(tmp_path)
    runs.crash(runs.start(10), 20)
    runs.end(runs.start(30), 40, "failed")
    assert runs.start(50).previous is None


def test_a_batch_that_an_aborted_start_had_begun_ends_the_outage_up_to_that_start(tmp_path: Any) -> None:
    """The next report begins there, in this run or, if it is killed meanwhile, in the next."""
    runs = Runs(tmp_path)
    first = runs.start(10)
    first.set_previous(None)
    runs.end(first, 20)
    third = runs.start(200)
    aborted = PreviousRun(name="job", since_us=100, seen_us=100, clean=False)
    third.set_previous(aborted)
    assert third.previous == aborted
    runs.crash(third, 210)
    assert runs.start(300).previous == aborted


def test_a_job_that_failed_did_not_end_cleanly(tmp_path: Any) -> None:
    """What `clean` in the downtime report says."""
    runs = Runs(tmp_path)
    first = runs.start(10)
    first.set_previous(None)
    runs.end(first, 20, "failed")
    assert runs.start(30).previous == PreviousRun(name="job", since_us=10, seen_us=20, clean=False)


@pytest.mark.parametrize("ending", ["crash", "failed"])
def test_a_run_whose_batch_a_start_completes_has_run_also_if_that_start_fails(tmp_path: Any, ending: str) -> None:
    """Else the outage before that run, which the batch has reported, would be reported once more."""
    runs = Runs(tmp_path)
    first = runs.start(10)
    first.set_previous(None)
    runs.end(first, 20)
    runs.end(runs.start(100), 105, ending)
    third = runs.start(200)
    third.note_completed(101)
    last = PreviousRun(name="job", since_us=100, seen_us=105, clean=False)
    assert third.previous == last
    third.roll_back()
    assert runs.start(300).previous == last


@pytest.mark.parametrize("ending", ["crash", "failed"])
def test_a_start_that_came_after_the_run_whose_batch_is_completed_is_no_run(tmp_path: Any, ending: str) -> None:
    """The time since that run was started is the next outage: when it was killed is known no more."""
    runs = Runs(tmp_path)
    runs.crash(runs.start(100), 105)
    runs.end(runs.start(200), 205, ending)
    third = runs.start(300)
    third.note_completed(101)
    third.roll_back()
    assert runs.start(400).previous == PreviousRun(name="job", since_us=101, seen_us=101, clean=False)
