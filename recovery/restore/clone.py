"""Creates a new job from a savepoint: its checkpoint and copies of its tables in a new folder. Changes no original.

For drills, and to try new code on old state. Start the clone with `to_delta(into/"log", view=into/"view")` and
`start(checkpoint=into/"checkpoint")`; it reads the same sources as the original.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from panekeeper.recovery.errors import DamagedSavepoint, SavepointRefused
from panekeeper.recovery.restore.last_commit import record_last_commit, take_tables
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import write_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.layout import JOB_FILE, TABLES_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The names in a job declared with to_delta(into/"log", view=into/"view").
_FOLDERS = {"log": "log", "view": "view"} | {role: f"log_{role}" for role in ("quarantine", "metrics", "downtime")}


@dataclass(frozen=True, kw_only=True)
class Clone:
    """A clone that was made.

    Attributes:
        name: of the savepoint.
        checkpoint: full name of its folder.
        tables: role -> path of its tables.
    """

    name: str
    checkpoint: str
    tables: Mapping[str, str]


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
    """Make a clone of a savepoint in a new folder. If it fails, remove the folder and clone again.

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
        SavepointRefused: `into` is not empty, or another process has made a clone there meanwhile.
        TableVersionLost: a table no longer holds the version of the savepoint.
        DamagedSavepoint: the savepoint is damaged.
        UntrustedSavepoint: PANEKEEPER_MANIFEST_KEY is set, and the savepoint is not signed with that key.
    """
    archive = open_archive(location, s3)
    manifest = show_trusted(archive, name)
    top = checkpoint_at(into, s3)
    if top.names("") or top.sizes():
        raise SavepointRefused(f"{top.root} is there and not empty; name a new folder for the clone")
    tables = _copy_tables(manifest, top, deep=deep, s3=s3, spark=spark)
    checkpoint, incoming = top.child("checkpoint"), top.child("checkpoint.incoming")
    _require_none(checkpoint)
    write_checkpoint(archive, manifest, into=incoming, checkpoint_path=checkpoint.root, progress=progress)
    _require_none(checkpoint)
    record = _give_identity(incoming, tables)
    _take_copies(incoming, record, tables, s3=s3, spark=spark)
    _require_own(incoming, checkpoint, record)
    incoming.move_to(checkpoint, partial(_require_own, incoming, checkpoint, record))
    return Clone(name=name, checkpoint=checkpoint.root, tables=tables)


def _require_none(checkpoint: Files) -> None:
    if checkpoint.exists():
        raise _made_by_another(checkpoint.parent())


def _require_own(incoming: Files, checkpoint: Files, record: JobRecord) -> None:
    """Refuse to go on if another clone was made here meanwhile, as after this process was paused."""
    for folder in (incoming, checkpoint):
        found = read_record(folder)
        if found is not None and found.id != record.id:
            raise _made_by_another(checkpoint.parent())


def _made_by_another(top: Files) -> SavepointRefused:
    return SavepointRefused(
        f"another process has made a clone in {top.root} while this one did; nothing more of it is changed. Look which "
        "one is there, and clone into another folder"
    )


def _take_copies(
    incoming: Files, record: JobRecord, tables: Mapping[str, str], *, s3: S3Options | None, spark: SparkSession | None
) -> None:
    """Let the copies belong to the clone: a copy may have the owner of the original."""
    if tables:
        from panekeeper.recovery.storage.delta_tables import session_for

        take_tables(session_for(tables.values(), spark, s3), tables, incoming, record)


def _give_identity(checkpoint: Files, tables: Mapping[str, str]) -> JobRecord:
    """Make it another job: with its own transaction ids, tables and query id (Spark runs one of an id)."""
    record = read_record(checkpoint)
    if record is None:
        raise DamagedSavepoint(f"{JOB_FILE} of the savepoint is empty; use another savepoint")
    own = replace(record, id=uuid.uuid4().hex[:12], epoch=record.epoch + 1, former={})
    paths = {role: tables.get(role) for role in _FOLDERS}
    for name, content in ((JOB_FILE, own.to_json()), (TABLES_FILE, paths), ("metadata", {"id": str(uuid.uuid4())})):
        checkpoint.put_bytes(name, json.dumps(content).encode())
    record_last_commit(checkpoint, own)
    return own


def _copy_tables(
    manifest: Manifest, top: Files, *, deep: bool, s3: S3Options | None, spark: SparkSession | None
) -> dict[str, str]:
    if not manifest.tables:
        return {}
    from panekeeper.recovery.storage.delta_tables import copy_table, require_version, session_for

    copies = {role: top.child(_FOLDERS.get(role, role)).root for role in manifest.tables}
    session = session_for((*copies.values(), *(table.path for table in manifest.tables.values())), spark, s3)
    for table in manifest.tables.values():
        require_version(lambda: session, table, s3)
    for role, table in manifest.tables.items():
        copy_table(session, table, to=copies[role], deep=deep)
    return copies
