"""The command `panekeeper`: looks after the checkpoint of a job that runs in another process, or is stopped.

The exit code is 0 on success only (`command.ExitCode`); an error is printed in one line on stderr. `--json` prints the
result as one JSON object, an error too. Whatever becomes of standard output and error, a command does its work and
prints no traceback.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from panekeeper.cli.command import GROUPS, Command, ExitCode
from panekeeper.cli.commands import COMMANDS
from panekeeper.framework.declarations.display import format_bytes, printable
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.recovery.storage.blobs import TransferProgress
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.job_record import installed_versions
from panekeeper.state.log import PROGRESS, ROOT

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class _ToldToEnd(BaseException):
    """SIGTERM; not `SystemExit`, which a job file may raise."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    A reader that ends early, as `head`, ends the command silently. A result that cannot be written, as to a full disk,
    is an error.

    Args:
        arguments: the command line without the program's name; that of this process if not given.
    """
    _open_streams()
    name = "panekeeper"
    try:
        try:
            options = _parse(arguments)
            name = f"panekeeper {options.command.name}"
            with _warnings_on_stderr(name), _ended_by_sigterm():
                if getattr(options, "watch", False):
                    return watch(lambda: _run(options), every=options.every)
                return _run(options)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return ExitCode.INTERRUPTED
    except _ToldToEnd:
        return ExitCode.TERMINATED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.FAILED
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"{name}: its output cannot be written: {error.strerror or error}\n")
        return ExitCode.FAILED


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser()
    options = parser.parse_args(arguments)
    for argument in options.command.arguments:
        value = getattr(options, argument.dest)
        if argument.name != "name" and "" in (value if isinstance(value, list) else [value]):
            parser.error(f"{argument.name} is empty, as a variable of the shell is that was not set; give a value")
    return options


def _run(options: argparse.Namespace) -> ExitCode:
    command: Command = options.command
    try:
        options.progress = _show_progress if sys.stderr.isatty() else None
        if command.reaches_s3:
            options.s3 = S3Options(
                endpoint=options.s3_endpoint, encryption=options.s3_encryption, kms_key=options.s3_kms_key
            )
        with _steps_on_stderr(f"panekeeper {command.name}", shown=sys.stderr.isatty() and not options.json):
            result = command.run(options)
            text = json.dumps(result.fields(), default=str) if options.json else _printable_lines(str(result))
    except (KeyboardInterrupt, SystemExit, _ToldToEnd):
        raise
    except BaseException as error:  # noqa: BLE001 -- whatever it is, also a panic of a library, a user gets one line
        text = describe_failure(error)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}))
        print(f"panekeeper {command.name}: {printable(text)}", file=sys.stderr)
        return ExitCode.FAILED
    print(text)
    return command.exit_code(options, result)


def _show_progress(progress: TransferProgress) -> None:
    """Keep one line of progress on stderr."""
    end = "\n" if progress.sent + progress.reused >= progress.total else ""
    sent, reused, total = map(format_bytes, (progress.sent, progress.reused, progress.total))
    sys.stderr.write(f"\r{f'{sent} transferred, {reused} reused of {total}':<70}{end}")
    sys.stderr.flush()


def watch(look: Callable[[], ExitCode], *, every: float, sleep: Callable[[float], None] = time.sleep) -> ExitCode:
    """Call `look`, which prints a result or an error, until Ctrl-C, and return its last exit code.

    A terminal is cleared before each result.
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


@contextmanager
def _warnings_on_stderr(prefix: str) -> Iterator[None]:
    """Print the warnings that the library logs while the block lasts."""
    with _on_stderr(ROOT, logging.WARNING, f"{prefix}: warning: %(message)s"):
        yield


@contextmanager
def _steps_on_stderr(prefix: str, *, shown: bool) -> Iterator[None]:
    """Print, if `shown`, what the library does at the moment, while the block lasts: each step as it begins."""
    if not shown:
        yield
        return
    log = logging.getLogger(f"{ROOT}.{PROGRESS}")
    level = log.level
    log.setLevel(logging.INFO)
    try:
        with _on_stderr(log.name, logging.INFO, f"{prefix}: %(message)s ..."):
            yield
    finally:
        log.setLevel(level)


class _Lines(logging.Formatter):
    """Gives a terminal no orders: a name in a checkpoint may be somebody else's."""

    def format(self, record: logging.LogRecord) -> str:
        return _printable_lines(super().format(record))


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


@contextmanager
def _on_stderr(log: str, level: int, form: str) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(_Lines(form))
    logging.getLogger(log).addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger(log).removeHandler(handler)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, and the end of the terminal, end the block as an error would: what it has begun is released.

    Python would end at once, and leave a lease until it is old, and the process of a drill for good.
    """

    def end(*_: object) -> None:
        raise _ToldToEnd

    def is_ours(number: int) -> bool:  # nohup has SIGHUP ignored
        return threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_DFL

    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if is_ours(number)]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


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


def _is_from_java(error: BaseException | None) -> bool:
    while error is not None:
        if type(error).__module__.startswith(("py4j.", "pyspark.")):
            return True
        error = error.__cause__ or error.__context__
    return False


def _write_traceback(error: BaseException) -> str:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="panekeeper-error-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.writelines(traceback.format_exception(error))
    except OSError as problem:  # a full disk may be the cause of both
        return f"could not be written, {problem.strerror or problem}"
    return file.name


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, with one for each command."""
    parser = argparse.ArgumentParser(
        prog="panekeeper", description="Inspect, drain, save, restore and change jobs by their checkpoints."
    )
    parser.add_argument("--version", action="version", version=f"panekeeper {installed_versions()['panekeeper']}")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    choices = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        subparser = choices.add_parser(command.name, help=command.help, description=command.help)
        subparser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
        groups = {
            name: subparser.add_argument_group(name, text)
            for name, text in GROUPS.items()
            if any(argument.group == name for argument in command.all_arguments)
        }
        for argument in command.all_arguments:
            (groups[argument.group] if argument.group else subparser).add_argument(*argument.names, **argument.options)
        subparser.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
