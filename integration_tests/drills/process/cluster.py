"""A Spark standalone cluster on this host: a master and one worker, whose executors can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from integration_tests.drills.faults.damage import FaultNotConfirmed
from panekeeper.state.checkpoint.clock import Deadline

_TIMEOUT_SECONDS = 120.0
_MASTER_AT = re.compile(rb"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(rb"Successfully registered with master")


@contextmanager
def cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a cluster while the context is open.

    Args:
        folder: for the logs and the files of the executors.
        environment: of the daemons.

    Yields:
        The URL of the master.

    Raises:
        FaultNotConfirmed: a daemon did not start.
    """
    made = Cluster(folder, environment)
    try:
        yield made.url
    finally:
        made.close()


class Cluster:
    """The daemons of a cluster. Their logs and the files of the executors are in one folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._environment = environment | {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = self._start("master.Master", *address, until=_MASTER_AT)
            resources = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
            self._start("worker.Worker", *address, *resources, self.url, until=_REGISTERED)
        except BaseException:
            self.close()
            raise

    def _start(self, what: str, *arguments: str, until: re.Pattern[bytes]) -> str:
        """Start a daemon, wait until its log matches `until`, and return the last word of the match."""
        home = Path(pyspark.__file__).parent
        path = self._folder / f"{what}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
                env=self._environment | {"SPARK_HOME": str(home)},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._processes.append(process)
        deadline = Deadline(_TIMEOUT_SECONDS)
        while not deadline.has_passed() and process.poll() is None:
            if (match := until.search(path.read_bytes())) is not None:
                return match[0].split()[-1].decode()
            time.sleep(0.1)  # polls: a daemon reports its start in its log only
        raise FaultNotConfirmed(f"Spark's {what} did not start: {path.read_text(errors='replace')[-300:]}")

    def close(self) -> None:
        """Kill the daemons and the executors."""
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()
