"""The subcommands `plan` and `rescale`: what a change would do to a stopped job, and one that keeps its state."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recovery.cli.savepoint import named, progress_line, reach, reach_arguments
from state.checkpoint.compatibility import Verdict

if TYPE_CHECKING:
    from recovery.cli.main import Command


def upgrade_commands() -> tuple[Command, ...]:
    """Both of them."""
    from recovery.cli.main import Command

    return (
        Command(
            name="plan",
            help="say whether a job file can go on from a savepoint, and why; exit code 0 only if it can",
            arguments=_plan_arguments,
            run=_plan,
            words=_plan_words,
            succeeded=lambda fields: fields["verdict"] == Verdict.COMPATIBLE.value,
        ),
        Command(
            name="rescale",
            help="give a stopped job another number of shuffle partitions, after a savepoint",
            arguments=_rescale_arguments,
            run=_rescale,
            words=_rescale_words,
        ),
    )


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument(
        "job",
        metavar="JOB.PY[:NAME]",
        help="the job file; NAME (job) is a function of a Spark session that returns the declared job, or that job",
    )


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.upgrade.check import check_upgrade
    from recovery.upgrade.job_file import load_job

    job = load_job(options.job)
    return check_upgrade(options.location, options.name, job, s3=reach(options)).fields()


def _plan_words(fields: dict[str, Any]) -> str:
    lines = [f"savepoint {fields['savepoint']} of job {fields['job']} and {fields['new_job']}: {fields['verdict']}"]
    for item in fields["items"]:
        lines.append(f"  {item['item']}: {item['verdict']} ({item['why']})")
        lines += [f"      {one}" for one in item["differences"]]
        if item["advice"]:
            lines.append(f"      {item['advice']}")
    return "\n".join(lines)


def _rescale_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the job's checkpoint folder")
    parser.add_argument("--partitions", required=True, type=int, metavar="N", help="how many there shall be")
    parser.add_argument("--to", required=True, metavar="LOCATION", help="where the savepoint goes that is made first")
    reach_arguments(parser)


def _rescale(options: argparse.Namespace) -> dict[str, Any]:
    from recovery.upgrade.rescale import rescale

    done = rescale(options.checkpoint, options.partitions, to=options.to, s3=reach(options), progress=progress_line())
    return asdict(done)


def _rescale_words(fields: dict[str, Any]) -> str:
    was = f"it had {fields['old']}; {fields['values']} stored values are the same"
    lines = [
        f"{fields['checkpoint']} has {fields['new']} shuffle partitions now, {was}",
        f"the way back: panekeeper restore {fields['location']} {fields['savepoint']}",
        f"at most {fields['busiest']} key groups share a partition",
    ]
    if fields["idle"]:
        lines.append(f"{fields['idle']} partitions have no key group and do nothing")
    return "\n".join(lines)
