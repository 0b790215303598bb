"""Takes a job back to a savepoint: its state, its place in the sources and its tables, together.

    1  Everything is looked at before anything is touched: the job is stopped, the folder is that job's, each table
       still holds the recorded version.
    2  The copy is written to `<checkpoint>.incoming`, each file checked, its job record with a new epoch.
    3  An intent, `<checkpoint>.restoring.json`, says what was begun. From here on no job starts from this checkpoint
       until the restore is complete (`framework.engine.startup`).
    4  Each table is taken to its version by Delta's RESTORE.
    5  The old checkpoint becomes `<checkpoint>.replaced-<epoch>`, and
    6  the copy takes its place.
    7  The old checkpoint is removed, then the intent.

A kill before 3 changes nothing but an unfinished `.incoming`; after it, the same call goes on at the step that was not
done. A restored table still remembers the transaction ids of the commits it forgot, and Delta would silently skip the
batches that are run again: that is why the epoch, a part of these ids, goes up.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.archive import Archive, S3Options
from recovery.blobs import Listener
from recovery.checkpoint_folder import local_folder, read_record
from recovery.copying import materialize, readdress
from recovery.errors import SavepointError, SavepointRefused
from recovery.lease import require_stopped
from recovery.manifest import Manifest
from recovery.plan import Plan, plan_restore
from recovery.savepoint import opened
from recovery.shelf import show
from state.errors import CorruptState, StateError
from state.job_record import JOB_FILE, RESTORING_SUFFIX, JobRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("copied", "intended", "tables", "aside", "in place", "removed")
"""What the steps 2 to 7 are called when they are done."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What was begun: enough to go on after a kill."""

    location: str
    name: str
    epoch: int
    replaces: bool


@dataclass(frozen=True, kw_only=True)
class Places:
    """The checkpoint, and what stands beside it while it is replaced."""

    checkpoint: Path

    @property
    def folder(self) -> Path:
        """The folder itself, where the checkpoint is a link to one: it is renamed, the link stays."""
        return self.checkpoint.resolve()

    @property
    def incoming(self) -> Path:
        """The copy, until it takes its place."""
        return self.folder.with_name(f"{self.folder.name}.incoming")

    @property
    def intent(self) -> Path:
        """What was begun; gone when it is done."""
        return self.checkpoint.with_name(self.checkpoint.name + RESTORING_SUFFIX)

    def replaced(self, epoch: int) -> Path:
        """The old checkpoint, until all is done."""
        return self.folder.with_name(f"{self.folder.name}.replaced-{epoch}")


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
    rework: Callable[[Path], None] | None = None,
) -> Plan:
    """Take a stopped job back to a savepoint and return what was changed, or would be.

    Killed at any moment, the same call completes it.

    Args:
        location: where the savepoint is.
        name: which one.
        checkpoint: the folder that shall hold the checkpoint; where it was, if not given.
        dry_run: only look.
        s3: how to reach S3.
        spark: the session that takes the tables back; a new one if not given.
        progress: called after each file.
        reached: called after each of `STEPS`; a drill raises in it.
        rework: changes the copy before it takes the place of the checkpoint; called with its folder.

    Raises:
        SavepointRefused: the job is running, the folder is another job's, or another restore was begun and not ended.
        TableVersionLost: a table no longer holds the recorded version. Nothing was changed.
        DamagedSavepoint: the savepoint is damaged. Nothing was changed.
    """
    archive = opened(location, s3)
    manifest = show(archive, name)
    places = Places(checkpoint=local_folder(checkpoint or manifest.checkpoint))
    for folder in (places.checkpoint, Path(manifest.checkpoint)):  # both write to these tables
        require_stopped(folder)
    begun = _begun(places, archive, name)
    plan = plan_restore(manifest, places.checkpoint, spark=spark)  # 1
    if dry_run:
        return plan
    with _files_told():
        if begun is None:
            begun = _copy(archive, manifest, places, plan, progress, rework)  # 2
            reached("copied")
            require_stopped(places.checkpoint)  # it may have been started meanwhile
            _write(places.intent, asdict(begun))  # 3
            reached("intended")
        _complete(manifest, places, begun, spark, reached)
    return replace(plan, epoch=begun.epoch)


