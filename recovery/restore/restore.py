"""Takes a job back to a savepoint: its state, its place in the sources and its tables, together.

    1  Everything is looked at before anything is touched: the job is stopped, the folder is that job's and can be
       replaced, each table still holds the recorded version.
    2  The copy is written to `<checkpoint>.incoming`, each file checked, its job record with a new epoch.
    3  An intent, `<checkpoint>.restoring.json`, says what was begun. From here on no job starts from this checkpoint
       until the restore is complete (`framework.engine.job.startup_checks`). If one did just before, the intent is
       withdrawn.
       Where the copy goes to another folder than the savepoint came from, no job starts from that one ever after.
    4  Each table is taken to its version by Delta's RESTORE.
    5  The old checkpoint becomes `<checkpoint>.replaced-<epoch>`, and
    6  the copy takes its place.
    7  The old checkpoint is removed, then the intent.

A kill before 3 changes nothing but an unfinished `.incoming`; after it, the same call goes on at the step that was not
done. If its savepoint is gone by then, a restore of another one takes its place (`begun.py`). On a local disk 5 and 6
are a rename each. S3 has none: there each is a copy of many objects, after which the originals are removed, and after a
kill a folder may hold a part of them. So the intent tells which step was done last.

A restored table still remembers the transaction ids of the commits it forgot, and Delta would silently skip the
batches that are run again: that is why the epoch, a part of these ids, goes up.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from recovery.errors import ArchiveError, SavepointError, SavepointRefused
from recovery.jobs.lease import require_stopped
from recovery.restore.intent import Intent, Places
from recovery.restore.interrupted import can_go_on, is_in_place, present, wanted
from recovery.restore.preview import Plan, plan_restore
from recovery.restore.superseded import leave_word, written_from
from recovery.savepoint.checkpoint_copy import materialize, readdress
from recovery.savepoint.checkpoint_reader import read_record
from recovery.savepoint.create import opened
from recovery.savepoint.manifest import Manifest
from recovery.savepoint.overlap import require_apart
from recovery.storage.archive import Archive, S3Options
from recovery.storage.blobs import Listener
from recovery.storage.files import Files, checkpoint_at
from state.checkpoint.job_record import JOB_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def restore(  # noqa: PLR0913 -- what, where to, and how; all but two by keyword
    location: str | os.PathLike[str] | Archive,
    name: str,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    progress: Listener | None = None,
    reached: Callable[[str], None] = lambda _: None,
    rework: Callable[[Files], None] | None = None,
) -> Plan:
    """Take a stopped job back to a savepoint and return what was changed, or would be.

    Killed at any moment, the same call completes it.

    Args:
        location: where the savepoint is.
        name: which one.
        checkpoint: the folder that shall hold the checkpoint, local or on S3; where it was, if not given.
        dry_run: only look.
        s3: how to reach S3.
        spark: the session that takes the tables back; a new one if not given.
        progress: called after each file.
        reached: called after each of `intent.STEPS`; a drill raises in it.
        rework: changes the copy before it takes the place of the checkpoint; called with its files.

    Raises:
        SavepointRefused: the job is running, the folder is another job's, a mount point or holds the savepoints, or
            another restore was begun and not ended.
        NoSuchSavepoint: there is none of this name.
        TableVersionLost: a table no longer holds the recorded version. Nothing was changed.
        DamagedSavepoint: the savepoint is damaged. Nothing was changed.
    """
    archive = opened(location, s3)
    manifest = wanted(archive, name, checkpoint, s3)
    places = Places(checkpoint=checkpoint_at(checkpoint or manifest.checkpoint, s3))
    require_apart(archive, places.checkpoint, s3)
    require_replaceable(places)
    _require_all_stopped(places, manifest, s3)
    begun = places.intent()
    dead: Intent | None = None
    if begun is not None and not can_go_on(places, begun, archive, manifest, s3):
        begun, dead = None, begun
    epoch = _epoch(begun, dead, manifest)
    plan = plan_restore(manifest, places.checkpoint, epoch=epoch, s3=s3, spark=spark)  # 1
    if dry_run:
        return plan
    with _told():
        if begun is None:
            begun = _copy(archive, manifest, places, plan, progress, rework)  # 2
            begun = replace(begun, superseded=dead.epochs if dead else ())
            reached("copied")
            begun = _intend(places, begun, dead, lambda: _require_all_stopped(places, manifest, s3), reached)  # 3
        leave_word(manifest, places.checkpoint, s3)
        _complete(places, begun, lambda: _restore_tables(manifest, s3, spark), reached)
    return plan


def require_replaceable(places: Places) -> None:
    """Raise `SavepointRefused` if the folder can never give way to the copy: told before the tables go back."""
    if places.folder.is_mount_point():
        root = places.checkpoint.root
        raise SavepointRefused(
            f"{root} is a mount point, and no other folder can take its place; let the checkpoint lie in a folder "
            f"below it: restore with --checkpoint {root}/checkpoint, and start the job there"
        )


def _require_all_stopped(places: Places, manifest: Manifest, s3: S3Options | None) -> None:
    """The job that is restored, and what the savepoint was made of, write to these tables."""
    require_stopped(places.checkpoint)
    for folder in written_from(manifest, places.checkpoint, s3):
        require_stopped(folder)


def _epoch(begun: Intent | None, dead: Intent | None, manifest: Manifest) -> int | None:
    """Return the new epoch if a restore was begun, which may have left anything in the folder; else it is looked up.

    No epoch of a restore that came to nothing is used again: that restore may have got as far as its last step.
    """
    if begun is not None:
        return begun.epoch
    return None if dead is None else max(manifest.epoch, *dead.epochs) + 1


def _intend(
    places: Places,
    begun: Intent,
    dead: Intent | None,
    require_all_stopped: Callable[[], None],
    reached: Callable[[str], None],
) -> Intent:
    """Step 3. A job takes its lease first and looks for an intent second, we the other way: one of us sees the other.

    Nothing was changed yet, so what a job was started from meanwhile may stay as it is, and the intent is withdrawn.
    """
    require_all_stopped()  # the copy may have taken long
    begun = _done("intended", places, begun, reached)
    try:
        require_all_stopped()
    except SavepointRefused:
        if dead is None:
            places.end()
        else:
            places.intend(dead)  # as far as that one got, it still stands
        raise
    return begun


def _copy(
    archive: Archive,
    manifest: Manifest,
    places: Places,
    plan: Plan,
    progress: Listener | None,
    rework: Callable[[Files], None] | None,
) -> Intent:
    copy = places.incoming
    copy.clear()
    runs_at = places.checkpoint.root if rework is None else copy.root
    materialize(archive, manifest, into=copy, runs_at=runs_at, progress=progress)
    if rework is not None:
        rework(copy)
        readdress(copy, old=copy.root, new=places.checkpoint.root)
    _raise_epoch(places, manifest, plan.epoch)
    os.sync()  # the copy is on the disk before anything relies on it
    return Intent(
        location=archive.location,
        name=manifest.name,
        epoch=plan.epoch,
        replaces=places.checkpoint.exists(),
        files=len(copy.sizes()),
    )


def _raise_epoch(places: Places, manifest: Manifest, epoch: int) -> None:
    record = read_record(places.incoming)
    assert record is not None
    own = record if _is_same(places.checkpoint, manifest) else replace(record, id=uuid.uuid4().hex[:12])
    places.incoming.put_bytes(JOB_FILE, json.dumps(replace(own, epoch=epoch).to_json()).encode())


def _is_same(checkpoint: Files, manifest: Manifest) -> bool:
    """Whether the present checkpoint tells the epochs that were used under the savepoint's id.

    Where it is gone, or is another, nobody knows them; then a new id makes sure that none is used twice.
    """
    record = present(checkpoint)
    return record is not None and record.id == manifest.job_id


def _complete(
    places: Places, begun: Intent, restore_tables: Callable[[], None], reached: Callable[[str], None]
) -> None:
    """Steps 4 to 7. Each may have been done, or begun, by a call that was killed before it could say so."""
    if not begun.has_done("tables"):
        restore_tables()  # 4
        begun = _done("tables", places, begun, reached)
    if not begun.has_done("aside"):
        if begun.replaces:
            places.folder.carry_to(places.replaced(begun.epoch))  # 5
        begun = _done("aside", places, begun, reached)
    if not begun.has_done("in place"):
        places.incoming.carry_to(places.folder)  # 6
        if not is_in_place(places, begun):
            where = places.checkpoint.root
            raise SavepointRefused(f"{where} was written to meanwhile; see that no job runs there, and run it again")
        begun = _done("in place", places, begun, reached)
    for epoch in begun.epochs:
        places.replaced(epoch).clear()  # 7
    reached("removed")
    places.end()


def _done(step: str, places: Places, begun: Intent, reached: Callable[[str], None]) -> Intent:
    now = replace(begun, done=step)
    places.intend(now)
    reached(step)
    return now


def _restore_tables(manifest: Manifest, s3: S3Options | None, spark: SparkSession | None) -> None:
    if not manifest.tables:
        return
    from recovery.storage.delta_tables import restore_table, session_for

    running = session_for((table.path for table in manifest.tables.values()), spark, s3)
    # The metrics last, as in a batch: their row says that the other tables are complete.
    for role in sorted(manifest.tables, key=lambda role: role == "metrics"):
        restore_table(running, manifest.tables[role])


@contextmanager
def _told() -> Iterator[None]:
    """Say of an error of the disk or the store what is to be done then."""
    advice = "see to that and run the same restore again"
    try:
        yield
    except OSError as error:
        raise SavepointError(f"the restore stopped: {error.strerror or error} ({error.filename}); {advice}") from error
    except ArchiveError as error:
        raise type(error)(f"the restore stopped: {error}; {advice}") from error
