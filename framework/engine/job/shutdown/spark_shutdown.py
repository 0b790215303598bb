"""The end of the Java machine that started this program: with `spark-submit` it gets the signals, and Python does not.

A cluster, a container or a service manager ends the process that it started, which is Java's. Spark would cancel the
running batch then. A hook that Java runs before those of Spark drains the jobs first.
"""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.java_libraries import is_submitted
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logger("job")
_BEFORE_SPARK = 100
"""Priority of the hook among Hadoop's, which run from the highest on; Spark's has 40."""
_LONGEST_DRAIN_S = 3600  # who sent the signal kills earlier
_LONGEST_REST_S = 30  # for what the program does after its jobs have ended


class RunningJob(Protocol):
    """What is drained: a `Job`."""

    def drain(self) -> object:
        """End the job with its windows open."""
        ...


class SparkShutdown:
    """Drains the jobs that run when Java is to end, and keeps it alive until the program has ended.

    One object serves a process. Java calls `run`, in a thread of its own.
    """

    class Java:
        """The Java interface that Python implements here."""

        implements: ClassVar[list[str]] = ["java.lang.Runnable"]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: weakref.WeakSet[RunningJob] = weakref.WeakSet()
        self._program_ended = threading.Event()
        self._installed = False

    def add(self, job: RunningJob, spark: SparkSession) -> None:
        """Drain a job when Java is to end, if Java has started this program."""
        if is_submitted():
            with self._lock:
                self._jobs.add(job)
                if not self._installed:
                    self._install(spark)
                    self._installed = True

    def end_program(self) -> None:
        """The program has nothing more to do, and what it has printed goes through Java."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._program_ended.set()

    def run(self) -> None:
        """Called by Java's shutdown: return once jobs and program have ended, or the program has had its time."""
        with self._lock:
            jobs = list(self._jobs)
        drained = [job for job in jobs if _drain(job)]
        if drained:
            self._program_ended.wait(_LONGEST_REST_S)

    def _install(self, spark: SparkSession) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        context = spark.sparkContext
        start: Any = ensure_callback_server_started  # untyped
        start(context._gateway)  # noqa: SLF001 -- Java has no public way to call Python
        jvm: Any = context._jvm  # noqa: SLF001 -- as above
        hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        longest = _LONGEST_DRAIN_S + _LONGEST_REST_S
        hook = jvm.java.lang.Thread(self)  # never started: it only lends `self` the hashCode that Hadoop wants
        hooks.addShutdownHook(hook, _BEFORE_SPARK, longest, jvm.java.util.concurrent.TimeUnit.SECONDS)
        atexit.register(self.end_program)


def _drain(job: RunningJob) -> bool:
    """Drain a job and return whether it ran."""
    try:
        job.drain()
    except PanekeeperError as error:
        _log.info("not drained at the end of Spark's process: %s", error)  # it has ended, or reports this where awaited
        return False
    return True


spark_shutdown = SparkShutdown()
"""That of this process."""
