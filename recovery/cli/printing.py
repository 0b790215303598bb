"""How the command line writes: amounts, tables, progress, errors in one line, a result that is shown again and again.

Whatever becomes of standard output and error, a command does its work and prints no traceback.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.recovery.cli.subcommand import ExitCode
from panekeeper.recovery.storage.blobs import ProgressCallback, TransferProgress

_KILO = 1000.0
_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> format_bytes(5), format_bytes(2_500_000)
    ('5 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.3g} {unit}"
        size /= _KILO
    return f"{size:.3g} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration in seconds.

    >>> format_seconds(12.3)
    '12.3 s'
    """
    return f"{seconds:g} s"


def format_number(number: float | None) -> str:
    """Return a number; "none" if there is none.

    >>> format_number(1234567), format_number(None)
    ('1,234,567', 'none')
    """
    return "none" if number is None else f"{number:,}"


def format_age(seconds: float | None) -> str:
    """Return how long ago something was, in the largest unit that fits; "none" if that is not known.

    >>> format_age(12.3), format_age(90), format_age(7_200), format_age(200_000)
    ('12s', '90s', '2h', '2d')
    """
    if seconds is None:
        return "none"
    for unit, size in _UNITS.items():
        if abs(seconds) >= 2 * size or size == 1:
            return f"{seconds / size:.0f}{unit}"
    raise AssertionError("seconds always fit")


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines with columns of equal width, but for the last.

    >>> print(format_table(("a", "b"), [("12", "3")]))
    a   b
    12  3
    """
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    )


def progress_line() -> ProgressCallback | None:
    """Return a callback that keeps one line of progress on stderr; None if stderr is not a terminal."""
    return _show_progress if sys.stderr.isatty() else None


def _show_progress(progress: TransferProgress) -> None:
    done = progress.sent + progress.reused
    end = "\n" if done >= progress.total else ""
    sent, reused, total = map(format_bytes, (progress.sent, progress.reused, progress.total))
    sys.stderr.write(f"\r{f'{sent} transferred, {reused} reused of {total}':<70}{end}")
    sys.stderr.flush()


def to_the_end(run: Callable[[], int], name: str) -> int:
    """Run a command and flush what it has printed; return its exit code.

    A reader that ends early, as `head`, ends the command silently. A result that cannot be written, as to a full
    disk, is an error.

    Args:
        run: the command. Parsers end it by `SystemExit`, which is raised on.
        name: of the command, for messages.
    """
    _open_streams()
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.FAILED
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"{name}: its output cannot be written: {error.strerror or error}\n")
        return ExitCode.FAILED


def printable(text: str) -> str:
    r"""Return a text from a file in one line, without what a terminal would obey.

    >>> printable("a\x1b[2J\nb")
    'a\\x1b[2J\\nb'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text: str) -> str:
    """Return `printable` of each line of a text."""
    return "\n".join(map(printable, text.split("\n")))


def _open_streams() -> None:
    """Let a closed stream discard what is written, and every stream take characters that its encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let nobody try again to write what is buffered: Python would, as it ends, and print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(look: Callable[[], ExitCode], *, every: float, sleep: Callable[[float], None] = time.sleep) -> ExitCode:
    """Call `look` until Ctrl-C, and return its last exit code. A terminal is cleared before each result.

    Args:
        look: prints a result; one that prints an error is called again, too.
        every: seconds between the calls.
        sleep: called with a number of seconds to wait.
    """
    code = ExitCode.DONE
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            code = look()
            sys.stdout.flush()
            sleep(every)
    except KeyboardInterrupt:
        return code
