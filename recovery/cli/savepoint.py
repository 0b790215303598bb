"""The subcommands around savepoints: what is typed, and what is told."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from recovery.errors import SavepointError
from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import S3Options
from recovery.storage.blobs import Listener, Progress

if TYPE_CHECKING:
    from recovery.cli.main import Command


def savepoint_commands() -> tuple[Command, ...]:
    """All of them, in the order of a savepoint's life."""
    from recovery.cli.main import Command
    from recovery.cli.restore import restore_commands

    return (
        Command(
            name="savepoint",
            help="copy a job's checkpoint, with the versions of its tables, and verify the copy",
            arguments=_savepoint_arguments,
            run=_savepoint,
            words=_savepoint_words,
        ),
        Command(name="savepoints", help="list a location", arguments=_list_arguments, run=_list, words=_list_words),
        Command(name="show", help="tell all about one savepoint", arguments=named, run=_show, words=_show_words),
        Command(
            name="verify",
            help="read a savepoint back and compare",
            arguments=_verify_arguments,
            run=_verify,
            words=_verify_words,
        ),
        Command(
            name="prune",
            help="remove all but the newest savepoints of each job",
            arguments=_prune_arguments,
            run=_prune,
            words=_prune_words,
        ),
        *restore_commands(),
    )


def reach_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how S3 is reached."""
    group = parser.add_argument_group("S3", "for all that lies on S3; credentials are found as by any boto3 program")
    group.add_argument(
        "--s3-endpoint", metavar="URL", help="a store other than Amazon's; AWS_ENDPOINT_URL, if not given"
    )
    group.add_argument("--s3-encryption", choices=("AES256", "aws:kms"), help="encryption on the server's side")
    group.add_argument("--s3-kms-key", metavar="ID", help="the key for aws:kms")


def reach(options: argparse.Namespace) -> S3Options:
    """Return how S3 is reached."""
    return S3Options(endpoint=options.s3_endpoint, encryption=options.s3_encryption, kms_key=options.s3_kms_key)


def named(parser: argparse.ArgumentParser) -> None:
    """Declare a location and the name of a savepoint."""
    parser.add_argument("location", metavar="LOCATION", help="a folder or s3://bucket/prefix")
    parser.add_argument("name", metavar="NAME", help="of the savepoint")
    reach_arguments(parser)


def progress_line() -> Listener | None:
    """Return what writes one line of progress on stderr, over and over; None if nobody would see it."""
    if not sys.stderr.isatty():
        return None

    def show(progress: Progress) -> None:
        done = progress.sent + progress.reused
        end = "\n" if done >= progress.total else ""
        line = f"\r{amount(progress.sent)} moved, {amount(progress.reused)} reused of {amount(progress.total)}"
        sys.stderr.write(f"{line:<70}{end}")
        sys.stderr.flush()

    return show


def amount(size: float) -> str:
    """Return bytes in words.

    >>> amount(5), amount(2_500_000)
    ('5 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:  # noqa: PLR2004 -- decimal units
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return what tells a savepoint from others."""
    return {
        "name": manifest.name,
        "made_at": manifest.made_at.isoformat(timespec="seconds"),
        "job": manifest.job,
        "batch": manifest.batch,
        "unfinished": manifest.unfinished,
        "files": len(manifest.files),
        "bytes": manifest.size,
        "tables": {role: table.version for role, table in manifest.tables.items()},
    }


def _savepoint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="the job's checkpoint: a folder or s3a://bucket/folder"
    )
    parser.add_argument("name", metavar="NAME", help="letters, digits, . _ -")
    parser.add_argument("--to", required=True, metavar="LOCATION", help="a folder or s3://bucket/prefix")
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="S",
        help="wait so long for a running job (300)",
    )
    parser.add_argument(
        "--keep-days", type=int, default=7, metavar="N", help="warn of tables that keep old versions for less (7)"
    )
    parser.add_argument(
        "--no-decode", action="store_true", help="start no Spark to decode each stored value of the copy"
    )
    reach_arguments(parser)


def _savepoint(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.savepoint.create import savepoint
    from recovery.savepoint.retention import short_retention

    made = savepoint(
        options.checkpoint,
        options.name,
        to=options.to,
        s3=reach(options),
        progress=progress_line(),
        timeout=options.timeout,
        decode=not options.no_decode,
    )
    warnings = short_retention(made.manifest, keep_for=timedelta(days=options.keep_days), s3=reach(options))
    for warning in warnings:
        sys.stderr.write(f"panekeeper savepoint: warning: {warning}\n")
    cost = {
        "location": made.location,
        "bytes_sent": made.bytes_sent,
        "bytes_reused": made.bytes_reused,
        "values": made.values,
    }
    return {**summary(made.manifest), **cost, "warnings": warnings}


def _savepoint_words(fields: dict[str, Any]) -> str:
    what = f"savepoint {fields['name']} of job {fields['job']} as of batch {fields['batch']}"
    cost = f"{fields['files']} files, {amount(fields['bytes_sent'])} sent, {amount(fields['bytes_reused'])} reused"
    lines = [f"{what} is in {fields['location']}: {cost}{_decoded(fields)}"]
    if fields["unfinished"] is not None:
        lines.append(f"batch {fields['unfinished']} was begun and never committed; it is not in the savepoint")
    if not fields["tables"]:
        lines.append("this checkpoint names no Delta tables, so a restore will leave all tables as they are")
    return "\n".join(lines)


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("location", metavar="LOCATION", help="a folder or s3://bucket/prefix")
    reach_arguments(parser)


def _list(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.savepoint.catalog import savepoints

    found = savepoints(options.location, s3=reach(options))
    return {
        "savepoints": [
            {"name": name, "problem": str(one)} if isinstance(one, SavepointError) else summary(one)
            for name, one in found.items()
        ]
    }


def _list_words(fields: dict[str, Any]) -> str:
    lines = [
        f"{one['name']}: {one['problem']}"
        if "problem" in one
        else f"{one['name']}: {one['made_at']}, job {one['job']}, batch {one['batch']}, {amount(one['bytes'])}"
        for one in fields["savepoints"]
    ]
    return "\n".join(lines) or "no savepoints"


def _show(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.savepoint.catalog import show

    return {**asdict(found := show(options.location, options.name, s3=reach(options))), "bytes": found.size}


def _show_words(fields: dict[str, Any]) -> str:
    said = ("name", "made_at", "job", "job_id", "epoch", "checkpoint", "batch", "unfinished", "state_version")
    lines = [f"{name}: {fields[name]}" for name in said]
    lines += [
        f"table {role}: {table['path']} at version {table['version']}" for role, table in fields["tables"].items()
    ]
    for group in ("versions", "declaration", "settings"):
        lines += [f"{group} {name}: {value}" for name, value in fields[group].items()]
    return "\n".join([*lines, f"files: {len(fields['files'])}, {amount(fields['bytes'])}"])


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument("--deep", action="store_true", help="also decode each stored value, with Spark")


def _verify(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.savepoint.catalog import verify

    return asdict(verify(options.location, options.name, deep=options.deep, s3=reach(options)))


def _verify_words(fields: dict[str, Any]) -> str:
    size = f"{fields['files']} files, {amount(fields['bytes'])}"
    return f"savepoint {fields['name']} is sound: {size}{_decoded(fields)}"


def _decoded(fields: dict[str, Any]) -> str:
    return "" if fields["values"] is None else f"; {fields['values']} stored values decoded"


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    _list_arguments(parser)
    parser.add_argument("--keep", required=True, type=int, metavar="N", help="how many of each job stay")


def _prune(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.savepoint.catalog import prune

    return asdict(prune(options.location, keep=options.keep, s3=reach(options)))


def _prune_words(fields: dict[str, Any]) -> str:
    gone = ", ".join(fields["removed"]) or "none"
    if fields["being_made"]:
        gone += "; a savepoint is being made there, so files stay until the next prune"
    return f"removed: {gone}; {fields['blobs']} files, {amount(fields['bytes'])}; {len(fields['kept'])} savepoints stay"
