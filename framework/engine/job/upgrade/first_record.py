"""The record of a checkpoint in which no batch was begun: which job it is of."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.job_record import JobRecord, create_record, installed_versions, write_record
from panekeeper.state.log import logger
from panekeeper.state.upgrade.history import begun_again

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles


def first_record(
    known: JobRecord | None,
    *,
    name: str,
    declaration: Mapping[str, Any],
    groups: tuple[int, ...],
    settings: Mapping[str, str],
) -> JobRecord:
    """Return the record of a checkpoint in which no batch was begun, at first or since a reset.

    It keeps id and epochs of a record that is there, whatever the name was: its tables have them.

    Args:
        known: what the checkpoint has; None in a new folder.
        name: of the job.
        declaration: as it is recorded.
        groups: representative id of each key group.
        settings: that hold for the life of the checkpoint.
    """
    before = {} if known is None or known.epoch == 0 else known.declaration
    new = JobRecord(
        name=name,
        id=uuid.uuid4().hex[:12],
        declaration=begun_again(before, declaration),
        group_ids=groups,
        versions=installed_versions(),
        settings=settings,
    )
    return new if known is None else replace(new, id=known.id, epoch=known.epoch, former=known.former)


def write_first_record(files: CheckpointFiles, record: JobRecord, numbers: str, *, is_first: bool) -> None:
    """Write the record of a checkpoint in which no batch was begun.

    A process may be paused here until another one has written its own, and run batches. The first record of a folder
    is never replaced by another one's; of a later one, whatever depends on it is taken from the record of the batch
    that was computed last (`panekeeper.state.prepared.as_computed`).

    Args:
        files: the checkpoint.
        record: what is written.
        numbers: of key groups and partitions, for the log.
        is_first: the folder had no record.

    Raises:
        CheckpointInUse: it has one by now, or the lease is lost.
        CheckpointError: the folder cannot be written.
    """
    try:
        if is_first:
            files.before_change()
            create_record(files.without_java(), record)
        else:
            write_record(files, record)
    except FileExistsError as error:
        raise CheckpointInUse(
            f"another process has started on {files.root} just now, while this one was paused; start the job again"
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint folder {files.root} cannot be written: {first_line(error)}; make it writable for "
            "this user, or choose another folder"
        ) from error
    logger("job", job=record.name).info("%s is a new checkpoint: %s", files.root, numbers)
