"""What one subcommand of `panekeeper` consists of, and what its exit code means."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from panekeeper.recovery.cli.output.schema import Schema


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
