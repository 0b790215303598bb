"""Creates a new job from a savepoint: its checkpoint and copies of its tables in a new folder. Changes no original.

For drills, and to try new code on old state. Start the clone with `to_delta(into/"log", view=into/"view")` and
`start(checkpoint=into/"checkpoint")`; it reads the same sources as the original.
"""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.display import Result
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.recovery.errors import DamagedSavepoint, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import holding
from panekeeper.recovery.restore.checks import gone_tables
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import write_checkpoint
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.delta_tables import copy_table, require_version, session_for
from panekeeper.recovery.storage.files import removed_on_error
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive, table_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.epochs import (
    Begin,
    Pointer,
    create_pointer,
    epoch_numbers,
    make_epoch,
    read_pointer,
    write_begin,
)
from panekeeper.state.checkpoint.folder import JOB_FILE, METADATA_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import last_batches, read_record
from panekeeper.state.table_roles import folder_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Clone(Result):
    """A clone that was made of a savepoint: its checkpoint, and the paths of its tables by their roles."""

    name: str
    checkpoint: str
    tables: Mapping[str, str]

    def _described(self) -> Iterator[str]:
        yield f"savepoint {self.name} was cloned: checkpoint {self.checkpoint}"
        yield from (f"table {role}: {path}" for role, path in self.tables.items())


def clone(
    location: LocationOrArchive,
    name: str,
    *,
    into: Location,
    deep: bool = False,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    progress: ProgressCallback | None = None,
) -> Clone:
    """Make a clone of a savepoint in a new folder. If it is killed, remove the folder and clone again.

    Args:
        location: where the savepoint is.
        name: of the savepoint.
        into: a folder, local or on S3, that is not there yet or is empty.
        deep: copy the rows of the tables. Otherwise the copies refer to the files of the originals, take no space, and
            break if the originals are vacuumed.
        s3: how S3 is reached.
        spark: the session that copies the tables; a new one if not given.
        progress: called after each file.

    Raises:
        NoSuchSavepoint: there is none of this name.
        SavepointRefused: a table is gone; `into` is not empty, or another process has made a clone there meanwhile.
        TableVersionLost: a table no longer holds the version of the savepoint.
        DamagedSavepoint: the savepoint is damaged.
        UntrustedSavepoint: PANEKEEPER_MANIFEST_KEY is set, and the savepoint is not signed with that key.
    """
    archive = open_archive(location, s3)
    manifest = show_trusted(archive, name)
    top = checkpoint_at(into, s3)
    if epoch_numbers(root := top.child("checkpoint")) and read_pointer(root) is None:
        raise SavepointRefused(f"{top.root} holds a clone that is not complete; remove the folder and clone again")
    if top.names("") or top.sizes():
        raise SavepointRefused(f"{top.root} is there and not empty; name a new folder for the clone")
    if manifest.gone:
        raise SavepointRefused(
            f"{', '.join(manifest.gone.values())} {'was' if len(manifest.gone) == 1 else 'were'} gone when savepoint "
            f"{name!r} was made, and a clone copies each table; restore it, start the job, and clone a later savepoint"
        )
    if gone := gone_tables(manifest, top.s3):
        command = shlex.join(["panekeeper", "restore", archive.location, name, "--dry-run"])
        raise SavepointRefused(
            f"{', '.join(gone.values())} {'is' if len(gone) == 1 else 'are'} gone, and a clone copies each table. Put "
            f"a copy back; or restore the job, which can do without some tables: {command}"
        )
    tables = {role: top.child(folder_name(role)).root for role in manifest.tables}
    reached = [*tables.values(), *(table.path for table in manifest.tables.values())]
    session = cache(lambda: session_for(reached, spark, top.s3))
    for table in manifest.tables.values():
        require_version(session, table, table_at(table.path, top.s3))
    epoch = manifest.epoch + 1
    begin = Begin(
        kind="clone",
        savepoint=name,
        location=archive.location,
        made_at=manifest.made_at.isoformat(),
        tables=tables,
    )
    folder = make_epoch(root, epoch, begin)  # from here on no other clone is made there
    with removed_on_error(top):
        for role, table in manifest.tables.items():
            copy_table(session(), table, tables[role], deep=deep)
        write_checkpoint(archive, manifest, into=folder, progress=progress)
        record = read_record(folder)
        if record is None:
            raise DamagedSavepoint(f"{JOB_FILE} of the savepoint is empty; use another savepoint")
        # Another job: with its own transaction ids, tables and query id (Spark runs one of an id).
        record = replace(record, id=uuid.uuid4().hex[:12], epoch=epoch, former={})
        own = ((JOB_FILE, record.to_json()), (TABLES_FILE, tables), (METADATA_FILE, {"id": str(uuid.uuid4())}))
        for file, content in own:
            folder.put_bytes(file, json.dumps(content).encode())
        write_begin(folder, replace(begin, batch=last_batches(folder)[1]))
    with holding(folder, record.name, "the clone of job") as lease:
        create_pointer(root, Pointer(name=record.name, id=record.id, epoch=record.epoch))
        roll_forward(folder, record, session, lease.require_held)  # a copy may have the owner of the original
    return Clone(name=name, checkpoint=root.root, tables=tables)
