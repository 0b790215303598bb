"""The command `panekeeper`: what an operator of jobs does from outside, on a running or a stopped job.

Exit code 0 only on success; 1 for an error of ours or of the disk, told in one line on stderr; 2 for a wrong command
line.
`--json` prints the result as one JSON object instead of words.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.declarations.errors import PanekeeperError

FAILED = 1


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand.

    Attributes:
        name: what is typed.
        help: one line.
        arguments: declares its arguments.
        run: does it and returns what to tell: JSON-able fields.
        words: turns these fields into lines to read.
        succeeded: whether the fields mean success; always, if not given.
    """

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    words: Callable[[dict[str, Any]], str]
    succeeded: Callable[[dict[str, Any]], bool] = lambda _: True


def commands() -> tuple[Command, ...]:
    """All of them, in the order in which `--help` lists them."""
    from recovery.cli.drill import drill_commands
    from recovery.cli.jobs import outside_commands
    from recovery.cli.savepoint import savepoint_commands
    from recovery.cli.upgrade import upgrade_commands

    return (*outside_commands(), *savepoint_commands(), *upgrade_commands(), *drill_commands())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        fields = command.run(options)
    except (PanekeeperError, OSError) as error:
        told = _told(error)
        if options.json:
            print(json.dumps({"error": told, "kind": type(error).__name__}))
        print(f"panekeeper {command.name}: {told}", file=sys.stderr)
        return FAILED
    print(json.dumps(fields, default=str) if options.json else command.words(fields))
    return 0 if command.succeeded(fields) else FAILED


def _told(error: PanekeeperError | OSError) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    advice = "; run this as the user who runs the job" if isinstance(error, PermissionError) else ""
    return f"{error.filename} cannot be used: {error.strerror}{advice}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="panekeeper", description="Look after the checkpoints of windowed jobs.")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print the result as one JSON object")
    choices = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in commands():
        one = choices.add_parser(command.name, help=command.help, description=command.help, parents=[shared])
        command.arguments(one)
        one.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
