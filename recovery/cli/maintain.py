"""The subcommand `maintain`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from panekeeper.recovery.cli.printing import format_bytes
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import (
    Subcommand,
    add_checkpoint_argument,
    add_s3_arguments,
    done_if,
    positive_seconds,
    s3_options,
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--optimize", action=argparse.BooleanOptionalAction, default=True, help="replace small files by larger ones"
    )
    parser.add_argument(
        "--vacuum",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="remove files that neither a recent version nor a savepoint needs",
    )
    parser.add_argument(
        "--retain",
        type=positive_seconds,
        default="7 days",
        metavar="TIME",
        help="for how long files of earlier versions are kept (7 days); a longer retention of a table itself counts",
    )
    parser.add_argument(
        "--allow-short-retention",
        action="store_true",
        help="permit --retain of less than 7 days: readers may find files gone, and no job may run",
    )
    _add_savepoints_arguments(parser)
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="ROLE|PATH",
        help="only this table of the job, as log or view; may be repeated",
    )
    add_s3_arguments(parser)


def _add_savepoints_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--savepoints",
        action="append",
        default=[],
        metavar="LOCATION",
        help="where savepoints are whose table versions are kept; may be repeated. The location of the newest one is "
        "known to the checkpoint",
    )
    parser.add_argument(
        "--no-recorded",
        action="store_true",
        help="state that the savepoints in the location that the checkpoint knows are gone for good",
    )


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upkeep.maintain import maintain

    done = maintain(
        options.checkpoint,
        savepoints=options.savepoints,
        tables=options.table,
        optimize=options.optimize,
        vacuum=options.vacuum,
        retain=timedelta(seconds=options.retain),
        allow_short_retention=options.allow_short_retention,
        recorded=not options.no_recorded,
        dry_run=options.dry_run,
        s3=s3_options(options),
    )
    return {**asdict(done), "complete": done.is_complete}


def _format(fields: dict[str, Any]) -> str:
    first = f"tables of job {fields['job']} ({fields['checkpoint']}); {fields['savepoints']} savepoints have them"
    return "\n".join([first, *(line for table in fields["tables"] for line in _lines(table, dry=fields["dry_run"]))])


def _lines(table: dict[str, Any], *, dry: bool) -> Iterator[str]:
    done = "would be" if dry else "were"
    small = "small files" if table["compacted"] is None else f"{table['compacted']} small files"
    into = "" if dry else f" into {table['added']}"
    parts = [f"{small} {done} compacted{into}"]
    if table["retained_hours"] is not None:
        parts.append(f"{table['removed']} unused files {done} removed ({format_bytes(table['bytes'])})")
    if table["kept"]:
        parts.append(f"{table['kept']} are kept for savepoints")
    yield f"{table['role']}: {', '.join(parts)}"
    yield from (f"    {line}" for line in filter(None, (table["problem"], *table["notes"])))


def _schema() -> Schema:
    from panekeeper.recovery.upkeep.report import Upkeep

    return object_schema(Upkeep, complete=bool)


MAINTAIN = Subcommand(
    name="maintain",
    help="compact and vacuum the tables of a job, beside it or while it is stopped, for all but its savepoints",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, fields: done_if(fields["complete"]),
)
