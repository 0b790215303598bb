"""What one command of `panekeeper` consists of, what its exit code means, and the arguments that several take."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from inspect import signature
from typing import Any, TypeVar

from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.durations import to_seconds
from panekeeper.framework.declarations.errors import DeclarationError

Returned = TypeVar("Returned")


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
    """One argument of a command: what `ArgumentParser.add_argument` takes, and the group in which --help lists it.

    Where it has `dest`, that is the parameter of the function that takes it.
    """

    def __init__(self, *names: str, group: str | None = None, **options: Any) -> None:
        self.names, self.group, self.options = names, group, options
        self.name = names[-1].lstrip("-").replace("-", "_")
        self.dest: str = options.get("dest", self.name)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of `panekeeper`, and its line for `--help`.

    `run` is called with the parsed arguments, and `progress`, and where `reaches_s3` with `s3`, how that is reached. It
    returns the result: `--json` prints its fields, and without that its text is printed. `exit_code` is called with the
    arguments and the result.
    """

    name: str
    help: str
    arguments: tuple[Argument, ...]
    run: Callable[[argparse.Namespace], Result]
    exit_code: Callable[[argparse.Namespace, Any], ExitCode] = lambda *_: ExitCode.DONE
    reaches_s3: bool = True

    @property
    def all_arguments(self) -> tuple[Argument, ...]:
        """Its own, and those of S3 below them."""
        return (*self.arguments, *(S3 if self.reaches_s3 else ()))


def call(function: Callable[..., Returned], options: argparse.Namespace, **others: Any) -> Returned:
    """Call a function with the arguments that are named as its parameters, and with others.

    >>> call(lambda name, keep=1: (name, keep), argparse.Namespace(name="one", json=True))
    ('one', 1)
    """
    taken = signature(function).parameters
    return function(**{name: value for name, value in vars(options).items() if name in taken} | others)


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


class _Pairs(argparse.Action):
    """Gathers what is given as NAME=VALUE in a mapping."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), values[0]: values[1]})


class _Nulls(argparse.Action):
    """Adds a name to the mapping that `_Pairs` makes, with a null."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _option: str | None = None) -> None:
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), values: None})


def flag(name: str, what: str) -> Argument:
    """Return an option without a value; `what` is its help."""
    return Argument(name, action="store_true", help=what)


def without(name: str, dest: str, what: str) -> Argument:
    """Return an option without a value that sets a parameter to False, which is True otherwise."""
    return Argument(name, action="store_false", dest=dest, help=what)


def option(name: str, metavar: str, what: str, **more: Any) -> Argument:
    """Return an option with a value, or an argument by position."""
    return Argument(name, metavar=metavar, help=what, **more)


def number(name: str, what: str, **more: Any) -> Argument:
    """Return an option that takes an integer."""
    return option(name, "N", what, type=int, **more)


def repeated(name: str, metavar: str, what: str, **more: Any) -> Argument:
    """Return an option that may be given several times."""
    return option(name, metavar, f"{what}; may be repeated", **{"action": "append", "default": [], **more})


def pairs(name: str, metavar: str, what: str, **more: Any) -> Argument:
    """Return an option that may be given several times, each time with a name and a value; None if it is not."""
    return repeated(name, metavar, what, action=_Pairs, type=name_and_value, **{"default": None, **more})


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
LOOKED_AT = option(
    "checkpoint", "CHECKPOINT", "the folder or URL that start(checkpoint=...) got; with --savepoint, their location"
)
LOCATION = option("location", "LOCATION", "where the savepoints are: a folder or s3://bucket/prefix")
NAME = option("name", "NAME", "the name of the savepoint: letters, digits and . _ -")
JOB = option("--job", "JOB.PY[:NAME]", "the file that declares the job, as for plan")
JOB_FILE = option("--job", "JOB.PY[:NAME]", "the file that declares the job, as for plan", required=True)
WINDOW = option("--window", "NAME", "one of several windows of the job")
LIMIT = number("--limit", "how many rows to print at most (100)", default=100)
BATCH = number("--batch", "the number of the batch", required=True)
LAST_BATCHES = number("--batches", "only the last N batches, as far as they are kept (100)", default=100)
SAVED_BATCHES = option("--savepoint", "NAME", "the batches of a savepoint")


def key(what: str, **more: Any) -> Argument:
    """Return `--key`; `what` says which partitions it names."""
    return pairs("--key", "COLUMN=VALUE", what, **more)


KEY = key("only partitions with this value in a partition column")
NULL = option(
    "--null", "COLUMN", "as --key, for a null in a partition column; may be repeated", dest="key", action=_Nulls
)
STATE_OF = (
    KEY,
    NULL,
    WINDOW,
    number("--batch", "as of an earlier batch, as far as Spark keeps its state"),
    option("--savepoint", "NAME", "the state in a savepoint"),
)
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
    number("--max-rows", "behind: a source that holds more rows not read yet"),
    number("--max-errors", "behind: more that could not be computed since its start"),
    flag("--watch", "look again and again, until Ctrl-C"),
    seconds("--every", "how often to look (2s)", default="2s"),
)
