"""The command `panekeeper`: looks after the checkpoint of a job that runs in another process, or is stopped.

The exit code is 0 on success only; 1 for an error of Panekeeper or of the disk, printed in one line on stderr; 2 for a
wrong command line. `--json` prints the result as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from framework.declarations.errors import PanekeeperError
from recovery.cli.drill import DRILL
from recovery.cli.jobs import DRAIN, STATUS
from recovery.cli.repair import REPAIR
from recovery.cli.restore import CLONE, RESTORE
from recovery.cli.savepoint import PRUNE, SAVEPOINT, SAVEPOINTS, SHOW, VERIFY
from recovery.cli.subcommand import Subcommand
from recovery.cli.upgrade import PLAN, RESCALE

FAILED = 1

SUBCOMMANDS: tuple[Subcommand, ...] = (
    STATUS,
    DRAIN,
    SAVEPOINT,
    SAVEPOINTS,
    SHOW,
    VERIFY,
    PRUNE,
    RESTORE,
    CLONE,
    REPAIR,
    PLAN,
    RESCALE,
    DRILL,
)
"""In the order in which `--help` lists them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: the command line without the program's name; that of this process if not given.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    subcommand: Subcommand = options.subcommand
    try:
        fields = subcommand.run(options)
    except (PanekeeperError, OSError) as error:
        text = _error_text(error)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}))
        print(f"panekeeper {subcommand.name}: {text}", file=sys.stderr)
        return FAILED
    print(json.dumps(fields, default=str) if options.json else subcommand.format(fields))
    return 0 if subcommand.succeeded(fields) else FAILED


def _error_text(error: PanekeeperError | OSError) -> str:
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    advice = "; run this as the user who runs the job" if isinstance(error, PermissionError) else ""
    return f"{error.filename} cannot be used: {error.strerror}{advice}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="panekeeper", description="Inspect, drain, save, restore and change jobs by their checkpoints."
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print the result as one JSON object")
    choices = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        one = choices.add_parser(subcommand.name, help=subcommand.help, description=subcommand.help, parents=[shared])
        subcommand.arguments(one)
        one.set_defaults(subcommand=subcommand)
    return parser


if __name__ == "__main__":
    sys.exit(main())
