"""What Java prints while it starts, and what Spark's own process prints with each query, goes to the log.

The log is `panekeeper.spark`, at the level DEBUG. All else that Java and the Python workers print goes to the terminal
as it comes: what a user's function prints, and errors of Spark. So does all of a start that fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from panekeeper.framework.engine.session.java_libraries import java_runs
from panekeeper.state.log import logger

_OF_EACH_QUERY = b"Starting Streaming TransformWithStateInPandas Python worker.\n\n"
"""What a process of Spark prints before it reads which code it is for, and so before we can tell it not to."""
_TERMINAL = 2
_log = logger("spark")


class JavaOutput:
    """Passes on what a Java machine prints, but for what is for the log."""

    def __init__(self, terminal: int) -> None:
        """`terminal` is the file descriptor for what is passed on."""
        self._terminal, self._is_up, self._held = terminal, False, b""
        self._changed = threading.Lock()

    def take(self, printed: bytes) -> None:
        """Pass on, or hold, what was printed next."""
        with self._changed:
            self._held += printed
            if self._is_up:
                self._pass_on()

    def started(self) -> None:
        """Log what was printed until now: Java runs."""
        with self._changed:
            self._is_up = True
            self._note(self._held)
            self._held = b""

    def ended(self) -> None:
        """Pass on all that is held: of a start that has failed, or the last of what was printed."""
        with self._changed:
            self._write(self._held)
            self._held = b""

    def _pass_on(self) -> None:
        """Write all but what is for the log, and what may be its begin."""
        *before, last = self._held.split(_OF_EACH_QUERY)
        for _ in before:
            self._note(_OF_EACH_QUERY)
        keep = next((n for n in range(len(_OF_EACH_QUERY) - 1, 0, -1) if last.endswith(_OF_EACH_QUERY[:n])), 0)
        self._write(b"".join(before) + last[: len(last) - keep])
        self._held = last[len(last) - keep :]

    def _write(self, printed: bytes) -> None:
        with suppress(OSError):  # a terminal that is gone: Java must not wait for it
            while printed:
                printed = printed[os.write(self._terminal, printed) :]

    @staticmethod
    def _note(printed: bytes) -> None:
        for line in printed.decode("utf-8", "replace").splitlines():
            if line.strip():
                _log.debug("%s", line)


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java machine of this process with these settings of Spark, unless it has one."""
    if java_runs():
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    with _reading() as (output, printed_to):
        gateway = launch_gateway(conf, popen_kwargs={"stderr": printed_to})  # type: ignore[no-untyped-call]
        output.started()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 -- as above


@contextmanager
def _reading() -> Iterator[tuple[JavaOutput, int]]:
    """Yield what passes on what is written to a file descriptor, and that; a thread reads it while Java runs."""
    output = JavaOutput(_TERMINAL)
    read, write = os.pipe()

    def copy() -> None:
        with os.fdopen(read, "rb", buffering=0) as printed:
            while part := printed.read(65_536):
                output.take(part)
        output.ended()

    threading.Thread(target=copy, name="output of Java", daemon=True).start()
    try:
        yield output, write
    except BaseException:
        output.ended()
        raise
    finally:
        os.close(write)
