"""What is left to do when an epoch has begun: its tables go where the checkpoint is.

A restore, a reset and a clone write `begin.json` into the folder of the new epoch, and then let it be current. From
there on the same function, called by the command that has begun the epoch or by the next start, does the rest:

    1  fenced: each table refuses the transaction ids of all earlier epochs, so that no process that was paused writes
    2  taken back: tables go to the versions that the savepoint names; a reset empties the view
    3  owned: the tables are those of this checkpoint, in this epoch, and have its last batch

Each step may be repeated, and is noted when it is done. Until all are, no job runs on the epoch. A table that is gone
is refused by name before a step (A6): what has begun the epoch may be done again, and then does without it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.settings import session_of_its_own
from panekeeper.framework.engine.sink.delta_log import jobs_since
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import fence, own
from panekeeper.framework.engine.sink.gone_tables import is_gone, what_to_do_first
from panekeeper.framework.engine.sink.spark_table import delete_all
from panekeeper.framework.engine.sink.table_restore import restore_table
from panekeeper.state.checkpoint.epochs import STEPS, Begin, read_begin, write_begin
from panekeeper.state.checkpoint.folder import LocalFolder, local_path
from panekeeper.state.log import logger
from panekeeper.state.table_roles import is_owned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.folder import CheckpointFolder
    from panekeeper.state.checkpoint.job_record import JobRecord


def roll_forward(
    folder: CheckpointFolder,
    record: JobRecord,
    spark: Callable[[], SparkSession],
    require_held: Callable[[], None],
    *,
    confirmed: Collection[str] = (),
    on_step: Callable[[str], None] = lambda _: None,
) -> None:
    """Do what is left of what began an epoch, whose lease is held. May be killed and repeated.

    Paths that are `confirmed` go back although other jobs have written to them. Raises `SinkError` if a table is gone,
    if Delta refuses to take one back, or if it would lose rows of other jobs.
    """
    begin = read_begin(folder)
    if begin is None or begin.is_done:
        return
    if gone := {role: path for role, path in begin.tables.items() if is_gone(table_files(path, spark))}:
        raise SinkError(what_to_do_first(gone, begin, folder))
    tables, batch = dict(begin.tables), begin.batch
    for number, step in enumerate(STEPS):
        if step in begin.done:
            continue
        if tables:
            require_held()
            if step == "fenced":
                fence(spark(), tables, record.earlier_epochs(before=record.epoch))  # 1
            elif step == "taken back":
                _take_back(begin, record, spark, require_held, confirmed)  # 2
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


def _take_back(
    begin: Begin,
    record: JobRecord,
    spark: Callable[[], SparkSession],
    require_held: Callable[[], None],
    confirmed: Collection[str],
) -> None:
    """Do step 2. The metrics are last, as in a batch: their row says that the other tables are complete."""
    for role in sorted(begin.versions, key=lambda role: role == "metrics"):
        path, version = begin.tables[role], begin.versions[role]
        folder = table_files(path, spark)
        if not is_owned(role) and path not in confirmed:
            _require_no_rows_of_others(folder, version, record)
        restore_table(spark, path, version, folder, require_held=require_held)
    for view in begin.emptied:
        require_held()
        with session_of_its_own(spark()) as own_session:
            delete_all(own_session, view, record.transaction("reset"))


def table_files(path: str, spark: Callable[[], SparkSession]) -> CheckpointFolder:
    """Return the files of a table. Spark is started only for one that is on no local disk."""
    local = local_path(path)
    return CheckpointFiles(spark(), path) if local is None else LocalFolder(local)


def _require_no_rows_of_others(folder: CheckpointFolder, version: int, record: JobRecord) -> None:
    """Refuse to take back what other jobs have written to a shared table, perhaps since this epoch became current."""
    own = {"", record.id, *record.former}
    others = sorted({job for id_, job in jobs_since(folder, version).items() if id_ not in own})
    if others:
        raise SinkError(
            f"{folder.root} has rows of {', '.join(map(repr, others))} since version {version}, to which the restore "
            f"of job {record.name!r} would take it back. Run the same command again: it completes the "
            "restore, and says how to confirm this"
        )
