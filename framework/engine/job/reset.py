"""Reset of a job to its initial state: an epoch begins that has nothing of what was before.

    1  the lease of the current epoch is held, so no job runs
    2  the folder of the next epoch is made, with the record of the job and the names of its tables, and no state
    3  that epoch becomes current: before, nothing has changed
    4  the tables refuse commits of earlier epochs, and the view is emptied; the others keep what they have
       (`roll_forward.py`). After a kill, the next start does this, or the same call

Tables that are gone the new epoch does not name: the next start makes them, empty. What is left of a reset before is
not done first: this one does the same, with the tables that are there now.

Windows fire no event: their contents are discarded (docs/semantics.md section 4). State handlers are called with
`reset_to_initial_state` in the first batch of the next run. The folder of the epoch before stays, until
`panekeeper prune` removes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import NotConfirmed, SinkError
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.job.roll_forward import roll_forward, table_files
from panekeeper.framework.engine.session.checkpoint_files import HeldFiles
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.framework.engine.sink.gone_tables import is_gone
from panekeeper.framework.engine.sink.spark_table import is_delta_table, transactions_of
from panekeeper.state.checkpoint.epochs import (
    Begin,
    Pointer,
    epoch_folder,
    make_epoch,
    next_epoch,
    read_begin,
    read_pointer,
    switch,
)
from panekeeper.state.checkpoint.folder import JOB_FILE, OFFSETS_FOLDER, STOPPED_FILE, batch_numbers, damaged
from panekeeper.state.checkpoint.job_record import (
    create_record,
    last_epochs,
    read_last_savepoint,
    read_record,
    read_tables,
    write_last_savepoint,
    write_tables,
)
from panekeeper.state.checkpoint.runs import pass_on_runs, read_end
from panekeeper.state.log import logger
from panekeeper.state.table_roles import is_owned, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.tables import Tables

_log = logger("job")


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
        remade: role -> path of the tables that are gone, which the next start makes, empty.
    """

    job: str
    checkpoint: str
    batch: int | None
    open_panes: int
    epoch: int
    remade: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        open_panes = f"{self.open_panes} open pane{'s' if self.open_panes != 1 else ''}"
        kept = "The log keeps its rows, so results of rows that are read again are in it twice"
        if gone := ", ".join(f"the {role} {path}" for role, path in self.remade.items()):
            kept = f"Gone, and made again without rows by the next start: {gone}. Mount its volume first, if it has one"
            if not any(kind_of(role) == "log" for role in self.remade):
                kept = f"The log keeps its rows. {kept}"
        return (
            f"a reset of job {self.job!r} in {self.checkpoint} discards: the contents of {open_panes} or "
            "partitions, without any event; the state of its handlers; its position in the sources after batch "
            f"{self.batch}, so that they are read again from their beginning; and the rows of its view. {kept}"
        )


def reset_to_initial_state(
    files: CheckpointFiles, tables: Tables, *, confirm: str | None, require_held: Callable[[], None]
) -> ResetPreview:
    """Reset the job of a checkpoint, whose lease the caller holds, and return what was discarded.

    Raises `NotConfirmed` unless `confirm` is the job's name; `SinkError` if the declared view is not the one that the
    job has written, and may be another job's, or if the tables belong to another checkpoint by now.
    """
    held, spark = HeldFiles.of(files, require_held), files.spark
    root = held.checkpoint
    pointer, record = read_pointer(root), read_record(files)
    if pointer is None or record is None:
        raise damaged(files, JOB_FILE, "it is gone")
    before = read_begin(files)
    if confirm == record.name and (before is None or before.kind != "reset"):  # else nothing is changed
        roll_forward(held, record, lambda: spark, require_held)
    named = read_tables(files)
    gone = {role: path for role, path in named.items() if is_gone(table_files(path, lambda: spark))}
    made = {role: path for role, path in named.items() if role not in gone}
    if before is not None:  # what no start has made since
        gone |= {role: path for role, path in before.remade.items() if role not in made}
    # The checkpoint may be an older copy: its tables know the epochs that it does not.
    known = [path for role, path in made.items() if is_owned(role)]
    in_tables = [last_epochs(transactions_of(spark, path), record.name).get(record.id, 0) for path in known]
    preview = ResetPreview(
        job=record.name,
        checkpoint=files.root,
        batch=max(batch_numbers(files, OFFSETS_FOLDER), default=None),
        open_panes=_open_panes(files, tables),
        epoch=next_epoch(root, [record.epoch, *in_tables]),
        remade=gone,
    )
    if confirm != record.name:
        raise NotConfirmed(f"{preview}. To confirm it, pass confirm={record.name!r}")
    opened = DeltaTables()
    require_owned([opened.read(spark, path) for path in made.values()], record)
    # The views of its last start, whatever the declaration says now.
    views = {role: path for role, path in made.items() if kind_of(role) == "view"}
    for role, declared in tables.by_role.items():
        if kind_of(role) == "view" and declared not in (None, views.get(role)) and is_delta_table(spark, str(declared)):
            own = "no view" if role not in views else f"the view {views[role]}"
            raise SinkError(
                f"the reset would empty the view {declared}, and the job of {files.root} was last started with {own}. "
                "Declare the view as it was at that start; or, if it has moved, start the job once with the "
                "declaration as it is, and reset it then"
            )
    require_held()
    new, folder = replace(record, epoch=preview.epoch), epoch_folder(files.checkpoint, preview.epoch)
    with acquire(folder, record.name, what="the reset of job").held() as lease:
        begin = Begin(kind="reset", tables=made, emptied=tuple(views.values()), remade=gone)
        begun = make_epoch(root, preview.epoch, begin)  # 2
        create_record(begun, new)
        write_tables(begun, made)  # the next start makes the others, as tables that are new
        pass_on_runs(files, begun)
        begun.write_json(STOPPED_FILE, read_end(files))
        if (savepoint := read_last_savepoint(files)) is not None:
            write_last_savepoint(begun, savepoint)
        require_held()
        switch(root, pointer.to_bytes(), Pointer(name=new.name, id=new.id, epoch=new.epoch))  # 3
        roll_forward(begun, new, lambda: spark, lease.require_held)  # 4
    for role, path in gone.items():
        _log.warning("the %s %s was gone: the next start makes it, empty", role, path)
    return preview


def _open_panes(files: CheckpointFiles, tables: Tables) -> int:
    """Return how many panes the last batch left open of which that is known, from the metrics table."""
    from pyspark.sql import functions as F  # noqa: N812

    path = str(tables.by_role["metrics"])
    if not is_delta_table(files.spark, path):
        return 0
    metrics = files.spark.read.format("delta").load(path).where("open_panes IS NOT NULL")
    last = metrics.agg(F.max_by("open_panes", F.struct("batch_time", "batch")).alias("open")).first()
    return int(last["open"]) if last is not None and last["open"] is not None else 0
