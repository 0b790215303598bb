"""Loads the declaration of a job from a Python file, and starts nothing.

A job file declares a job in one of two ways:

    def job(spark):                                  or, as a program that is run as it is:
        return windowed(...)....to_delta("out/log")      windowed(...)....to_delta("out/log").start(checkpoint=...)

A function `job` is called with a session; a variable `job` is the declaration itself. In a program without either,
loading ends at the first `start()`, which starts nothing here. The lines before it are run, as by an import; those
under `if __name__ == "__main__"` are not.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from panekeeper.framework.builder.outputs import Computation, DeltaJob
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.recovery.errors import JobFileError
from panekeeper.state.log import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "job"
_HOW_TO_DECLARE = "define job(spark) and return windowed(...)....to_delta(...) from it, without start()"


class _StartReached(BaseException):
    """Ends the loading of a file that starts its job; no `except Exception` in the file catches it."""


def load_job(file: str | os.PathLike[str], *, spark: SparkSession | None = None) -> DeltaJob:
    """Return the job that a file declares; `path.py:NAME` has another name than `job`. Raises `JobFileError`."""
    path, name = _split_name(os.fspath(file))
    progress.info("loading the job file %s", path)
    with _block_query_starts(path) as started, _redirect_output_and_errors(path):
        try:
            declared = getattr(_module(path), name or _NAME, None)
            if callable(declared) and not isinstance(declared, DeltaJob):
                declared = declared(spark or _session())
        except _StartReached:
            if name is not None:
                raise JobFileError(
                    f"{path} starts a job before it has defined {name}; put that under if __name__ == '__main__'"
                ) from None
            return started[0]
    if not isinstance(declared, DeltaJob):
        what = "is not defined" if declared is None else f"is {declared!r}"
        raise JobFileError(f"{path} declares no job: {name or _NAME} {what}; {_HOW_TO_DECLARE}")
    return declared


def _split_name(file: str) -> tuple[Path, str | None]:
    path, colon, name = file.rpartition(":")
    if not colon or not name.isidentifier():
        path, name = file, ""
    if not Path(path).is_file():
        raise JobFileError(f"there is no file {path}; name the Python file that declares the job")
    return Path(path).resolve(), name or None


def _module(path: Path) -> ModuleType:
    """Run the file as an import would; it can import the modules beside it, and those of its package."""
    from pyspark import cloudpickle

    package = path.parent
    while (package / "__init__.py").exists():
        package = package.parent
    for folder in (str(package), str(path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"_panekeeper_job_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise JobFileError(f"{path} is not a Python file; name the one that declares the job")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # workers cannot import it
    spec.loader.exec_module(module)
    return module


@contextmanager
def _redirect_output_and_errors(path: Path) -> Iterator[None]:
    """Send what the file prints to stderr, and raise its errors as `JobFileError`."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except PanekeeperError:
        raise
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise JobFileError(f"{path} failed while it was loaded ({what}); {_HOW_TO_DECLARE}") from error


@contextmanager
def _block_query_starts(path: Path) -> Iterator[list[DeltaJob]]:
    """Provide a list of the jobs whose `start` was called; no streaming query can be started while the block lasts.

    The file may do anything, so the functions that start queries are replaced while it is loaded.
    """
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    started: list[DeltaJob] = []

    def start(job: DeltaJob, *_: Any, **__: Any) -> None:
        started.append(job)
        raise _StartReached

    def refuse(*_: Any, **__: Any) -> None:
        raise JobFileError(
            f"{path} starts a query or resets a job while it is loaded, which must not change anything; "
            f"{_HOW_TO_DECLARE}"
        )

    replacements: list[tuple[type, str, Callable[..., None]]] = [
        (DeltaJob, "start", start),
        (DeltaJob, "reset_to_initial_state", refuse),
        (Computation, "transform", refuse),
        (DataStreamWriter, "start", refuse),
        (DataStreamWriter, "toTable", refuse),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replacements]
    for owner, name, instead in replacements:
        setattr(owner, name, instead)
    try:
        yield started
    finally:
        for owner, name, own in before:
            setattr(owner, name, own)


def _session() -> SparkSession:
    from panekeeper.framework.engine.session.session import session

    return session("panekeeper")
