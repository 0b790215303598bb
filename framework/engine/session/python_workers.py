"""What the Python processes do first that Spark starts, and what is loaded in which of them.

With each query Spark starts one on the driver that needs no more of a processor than the names of its state variables,
and that prints its steps to the user's terminal. Loading our processor there would import numpy, Arrow and the code of
all windows first, two thirds of what that process costs, before the first batch can begin: `DeferredProcessor`.

Spark's worker collects all garbage after every task. Looking through everything that pyspark, pandas and Arrow have
imported, again and again, was more than half of what our workers did on small batches: `freeze_gc`.

The C library gives the memory of a large array back to the system as soon as it is free, and the system hands out
every page of the next one anew: a third of what packing took. Workers keep it: `MEMORY`.

Spark itself gives workers the folder in which the program was launched, and nothing of what the program has put on its
path. `prepare_workers` gives those on this machine the path of the program, so that they find what it finds.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

_pickle: Any = CloudPickleSerializer()  # what Spark itself serializes processors with
_main = getattr(sys.modules.get("__main__"), "__spec__", None)
if _main is not None and _main.name == "pyspark.sql.streaming.transform_with_state_driver_worker":
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for as long as the process lives


class _Quiet:
    """In place of `traceback` where Spark's daemon reports the end of a worker: a broken pipe has its cause in Java."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the error that is handled, but for a broken pipe."""
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


if _main is not None and _main.name == "pyspark.daemon":
    sys.modules["__main__"].traceback = _Quiet  # type: ignore[attr-defined]  # as the daemon imports it

_PYTHONPATH, _CODE = "PYTHONPATH", "PANEKEEPER_CODE"
_NEEDED = ("panekeeper", "pyspark", "pandas", "pyarrow", "numpy", "google.protobuf")
_OF_SPARK = "org.apache.spark.sql.execution"
_WARN_OF_NOTHING = (
    f"{_OF_SPARK}.python.streaming.TransformWithStateInPySparkStateServer",  # that a key group is new
    f"{_OF_SPARK}.streaming.operators.stateful.transformwithstate.timers.TimerStateImpl",  # that its timer has gone
)
"""Loggers of Spark that warn of what is in order, for each key group."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(128 * 2**20)}
"""Variables of glibc, bytes: up to which size an allocation is taken from the heap, and how much of that may stay free.

