"""What one subcommand of `panekeeper` consists of, what its exit code means, and arguments that several take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from panekeeper.framework.declarations.durations import to_seconds
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.cli.schema import Schema
from panekeeper.recovery.storage.s3 import S3Options


class ExitCode(IntEnum):
    """What the exit codes of `panekeeper` mean; docs/operations.md lists them. STOPPED to UNUSABLE: `--check` only.

    Attributes:
        DONE: done; `--check`: the job is healthy.
        FAILED: an error, in one line on stderr; or the result is not the requested one.
        USAGE: the command line is wrong.
        STOPPED: the job does not run; it ended as it should, and its next start resumes it.
        BEHIND: it runs, and lags, or its process sends no heartbeat.
        DOWN: it failed or crashed; its next start resumes it.
        UNUSABLE: its checkpoint is damaged, or cannot be resumed from.
        INTERRUPTED: Ctrl-C.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    BEHIND = 4
    DOWN = 5
    UNUSABLE = 6
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Subcommand:
    """One subcommand of `panekeeper`.

    Attributes:
        name: what is typed.
        help: one line for `--help`.
        arguments: declares its arguments on a parser.
        run: called with the parsed arguments; returns the result as JSON-able fields, which `--json` prints.
        format: called with these fields; returns the lines that are printed without `--json`.
        schema: returns the JSON schema of these fields.
        exit_code: called with the arguments and these fields. DONE, if not given.
    """

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    format: Callable[[dict[str, Any]], str]
    schema: Callable[[], Schema]
    exit_code: Callable[[argparse.Namespace, dict[str, Any]], ExitCode] = lambda *_: ExitCode.DONE


def done_if(good: object) -> ExitCode:
    """Return DONE if the result is the requested one, FAILED if not."""
    return ExitCode.DONE if good else ExitCode.FAILED


def add_checkpoint_argument(parser: argparse.ArgumentParser) -> None:
    """Declare CHECKPOINT."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder or URL that start(checkpoint=...) got")


def add_location_argument(parser: argparse.ArgumentParser) -> None:
    """Declare LOCATION, and how S3 is reached."""
    parser.add_argument("location", metavar="LOCATION", help="where the savepoints are: a folder or s3://bucket/prefix")
    add_s3_arguments(parser)


def add_savepoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare LOCATION and NAME of a savepoint, and how S3 is reached."""
    parser.add_argument("location", metavar="LOCATION", help="where the savepoint is: a folder or s3://bucket/prefix")
    parser.add_argument("name", metavar="NAME", help="the name of the savepoint")
    add_s3_arguments(parser)


def add_timeout_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare --timeout, a duration; `what` says what is waited for."""
    parser.add_argument(
        "--timeout",
        type=positive_seconds,
        default="5m",
        metavar="TIME",
        help=f"how long to wait for {what}: 90s, 10m or '1 hour'; a number is seconds (5m)",
    )


def add_s3_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how S3 is reached."""
    group = parser.add_argument_group("S3", "for everything on S3; credentials are found as by any boto3 program")
    group.add_argument(
        "--s3-endpoint", metavar="URL", help="a store other than Amazon's; AWS_ENDPOINT_URL, if not given"
    )
    group.add_argument("--s3-encryption", choices=("AES256", "aws:kms"), help="server-side encryption")
    group.add_argument("--s3-kms-key", metavar="ID", help="the key for aws:kms")


def s3_options(options: argparse.Namespace) -> S3Options:
    """Return the values of `add_s3_arguments`."""
    return S3Options(endpoint=options.s3_endpoint, encryption=options.s3_encryption, kms_key=options.s3_kms_key)


def positive_seconds(text: str) -> float:
    """Return a duration from the command line in seconds: `300`, `90s`, `10m`, `1 hour`.

    Raises:
        ArgumentTypeError: it is no duration, or not above 0.

    >>> positive_seconds("300"), positive_seconds("1.5m")
    (300.0, 90.0)
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = to_seconds(text, "the time")
        except DeclarationError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a duration greater than 0")
    return seconds
