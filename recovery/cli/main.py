"""The command `panekeeper`: looks after the checkpoint of a job that runs in another process, or is stopped.

The exit code is 0 on success only (`subcommand.ExitCode`); an error is printed in one line on stderr. `--json` prints
the result as one JSON object, an error too.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from panekeeper.recovery.cli.doctor import DOCTOR
from panekeeper.recovery.cli.drill import DRILL
from panekeeper.recovery.cli.jobs import DRAIN, JOBS, STATUS
from panekeeper.recovery.cli.maintain import MAINTAIN
from panekeeper.recovery.cli.offsets import OFFSETS
from panekeeper.recovery.cli.printing import describe_failure, printable, printable_lines, to_the_end, watch
from panekeeper.recovery.cli.restore import CLONE, RESTORE
from panekeeper.recovery.cli.savepoint import PRUNE, SAVEPOINT, SAVEPOINTS, SHOW, VERIFY
from panekeeper.recovery.cli.schema import output_schema
from panekeeper.recovery.cli.subcommand import ExitCode, Subcommand
from panekeeper.recovery.cli.upgrade import PLAN, RESCALE
from panekeeper.state.checkpoint.job_record import installed_versions
from panekeeper.state.log import ROOT

SUBCOMMANDS: tuple[Subcommand, ...] = (
    STATUS,
    JOBS,
    DRAIN,
    SAVEPOINT,
    SAVEPOINTS,
    SHOW,
    VERIFY,
    PRUNE,
    RESTORE,
    CLONE,
    OFFSETS,
    MAINTAIN,
    PLAN,
    RESCALE,
    DRILL,
    DOCTOR,
)
"""In the order in which `--help` lists them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        arguments: the command line without the program's name; that of this process if not given.

    Returns:
        The exit code.
    """
    return to_the_end(lambda: _main(arguments), "panekeeper")


def _main(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name, value in vars(options).items():
        if name != "name" and not name.startswith("s3_") and "" in (value if isinstance(value, list) else [value]):
            parser.error(f"{name} is empty, as a variable of the shell is that was not set; give a value")
    command = f"panekeeper {options.subcommand.name}"
    with _warnings_on_stderr(command):
        if getattr(options, "watch", False):
            return to_the_end(lambda: watch(lambda: _run(options), every=options.every), command)
        return to_the_end(lambda: _run(options), command)


@contextmanager
def _warnings_on_stderr(prefix: str) -> Iterator[None]:
    """Print the warnings that the library logs while the block lasts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"{prefix}: warning: %(message)s"))
    logging.getLogger(ROOT).addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger(ROOT).removeHandler(handler)


def _run(options: argparse.Namespace) -> ExitCode:
    subcommand: Subcommand = options.subcommand
    try:
        fields = subcommand.run(options)
        text = json.dumps(fields, default=str) if options.json else printable_lines(subcommand.format(fields))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 -- whatever it is, also a panic of a library, a user gets one line
        text = describe_failure(error)
        if options.json:
            print(json.dumps({"error": text, "kind": type(error).__name__}))
        print(f"panekeeper {subcommand.name}: {printable(text)}", file=sys.stderr)
        return ExitCode.FAILED
    print(text)
    return subcommand.exit_code(options, fields)


class _PrintSchema(argparse.Action):
    """`--json-schema`: prints the schema of what `--json` prints, and exits, whatever else is on the command line."""

    def __init__(self, option_strings: Sequence[str], dest: str, subcommand: Subcommand) -> None:
        text = "print the JSON schema of what --json prints, and exit"
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=text)
        self._subcommand = subcommand

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(json.dumps(output_schema(self._subcommand.name, self._subcommand.schema()), indent=2))
        parser.exit()


class _PrintCompletion(argparse.Action):
    """`--completion`: prints a script for a shell, made from all arguments by shtab."""

    def __call__(self, parser: argparse.ArgumentParser, _: object, value: Any, __: object = None) -> None:
        try:
            import shtab
        except ImportError:
            parser.error("--completion needs shtab: pip install 'panekeeper[completion]'")
        print(shtab.complete(parser, value))
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="panekeeper", description="Inspect, drain, save, restore and change jobs by their checkpoints."
    )
    parser.add_argument("--version", action="version", version=f"panekeeper {installed_versions()['panekeeper']}")
    parser.add_argument(
        "--completion",
        action=_PrintCompletion,
        choices=("bash", "zsh", "tcsh"),
        default=argparse.SUPPRESS,
        help="print the completion of this command for a shell, and exit",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    anywhere = argparse.ArgumentParser(add_help=False)  # after the name of the command, too
    anywhere.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
    choices = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for subcommand in SUBCOMMANDS:
        one = choices.add_parser(subcommand.name, help=subcommand.help, description=subcommand.help, parents=[anywhere])
        one.add_argument("--json-schema", action=_PrintSchema, subcommand=subcommand)
        subcommand.arguments(one)
        one.set_defaults(subcommand=subcommand)
    return parser


if __name__ == "__main__":
    sys.exit(main())
