"""The subcommands around jobs that run or have ended: `status`, `jobs` and `drain`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from panekeeper.recovery.cli.printing import format_age, format_number, format_seconds, format_table, printable
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import (
    ExitCode,
    Subcommand,
    add_checkpoint_argument,
    add_s3_arguments,
    add_timeout_argument,
    positive_seconds,
    s3_options,
)
from panekeeper.recovery.jobs.drain import checkpoint_folder, drain
from panekeeper.recovery.jobs.fleet import DEPTH, list_jobs
from panekeeper.recovery.jobs.status import Health, JobStatus, Limits, status

_CODES = {
    Health.HEALTHY: ExitCode.DONE,
    Health.STOPPED: ExitCode.STOPPED,
    Health.BEHIND: ExitCode.BEHIND,
    Health.DOWN: ExitCode.DOWN,
    Health.UNUSABLE: ExitCode.UNUSABLE,
}


def _add_health_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="let the exit code say how healthy: 0, 3 stopped, 4 behind, 5 down, 6 unusable",
    )
    parser.add_argument("--max-lag", type=positive_seconds, metavar="TIME", help="behind: a watermark older than this")
    parser.add_argument(
        "--max-age", type=positive_seconds, metavar="TIME", help="behind: no batch for longer than this"
    )
    parser.add_argument("--max-rows", type=int, metavar="N", help="behind: a source that holds more rows not read yet")
    parser.add_argument("--watch", action="store_true", help="look again and again, until Ctrl-C")
    parser.add_argument("--every", type=positive_seconds, default="2s", metavar="TIME", help="how often to look (2s)")
    add_s3_arguments(parser)


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(lag=options.max_lag, age=options.max_age, rows=options.max_rows)


def _exit_code(options: argparse.Namespace, jobs: Iterable[Mapping[str, Any]]) -> ExitCode:
    """Return DONE, or with --check the code of the worst job."""
    codes = [_CODES[Health(one["health"])] for one in jobs]
    return max(codes, default=ExitCode.DONE) if options.check else ExitCode.DONE


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    _add_health_arguments(parser)


def _status(options: argparse.Namespace) -> dict[str, Any]:
    folder = checkpoint_folder(options.checkpoint, s3_options(options))
    return asdict(status(folder, limits=_limits(options)))


def _format_status(fields: dict[str, Any]) -> str:
    lines = [
        f"job {fields['job']!r} in {fields['checkpoint']}: {_running_text(fields)}",
        f"health: {fields['health']}, {fields['why']}",
        format_last_batches(fields),
    ]
    if fields["watermark"] is not None:
        lines.append(f"watermark: {fields['watermark']}, {format_age(fields['watermark_lag'])} behind the present")
    known = {"rows/s": "rows_per_second", "rows behind": "rows_behind", "open panes": "open_panes"}
    counts = [f"{text}: {fields[name]:,}" for text, name in known.items() if fields[name] is not None]
    lines += [", ".join(counts)] if counts else []
    saved = fields["last_savepoint"]
    if saved is not None:
        lines.append(
            f"last savepoint: {saved['name']} of batch {saved['batch']}, {saved['made_at']}, {saved['location']}"
        )
    return "\n".join([*lines, "resumable: " + ("yes" if fields["resumable"] else f"no, {fields['why_not']}")])


def _running_text(fields: dict[str, Any]) -> str:
    process = f"process {fields['pid']} on {fields['host']}"
    if fields["running"]:
        return f"running since {fields['since']}, {process}"
    if fields["state"] == "lost":
        return f"not running; {process} crashed, last heartbeat {fields['seen']}"
    if fields["stopped"] is None:
        return f"not running; {fields['state']}"
    return f"not running; {fields['state']} {fields['stopped']}"


def format_last_batches(fields: Mapping[str, Any]) -> str:
    """Return the last batches of a job, in one line."""
    begun, committed = format_number(fields["last_offset"]), format_number(fields["last_commit"])
    return f"last batch begun: {begun}, committed: {committed}"


def _jobs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "roots", nargs="+", metavar="ROOT", help="a folder or s3://bucket/prefix that holds checkpoints"
    )
    parser.add_argument(
        "--depth", type=int, default=DEPTH, metavar="N", help=f"how many folders deep to look ({DEPTH})"
    )
    _add_health_arguments(parser)


def _jobs(options: argparse.Namespace) -> dict[str, Any]:
    found = list_jobs(options.roots, depth=options.depth, limits=_limits(options), s3=s3_options(options))
    return {"jobs": [asdict(one) for one in found]}


def _format_jobs(fields: dict[str, Any]) -> str:
    jobs = fields["jobs"]
    if not jobs:
        return "no jobs"
    heads = (
        "job",
        "state",
        "health",
        "batch",
        "last batch",
        "lag",
        "behind",
        "rows/s",
        "savepoint",
        "resumable",
        "checkpoint",
    )
    rows = [
        (
            printable(one["job"] or "?"),
            one["state"],
            one["health"],
            format_number(one["last_commit"]),
            format_age(one["last_batch_age"]),
            format_age(one["watermark_lag"]),
            format_number(one["rows_behind"]),
            format_number(one["rows_per_second"]),
            format_age(one["last_savepoint"] and one["last_savepoint"]["age"]),
            "yes" if one["resumable"] else "no",
            printable(one["checkpoint"]),
        )
        for one in jobs
    ]
    notes = [printable(f"{one['checkpoint']}: {one['why']}") for one in jobs if one["health"] != Health.HEALTHY.value]
    return "\n".join([format_table(heads, rows), *notes])


STATUS = Subcommand(
    name="status",
    help="show whether a job runs on a checkpoint, how far it is, and whether it can resume from there",
    arguments=_status_arguments,
    run=_status,
    format=_format_status,
    schema=lambda: object_schema(JobStatus),
    exit_code=lambda options, fields: _exit_code(options, [fields]),
)

JOBS = Subcommand(
    name="jobs",
    help="list the jobs whose checkpoints are under some folders, damaged ones with the reason",
    arguments=_jobs_arguments,
    run=_jobs,
    format=_format_jobs,
    schema=lambda: object_schema(jobs=list[JobStatus]),
    exit_code=lambda options, fields: _exit_code(options, fields["jobs"]),
)


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
