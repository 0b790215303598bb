"""Two starts at the same instant on one checkpoint: at most one of them runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.state.checkpoint.folder import STOPPED_FILE, LocalFolder
from panekeeper.state.checkpoint.lease import read_owner

ROOT = Path(__file__).resolve().parents[4]

STARTER = """
import sys
from pathlib import Path
from panekeeper import CheckpointInUse
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.framework.engine.job.lease import acquire
print("ready", flush=True)
sys.stdin.readline()
try:
    acquire(LocalFolder(Path(sys.argv[1])), "other")
    print("won", flush=True)
except CheckpointInUse:
    print("refused", flush=True)
sys.stdin.readline()
"""


def test_of_many_starters_in_one_process_one_wins(tmp_path: Path) -> None:
    """Threads that start together: one takes the lease, all others are refused."""
    gate = threading.Barrier(8)

    def start(number: int) -> str | None:
        gate.wait()
        try:
            acquire(LocalFolder(tmp_path), f"job-{number}").set_job(lambda: None)
        except CheckpointInUse:
            return None
        return f"job-{number}"

    with ThreadPoolExecutor(8) as pool:
        winners = [name for name in pool.map(start, range(8)) if name]
    owner = read_owner(LocalFolder(tmp_path))
    assert owner is not None
    assert winners == [owner.name]


@dataclass(frozen=True)
class LetsAnotherStart(LocalFolder):
    """A folder in which another job starts after a start has found the lease free, and before it claims it."""

    reads: list[str] = field(default_factory=list)
    faster: list[Lease] = field(default_factory=list)
    ends: bool = False

    def read_json(self, name: str) -> Any:
        found = super().read_json(name)
        if name == STOPPED_FILE:  # read twice to find the lease free, once for the run before
            self.reads.append(name)
            if len(self.reads) == 3:
                self.faster.append(acquire(LocalFolder(self.path), "faster"))
                self.faster[0].set_job(lambda: None)
                if self.ends:
                    self.faster[0].release("ended")
        return found


def test_a_start_does_not_take_the_lease_of_one_that_came_between(tmp_path: Path) -> None:
    """It claims the number after the claims that it has seen, not after those that were made since."""
    folder = LetsAnotherStart(tmp_path)
    with pytest.raises(CheckpointInUse, match="faster"):
        acquire(folder, "slower")
    (faster,) = folder.faster
    faster.require_held()
    faster.release("ended")


def test_a_start_does_not_go_by_what_was_there_before_another_run(tmp_path: Path) -> None:
    """That one has ended meanwhile, and its number is free again: what it says of the tables is not what was read."""
    folder = LetsAnotherStart(tmp_path, ends=True)
    with pytest.raises(CheckpointInUse, match=r"another job has run on .* while this one was starting"):
        acquire(folder, "slower")
    acquire(LocalFolder(tmp_path), "slower").release("ended")


def test_of_several_processes_one_wins(tmp_path: Path) -> None:
    """The exclusive create of a local disk lets one of them through, however close they come."""
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    starters = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)
    ]
    streams = [(one.stdin, one.stdout) for one in starters]
    assert [out.readline() for _, out in streams if out] == ["ready\n"] * 3
    for into, _ in streams:
        assert into
        into.write("go\n")
        into.flush()
    results = sorted(out.readline().strip() for _, out in streams if out)
    for one in starters:
        one.communicate("leave\n", timeout=60)
    assert results == ["refused", "refused", "won"]
