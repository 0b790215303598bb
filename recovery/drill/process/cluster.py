"""A Spark standalone cluster on this machine: a master and one worker, whose executors can be killed."""

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

from recovery.drill.faults.damage import Missed

_PATIENCE_SECONDS = 120.0
_MASTER_AT = re.compile(rb"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(rb"Successfully registered with master")


@contextmanager
def cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a cluster and give the URL of its master."""
    made = Cluster(folder, environment)
    try:
        yield made.url
    finally:
        made.close()


class Cluster:
    """The cluster. Its logs and the work of its executors go to a folder."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._environment = environment | {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = self._start("master.Master", *place, until=_MASTER_AT)
            room = ("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"))
            self._start("worker.Worker", *place, *room, self.url, until=_REGISTERED)
        except BaseException:
            self.close()
            raise

    def _start(self, what: str, *arguments: str, until: re.Pattern[bytes]) -> str:
        """Start a daemon and wait until its log says a thing; return the last word of it."""
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
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if (match := until.search(path.read_bytes())) is not None:
                return match[0].split()[-1].decode()
            time.sleep(0.1)  # its log is all there is to go by
        raise Missed(f"Spark's {what} did not come up: {path.read_text(errors='replace')[-300:]}")

    def close(self) -> None:
        """End it all, executors too."""
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()