Both, as each of them turns off that glibc adapts the other; 32 MiB is the most that it takes.
"""
_checked: set[tuple[str, str]] = set()
"""The Spark applications, and Pythons of their workers, that have all packages."""
_first_seen: dict[str, int] = {}
"""File of a module -> when it was written, as it was found first."""


def prepare_workers(spark: SparkSession) -> None:
    """Let the Python workers of a session keep their memory, and those on this machine find the code of this program.

    What a worker gets is part of each function that Spark sends it, so it holds for what is declared from now on.
    """
    context: Any = spark.sparkContext
    context.environment.update(worker_variables(context))
    has_python = os.environ.get("PYSPARK_PYTHON") or context.getConf().contains("spark.pyspark.python")
    if is_local(context) and not has_python:
        context.pythonExec = sys.executable  # Spark would take the python3 of the shell
    jvm: Any = spark._jvm  # noqa: SLF001 -- Java's log has no other way
    log4j = jvm.org.apache.logging.log4j
    for logger in _WARN_OF_NOTHING:
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.ERROR)


def require_packages(spark: SparkSession) -> None:
    """Check once that the Python workers of a session have all packages, unless they run this very Python."""
    require_python(spark, spark.sparkContext.pythonExec, _NEEDED)


def require_python(spark: SparkSession, python: str, needed: tuple[str, ...]) -> None:
    """Check once that one Python of the workers of a session has packages."""
    context: Any = spark.sparkContext
    checked = (context.applicationId, python)
    if checked in _checked or (is_local(context) and python == sys.executable):
        return
    own, context.pythonExec = context.pythonExec, python
    try:
        are_there = context.parallelize(needed, 1).map(find_spec).map(bool).collect()
        problem = ", ".join(name for name, is_there in zip(needed, are_there, strict=True) if not is_there)
    except Exception as error:  # noqa: BLE001 -- whatever it is: the message has all of it
        problem = str(error)
    finally:
        context.pythonExec = own
    if problem:
        raise SetupError(
            f"the Python of Spark's workers, {python}, lacks what Panekeeper needs: start the session with "
            f"the variable PYSPARK_PYTHON={sys.executable}, or with another Python that has these packages. "
            f"Missing: {problem}"
        )
    _checked.add(checked)


def is_local(context: Any) -> bool:
    """Return whether the workers of a context are on this machine."""
    return bool(context.master.startswith("local") and not context.master.startswith("local-cluster"))


def worker_variables(context: Any) -> dict[str, str]:
    """Return the variables by which workers keep memory and, on this machine, find this program's code as it is now.

    Those that the session sets itself stay as they are.
    """
    memory = {name: context.environment.get(name, value) for name, value in MEMORY.items()}
    if not is_local(context):
        return memory
    has_path = context.getConf().contains(f"spark.executorEnv.{_PYTHONPATH}")
    return memory | {_CODE: code_version()} | ({} if has_path else {_PYTHONPATH: import_path()})


def import_path() -> str:
    """Return the path of this program as `PYTHONPATH`: a worker that has it imports the same files."""
    entries = [str(Path(entry).absolute()) for entry in sys.path]
    if not all(map(os.path.isabs, sys.path)):  # as in a kernel, which may have changed its folder since it imported
        entries += [_folder(file) for name, file in _files_of_modules() if "." not in name]
    return os.pathsep.join(dict.fromkeys(entries))


def _folder(file: str) -> str:
    """Return the entry of the path by which a module of this file is found."""
    path = Path(file)
    return str(path.parent.parent if path.name == "__init__.py" else path.parent)


def _files_of_modules() -> Iterator[tuple[str, str]]:
    """Yield the name and the file of each imported module that is not installed."""
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not file.startswith(installed):
            yield name, file


def code_version() -> str:
    """Return a text that changes when the file of an imported module of the user's does.

    A worker keeps the modules that it has imported. Spark starts others where a variable of theirs differs, so after
    an edit and a reload no worker goes on with the code of before.
    """
    changed = []
    for _, file in _files_of_modules():
        with suppress(OSError):
            written = Path(file).stat().st_mtime_ns
            if _first_seen.setdefault(file, written) != written:
                changed.append(f"{file} {written}")
    return hashlib.sha256("\n".join(sorted(changed)).encode()).hexdigest()[:16] if changed else ""


@cache
def freeze_gc() -> None:
    """Leave what is imported by now out of every later collection. Once a process; called where work begins."""
    gc.collect()
    gc.freeze()


class DeferredProcessor(StatefulProcessor):
    """Travels as the bytes of a processor whose state variables are those of `SparkStore`."""

    def __init__(self, processor: StatefulProcessor) -> None:
        """Serialize the processor, which gets its handle and its rows in tasks alone. Raises `pickle.PicklingError`."""
        self._serialized = _pickle.dumps(processor)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state. Called once a task, and once on the driver before the query starts."""
        if TaskContext.get() is None:
            SparkStore(handle)
            return
        self._processor: Any = _pickle.loads(self._serialized)
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803 -- as in `KeyGroupProcessor`
        """Take what the batch has for one group."""
        rows_out: Iterator[Row] = self._processor.handleInputRows(key, rows, timerValues)
        return rows_out

    def handleExpiredTimer(  # noqa: N802 -- as above
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Act on a watermark that moved, in a batch with no rows for this group."""
        rows_out: Iterator[Row] = self._processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)
        return rows_out

    def close(self) -> None:
        """Nothing to close: the store belongs to Spark."""
