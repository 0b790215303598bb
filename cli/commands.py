"""The commands of `panekeeper`: their arguments, and what each of them calls.

A command calls a function of Python's interface with the arguments that are named as its parameters (`command.call`).
What it needs of Spark, and much else, is imported then: `status` answers at once, and without pyspark.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panekeeper
from panekeeper.cli.command import (
    BATCH,
    BROKER,
    CHECKPOINT,
    HEALTH,
    JOB,
    JOB_FILE,
    KEY,
    LAST_BATCHES,
    LIMIT,
    LOCATION,
    LOOKED_AT,
    NAME,
    NULL,
    SAVED_BATCHES,
    STATE_OF,
    WINDOW,
    Argument,
    Command,
    ExitCode,
    call,
    flag,
    key,
    number,
    option,
    pairs,
    repeated,
    seconds,
    timeout,
    without,
)
from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.recovery import kafka
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.drain import checkpoint_folder, drain
from panekeeper.recovery.jobs.fleet import DEPTH, Fleet, list_jobs
from panekeeper.recovery.jobs.status import Health, JobStatus, Limits, status
from panekeeper.recovery.restore.prune import is_checkpoint, prune_epochs
from panekeeper.recovery.savepoint import catalog
from panekeeper.state.compatibility import Compatibility
from panekeeper.state.duration_text import duration_text

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.recovery.drill import DrillResult


def done_if(good: object) -> ExitCode:
    """Return DONE if the result is the requested one, FAILED if not."""
    return ExitCode.DONE if good else ExitCode.FAILED


def loaded_job(options: Namespace) -> DeltaJob:
    """Return the job that the job file declares."""
    from panekeeper.recovery.upgrade.job_file import load_job

    return load_job(options.job)


# Jobs that run or have ended


def _limits(options: Namespace) -> Limits:
    return Limits(lag=options.max_lag, age=options.max_age, rows=options.max_rows, errors=options.max_errors)


def _health_code(options: Namespace, jobs: Iterable[JobStatus]) -> ExitCode:
    """Return DONE, or with --check the code of the worst job."""
    codes = {
        Health.HEALTHY: ExitCode.DONE,
        Health.STOPPED: ExitCode.STOPPED,
        Health.BEHIND: ExitCode.BEHIND,
        Health.DOWN: ExitCode.DOWN,
        Health.UNUSABLE: ExitCode.UNUSABLE,
    }
    worst = max((codes[Health(job.health)] for job in jobs), default=ExitCode.DONE)
    return worst if options.check else ExitCode.DONE


JOBS = (
    Command(
        name="status",
        help="show whether a job runs on a checkpoint, how far it is, and whether it can resume from there",
        arguments=(CHECKPOINT, *HEALTH),
        run=lambda options: status(checkpoint_folder(options.checkpoint, options.s3), limits=_limits(options)),
        exit_code=lambda options, job: _health_code(options, [job]),
    ),
    Command(
        name="jobs",
        help="list the jobs whose checkpoints are under some folders, damaged ones with the reason",
        arguments=(
            option("roots", "ROOT", "a folder or s3://bucket/prefix that holds checkpoints", nargs="+"),
            number("--depth", f"how many folders deep to look ({DEPTH})", default=DEPTH),
            *HEALTH,
        ),
        run=lambda options: Fleet(jobs=tuple(call(list_jobs, options, limits=_limits(options)))),
        exit_code=lambda options, fleet: _health_code(options, fleet.jobs),
    ),
    Command(
        name="drain",
        help="drain the job that runs on a checkpoint: it commits one more batch and ends; waits for that",
        arguments=(CHECKPOINT, timeout("the job")),
        run=lambda options: call(drain, options, root=checkpoint_folder(options.checkpoint, options.s3)),
    ),
)


# What is open, and why


def _panes(options: Namespace) -> Result:
    from panekeeper.diagnostics.inspector.opened import opened
    from panekeeper.diagnostics.inspector.panes import in_states, open_panes
    from panekeeper.diagnostics.inspector.shown import OpenPanes
    from panekeeper.recovery.rows_as_json import first_rows

    states = tuple(state for state in ("open", "late", "overdue") if getattr(options, state))
    with call(opened, options, place=options.checkpoint) as state:
        panes, count = open_panes(state, options.key)
        shown = first_rows(in_states(panes, states) if states else panes, options.limit)
    return OpenPanes(**shown, open_panes=count, states=states)


def _partitions(options: Namespace) -> Result:
    from panekeeper.diagnostics.inspector.opened import opened
    from panekeeper.diagnostics.inspector.panes import live_partitions
    from panekeeper.recovery.rows_as_json import FirstRows, first_rows

    with call(opened, options, place=options.checkpoint) as state:
        shown = first_rows(live_partitions(state, options.key), options.limit)
    return FirstRows(**shown, if_none="no live partitions")


def _why(options: Namespace) -> Result:
    from panekeeper.diagnostics.inspector.why import read_row
    from panekeeper.framework.engine.session.session import SHORT_LIVED

    if options.job is None:  # a job file may start a session for more than an answer
        os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    return call(panekeeper.why, options, row=None if options.row is None else read_row(options.row))


def _diff(options: Namespace) -> Result:
    from panekeeper.diagnostics.inspector.diff import changes, end_of_panes, windows_of
    from panekeeper.diagnostics.inspector.shown import ChangedResults, Changes
    from panekeeper.recovery.rows_as_json import first_rows

    between: dict[str, Any] = {"before": options.before, "after": options.after}
    if is_checkpoint(options.place, options.s3):
        if wrong := [name for name in between.values() if not name.isdecimal()]:
            raise DeclarationError(f"{wrong[0]!r} is no number of a batch; of a checkpoint, give two of those")
        between = {name: int(number) for name, number in between.items()}

    def results_of(window: str | None) -> ChangedResults:
        try:
            rows = call(changes, options, results=True, **between | {"window": window})
            return ChangedResults(window=window, **first_rows(rows, options.limit))
        except PanekeeperError as error:  # what is open is told in any case
            return ChangedResults(window=window, rows=[], more=False, why_not=str(error))

    opened = first_rows(call(changes, options, **between), options.limit)
    windows = [options.window] if options.window else windows_of(options.place, between["after"], s3=options.s3)
    end = call(end_of_panes, options, **between)
    return Changes(**opened, end=end, results=tuple(map(results_of, windows or [None])))


def _report(options: Namespace) -> Result:
    made = call(panekeeper.report, options)
    name = re.sub(r"[^\w.-]", "-", made.job or "job")
    file = options.output or f"report-{name}.html"
    made.write(file)
    return replace(made, file=file)


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
    ),
    Command(
        name="partitions",
        help="show the live partitions of a job that runs or not: what each has, and when it fires next",
        arguments=(LOOKED_AT, LIMIT, *STATE_OF),
        run=_partitions,
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
            NULL,
            WINDOW,
        ),
        run=_diff,
    ),
    Command(
        name="report",
        help="write what a job that runs or not has done to a page of HTML: panes, watermark, rows, times, downtimes",
        arguments=(
            CHECKPOINT,
            Argument("-o", "--output", metavar="FILE", help="the page (report-JOB.html)"),
            number("--batches", "show the last N batches (120)", default=120),
            without("--no-open", "open_panes", "leave out the panes that have not fired yet"),
            option("--drill", "FILE", "show the last drill, too: what `panekeeper drill --json` has printed"),
        ),
        run=_report,
    ),
)


# A batch, run again


def _require_job(options: Namespace) -> None:
    if options.job is None:
        raise DeclarationError(
            "no job is named: the checkpoint has no code of it; name the file that declares it, as for plan: --job FILE"
        )


def _replay(options: Namespace) -> Result:
    _require_job(options)
    return call(panekeeper.replay, options)


def _capsule(options: Namespace) -> Result:
    _require_job(options)
    made = call(panekeeper.capsule, options)
    if made.has_others:
        sys.stderr.write("panekeeper capsule: it has all partitions of the key group: the results need them\n")
    return made


REPLAYS = (
    Command(
        name="replay",
        help="run a batch of a job again, in memory, and say whether the same comes out; exit code 0 only if it does",
        arguments=(
            CHECKPOINT,
            BATCH,
            JOB,
            key("only this partition, by a value for each partition column: prints each step of the batch"),
            NULL,
        ),
        run=_replay,
        exit_code=lambda _, replay: done_if(replay.is_equal),
    ),
    Command(
        name="capsule",
        help="print one partition in one batch as a test case that runs without Spark and without the source",
        arguments=(
            CHECKPOINT,
            BATCH,
            JOB,
            key("which partition, by a value for each partition column", default={}),
            NULL,
            repeated("--mask", "COLUMN", "replace the texts of a column by a hash, the same in all capsules of a job"),
        ),
        run=_capsule,
    ),
)


# Savepoints


def _savepoint(options: Namespace) -> Result:
    from panekeeper.recovery.savepoint.create import short_retention

    made = call(panekeeper.savepoint, options)
    made = replace(made, warnings=tuple(short_retention(made.manifest, options.s3)))
    for warning in made.warnings:
        sys.stderr.write(f"panekeeper savepoint: warning: {warning}\n")
    return made


def _savepoints(options: Namespace) -> Result:
    savepoints = call(catalog.savepoints, options)
    if not savepoints:
        raise catalog.no_savepoints(options.location)
    return catalog.SavepointList(savepoints=savepoints)


def _prune(options: Namespace) -> Result:
    if is_checkpoint(options.location, options.s3):
        return prune_epochs(options.location, keep=options.keep or 0, s3=options.s3)
    if options.keep is None:
        raise SavepointRefused("--keep is not given; say how many savepoints of each job to keep, as --keep 3")
    return call(catalog.prune, options)


SAVEPOINTS = (
    Command(
        name="savepoint",
        help="copy a job's checkpoint, with the versions of its tables, and verify the copy",
        arguments=(
            CHECKPOINT,
            NAME,
            option("--to", "LOCATION", "a folder or s3://bucket/prefix", required=True),
            timeout("a batch of a running job"),
            without("--no-decode", "decode", "do not start Spark to decode each stored value of the copy"),
        ),
        run=_savepoint,
    ),
    Command(name="savepoints", help="list the savepoints of a location", arguments=(LOCATION,), run=_savepoints),
    Command(
        name="show",
        help="show one savepoint",
        arguments=(LOCATION, NAME),
        run=lambda options: call(catalog.show, options),
    ),
    Command(
        name="verify",
        help="read all files of a savepoint back and compare their checksums",
        arguments=(LOCATION, NAME, flag("--deep", "also decode each stored value, with Spark")),
        run=lambda options: call(catalog.verify, options),
    ),
    Command(
        name="prune",
        help="remove all but the newest savepoints of each job, or former epochs of a checkpoint",
        arguments=(
            option("location", "LOCATION|CHECKPOINT", "where the savepoints are, or a checkpoint"),
            number("--keep", "how many savepoints of each job to keep; of a checkpoint, how many former epochs (0)"),
        ),
        run=_prune,
    ),
)


# Back to a savepoint


def _with_deleted(options: Namespace, offsets: kafka.SourceOffsets) -> kafka.SourceOffsets:
    """Return offsets with what of them the broker no longer has, if one is given."""
    if options.bootstrap_servers is None:
        return offsets
    config = {} if options.kafka_config is None else kafka.read_config(Path(options.kafka_config))
    return replace(offsets, deleted=tuple(kafka.deleted_messages(offsets, options.bootstrap_servers, config=config)))


def _restore(options: Namespace) -> Result:
    if options.bootstrap_servers:
        offsets = _with_deleted(options, call(kafka.savepoint_offsets, options))
        if offsets.deleted:
            raise SavepointRefused(
                f"the restored job could not continue in Kafka: {'; '.join(map(str, offsets.deleted))}; take a newer "
                "savepoint, or restore without --bootstrap-servers and start the job with failOnDataLoss=false"
            )
    return call(panekeeper.restore, options)


def _offsets(options: Namespace) -> Result:
    if options.name is None:
        offsets = kafka.checkpoint_offsets(options.place, s3=options.s3)
    else:
        offsets = kafka.savepoint_offsets(options.place, options.name, s3=options.s3)
    return _with_deleted(options, offsets)


RESTORES = (
    Command(
        name="restore",
        help="take a stopped job and its tables back to a savepoint; completes a restore that was interrupted",
        arguments=(
            LOCATION,
            NAME,
            option("--checkpoint", "FOLDER", "restore to this folder, local or on S3; not given: to where it was"),
            repeated(
                "--table",
                "PATH",
                "a Delta table that may go back, if the checkpoint does not name it as its own",
                dest="tables",
            ),
            repeated(
                "--begin-anew",
                "ROLE",
                "let a table begin empty that is gone and cannot be made again: log, quarantine, at times view",
            ),
            flag("--dry-run", "only print what would change, path by path; what the restore refuses, this does, too"),
            *BROKER,
        ),
        run=_restore,
    ),
    Command(
        name="clone",
        help="create a new job from a savepoint: its checkpoint and copies of its tables in a new folder",
        arguments=(
            LOCATION,
            NAME,
            option("--into", "FOLDER", "a new folder, local or on S3", required=True),
            flag("--deep", "copy the rows of the tables, not only their logs"),
        ),
        run=lambda options: call(panekeeper.clone, options),
    ),
    Command(
        name="offsets",
        help="print where a checkpoint or a savepoint continues in Kafka, as `startingOffsets`",
        arguments=(
            option("place", "CHECKPOINT|LOCATION", "a checkpoint, or where savepoints are"),
            option("name", "NAME", "the name of a savepoint in LOCATION", nargs="?"),
            *BROKER,
        ),
        run=_offsets,
        exit_code=lambda _, offsets: done_if(not offsets.deleted),
    ),
)


# Upkeep, changes and checks


def _plan(options: Namespace) -> Result:
    job = loaded_job(options)
    upgrade_report = call(panekeeper.check_upgrade, options, job=job)
    return replace(upgrade_report, tried=_tried(options, job)) if getattr(options, "try") else upgrade_report


def _tried(options: Namespace, job: DeltaJob) -> Result | str:
    """Return what `try` says of a savepoint; or why it could not be tried, as where the job has another name."""
    try:
        return call(panekeeper.try_job, options, checkpoint=options.location, job=job, savepoint=options.name)
    except PanekeeperError as error:
        return str(error).splitlines()[0]


def _settle(options: Namespace) -> Result:
    return replace(call(panekeeper.settle, options, job=loaded_job(options)), limit=options.limit)


def _drill(options: Namespace) -> Result:
    from panekeeper.recovery.drill import DrillNames, names, run_drills

    def progress(result: DrillResult) -> None:
        sys.stderr.write(f"{result.outcome:<8} {result.drill} ({duration_text(result.seconds)})\n")
        sys.stderr.flush()

    if options.list:
        return DrillNames(drills=names(options.only))
    if options.job is None:
        raise DeclarationError("no job is named to drill; name the file that declares it: --job FILE")
    return run_drills(options.job, options.only, progress)


def _doctor(options: Namespace) -> Result:
    from panekeeper.diagnostics.doctor import examine
    from panekeeper.framework.engine.session.s3_settings import is_s3

    s3 = options.s3 or any(map(is_s3, options.places))
    spark = panekeeper.session("panekeeper-doctor", s3=s3, kafka=options.kafka, **options.conf)
    try:
        return examine(spark, options.places)
    finally:
        spark.stop()


OTHERS = (
    Command(
        name="maintain",
        help="compact and vacuum the tables of a job, beside it or while it is stopped, for all but its savepoints",
        arguments=(
            CHECKPOINT,
            flag("--dry-run", "only print what would be done"),
            without("--no-optimize", "optimize", "do not replace small files by larger ones"),
            without(
                "--no-vacuum",
                "vacuum",
                "do not remove the files that neither a recent version nor a savepoint needs",
            ),
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
            without(
                "--no-recorded",
                "recorded",
                "state that the savepoints in the location that the checkpoint knows are gone for good",
            ),
            repeated("--table", "ROLE|PATH", "only this table of the job, as log or view", dest="tables"),
        ),
        run=lambda options: call(panekeeper.maintain, options),
        exit_code=lambda _, upkeep: done_if(upkeep.is_complete),
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
            LAST_BATCHES,
        ),
        run=_plan,
        exit_code=lambda _, upgrade_report: done_if(upgrade_report.verdict is Compatibility.COMPATIBLE),
    ),
    Command(
        name="settle",
        help="put rows that came too late through their windows again, and correct the results of closed panes",
        arguments=(
            CHECKPOINT,
            JOB_FILE,
            option("--since", "BATCH|TIME", "only rows that were quarantined in this batch or at this time, or later"),
            option("--reason", "LATE|USER_ERROR", "only rows with this reason"),
            option("--window", "NAME", "of several windows only this one"),
            flag("--dry-run", "only print what each pane has before and after, and write nothing"),
            LIMIT,
        ),
        run=_settle,
        exit_code=lambda _, settlement: done_if(settlement.is_complete),
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
            LAST_BATCHES,
            SAVED_BATCHES,
            number("--limit", "how many results that differ to print at most (10)", default=10),
            option(
                "--spark",
                "FOLDER",
                "run on Spark, not in memory; rows and results are in this new folder meanwhile",
                dest="scratch",
            ),
        ),
        run=lambda options: call(panekeeper.try_job, options, job=loaded_job(options)),
        exit_code=lambda _, trial: done_if(trial.is_same),
    ),
    Command(
        name="advise",
        help="show which watermark delay has 99, 99.9 and 99.99 %% of a job's rows in time, and what each costs",
        arguments=(LOOKED_AT, JOB_FILE, LAST_BATCHES, SAVED_BATCHES),
        run=lambda options: call(panekeeper.advise, options, job=loaded_job(options)),
    ),
    Command(
        name="rescale",
        help="change the number of shuffle partitions of a stopped job, after a savepoint of it",
        arguments=(
            CHECKPOINT,
            number("--partitions", "the new number of shuffle partitions", required=True),
            option("--to", "LOCATION", "where to make the savepoint of the job before the change", required=True),
        ),
        run=lambda options: call(panekeeper.rescale, options),
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
        exit_code=lambda _, drills: done_if(drills.passed),
        reaches_s3=False,
    ),
    Command(
        name="doctor",
        help="check whether a Spark cluster can run jobs, and say what is missing where",
        arguments=(
            option("places", "PLACE", "where checkpoints or tables are to be: a folder or URL, tried out", nargs="*"),
            pairs("--conf", "NAME=VALUE", "a setting of Spark, such as spark.master=spark://host:7077", default={}),
            flag("--s3", "with access to S3, as session(s3=True)"),
            flag("--kafka", "with Kafka, as session(kafka=True)"),
        ),
        run=_doctor,
        exit_code=lambda _, examination: done_if(examination.can_run),
        reaches_s3=False,
    ),
)

COMMANDS = {command.name: command for command in (*JOBS, *INSPECTOR, *REPLAYS, *SAVEPOINTS, *RESTORES, *OTHERS)}
"""By name, in the order in which `--help` lists them."""