def require_none_begun(checkpoint: Path) -> None:
    """Raise `SavepointRefused` if a restore of this checkpoint was interrupted; it says how to complete it."""
    begun = _read_intent(Places(checkpoint=checkpoint))
    if begun is not None:
        raise SavepointRefused(
            f"a restore of {checkpoint} was interrupted; complete it first: "
            f"panekeeper restore {begun.location} {begun.name} --checkpoint {checkpoint}"
        )


def _read_intent(places: Places) -> Intent | None:
    if not places.intent.exists():
        return None
    try:
        return Intent(**json.loads(places.intent.read_bytes()))
    except (ValueError, TypeError) as error:
        raise CorruptState(f"{places.intent} is damaged; remove it and run the restore again") from error


def _begun(places: Places, archive: Archive, name: str) -> Intent | None:
    begun = _read_intent(places)
    if begun is None:
        return None
    if (begun.location, begun.name) != (archive.location, name):
        raise SavepointRefused(
            f"a restore of savepoint {begun.name!r} from {begun.location} was interrupted; run that one again first"
        )
    if not places.incoming.exists() and not _is_in_place(places, begun):
        return None  # somebody removed the copy: begin anew
    return begun


def _is_in_place(places: Places, begun: Intent) -> bool:
    record = _present(places.checkpoint)
    return record is not None and record.epoch == begun.epoch


def _copy(
    archive: Archive,
    manifest: Manifest,
    places: Places,
    plan: Plan,
    progress: Listener | None,
    rework: Callable[[Path], None] | None,
) -> Intent:
    copy = places.incoming
    _remove(copy)
    runs_at = places.checkpoint if rework is None else copy
    materialize(archive, manifest, into=copy, runs_at=runs_at, progress=progress)
    if rework is not None:
        rework(copy)
        readdress(copy, old=copy, new=places.checkpoint)
    _raise_epoch(places, manifest, plan.epoch)
    os.sync()  # the copy is on the disk before anything relies on it
    return Intent(location=archive.location, name=manifest.name, epoch=plan.epoch, replaces=places.checkpoint.exists())


def _raise_epoch(places: Places, manifest: Manifest, epoch: int) -> None:
    record = read_record(places.incoming)
    assert record is not None
    own = record if _is_same(places.checkpoint, manifest) else replace(record, id=uuid.uuid4().hex[:12])
    _write(places.incoming / JOB_FILE, replace(own, epoch=epoch).to_json())


def _is_same(checkpoint: Path, manifest: Manifest) -> bool:
    """Whether the present checkpoint tells the epochs that were used under the savepoint's id.

    Where it is gone, or is another, nobody knows them; then a new id makes sure that none is used twice.
    """
    record = _present(checkpoint)
    return record is not None and record.id == manifest.job_id


def _present(checkpoint: Path) -> JobRecord | None:
    try:
        return read_record(checkpoint)
    except (StateError, OSError):
        return None  # damaged or of another version: it tells nothing


def _complete(
    manifest: Manifest, places: Places, begun: Intent, spark: SparkSession | None, reached: Callable[[str], None]
) -> None:
    """Steps 4 to 7; each looks at what stands there, so a step that is done is not done again."""
    replaced = places.replaced(begun.epoch)
    if places.incoming.exists():
        _restore_tables(manifest, spark)  # 4
        reached("tables")
        if begun.replaces and not replaced.exists():
            places.folder.rename(replaced)  # 5
        reached("aside")
        if places.checkpoint.exists():
            raise SavepointRefused(
                f"{places.checkpoint} came into being during the restore; move it away, run it again"
            )
        places.incoming.rename(places.folder)  # 6
        reached("in place")
    _remove(replaced)  # 7
    reached("removed")
    places.intent.unlink()


def _restore_tables(manifest: Manifest, spark: SparkSession | None) -> None:
    if not manifest.tables:
        return
    from recovery.delta_tables import restore_table, session_for

    running = session_for((table.path for table in manifest.tables.values()), spark)
    # The metrics last, as in a batch: their row says that the other tables are complete.
    for role in sorted(manifest.tables, key=lambda role: role == "metrics"):
        restore_table(running, manifest.tables[role])


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def _files_told() -> Iterator[None]:
    """Turn what the file system says into our error."""
    try:
        yield
    except OSError as error:
        raise SavepointError(
            f"the restore stopped: {error.strerror or error} ({error.filename}); "
            "see to that and run the same restore again"
        ) from error


def _write(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    with unfinished.open("w") as target:
        json.dump(value, target)
        target.flush()
        os.fsync(target.fileno())
    unfinished.replace(path)
