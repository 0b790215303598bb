"""The commands of `panekeeper`: their arguments, and what each of them calls.

What a command needs of Spark, and much else, is imported when it runs: `status` answers at once, and without pyspark.
"""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panekeeper.cli import output
from panekeeper.cli.command import (
    BROKER,
    CHECKPOINT,
    HEALTH,
    LOCATION,
    NAME,
    S3,
    Argument,
    Command,
    ExitCode,
    flag,
    name_and_value,
    option,
    repeated,
    seconds,
    timeout,
)
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.recovery import kafka
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.drain import checkpoint_folder, drain
from panekeeper.recovery.jobs.fleet import DEPTH, list_jobs
from panekeeper.recovery.jobs.status import Health, Limits, status
from panekeeper.recovery.restore.prune import is_checkpoint, prune_epochs
from panekeeper.recovery.savepoint import catalog
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.compatibility import Compatibility
from panekeeper.state.duration_text import duration_text

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.recovery.drill import Result


def s3_options(options: Namespace) -> S3Options:
    """Return how S3 is reached."""
    return S3Options(endpoint=options.s3_endpoint, encryption=options.s3_encryption, kms_key=options.s3_kms_key)


def checkpoint_of(options: Namespace) -> CheckpointFolder:
    """Return the folder of CHECKPOINT, also where only Spark reaches it."""
    return checkpoint_folder(options.checkpoint, s3_options(options))


def done_if(good: object) -> ExitCode:
    """Return DONE if the result is the requested one, FAILED if not."""
    return ExitCode.DONE if good else ExitCode.FAILED


# Jobs that run or have ended


def _limits(options: Namespace) -> Limits:
    return Limits(lag=options.max_lag, age=options.max_age, rows=options.max_rows, errors=options.max_errors)


def _health_code(options: Namespace, jobs: Iterable[Mapping[str, Any]]) -> ExitCode:
    """Return DONE, or with --check the code of the worst job."""
    codes = {
        Health.HEALTHY: ExitCode.DONE,
        Health.STOPPED: ExitCode.STOPPED,
        Health.BEHIND: ExitCode.BEHIND,
        Health.DOWN: ExitCode.DOWN,
        Health.UNUSABLE: ExitCode.UNUSABLE,
    }
    worst = max((codes[Health(one["health"])] for one in jobs), default=ExitCode.DONE)
    return worst if options.check else ExitCode.DONE


def _jobs(options: Namespace) -> dict[str, Any]:
    found = list_jobs(options.roots, depth=options.depth, limits=_limits(options), s3=s3_options(options))
    return {"jobs": [asdict(one) for one in found]}


JOBS = (
    Command(
        name="status",
        help="show whether a job runs on a checkpoint, how far it is, and whether it can resume from there",
        arguments=(CHECKPOINT, *HEALTH, *S3),
        run=lambda options: asdict(status(checkpoint_of(options), limits=_limits(options))),
        lines=output.status_lines,
        exit_code=lambda options, fields: _health_code(options, [fields]),
    ),
    Command(
        name="jobs",
        help="list the jobs whose checkpoints are under some folders, damaged ones with the reason",
        arguments=(
            option("roots", "ROOT", "a folder or s3://bucket/prefix that holds checkpoints", nargs="+"),
            option("--depth", "N", f"how many folders deep to look ({DEPTH})", type=int, default=DEPTH),
            *HEALTH,
            *S3,
        ),
        run=_jobs,
        lines=output.jobs_lines,
        exit_code=lambda options, fields: _health_code(options, fields["jobs"]),
    ),
    Command(
        name="drain",
        help="drain the job that runs on a checkpoint: it commits one more batch and ends; waits for that",
        arguments=(CHECKPOINT, timeout("the job"), *S3),
        run=lambda options: drain(checkpoint_of(options), timeout=options.timeout),
        lines=output.drain_lines,
    ),
)


# Savepoints


