"""The subcommand `drain`, for a job that runs in another process (`recovery/jobs/remote.py`)."""

from __future__ import annotations

import argparse
from typing import Any

from panekeeper.recovery.cli.arguments import (
    add_checkpoint_argument,
    add_s3_arguments,
    add_timeout_argument,
    s3_options,
)
from panekeeper.recovery.cli.output.schema import Schema, object_schema
from panekeeper.recovery.cli.status import format_last_batches
from panekeeper.recovery.cli.subcommand import Subcommand
from panekeeper.recovery.cli.text import format_seconds
from panekeeper.recovery.jobs.remote import checkpoint_folder, drain


def _drain_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    add_timeout_argument(parser, "the job")
    add_s3_arguments(parser)


def _drain(options: argparse.Namespace) -> dict[str, Any]:
    return drain(checkpoint_folder(options.checkpoint, s3_options(options)), timeout=options.timeout)


def _format_drain(fields: dict[str, Any]) -> str:
    """Return the lines of a drain; the open work of the job only as far as the job recorded it."""
    took = format_seconds(fields["seconds"])
    next_start = "the next start resumes there" if fields["resumable"] else "its windows are closed for good"
    lines = [
        f"job {fields['job']!r} in {fields['checkpoint']}: {fields['state']} after {took}",
        f"{format_last_batches(fields)}; {next_start}",
    ]
    open_work = fields.get("open")
    if open_work is not None:
        counts = {name: open_work[name] for name in ("panes", "rows")}
        listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count is not None)
        lines.append(f"still open: {listed or 'not known'}")
        if open_work["next_due"] is not None:
            lines.append(f"next due: {open_work['next_due']}")
    return "\n".join(lines)


def _schema() -> Schema:
    open_work = object_schema(panes=int | None, rows=int | None, next_due=str | None, next_watermark=str | None)
    batches: dict[str, Any] = {"last_offset": int | None, "last_commit": int | None}
    left = {"batch": int | None, "open": open_work}
    return object_schema(optional=left, checkpoint=str, job=str, state=str, resumable=bool, seconds=float, **batches)


DRAIN = Subcommand(
    name="drain",
    help="drain the job that runs on a checkpoint: it commits one more batch and ends; waits for that",
    arguments=_drain_arguments,
    run=_drain,
    format=_format_drain,
    schema=_schema,
)
