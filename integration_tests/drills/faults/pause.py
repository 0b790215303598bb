"""How a program is paused, and how long its leases have not been renewed then."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.faults.barrier import BarrierFault
from integration_tests.drills.faults.damage import FaultNotConfirmed
from panekeeper.state.checkpoint.folder import RUNNING_FILE, LocalFolder
from panekeeper.state.checkpoint.lease_owner import HEARTBEAT_TIMEOUT_US, read_owner

if TYPE_CHECKING:
    from collections.abc import Callable

_OTHER_HOST = "another-host"


class PausingFault(BarrierFault):
    """As `BarrierFault`, but the action returns once the process is continued, and then all jobs go on. Once only."""

    def __init__(self, point: str, batch: int, jobs: int, action: Callable[[], object]) -> None:
        super().__init__(point, batch, jobs, action)
        self._is_over = False

    def matches(self, point: str, batch: int) -> bool:
        """Return whether a job waits here; no longer once the process was paused."""
        return not self._is_over and super().matches(point, batch)

    def trigger(self) -> None:
        """Wait for the other jobs; the last one calls the action, and all return after it."""
        with self._changed:
            self._waiting += 1
            self._trigger_if_complete()
            self._changed.wait_for(lambda: self._is_over)

    def _trigger_if_complete(self) -> None:
        if self._waiting and self._waiting >= self._jobs and not self._is_over:
            self._action()
            self._is_over = True
            self._changed.notify_all()


def pause_process(log: Callable[[int], object]) -> None:
    """Stop the Java virtual machine and this process; return when both are continued.

    Args:
        log: called with the number of the Java process, before either is stopped.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    log(java)
    os.kill(java, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)


def let_lease_expire(checkpoint: Path) -> None:
    """Let the lease of a paused job look as it does to another host after a minute without a heartbeat.

    Args:
        checkpoint: of the job.

    Raises:
        FaultNotConfirmed: no job holds the lease.
    """
    folder = LocalFolder(checkpoint)
    owner = read_owner(folder)
    if owner is None:
        raise FaultNotConfirmed(f"{checkpoint} has no lease of the job that was paused")
    late = replace(owner, host=_OTHER_HOST, seen=owner.seen - HEARTBEAT_TIMEOUT_US - 1_000_000)
    folder.write_json(RUNNING_FILE, asdict(late), replace=True)
