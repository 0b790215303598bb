"""Back to the initial state: a checkpoint forgets everything, and its job begins anew in a new epoch.

    1  the intent is written: from here on a start, whoever makes it, finishes what was begun
    2  the view is emptied; the log, the quarantine and the metrics keep what they have
    3  Spark's offsets, commits, sources and state are removed, and the pulse
    4  the job's record gets the next epoch, so that Delta takes batch 0 again
    5  the intent is removed

No event is told to anybody: contents are discarded [S3]. State handlers hear `reset_to_initial_state` in the first
batch of the next run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.declarations.errors import NotConfirmed
from framework.engine.sink.fault_points import fault_point
from state.checkpoint.folder import batch_numbers
from state.checkpoint.job_record import FLUSHED_FILE, JOB_FILE, JobRecord

if TYPE_CHECKING:
    from framework.engine.session.checkpoint_files import CheckpointFiles
    from framework.engine.sink.tables import Tables

RESET_FILE = "panekeeper/reset.json"
_FORGOTTEN = ("offsets", "commits", "sources", "state", "metadata", "pulse", FLUSHED_FILE)


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What a job forgets when it goes back to its initial state.

    Attributes:
        job: the job's name.
        checkpoint: its folder.
        batch: the last batch that was begun; None if there was none.
        open_panes: panes that took rows after that batch (live partitions, for windows in arrival order).
        epoch: the epoch that begins.
    """

    job: str
    checkpoint: str
    batch: int | None
    open_panes: int
    epoch: int

    def __str__(self) -> str:
        return (
            f"job {self.job!r} forgets, in {self.checkpoint}: the contents of {self.open_panes} open panes or "
            "partitions, without any event; the state of its handlers; the position in its sources after batch "
            f"{self.batch}, which are read again from their beginning; the rows of its view. The log keeps what it "
            "has: results of rows that are read again stand in it twice"
        )


def reset_to_initial_state(
    files: CheckpointFiles, record: JobRecord, tables: Tables, *, confirm: str | None
) -> Forgotten:
    """Forget everything. Raises `NotConfirmed`, naming what would be forgotten, unless `confirm` is the job's name."""
    forgotten = Forgotten(
        job=record.name,
        checkpoint=files.root,
        batch=max(batch_numbers(files, "offsets"), default=None),
        open_panes=_open_panes(files, tables),
        epoch=record.epoch + 1,
    )
    if confirm != record.name:
        raise NotConfirmed(f"{forgotten}. If that is meant, say so by confirm={record.name!r}")
    files.write_json(RESET_FILE, {"epoch": forgotten.epoch, "view": tables.view}, replace=True)  # 1
    finish_reset(files, record)
    return forgotten


def finish_reset(files: CheckpointFiles, record: JobRecord) -> JobRecord:
    """Do what an intent says, if there is one; return the record as it stands then. May be repeated after a kill."""
    intent = files.read_json(RESET_FILE)
    if intent is None:
        return record
    _empty(files, intent["view"])  # 2
    for step, name in enumerate(_FORGOTTEN):
        fault_point("during-reset", step)
        files.remove(name)  # 3
    record = replace(record, epoch=intent["epoch"])
    files.write_json(JOB_FILE, record.to_json(), replace=True)  # 4
    files.remove(RESET_FILE)  # 5
    return record


def _empty(files: CheckpointFiles, view: str | None) -> None:
    from delta.tables import DeltaTable

    if view is not None and DeltaTable.isDeltaTable(files.spark, view):
        DeltaTable.forPath(files.spark, view).delete()


def _open_panes(files: CheckpointFiles, tables: Tables) -> int:
    """What the last batch left open, as the metrics say."""
    from delta.tables import DeltaTable
    from pyspark.sql import functions as F  # noqa: N812

    if not DeltaTable.isDeltaTable(files.spark, tables.metrics):
        return 0
    metrics = files.spark.read.format("delta").load(tables.metrics)
    last = metrics.agg(F.max_by("open_panes", F.struct("batch_time", "batch")).alias("open")).first()
    return int(last["open"]) if last is not None and last["open"] is not None else 0
