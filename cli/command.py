"""What one command of `panekeeper` consists of, what its exit code means, and the arguments that several take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from panekeeper.framework.declarations.durations import to_seconds
from panekeeper.framework.declarations.errors import DeclarationError


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
        TERMINATED: SIGTERM.
    """

    DONE = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    BEHIND = 4
    DOWN = 5
    UNUSABLE = 6
    INTERRUPTED = 130
    TERMINATED = 143


class Argument:
    """One argument of a command: what `ArgumentParser.add_argument` takes, and the group in which --help lists it."""

    def __init__(self, *names: str, group: str | None = None, **options: Any) -> None:
        self.names, self.group, self.options = names, group, options


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of `panekeeper`, and its line for `--help`.

    `run` is called with the parsed arguments and returns the result as JSON-able fields, which `--json` prints; `lines`
    returns the text that is printed without it; `exit_code` is called with the arguments and the fields.
    """

    name: str
    help: str
    arguments: tuple[Argument, ...]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    lines: Callable[[dict[str, Any]], str]
    exit_code: Callable[[argparse.Namespace, dict[str, Any]], ExitCode] = lambda *_: ExitCode.DONE


def positive_seconds(text: str) -> float:
    """Return a duration from the command line in seconds: `300`, `90s`, `10m`, `1 hour`. Raises `ArgumentTypeError`.

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


def name_and_value(text: str) -> tuple[str, str]:
    """Return the parts of `NAME=VALUE`. Raises `ArgumentTypeError`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def flag(name: str, what: str) -> Argument:
    """Return an option without a value; `what` is its help."""
    return Argument(name, action="store_true", help=what)


def option(name: str, metavar: str, what: str, **more: Any) -> Argument:
    """Return an option with a value, or an argument by position."""
    return Argument(name, metavar=metavar, help=what, **more)


def repeated(name: str, metavar: str, what: str, **more: Any) -> Argument:
    """Return an option that may be given several times."""
    return option(name, metavar, f"{what}; may be repeated", action="append", default=[], **more)


def seconds(name: str, what: str, **more: Any) -> Argument:
    """Return an option that takes a duration."""
    return option(name, "TIME", what, type=positive_seconds, **more)


def timeout(what: str) -> Argument:
    """Return `--timeout`; `what` says what is waited for."""
    return seconds(
        "--timeout", f"how long to wait for {what}: 90s, 10m or '1 hour'; a number is seconds (5m)", default="5m"
    )


GROUPS = {
    "S3": "for everything on S3; credentials are found as by any boto3 program",
    "Kafka": "to say which messages are gone; needs the extra: panekeeper[kafka]",
}
"""What --help says of a group of arguments."""

CHECKPOINT = option("checkpoint", "CHECKPOINT", "the folder or URL that start(checkpoint=...) got")
LOCATION = option("location", "LOCATION", "where the savepoints are: a folder or s3://bucket/prefix")
NAME = option("name", "NAME", "the name of the savepoint: letters, digits and . _ -")
S3 = (
    option("--s3-endpoint", "URL", "a store other than Amazon's; AWS_ENDPOINT_URL, if not given", group="S3"),
    Argument("--s3-encryption", choices=("AES256", "aws:kms"), help="server-side encryption", group="S3"),
    option("--s3-kms-key", "ID", "the key for aws:kms", group="S3"),
)
BROKER = (
    option("--bootstrap-servers", "HOST:PORT", "the brokers, several with commas", group="Kafka"),
    option("--kafka-config", "FILE", "more settings of the client, name=value", group="Kafka"),
)
HEALTH = (
    flag("--check", "let the exit code say how healthy: 0, 3 stopped, 4 behind, 5 down, 6 unusable"),
    seconds("--max-lag", "behind: a watermark older than this"),
    seconds("--max-age", "behind: no batch for longer than this"),
    option("--max-rows", "N", "behind: a source that holds more rows not read yet", type=int),
    option("--max-errors", "N", "behind: more that could not be computed since its start", type=int),
    flag("--watch", "look again and again, until Ctrl-C"),
    seconds("--every", "how often to look (2s)", default="2s"),
)
