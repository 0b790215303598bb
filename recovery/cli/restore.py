"""The subcommands `restore` and `clone`."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from typing import Any

from panekeeper.recovery.cli.offsets import add_broker_arguments, deleted_messages_of, deleted_schema, format_deleted
from panekeeper.recovery.cli.printing import format_bytes, progress_line
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import Subcommand, add_savepoint_arguments, s3_options
from panekeeper.recovery.errors import SavepointRefused


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    add_savepoint_arguments(parser)
    parser.add_argument(
        "--checkpoint", metavar="FOLDER", help="restore to this folder, local or on S3; not given: to where it was"
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="PATH",
        help="a Delta table that may go back, if the checkpoint does not name it as its own; once for each",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would change, path by path")
    add_broker_arguments(parser)


def _restore(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.restore.restore import restore

    deleted = None if options.bootstrap_servers is None else _deleted_messages(options)
    preview = restore(
        options.location,
        options.name,
        checkpoint=options.checkpoint,
        tables=options.table,
        dry_run=options.dry_run,
        s3=s3_options(options),
        progress=progress_line(),
    )
    return {**asdict(preview), "dry_run": options.dry_run, "deleted": deleted}


def _deleted_messages(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return which messages that the restored job needs are gone; refuse to restore if there are any."""
    from panekeeper.recovery.kafka import savepoint_offsets

    found = deleted_messages_of(options, savepoint_offsets(options.location, options.name, s3=s3_options(options)))
    if found and not options.dry_run:
        raise SavepointRefused(
            f"the restored job could not continue in Kafka: {'; '.join(format_deleted(found))}; take a newer "
            "savepoint, or restore without --bootstrap-servers and start the job with failOnDataLoss=false"
        )
    return found


def _format_restore(fields: dict[str, Any]) -> str:
    was, are = ("would be", "would be") if fields["dry_run"] else ("was", "are")
    changed = f"{fields['checkpoint']} {was} {'taken back' if fields['replaces'] else 'created'}"
    size = f"{fields['files']} files, {format_bytes(fields['bytes'])}"
    lines = [f"{changed}: {size}; the job resumes after batch {fields['batch']}, epoch {fields['epoch']}"]
    if fields["forgotten"] is not None:
        first, last = fields["forgotten"]
        lines.append(f"batches {first} to {last} {are} discarded")
    lines += [
        f"table {role}: {table['path']} from version {table['old']} to {table['new']}"
        for role, table in fields["tables"].items()
    ]
    lines += [
        f"not confirmed: only the manifest names {path}, or other jobs have written to it since; the restore needs "
        f"--table {shlex.quote(path)}"
        for path in fields["unconfirmed"]
    ]
    return "\n".join([*lines, *format_deleted(fields["deleted"] or [])])


def _clone_arguments(parser: argparse.ArgumentParser) -> None:
    add_savepoint_arguments(parser)
    parser.add_argument("--into", required=True, metavar="FOLDER", help="a new folder, local or on S3")
    parser.add_argument("--deep", action="store_true", help="copy the rows of the tables, not only their logs")


def _clone(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.restore.clone import clone

    made = clone(
        options.location,
        options.name,
        into=options.into,
        deep=options.deep,
        s3=s3_options(options),
        progress=progress_line(),
    )
    return asdict(made)


def _format_clone(fields: dict[str, Any]) -> str:
    lines = [f"table {role}: {path}" for role, path in fields["tables"].items()]
    return "\n".join([f"savepoint {fields['name']} was cloned: checkpoint {fields['checkpoint']}", *lines])


def _restore_schema() -> Schema:
    from panekeeper.recovery.restore.checks import RestorePreview

    return object_schema(RestorePreview, dry_run=bool, deleted=deleted_schema())


def _clone_schema() -> Schema:
    from panekeeper.recovery.restore.clone import Clone

    return object_schema(Clone)


RESTORE = Subcommand(
    name="restore",
    help="take a stopped job and its tables back to a savepoint; completes a restore that was interrupted",
    arguments=_restore_arguments,
    run=_restore,
    format=_format_restore,
    schema=_restore_schema,
)

CLONE = Subcommand(
    name="clone",
    help="create a new job from a savepoint: its checkpoint and copies of its tables in a new folder",
    arguments=_clone_arguments,
    run=_clone,
    format=_format_clone,
    schema=_clone_schema,
)
