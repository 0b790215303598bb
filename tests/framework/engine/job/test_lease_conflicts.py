"""Two starts at the same instant on one checkpoint: at most one of them runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from framework.engine.job.lease import acquire
from panekeeper import CheckpointInUse
from state.checkpoint.folder import LocalFolder
from state.checkpoint.owner import read_owner

ROOT = Path(__file__).resolve().parents[4]

STARTER = """
import sys
from pathlib import Path
from panekeeper import CheckpointInUse
from state.checkpoint.folder import LocalFolder
from framework.engine.job.lease import acquire
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
            acquire(LocalFolder(tmp_path), f"job-{number}").set_end_check(lambda: None)
        except CheckpointInUse:
            return None
        return f"job-{number}"

    with ThreadPoolExecutor(8) as pool:
        winners = [name for name in pool.map(start, range(8)) if name]
    owner = read_owner(LocalFolder(tmp_path))
    assert owner is not None
    assert winners == [owner.name]


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
    told = sorted(out.readline().strip() for _, out in streams if out)
    for one in starters:
        one.communicate("leave\n", timeout=60)
    assert told == ["refused", "refused", "won"]
