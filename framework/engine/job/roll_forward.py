"""What is left to do when an epoch has begun: its tables go where the checkpoint is.

A restore, a reset and a clone write `begin.json` into the folder of the new epoch, and then let it be current. From
there on the same function, called by the command that has begun the epoch or by the next start, does the rest:

    1  fenced: each table refuses the transaction ids of all earlier epochs, so that no process that was paused writes
    2  taken back: tables go to the versions that the savepoint names; a reset empties the view
    3  owned: the tables are those of this checkpoint, in this epoch, and have its last batch

Each step may be repeated, and is noted when it is done. Until all are, no job runs on the epoch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.settings import session_of_its_own
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import fence, own
from panekeeper.framework.engine.sink.spark_table import delete_all, is_delta_table
from panekeeper.state.checkpoint.epochs import STEPS, read_begin, write_begin
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.folder import CheckpointFolder
    from panekeeper.state.checkpoint.job_record import JobRecord

RestoreTable = Callable[[str, int], None]
"""Takes the table at a path back to a version; nothing happens if it is there already."""


def roll_forward(
    folder: CheckpointFolder,
    record: JobRecord,
    spark: Callable[[], SparkSession],
    require_held: Callable[[], None],
    *,
    restore_table: RestoreTable | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> None:
    """Do what is left of what began an epoch. May be killed and repeated.

    Args:
        folder: that of the epoch, whose lease is held.
        record: what it says of the job.
        spark: returns a session that reaches the tables.
        require_held: raises if the lease is lost; called before each change.
        restore_table: takes a table back; by Spark, if not given.
        on_step: called with each step that is done.
    """
    begin = read_begin(folder)
    if begin is None or begin.is_done:
        return
    tables, batch = dict(begin.tables), begin.batch
    restore_table = restore_table or (lambda path, version: _restore_by_spark(spark(), path, version))
    for number, step in enumerate(STEPS):
        if step in begin.done:
            continue
        if tables:
            require_held()
            if step == "fenced":
                fence(spark(), tables, record.earlier_epochs(before=record.epoch))  # 1
            elif step == "taken back":
                # 2  The metrics are last, as in a batch: their row says that the other tables are complete.
                for role in sorted(begin.versions, key=lambda role: role == "metrics"):
                    require_held()
                    restore_table(begin.tables[role], begin.versions[role])
                if begin.emptied is not None and is_delta_table(spark(), begin.emptied):
                    require_held()
                    with session_of_its_own(spark()) as own_session:
                        delete_all(own_session, begin.emptied, record.transaction("reset"))
            else:
                # By this a start knows that the commits before were not lost, and that the batch is not run again.
                fence(spark(), tables, (), joined=record, batch=batch)  # 3
                require_held()
                own(spark(), tables, record, take=True)
                os.sync()
        require_held()
        begin = begin.after(step)
        write_begin(folder, begin)
        fault_point("during-reset", number)
        on_step(step)
    logger("job", job=record.name).info("%s has begun epoch %s by a %s", folder.root, record.epoch, begin.kind)


def _restore_by_spark(spark: SparkSession, path: str, version: int) -> None:
    """Take a table back to a version; nothing happens if that is its newest one."""
    from delta.tables import DeltaTable

    try:
        table = DeltaTable.forPath(spark, path)
        if int(table.history(1).select("version").collect()[0][0]) != version:
            table.restoreToVersion(version)
    except Exception as error:
        raise SinkError(
            f"{path} could not be restored to version {version} ({first_line(error)}). Remove the cause and run the "
            "same restore again; or restore another savepoint"
        ) from error
