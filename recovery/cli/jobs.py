"""The subcommands `status` and `drain`, for a job that runs in another process (`recovery/jobs/remote.py`)."""

from __future__ import annotations

import argparse
from typing import Any

from recovery.cli.arguments import add_checkpoint_argument, add_timeout_argument
from recovery.cli.subcommand import Subcommand
from recovery.cli.text import format_number, format_seconds
from recovery.jobs.remote import checkpoint_folder, drain, status
from state.checkpoint.clock import format_time


def _status(options: argparse.Namespace) -> dict[str, Any]:
    return status(checkpoint_folder(options.checkpoint))


def _format_status(fields: dict[str, Any]) -> str:
    return "\n".join(
        [
            f"job {fields['job']!r} in {fields['checkpoint']}: {_running_text(fields)}",
            _last_batches(fields),
            "resumable: " + ("yes" if fields["resumable"] else f"no, {fields['why_not']}"),
        ]
    )


def _running_text(fields: dict[str, Any]) -> str:
    process = f"process {fields['pid']} on {fields['host']}"
    if fields["running"]:
        return f"running since {format_time(fields['since_us'])}, {process}"
    if fields["state"] == "lost":
        return f"not running; {process} crashed, last heartbeat {format_time(fields['seen_us'])}"
    if fields["stopped_us"] is None:
        return f"not running; {fields['state']}"
    return f"not running; {fields['state']} {format_time(fields['stopped_us'])}"


def _last_batches(fields: dict[str, Any]) -> str:
    begun, committed = format_number(fields["last_offset"]), format_number(fields["last_commit"])
    return f"last batch begun: {begun}, committed: {committed}"


def _drain_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    add_timeout_argument(parser, "the job")


def _drain(options: argparse.Namespace) -> dict[str, Any]:
    return drain(checkpoint_folder(options.checkpoint), timeout=options.timeout)


def _format_drain(fields: dict[str, Any]) -> str:
    """Return the lines of a drain; the open work of the job only as far as the job recorded it."""
    took = format_seconds(fields["seconds"])
    next_start = "the next start resumes there" if fields["resumable"] else "its windows are closed for good"
    lines = [
        f"job {fields['job']!r} in {fields['checkpoint']}: {fields['state']} after {took}",
        f"{_last_batches(fields)}; {next_start}",
    ]
    open_work = fields.get("open")
    if open_work is not None:
        counts = {"panes": open_work.get("panes"), "rows": open_work.get("tuples")}
        listed = ", ".join(f"{name} {count}" for name, count in counts.items() if count is not None)
        lines.append(f"still open: {listed or 'nothing'}")
        if open_work.get("next_due") is not None:
            lines.append(f"next due: {format_time(open_work['next_due'])}")
    return "\n".join(lines)


STATUS = Subcommand(
    name="status",
    help="show whether a job runs on a checkpoint, which process runs it, and whether it can resume from there",
    arguments=add_checkpoint_argument,
    run=_status,
    format=_format_status,
)

DRAIN = Subcommand(
    name="drain",
    help="drain the job that runs on a checkpoint: it commits one more batch and ends; waits for that",
    arguments=_drain_arguments,
    run=_drain,
    format=_format_drain,
)
