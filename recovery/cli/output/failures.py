"""How the command reports an error: one line, and for what is not ours, a file with the whole of it."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator

from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.spark_errors import first_line


def describe_failure(error: BaseException) -> str:
    """Return an error in one line.

    The errors of Panekeeper and of the disk say what to do. For any other, and for ours with an error of Java behind
    it, the traceback is written to a file, which the line names.
    """
    if isinstance(error, PanekeeperError):
        text = " ".join(str(error).splitlines())
        return f"{text} (all of it: {_write_traceback(error)})" if _is_from_java(error) else text
    if isinstance(error, OSError) and error.filename is not None:
        advice = "; run this as the user who runs the job" if isinstance(error, PermissionError) else ""
        return f"{error.filename} cannot be used: {error.strerror}{advice}"
    if isinstance(error, OSError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)} (all of it: {_write_traceback(error)})"


def _is_from_java(error: BaseException) -> bool:
    return any(type(one).__module__.startswith(("py4j.", "pyspark.")) for one in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _write_traceback(error: BaseException) -> str:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="panekeeper-error-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.writelines(traceback.format_exception(error))
    except OSError as problem:  # a full disk may be the cause of both
        return f"could not be written, {problem.strerror or problem}"
    return file.name
