"""The subcommand `repair`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from panekeeper.recovery.cli.arguments import add_checkpoint_argument, add_s3_arguments, s3_options
from panekeeper.recovery.cli.output.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import Subcommand, done_if


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done, and why")
    parser.add_argument(
        "--no-sink",
        action="store_true",
        help="state that the job writes only the tables of to_delta() and has no other sink (with_sink())",
    )
    add_s3_arguments(parser)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.repair.repair import repair

    done = repair(options.checkpoint, dry_run=options.dry_run, no_sink=options.no_sink, s3=s3_options(options))
    return {**asdict(done), "complete": done.is_complete, "dry_run": options.dry_run}


def _format(fields: dict[str, Any]) -> str:
    if not fields["findings"]:
        return f"{fields['checkpoint']}: every small file that a start reads is intact; nothing to repair"
    done = "would be" if fields["dry_run"] else "was"
    words = {
        "set aside": f"{done} moved to {fields['aside']}",
        "replace": f"{done} replaced, the old one moved to {fields['aside']}",
        "none": "cannot be repaired",
    }
    return "\n".join(f"{one['file']} is damaged and {words[one['action']]}: {one['why']}" for one in fields["findings"])


def _schema() -> Schema:
    from panekeeper.recovery.repair.repair import Repair

    return object_schema(Repair, complete=bool, dry_run=bool)


REPAIR = Subcommand(
    name="repair",
    help="repair small files of a stopped job's checkpoint that were cut short, where that is safe",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, fields: done_if(fields["complete"]),
)
