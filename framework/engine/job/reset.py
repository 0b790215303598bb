"""Reset of a job to its initial state: the checkpoint discards what it has, and the job begins with the next epoch.

    1  the intent is written: from here on any start completes the reset first
    2  the tables refuse commits of this epoch from now on; the view is emptied, the other tables keep what they have
    3  Spark's offsets, commits, sources and state are removed, and the control stream
    4  the job's record gets the next epoch, so that Delta accepts batch 0 again
    5  the intent is removed

Windows fire no event: their contents are discarded (docs/semantics.md section 4). State handlers are called with
`reset_to_initial_state` in the first batch of the next run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import CheckpointInUse, NotConfirmed, SinkError
from panekeeper.framework.engine.session.required_settings import session_of_its_own
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import OWNED, fence, require_owned
from panekeeper.framework.engine.sink.spark_commits import delete_all
from panekeeper.framework.engine.sink.spark_table import is_delta_table, transactions
from panekeeper.state.checkpoint.claims import unaccounted_after
from panekeeper.state.checkpoint.folder import batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, last_epochs, read_record, read_tables, write_record
from panekeeper.state.checkpoint.layout import OFFSETS_FOLDER, RUNNING_FILE, UNACCOUNTED_FOLDER
from panekeeper.state.checkpoint.reset_intent import (
    REMOVED_BY_RESET,
    ResetIntent,
    read_reset_intent,
    remove_reset_intent,
    write_reset_intent,
)
from panekeeper.state.checkpoint.run_record import clear_attempts

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.tables import Tables


@dataclass(frozen=True, kw_only=True)
class ResetPreview:
    """What a reset to the initial state discards.

    Attributes:
        job: the job's name.
        checkpoint: its folder.
        batch: the last batch that was begun; None if there was none.
        open_panes: panes that took rows after that batch (live partitions, for windows in arrival order); after the one
            before, if that batch was run again.
        epoch: the epoch that begins with the reset.
    """

    job: str
    checkpoint: str
    batch: int | None
    open_panes: int
    epoch: int

    def __str__(self) -> str:
        return (
            f"a reset of job {self.job!r} in {self.checkpoint} discards: the contents of {self.open_panes} open panes "
            "or partitions, without any event; the state of its handlers; its position in the sources after batch "
            f"{self.batch}, so that they are read again from their beginning; and the rows of its view. The log keeps "
            "its rows, so results of rows that are read again are in it twice"
        )


def reset_to_initial_state(
    files: CheckpointFiles, record: JobRecord, tables: Tables, *, confirm: str | None
) -> ResetPreview:
    """Reset the job of a checkpoint whose lease the caller holds.

    Args:
        files: the checkpoint, which is changed only while the lease is held.
        record: what the checkpoint recorded of the job before the lease was held.
        tables: the job's tables.
        confirm: the job's name, which confirms the reset.

    Returns:
        What was discarded.

    Raises:
        NotConfirmed: `confirm` is not the job's name; the error says what would be discarded.
        SinkError: the declared view is not the one that the job has written, and may be another job's; or the tables
            belong to another checkpoint by now.
        CheckpointInUse: a process that was lost may only be paused, and would write to the emptied folder; or the lease
            is lost.
    """
    record = read_record(files) or record  # a run may have changed it, and ended
    preview = ResetPreview(
        job=record.name,
        checkpoint=files.root,
        batch=max(batch_numbers(files, OFFSETS_FOLDER), default=None),
        open_panes=_open_panes(files, tables),
        epoch=1 + max(record.epoch, _last_epoch(files, record)),
    )
    if confirm != record.name:
        raise NotConfirmed(f"{preview}. To confirm it, pass confirm={record.name!r}")
    _require_no_paused_process(files)
    require_owned(files.spark, read_tables(files), record)
    view = _view_of_the_job(files, tables.view)
    begun = -1 if preview.batch is None else preview.batch
    _begin(files, ResetIntent(epoch=preview.epoch, view=view, batch=begun))  # 1
    complete_reset(files, record)
    return preview


def _begin(files: CheckpointFiles, intent: ResetIntent) -> None:
    """Write the intent, and take it back if the lease was lost just before: this process was paused."""
    write_reset_intent(files, intent)
    try:
        files.before_change()
    except CheckpointInUse:
        others = files.unchecked()
        if read_reset_intent(others) == intent:
            remove_reset_intent(others)
        raise


def complete_reset(files: CheckpointFiles, record: JobRecord) -> JobRecord:
    """Complete the reset whose intent is in the checkpoint, if there is one. May be repeated after a kill.

    Each step checks that the lease is still held, where `files` does (`CheckpointFiles.while_held`): another process
    may have completed the reset while this one was paused, and a job may run by now.

    Returns:
        The record as it is then.

    Raises:
        CheckpointInUse: the lease is lost.
    """
    intent = read_reset_intent(files)
    if intent is None:
        return record
    begun_since = intent.batch is not None and max(batch_numbers(files, OFFSETS_FOLDER), default=-1) > intent.batch
    if record.epoch >= intent.epoch or begun_since:  # step 4 is done, or the intent came late, from a paused process
        remove_reset_intent(files)
        return record
    begun = replace(record, epoch=intent.epoch)
    files.before_change()
    tables = read_tables(files)
    fence(files.spark, tables, begun.earlier_epochs(before=intent.epoch))
    files.before_change()
    _truncate_view(files, intent.view, begun)  # 2
    files.before_change()
    fence(files.spark, tables, (), joined=begun)  # by this a start knows that the commits before were not lost
    for step, name in enumerate(REMOVED_BY_RESET):
        fault_point("during-reset", step)
        files.remove(name)  # 3
    clear_attempts(files)
    if files.local_folder() is not None:
        os.sync()  # a power cut must bring back nothing that the next epoch would take for its own
    write_record(files, begun)  # 4
    remove_reset_intent(files)  # 5
    return begun


def _last_epoch(files: CheckpointFiles, record: JobRecord) -> int:
    """Return the last epoch of this checkpoint that its tables know; the checkpoint may be an older copy."""
    known = [path for role, path in read_tables(files).items() if role in OWNED and is_delta_table(files.spark, path)]
    return max(
        (last_epochs(transactions(files.spark, path), record.name).get(record.id, 0) for path in known), default=0
    )


def _require_no_paused_process(files: CheckpointFiles) -> None:
    paused = unaccounted_after(files, -1)
    if paused:
        raise CheckpointInUse(
            f"{files.root} was in use by {'; '.join(map(str, paused))}, whose end is not known: if it is only paused, "
            "and continues, Spark writes into the emptied folder. Give the job a new checkpoint folder and new tables; "
            f"or make sure that this process is gone, remove {RUNNING_FILE} and {UNACCOUNTED_FOLDER} in {files.root}, "
            "and reset it again"
        )


def _view_of_the_job(files: CheckpointFiles, declared: str | None) -> str | None:
    """Return the view that the job writes to: that of its last start, whatever the declaration says now."""
    recorded = read_tables(files).get("view")
    if declared is not None and declared != recorded and is_delta_table(files.spark, declared):
        own = "no view" if recorded is None else f"the view {recorded}"
        raise SinkError(
            f"the reset would empty the view {declared}, and the job of {files.root} was last started with {own}. "
            "Declare the view as it was at that start; or, if it has moved, start the job once with the declaration "
            "as it is, and reset it then"
        )
    return recorded


def _truncate_view(files: CheckpointFiles, view: str | None, begun: JobRecord) -> None:
    """Empty the view once: a process that was paused here must not remove the rows of the epoch that has begun."""
    if view is not None and is_delta_table(files.spark, view):
        with session_of_its_own(files.spark) as spark:
            delete_all(spark, view, begun.transaction("reset"))


def _open_panes(files: CheckpointFiles, tables: Tables) -> int:
    """Return how many panes the last batch left open of which that is known, from the metrics table."""
    from pyspark.sql import functions as F  # noqa: N812

    if not is_delta_table(files.spark, tables.metrics):
        return 0
    metrics = files.spark.read.format("delta").load(tables.metrics).where("open_panes IS NOT NULL")
    last = metrics.agg(F.max_by("open_panes", F.struct("batch_time", "batch")).alias("open")).first()
    return int(last["open"]) if last is not None and last["open"] is not None else 0