def _savepoint(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.savepoint.create import savepoint, short_retention

    s3 = s3_options(options)
    made = savepoint(
        options.checkpoint,
        options.name,
        to=options.to,
        s3=s3,
        progress=output.progress_line(),
        timeout=options.timeout,
        decode=not options.no_decode,
    )
    warnings = short_retention(made.manifest, s3)
    for warning in warnings:
        sys.stderr.write(f"panekeeper savepoint: warning: {warning}\n")
    return {
        **_summary(made.manifest),
        "location": made.location,
        "bytes_sent": made.bytes_sent,
        "bytes_reused": made.bytes_reused,
        "values": made.values,
        "warnings": warnings,
    }


def _summary(manifest: Manifest) -> dict[str, Any]:
    found = {name: getattr(manifest, name) for name in ("name", "job", "batch", "unfinished")}
    tables = {role: table.version for role, table in manifest.tables.items()}
    made_at = manifest.made_at.isoformat(timespec="seconds")
    return {**found, "made_at": made_at, "files": len(manifest.files), "bytes": manifest.size, "tables": tables}


def _savepoints(options: Namespace) -> dict[str, Any]:
    found = catalog.savepoints(options.location, s3=s3_options(options))
    if not found:
        raise catalog.no_savepoints(options.location)
    return {
        "savepoints": [
            {"name": name, "problem": str(one)} if isinstance(one, SavepointError) else _summary(one)
            for name, one in found.items()
        ]
    }


def _show(options: Namespace) -> dict[str, Any]:
    found = catalog.show(options.location, options.name, s3=s3_options(options))
    return {**asdict(found), "made_at": found.made_at.isoformat(timespec="seconds"), "bytes": found.size}


def _prune(options: Namespace) -> dict[str, Any]:
    s3 = s3_options(options)
    if is_checkpoint(options.location, s3):
        return asdict(prune_epochs(options.location, keep=options.keep or 0, s3=s3))
    if options.keep is None:
        raise SavepointRefused("--keep is not given; say how many savepoints of each job to keep, as --keep 3")
    return asdict(catalog.prune(options.location, keep=options.keep, s3=s3))


SAVEPOINTS = (
    Command(
        name="savepoint",
        help="copy a job's checkpoint, with the versions of its tables, and verify the copy",
        arguments=(
            CHECKPOINT,
            NAME,
            option("--to", "LOCATION", "a folder or s3://bucket/prefix", required=True),
            timeout("a batch of a running job"),
            flag("--no-decode", "do not start Spark to decode each stored value of the copy"),
            *S3,
        ),
        run=_savepoint,
        lines=output.savepoint_lines,
    ),
    Command(
        name="savepoints",
        help="list the savepoints of a location",
        arguments=(LOCATION, *S3),
        run=_savepoints,
        lines=output.savepoints_lines,
    ),
    Command(
        name="show",
        help="show one savepoint",
        arguments=(LOCATION, NAME, *S3),
        run=_show,
        lines=output.show_lines,
    ),
    Command(
        name="verify",
        help="read all files of a savepoint back and compare their checksums",
        arguments=(
            LOCATION,
            NAME,
            flag("--deep", "also decode each stored value, with Spark"),
            *S3,
        ),
        run=lambda options: asdict(
            catalog.verify(options.location, options.name, deep=options.deep, s3=s3_options(options))
        ),
        lines=output.verify_lines,
    ),
    Command(
        name="prune",
        help="remove all but the newest savepoints of each job, or former epochs of a checkpoint",
        arguments=(
            option("location", "LOCATION|CHECKPOINT", "where the savepoints are, or a checkpoint"),
            option(
                "--keep",
                "N",
                "how many savepoints of each job to keep; of a checkpoint, how many former epochs (0)",
                type=int,
            ),
            *S3,
        ),
        run=_prune,
        lines=output.prune_lines,
    ),
)


# Back to a savepoint


def _deleted_messages(options: Namespace, offsets: kafka.SourceOffsets) -> list[dict[str, Any]] | None:
    """Return what the broker no longer has; None if none is given."""
    if options.bootstrap_servers is None:
        return None
    config = {} if options.kafka_config is None else kafka.read_config(Path(options.kafka_config))
    return [asdict(one) for one in kafka.deleted_messages(offsets, options.bootstrap_servers, config=config)]


def _restore(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.restore.restore import restore

    s3 = s3_options(options)
    found = kafka.savepoint_offsets(options.location, options.name, s3=s3) if options.bootstrap_servers else None
    if found is not None and (deleted := _deleted_messages(options, found)):
        raise SavepointRefused(
            f"the restored job could not continue in Kafka: {'; '.join(output.deleted_lines(deleted))}; take a newer "
            "savepoint, or restore without --bootstrap-servers and start the job with failOnDataLoss=false"
        )
    preview = restore(
        options.location,
        options.name,
        checkpoint=options.checkpoint,
        tables=options.table,
        begin_anew=options.begin_anew,
        dry_run=options.dry_run,
        s3=s3,
        progress=output.progress_line(),
    )
    return {**asdict(preview), "dry_run": options.dry_run}


def _clone(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.restore.clone import clone

    s3, progress = s3_options(options), output.progress_line()
    return asdict(clone(options.location, options.name, into=options.into, deep=options.deep, s3=s3, progress=progress))


def _offsets(options: Namespace) -> dict[str, Any]:
    s3 = s3_options(options)
    if options.name is None:
        found = kafka.checkpoint_offsets(options.place, s3=s3)
    else:
        found = kafka.savepoint_offsets(options.place, options.name, s3=s3)
    sources = [{"source": number, "starting_offsets": offsets} for number, offsets in sorted(found.sources.items())]
    return {"batch": found.batch, "sources": sources, "deleted": _deleted_messages(options, found)}


RESTORES = (
    Command(
        name="restore",
        help="take a stopped job and its tables back to a savepoint; completes a restore that was interrupted",
        arguments=(
            LOCATION,
            NAME,
            option("--checkpoint", "FOLDER", "restore to this folder, local or on S3; not given: to where it was"),
            repeated(
                "--table", "PATH", "a Delta table that may go back, if the checkpoint does not name it as its own"
            ),
            repeated(
                "--begin-anew",
                "ROLE",
                "let a table begin empty that is gone and cannot be made again: log, quarantine, at times view",
            ),
            flag("--dry-run", "only print what would change, path by path; what the restore refuses, this does, too"),
            *S3,
            *BROKER,
        ),
        run=_restore,
        lines=output.restore_lines,
    ),
    Command(
        name="clone",
        help="create a new job from a savepoint: its checkpoint and copies of its tables in a new folder",
        arguments=(
            LOCATION,
            NAME,
            option("--into", "FOLDER", "a new folder, local or on S3", required=True),
            flag("--deep", "copy the rows of the tables, not only their logs"),
            *S3,
        ),
        run=_clone,
        lines=output.clone_lines,
    ),
    Command(
        name="offsets",
        help="print where a checkpoint or a savepoint continues in Kafka, as `startingOffsets`",
        arguments=(
            option("place", "CHECKPOINT|LOCATION", "a checkpoint, or where savepoints are"),
            option("name", "NAME", "the name of a savepoint in LOCATION", nargs="?"),
            *S3,
            *BROKER,
        ),
        run=_offsets,
        lines=output.offsets_lines,
        exit_code=lambda _, fields: done_if(not fields["deleted"]),
    ),
)


# What is open, and why


def _looked_at(options: Namespace) -> dict[str, Any]:
    """Return which state is looked at, as the functions of the inspector take it."""
    key = dict(options.key) or None
    return {
        "window": options.window,
        "key": key,
        "batch": options.batch,
        "savepoint": options.savepoint,
        "s3": s3_options(options),
    }


def _panes(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.inspector.panes import in_states, open_panes
    from panekeeper.recovery.rows_as_json import first_rows

    found, number = open_panes(options.checkpoint, **_looked_at(options))
    states = [state for state in ("open", "late", "overdue") if getattr(options, state)]
    if not states:
        return {**first_rows(found, options.limit), "open_panes": number}
    shown = first_rows(in_states(found, states), options.limit)
    return {**shown, "open_panes": number, "states": states}


def _partitions(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.inspector.panes import live_partitions
    from panekeeper.recovery.rows_as_json import first_rows

    return first_rows(live_partitions(options.checkpoint, **_looked_at(options)), options.limit)


def _why(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.inspector.why import read_row
    from panekeeper.diagnostics.replay.moved_by import why
    from panekeeper.framework.engine.session.session import SHORT_LIVED

    if options.job is None:  # a job file may start a session for more than an answer
        os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    row = None if options.row is None else read_row(options.row)
    found = why(options.checkpoint, pane=options.pane, row=row, job=options.job, **_looked_at(options))
    return {"verdict": found.verdict.value, "batch": found.batch, "reasons": list(found.reasons)}


def _diff(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.inspector.diff import changes, windows_of
    from panekeeper.recovery.rows_as_json import first_rows

    s3, place = s3_options(options), options.place
    numbers = [options.before, options.after]
    if is_checkpoint(place, s3):
        wrong = [one for one in numbers if not one.isdecimal()]
        if wrong:
            raise DeclarationError(f"{wrong[0]!r} is no number of a batch; of a checkpoint, give two of those")
        numbers = [*map(int, numbers)]
    at: dict[str, Any] = {"key": dict(options.key) or None, "s3": s3}
    found = first_rows(changes(place, *numbers, window=options.window, **at), options.limit)
    found["results"] = []
    windows: list[Any] = [options.window] if options.window else windows_of(place, numbers[1], s3=s3)
    for one in windows or [None]:
        try:
            changed = first_rows(changes(place, *numbers, results=True, window=one, **at), options.limit)
        except PanekeeperError as error:  # what is open is told in any case
            changed = {"rows": [], "more": False, "why_not": str(error)}
        found["results"].append({"window": one, **changed})
    return found


def _report(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.report.report import report

    open_panes = not options.no_open
    given = {"batches": options.batches, "open_panes": open_panes, "drill": options.drill, "s3": s3_options(options)}
    made = report(options.checkpoint, **given)
    name = re.sub(r"[^\w.-]", "-", made.job or "job")
    file = options.output or f"report-{name}.html"
    made.write(file)
    found = {"job": made.job, "file": file, "bytes": len(made.html.encode()), "batches": made.batches}
    return {**found, "panes": made.panes, "notes": [*made.notes]}


LOOKED_AT = option(
    "checkpoint", "CHECKPOINT", "the folder or URL that start(checkpoint=...) got; with --savepoint, their location"
)
WINDOW = option("--window", "NAME", "one of several windows of the job")
KEY = repeated("--key", "COLUMN=VALUE", "only partitions with this value in a partition column", type=name_and_value)
STATE_OF = (
    KEY,
    WINDOW,
    option("--batch", "N", "as of an earlier batch, as far as Spark keeps its state", type=int),
    option("--savepoint", "NAME", "the state in a savepoint"),
    *S3,
)
LIMIT = option("--limit", "N", "how many rows to print at most (100)", type=int, default=100)

INSPECTOR = (
    Command(
        name="panes",
        help="show the open panes, or sessions, of a job that runs or not: what each has, and what it waits for",
        arguments=(
            LOOKED_AT,
            flag("--open", "only those that wait for their end"),
            flag("--late", "only those that have fired as complete and take late rows"),
            flag("--overdue", "only those that fire at the next greater watermark"),
            LIMIT,
            *STATE_OF,
        ),
        run=_panes,
        lines=output.panes_lines,
    ),
    Command(
        name="partitions",
        help="show the live partitions of a job that runs or not: what each has, and when it fires next",
        arguments=(LOOKED_AT, LIMIT, *STATE_OF),
        run=_partitions,
        lines=output.partitions_lines,
    ),
    Command(
        name="why",
        help="say why a pane of a partition has fired, has not fired yet, or is not there",
        arguments=(
            LOOKED_AT,
            option(
                "--pane",
                "TIME",
                "when the pane, or session, starts, in UTC: 2013-03-08T10:00, START/END, or 10:00 for the only one",
            ),
            option(
                "--job", "JOB.PY[:NAME]", "the file that declares the job: names the row that moved the watermark, too"
            ),
            option("--row", "JSON", "a row, in place of --key and --pane: which panes it is of, or why it was dropped"),
            *STATE_OF,
        ),
        run=_why,
        lines=output.why_lines,
    ),
    Command(
        name="diff",
        help="show which panes or partitions, and results, came, went or changed between two batches or two savepoints",
        arguments=(
            option("place", "CHECKPOINT|LOCATION", "a checkpoint, or where savepoints are"),
            option("before", "BEFORE", "the number of a batch, or the name of a savepoint"),
            option("after", "AFTER", "the same"),
            LIMIT,
            KEY,
            WINDOW,
            *S3,
        ),
        run=_diff,
        lines=output.diff_lines,
    ),
    Command(
        name="report",
        help="write what a job that runs or not has done to a page of HTML: panes, watermark, rows, times, downtimes",
        arguments=(
            CHECKPOINT,
            Argument("-o", "--output", metavar="FILE", help="the page (report-JOB.html)"),
            option("--batches", "N", "show the last N batches (120)", type=int, default=120),
            flag("--no-open", "leave out the panes that have not fired yet"),
            option("--drill", "FILE", "show the last drill, too: what `panekeeper drill --json` has printed"),
            *S3,
        ),
        run=_report,
        lines=output.report_lines,
    ),
)


# A batch, run again


def _job_file(options: Namespace) -> str:
    """Return the file that declares the job; raises `DeclarationError` if none is named."""
    if options.job is None:
        raise DeclarationError(
            "no job is named: the checkpoint has no code of it; name the file that declares it, as for plan: --job FILE"
        )
    return str(options.job)


def _replay(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.replay.replay import replay

    key = dict(options.key) or None
    file, s3 = _job_file(options), s3_options(options)
    found = replay(options.checkpoint, options.batch, job=file, key=key, s3=s3)
    shown = ("job", "batch", "compared", "not_compared", "differences", "counts")
    steps = [str(one) for one in found.steps()] if key else []
    return {**{name: getattr(found, name) for name in shown}, "equal": found.is_equal, "key": key, "steps": steps}


def _capsule(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.replay.capsule import capsule

    file, s3 = _job_file(options), s3_options(options)
    made = capsule(options.checkpoint, options.batch, dict(options.key), job=file, mask=options.mask, s3=s3)
    if made.has_others:
        sys.stderr.write("panekeeper capsule: it has all partitions of the key group: the results need them\n")
    return made.to_json()


BATCH = option("--batch", "N", "the number of the batch", required=True, type=int)
JOB = option("--job", "JOB.PY[:NAME]", "the file that declares the job, as for plan")

REPLAYS = (
    Command(
        name="replay",
        help="run a batch of a job again, in memory, and say whether the same comes out; exit code 0 only if it does",
        arguments=(
            CHECKPOINT,
            BATCH,
            JOB,
            repeated(
                "--key",
                "COLUMN=VALUE",
                "only this partition, by a value for each partition column: prints each step of the batch",
                type=name_and_value,
            ),
            *S3,
        ),
        run=_replay,
        lines=output.replay_lines,
        exit_code=lambda _, fields: done_if(fields["equal"]),
    ),
    Command(
        name="capsule",
        help="print one partition in one batch as a test case that runs without Spark and without the source",
        arguments=(
            CHECKPOINT,
            BATCH,
            JOB,
            repeated(
                "--key", "COLUMN=VALUE", "which partition, by a value for each partition column", type=name_and_value
            ),
            repeated("--mask", "COLUMN", "replace the texts of a column by a hash, the same in all capsules of a job"),
            *S3,
        ),
        run=_capsule,
        lines=lambda fields: json.dumps(fields, indent=1),
    ),
)


# Upkeep, changes and checks


def _maintain(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upkeep.maintain import maintain

    done = maintain(
        options.checkpoint,
        savepoints=options.savepoints,
        tables=options.table,
        optimize=not options.no_optimize,
        vacuum=not options.no_vacuum,
        retain=timedelta(seconds=options.retain),
        allow_short_retention=options.allow_short_retention,
        recorded=not options.no_recorded,
        dry_run=options.dry_run,
        s3=s3_options(options),
    )
    return {**asdict(done), "complete": done.is_complete}


def _plan(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upgrade.check import check_upgrade
    from panekeeper.recovery.upgrade.job_file import load_job

    job, s3 = load_job(options.job), s3_options(options)
    found = check_upgrade(options.location, options.name, job, s3=s3).fields()
    return {**found, "tried": _tried(options, job)} if getattr(options, "try") else found


def _tried(options: Namespace, job: DeltaJob) -> dict[str, Any]:
    """Return what `try` says of a savepoint; or why it could not be tried, as where the job has another name."""
    from panekeeper.diagnostics.what_if.trial import try_job

    try:
        found = try_job(options.location, job, batches=options.batches, savepoint=options.name, s3=s3_options(options))
    except PanekeeperError as error:
        return {"problem": str(error).splitlines()[0]}
    return found.fields()


def _try(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.what_if.trial import try_job
    from panekeeper.recovery.upgrade.job_file import load_job

    found = try_job(
        options.checkpoint,
        load_job(options.job),
        watermark=options.watermark,
        discard_age=options.discard_age,
        batches=options.batches,
        savepoint=options.savepoint,
        limit=options.limit,
        scratch=options.spark,
        s3=s3_options(options),
    )
    return found.fields()


def _advise(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.what_if.advise import advise
    from panekeeper.recovery.upgrade.job_file import load_job

    s3, job = s3_options(options), load_job(options.job)
    return advise(options.checkpoint, job, batches=options.batches, savepoint=options.savepoint, s3=s3).fields()


def _settle(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.settle.panes import Outcome
    from panekeeper.recovery.settle.settle import settle
    from panekeeper.recovery.upgrade.job_file import load_job

    done = settle(
        options.checkpoint,
        load_job(options.job),
        since=options.since,
        reason=options.reason,
        window=options.window,
        dry_run=options.dry_run,
        s3=s3_options(options),
    )
    fields = done.fields()
    changed = [one for one in fields["panes"] if one["outcome"] != Outcome.UNCHANGED.value]
    return {**fields, "panes": changed[: options.limit], "more": len(changed) > options.limit}


def _rescale(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.upgrade.rescale import rescale

    s3, progress = s3_options(options), output.progress_line()
    return asdict(rescale(options.checkpoint, options.partitions, to=options.to, s3=s3, progress=progress))


def _drill(options: Namespace) -> dict[str, Any]:
    from panekeeper.recovery.drill import names, run_drills

    def progress(result: Result) -> None:
        sys.stderr.write(f"{result.outcome:<8} {result.drill} ({duration_text(result.seconds)})\n")
        sys.stderr.flush()

    if options.list:
        return {"drills": names(options.only)}
    if options.job is None:
        raise DeclarationError("no job is named to drill; name the file that declares it: --job FILE")
    return run_drills(options.job, options.only, progress).fields()


def _doctor(options: Namespace) -> dict[str, Any]:
    from panekeeper.diagnostics.doctor import examine
    from panekeeper.framework.engine.session.s3_settings import is_s3
    from panekeeper.framework.engine.session.session import session

    s3 = options.s3 or any(map(is_s3, options.places))
    spark = session("panekeeper-doctor", s3=s3, kafka=options.kafka, **dict(options.conf))
    try:
        found = examine(spark, options.places)
    finally:
        spark.stop()
    return {**asdict(found), "can_run": found.can_run}


JOB_FILE = option("--job", "JOB.PY[:NAME]", "the file that declares the job, as for plan", required=True)
TRIED_BATCHES = option(
    "--batches", "N", "only the last N batches, as far as they are kept (100)", type=int, default=100
)
TRIED_SAVEPOINT = option("--savepoint", "NAME", "the batches of a savepoint")

OTHERS = (
    Command(
        name="maintain",
        help="compact and vacuum the tables of a job, beside it or while it is stopped, for all but its savepoints",
        arguments=(
            CHECKPOINT,
            flag("--dry-run", "only print what would be done"),
            flag("--no-optimize", "do not replace small files by larger ones"),
            flag("--no-vacuum", "do not remove the files that neither a recent version nor a savepoint needs"),
            seconds(
                "--retain",
                "how long files of earlier versions are kept (7 days); a longer retention of a table itself counts",
                default="7 days",
            ),
            flag(
                "--allow-short-retention",
                "permit --retain of less than 7 days: readers may find files gone, and no job may run",
            ),
            repeated(
                "--savepoints",
                "LOCATION",
                "where savepoints are whose table versions are kept; the checkpoint knows where the newest one is",
            ),
            flag(
                "--no-recorded", "state that the savepoints in the location that the checkpoint knows are gone for good"
            ),
            repeated("--table", "ROLE|PATH", "only this table of the job, as log or view"),
            *S3,
        ),
        run=_maintain,
        lines=output.maintain_lines,
        exit_code=lambda _, fields: done_if(fields["complete"]),
    ),
    Command(
        name="plan",
        help="show what a job as a file declares it has changed since a savepoint, or in a checkpoint, and whether it "
        "can resume; exit code 0 only if it can",
        arguments=(
            option("location", "LOCATION|CHECKPOINT", "where the savepoints are; without NAME, a checkpoint"),
            option("name", "NAME", "the name of the savepoint", nargs="?"),
            option(
                "job",
                "JOB.PY[:NAME]",
                "the job file; NAME (job) is a function of a Spark session that returns the declared job, or that job",
            ),
            flag("--try", "also run the job over the last batches of the savepoint, in memory, and show what differs"),
            TRIED_BATCHES,
            *S3,
        ),
        run=_plan,
        lines=output.plan_lines,
        exit_code=lambda _, fields: done_if(fields["verdict"] == Compatibility.COMPATIBLE.value),
    ),
    Command(
        name="settle",
        help="put rows that came too late through their windows again, and correct the results of closed panes",
        arguments=(
            CHECKPOINT,
            option("--job", "JOB.PY[:NAME]", "the file that declares the job, as for plan", required=True),
            option("--since", "BATCH|TIME", "only rows that were quarantined in this batch or at this time, or later"),
            option("--reason", "LATE|USER_ERROR", "only rows with this reason"),
            option("--window", "NAME", "of several windows only this one"),
            flag("--dry-run", "only print what each pane has before and after, and write nothing"),
            LIMIT,
            *S3,
        ),
        run=_settle,
        lines=output.settle_lines,
        exit_code=lambda _, fields: done_if(not fields["counts"]["no rows"]),
    ),
    Command(
        name="try",
        help="run a declaration over what a job has read, beside what it has written; exit code 0 only if "
        "no result differs",
        arguments=(
            LOOKED_AT,
            JOB_FILE,
            option("--watermark", "TIME", "another watermark delay than the job file declares, as '5 minutes'"),
            option("--discard-age", "TIME", "another discard age, as '1 hour'"),
            TRIED_BATCHES,
            TRIED_SAVEPOINT,
            option("--limit", "N", "how many results that differ to print at most (10)", type=int, default=10),
            option(
                "--spark", "FOLDER", "run on Spark, not in memory; rows and results are in this new folder meanwhile"
            ),
            *S3,
        ),
        run=_try,
        lines=output.try_lines,
        exit_code=lambda _, fields: done_if(fields["is_same"]),
    ),
    Command(
        name="advise",
        help="show which watermark delay has 99, 99.9 and 99.99 %% of a job's rows in time, and what each costs",
        arguments=(LOOKED_AT, JOB_FILE, TRIED_BATCHES, TRIED_SAVEPOINT, *S3),
        run=_advise,
        lines=output.advise_lines,
    ),
    Command(
        name="rescale",
        help="change the number of shuffle partitions of a stopped job, after a savepoint of it",
        arguments=(
            CHECKPOINT,
            option("--partitions", "N", "the new number of shuffle partitions", required=True, type=int),
            option("--to", "LOCATION", "where to make the savepoint of the job before the change", required=True),
            *S3,
        ),
        run=_rescale,
        lines=output.rescale_lines,
    ),
    Command(
        name="drill",
        help="break a job on purpose, start it again, and compare its tables with an undisturbed run",
        arguments=(
            option("--job", "FILE", "the file that declares the job, as for plan"),
            option("--only", "NAME", "only the drills whose name contains this"),
            flag("--list", "name the drills and run none"),
        ),
        run=_drill,
        lines=output.drill_lines,
        exit_code=lambda _, found: done_if("drills" in found or found["passed"]),
    ),
    Command(
        name="doctor",
        help="check whether a Spark cluster can run jobs, and say what is missing where",
        arguments=(
            option("places", "PLACE", "where checkpoints or tables are to be: a folder or URL, tried out", nargs="*"),
            repeated(
                "--conf",
                "NAME=VALUE",
                "a setting of Spark, such as spark.master=spark://host:7077",
                type=name_and_value,
            ),
            flag("--s3", "with access to S3, as session(s3=True)"),
            flag("--kafka", "with Kafka, as session(kafka=True)"),
        ),
        run=_doctor,
        lines=output.doctor_lines,
        exit_code=lambda _, fields: done_if(fields["can_run"]),
    ),
)

COMMANDS = {one.name: one for one in (*JOBS, *INSPECTOR, *REPLAYS, *SAVEPOINTS, *RESTORES, *OTHERS)}
"""By name, in the order in which `--help` lists them."""
