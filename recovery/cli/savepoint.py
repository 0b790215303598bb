"""The subcommands around savepoints: `savepoint`, `savepoints`, `show`, `verify` and `prune`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from panekeeper.recovery.cli.printing import format_bytes, progress_line
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import (
    Subcommand,
    add_checkpoint_argument,
    add_location_argument,
    add_s3_arguments,
    add_savepoint_arguments,
    add_timeout_argument,
    positive_seconds,
    s3_options,
)
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.savepoint.manifest import Manifest


def _savepoint_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    parser.add_argument("name", metavar="NAME", help="the name of the savepoint: letters, digits and . _ -")
    parser.add_argument("--to", required=True, metavar="LOCATION", help="a folder or s3://bucket/prefix")
    add_timeout_argument(parser, "a batch of a running job")
    parser.add_argument(
        "--keep-for",
        type=positive_seconds,
        default="7 days",
        metavar="TIME",
        help="warn of tables that keep old versions for less than this (7 days)",
    )
    parser.add_argument(
        "--no-decode", action="store_true", help="do not start Spark to decode each stored value of the copy"
    )
    add_s3_arguments(parser)


def _savepoint(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.savepoint.create import savepoint, short_retention

    s3 = s3_options(options)
    made = savepoint(
        options.checkpoint,
        options.name,
        to=options.to,
        s3=s3,
        progress=progress_line(),
        timeout=options.timeout,
        decode=not options.no_decode,
    )
    warnings = short_retention(made.manifest, keep_for=timedelta(seconds=options.keep_for), s3=s3)
    for warning in warnings:
        sys.stderr.write(f"panekeeper savepoint: warning: {warning}\n")
    cost = {
        "location": made.location,
        "bytes_sent": made.bytes_sent,
        "bytes_reused": made.bytes_reused,
        "values": made.values,
    }
    return {**_summary(made.manifest), **cost, "warnings": warnings}


def _summary(manifest: Manifest) -> dict[str, Any]:
    """Return the fields of a savepoint that `savepoint` and `savepoints` print."""
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


def _summary_fields() -> dict[str, Any]:
    """Return the types of the fields of `_summary`."""
    return {
        "name": str,
        "made_at": datetime,
        "job": str,
        "batch": int,
        "unfinished": int | None,
        "files": int,
        "bytes": int,
        "tables": dict[str, int],
    }


def _savepoint_schema() -> Schema:
    cost: dict[str, Any] = {"location": str, "bytes_sent": int, "bytes_reused": int, "values": int | None}
    return object_schema(**_summary_fields(), **cost, warnings=list[str])


def _savepoints_schema() -> Schema:
    either = {"anyOf": [object_schema(**_summary_fields()), object_schema(name=str, problem=str)]}
    return object_schema(savepoints={"type": "array", "items": either})


def _schema_of_result(name: str) -> Schema:
    from panekeeper.recovery.savepoint import catalog

    return object_schema(getattr(catalog, name))


def _format_savepoint(fields: dict[str, Any]) -> str:
    sent, reused = format_bytes(fields["bytes_sent"]), format_bytes(fields["bytes_reused"])
    what = f"savepoint {fields['name']} of job {fields['job']} as of batch {fields['batch']} is in {fields['location']}"
    lines = [f"{what}: {fields['files']} files, {sent} sent, {reused} reused{_decoded(fields)}"]
    if fields["unfinished"] is not None:
        lines.append(f"batch {fields['unfinished']} was begun and not committed; it is not in the savepoint")
    if not fields["tables"]:
        lines.append("this checkpoint names no Delta tables, so a restore will leave all tables as they are")
    return "\n".join(lines)


def _savepoints(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.savepoint.catalog import no_savepoints, savepoints

    found = savepoints(options.location, s3=s3_options(options))
    if not found:
        raise no_savepoints(options.location)
    return {
        "savepoints": [
            {"name": name, "problem": str(one)} if isinstance(one, SavepointError) else _summary(one)
            for name, one in found.items()
        ]
    }


def _format_savepoints(fields: dict[str, Any]) -> str:
    return "\n".join(
        f"{one['name']}: {one['problem']}"
        if "problem" in one
        else f"{one['name']}: {one['made_at']}, job {one['job']}, batch {one['batch']}, {format_bytes(one['bytes'])}"
        for one in fields["savepoints"]
    )


def _show(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.savepoint.catalog import show

    found = show(options.location, options.name, s3=s3_options(options))
    return {**asdict(found), "made_at": found.made_at.isoformat(timespec="seconds"), "bytes": found.size}


def _format_show(fields: dict[str, Any]) -> str:
    first = ("name", "made_at", "job", "job_id", "epoch", "checkpoint", "batch", "unfinished", "state_version")
    lines = [f"{name}: {fields[name]}" for name in first]
    lines += [
        f"table {role}: {table['path']} at version {table['version']}" for role, table in fields["tables"].items()
    ]
    for group in ("versions", "declaration", "settings"):
        lines += [f"{group} {name}: {value}" for name, value in fields[group].items()]
    return "\n".join([*lines, f"files: {len(fields['files'])}, {format_bytes(fields['bytes'])}"])


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    add_savepoint_arguments(parser)
    parser.add_argument("--deep", action="store_true", help="also decode each stored value, with Spark")


def _verify(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.savepoint.catalog import verify

    return asdict(verify(options.location, options.name, deep=options.deep, s3=s3_options(options)))


def _format_verify(fields: dict[str, Any]) -> str:
    size = f"{fields['files']} files, {format_bytes(fields['bytes'])}"
    return f"savepoint {fields['name']} is intact: {size}{_decoded(fields)}"


def _decoded(fields: dict[str, Any]) -> str:
    return "" if fields["values"] is None else f"; {fields['values']} stored values decoded"


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    add_location_argument(parser)
    what = "how many savepoints of each job to keep; of a checkpoint, how many former epochs (0, if not given)"
    parser.add_argument("--keep", type=int, metavar="N", help=what)


def _prune(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.restore.prune import is_checkpoint, prune_epochs
    from panekeeper.recovery.savepoint.catalog import prune

    s3 = s3_options(options)
    if is_checkpoint(options.location, s3):
        return asdict(prune_epochs(options.location, keep=options.keep or 0, s3=s3))
    if options.keep is None:
        raise SavepointRefused("--keep is not given; say how many savepoints of each job to keep, as --keep 3")
    return asdict(prune(options.location, keep=options.keep, s3=s3))


def _prune_schema() -> Schema:
    from panekeeper.recovery.restore.prune import PrunedEpochs

    return {"anyOf": [_schema_of_result("PruneResult"), object_schema(PrunedEpochs)]}


def _format_prune(fields: dict[str, Any]) -> str:
    if "current" in fields:
        removed = ", ".join(map(str, fields["removed"])) or "none"
        return (
            f"former epochs removed: {removed}; {format_bytes(fields['bytes'])}; epoch {fields['current']} is current"
        )
    removed = ", ".join(fields["removed"]) or "none"
    if fields["being_made"]:
        removed += "; a savepoint is being made there, so files are kept until the next prune"
    size = f"{fields['blobs']} files, {format_bytes(fields['bytes'])}"
    return f"removed: {removed}; {size}; {len(fields['kept'])} savepoints are kept"


SAVEPOINT = Subcommand(
    name="savepoint",
    help="copy a job's checkpoint, with the versions of its tables, and verify the copy",
    arguments=_savepoint_arguments,
    run=_savepoint,
    format=_format_savepoint,
    schema=_savepoint_schema,
)

SAVEPOINTS = Subcommand(
    name="savepoints",
    help="list the savepoints of a location",
    arguments=add_location_argument,
    run=_savepoints,
    format=_format_savepoints,
    schema=_savepoints_schema,
)

SHOW = Subcommand(
    name="show",
    help="show one savepoint",
    arguments=add_savepoint_arguments,
    run=_show,
    format=_format_show,
    schema=lambda: object_schema(Manifest, bytes=int),
)

VERIFY = Subcommand(
    name="verify",
    help="read all files of a savepoint back and compare their checksums",
    arguments=_verify_arguments,
    run=_verify,
    format=_format_verify,
    schema=lambda: _schema_of_result("VerifyResult"),
)

PRUNE = Subcommand(
    name="prune",
    help="remove all but the newest savepoints of each job",
    arguments=_prune_arguments,
    run=_prune,
    format=_format_prune,
    schema=_prune_schema,
)
