"""The subcommands `restore` and `clone`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recovery.cli.savepoint import amount, named, progress_line, reach

if TYPE_CHECKING:
    from recovery.cli.main import Command


def restore_commands() -> tuple[Command, ...]:
    """Both of them."""
    from recovery.cli.main import Command

    return (
        Command(
            name="restore",
            help="take a stopped job and its tables back to a savepoint; run it again if it was interrupted",
            arguments=_restore_arguments,
            run=_restore,
            words=_restore_words,
        ),
        Command(
            name="clone",
            help="put a savepoint's checkpoint and copies of its tables into a folder, beside the job",
            arguments=_clone_arguments,
            run=_clone,
            words=_clone_words,
        ),
    )


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument("--checkpoint", metavar="FOLDER", help="where to, here or on S3; where it was, if not given")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would change")


def _restore(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.restore.restore import restore

    plan = restore(
        options.location,
        options.name,
        checkpoint=options.checkpoint,
        dry_run=options.dry_run,
        s3=reach(options),
        progress=progress_line(),
    )
    return {**asdict(plan), "dry_run": options.dry_run}


def _restore_words(fields: dict[str, Any]) -> str:
    would = "would be" if fields["dry_run"] else "was"
    lines = [
        (
            f"{fields['checkpoint']} {would} {'replaced' if fields['replaces'] else 'made'}: {fields['files']} files, "
            f"{amount(fields['bytes'])}; the job resumes after batch {fields['batch']}, epoch {fields['epoch']}"
        )
    ]
    if fields["forgotten"] is not None:
        first, last = fields["forgotten"]
        lines.append(f"batches {first} to {last} {'would be' if fields['dry_run'] else 'are'} forgotten")
    lines += [
        f"table {role}: {table['path']} from version {table['old']} to {table['new']}"
        for role, table in fields["tables"].items()
    ]
    return "\n".join(lines)


def _clone_arguments(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument("--into", required=True, metavar="FOLDER", help="a new folder, here or on S3")
    parser.add_argument("--deep", action="store_true", help="copy the rows of the tables, not only their logs")


def _clone(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.restore.clone import clone

    made = clone(
        options.location,
        options.name,
        into=options.into,
        deep=options.deep,
        s3=reach(options),
        progress=progress_line(),
    )
    return asdict(made)


def _clone_words(fields: dict[str, Any]) -> str:
    lines = [f"table {role}: {path}" for role, path in fields["tables"].items()]
    return "\n".join([f"savepoint {fields['name']} was cloned: checkpoint {fields['checkpoint']}", *lines])
