"""How a job ends when its process is to end: by a signal, with Spark's own process, or because the program is over."""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from panekeeper.framework.declarations.errors import JobNotRunning, PanekeeperError
from panekeeper.framework.engine.session.java_libraries import is_submitted
from panekeeper.state.checkpoint.clock import Deadline
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logger("job")
_MESSAGES = {
    signal.SIGINT: "ending after this batch; press Ctrl-C again to leave at once",
    signal.SIGTERM: "draining; a second SIGTERM ends at once",
}
_IN_A_KERNEL = "the job goes on; its stop() ends it, and panekeeper.job(checkpoint) returns it"
_BEFORE_SPARK = 100
"""Priority of the hook among Hadoop's, which run from the highest on; Spark's has 40."""
_LONGEST_DRAIN_S = 3600  # who sent the signal kills earlier
_LONGEST_REST_S = 30  # for what the program does after its jobs have ended


class RunningJob(Protocol):
    """A `Job`."""

    @property
    def checkpoint(self) -> str:
        """Its folder."""
        ...

    def await_end(self, timeout: float) -> bool:
        """Wait for so many seconds at most for its end, and return whether it has ended."""
        ...

    def drain(self) -> object:
        """End the job with its windows open."""
        ...


# Ctrl-C and SIGTERM while a job is awaited


class SignalRequests:
    """Notes which signal came first: that is a request, and the second one works as usual.

    Spark's own handler would cancel the running batch instead. Does nothing outside the main thread, where Python
    delivers no signals.
    """

    def __init__(self) -> None:
        self.requested: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in _MESSAGES}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = signal.Signals(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def await_end(
    is_over: Callable[[float], bool], deadline: Deadline, *, drain: Callable[[], object], stop: Callable[[], object]
) -> bool:
    """Wait until a job ends, end it if a signal comes that wants that, and return whether it has ended.

    `is_over` waits for so many seconds for the end. Raises `KeyboardInterrupt` if Ctrl-C has ended it; or, in the
    kernel of a notebook, the wait.
    """
    with SignalRequests() as signals:
        while not is_over(0.2):
            match signals.requested:
                case signal.SIGINT if is_in_a_kernel():
                    sys.stderr.write(f"panekeeper: {_IN_A_KERNEL}\n")
                    raise KeyboardInterrupt
                case signal.SIGINT:
                    sys.stderr.write(f"panekeeper: {_MESSAGES[signal.SIGINT]}\n")
                    stop()
                    raise KeyboardInterrupt
                case signal.SIGTERM:
                    sys.stderr.write(f"panekeeper: {_MESSAGES[signal.SIGTERM]}\n")
                    with suppress(JobNotRunning):
                        drain()
                    return True
            if deadline.has_passed():
                return False
    return True


def is_in_a_kernel() -> bool:
    """Return whether this is the kernel of a notebook, where an interrupt ends a cell and not the program."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


# The end of a program that has not waited for its jobs


class UnattendedJobs:
    """The jobs for whose end nobody has waited yet. Safe to use from several threads.

    Spark ends with the program, in the midst of a batch, by exit code 0, which cannot be changed any more. So what the
    program has missed is printed.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, RunningJob] = {}

    def add(self, job: RunningJob, query: object | None = None) -> None:
        """Report the job as the program ends, unless it, or its `query`, is awaited before."""
        if not self._jobs:
            atexit.unregister(self.report)
            atexit.register(self.report)
        self._jobs[id(query or job)] = job

    def remove(self, awaited: object) -> None:
        """Take note that the program waits for a job or its query, or ends it."""
        self._jobs.pop(id(awaited), None)

    def report(self) -> None:
        """Print a line for each job that runs or has failed."""
        jobs, self._jobs = self._jobs, {}
        wait = "let it wait for the job by await_end()"
        for job in jobs.values():
            try:
                if job.await_end(0.01):
                    continue
                line = (
                    f"the program ends while the job on {job.checkpoint} runs, perhaps in the midst of a batch; "
                    f"{wait}. Its next start resumes with that batch"
                )
            except PanekeeperError as error:
                line = (
                    f"the job on {job.checkpoint} has failed, and the program has not waited for it ({wait}): {error}"
                )
            except Exception:  # noqa: BLE001, S112 -- Spark has ended before
                continue
            sys.stderr.write(f"panekeeper: {line}\n")


unattended_jobs = UnattendedJobs()
"""Those of this process."""


# The end of the Java process that has started this program


class SparkShutdown:
    """Drains the jobs that run when Java is to end, and keeps it alive until the program has ended.

    With `spark-submit` Java gets the signals, and Python does not: a cluster, a container or a service manager ends the
    process that it started. Spark would cancel the running batch then. So a hook that Java runs before those of Spark
    calls `run`, in a thread of its own. One object serves a process.
    """

    class Java:
        """The Java interface that Python implements here."""

        implements: ClassVar[list[str]] = ["java.lang.Runnable"]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: weakref.WeakSet[RunningJob] = weakref.WeakSet()
        self._program_ended = threading.Event()
        self._installed = False
        self._remove_hook: Callable[[], object] = lambda: None

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
        with suppress(Exception):  # Java ends already, and waits for this
            self._remove_hook()
        self._program_ended.set()

    def run(self) -> None:
        """Called by Java's shutdown: return once jobs and program have ended, or the program has had its time."""
        with self._lock:
            jobs = list(self._jobs)
        drained = False
        for job in jobs:
            try:
                job.drain()
                drained = True
            except PanekeeperError as error:  # it has ended, or reports this where it is awaited
                _log.info("not drained at the end of Spark's process: %s", error)
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
        self._remove_hook = lambda: hooks.removeShutdownHook(hook)
        atexit.register(self.end_program)


spark_shutdown = SparkShutdown()
"""That of this process."""
