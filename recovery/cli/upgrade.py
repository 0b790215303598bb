"""The subcommands `plan` and `rescale`: whether a stopped job can resume with a change, and a change of its width."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from panekeeper.recovery.cli.printing import progress_line
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import (
    Subcommand,
    add_checkpoint_argument,
    add_s3_arguments,
    add_savepoint_arguments,
    done_if,
    s3_options,
)
from panekeeper.state.compatibility import Compatibility


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    add_savepoint_arguments(parser)
    parser.add_argument(
        "job",
        metavar="JOB.PY[:NAME]",
        help="the job file; NAME (job) is a function of a Spark session that returns the declared job, or that job",
    )


def _plan(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upgrade.check import check_upgrade
    from panekeeper.recovery.upgrade.job_file import load_job

    job = load_job(options.job)
    return check_upgrade(options.location, options.name, job, s3=s3_options(options)).fields()


def _format_plan(fields: dict[str, Any]) -> str:
    lines = [f"savepoint {fields['savepoint']} of job {fields['job']} and {fields['new_job']}: {fields['verdict']}"]
    for item in fields["items"]:
        lines.append(f"  {item['item']}: {item['verdict']} ({item['why']})")
        lines += [f"      {difference}" for difference in item["differences"]]
        if item["advice"]:
            lines.append(f"      {item['advice']}")
    return "\n".join(lines)


def _rescale_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_argument(parser)
    parser.add_argument(
        "--partitions", required=True, type=int, metavar="N", help="the new number of shuffle partitions"
    )
    parser.add_argument(
        "--to", required=True, metavar="LOCATION", help="where to make the savepoint of the job before the change"
    )
    add_s3_arguments(parser)


def _rescale(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upgrade.rescale import rescale

    done = rescale(
        options.checkpoint, options.partitions, to=options.to, s3=s3_options(options), progress=progress_line()
    )
    return asdict(done)


def _format_rescale(fields: dict[str, Any]) -> str:
    before = f"before: {fields['old']}; {fields['values']} stored values were compared and are the same"
    lines = [
        f"{fields['checkpoint']} has {fields['new']} shuffle partitions now ({before})",
        f"to undo it: panekeeper restore {fields['location']} {fields['savepoint']}",
        f"at most {fields['busiest']} key groups share a shuffle partition",
    ]
    if fields["idle"]:
        lines.append(f"{fields['idle']} shuffle partitions have no key group and do nothing")
    return "\n".join(lines)


def _plan_schema() -> Schema:
    item = object_schema(item=str, verdict=Compatibility, why=str, advice=str, differences=list[str])
    items = {"type": "array", "items": item}
    return object_schema(savepoint=str, job=str, new_job=str, verdict=Compatibility, items=items)


def _rescale_schema() -> Schema:
    from panekeeper.recovery.upgrade.rescale import Rescaled

    return object_schema(Rescaled)


PLAN = Subcommand(
    name="plan",
    help="show whether a job as a file declares it can resume from a savepoint, and why; exit code 0 only if it can",
    arguments=_plan_arguments,
    run=_plan,
    format=_format_plan,
    schema=_plan_schema,
    exit_code=lambda _, fields: done_if(fields["verdict"] == Compatibility.COMPATIBLE.value),
)

RESCALE = Subcommand(
    name="rescale",
    help="change the number of shuffle partitions of a stopped job, after a savepoint of it",
    arguments=_rescale_arguments,
    run=_rescale,
    format=_format_rescale,
    schema=_rescale_schema,
)
