"""Standard output and error of the command: whatever becomes of them, it does its work and prints no traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from panekeeper.recovery.cli.subcommand import ExitCode


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
