"""The savepoints of a location: list, show, verify and prune them. Nothing here changes a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.recovery.errors import (
    DamagedSavepoint,
    NoSuchSavepoint,
    SavepointError,
    SavepointRefused,
    UntrustedSavepoint,
)
from panekeeper.recovery.savepoint.activity import MARKERS, active_markers, activity_marker
from panekeeper.recovery.savepoint.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    checked_name,
    manifest_file,
    manifest_key,
    savepoint_of_file,
)
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import find_damaged, is_blob, read_small
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import LocationOrArchive, files_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import now_utc
from panekeeper.state.checkpoint.epochs import current_epoch
from panekeeper.state.checkpoint.job_record import read_tables
from panekeeper.state.errors import CheckpointError, StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANIFESTS, _BLOBS = "savepoints/", "blobs/"
_MAX_LISTED = 5
"""How many damaged files an error names."""


@dataclass(frozen=True, kw_only=True)
class VerifyResult(Result):
    """What `verify` has read, and how many stored values were decoded; None without `deep`."""

    name: str
    files: int
    bytes: int
    values: int | None

    def _described(self) -> Iterator[str]:
        size = f"{self.files} files, {format_bytes(self.bytes)}"
        yield f"savepoint {self.name} is intact: {size}{decoded_text(self.values)}"


def decoded_text(values: int | None) -> str:
    """Return what follows in a line on a savepoint whose stored values were decoded; nothing if they were not."""
    return "" if values is None else f"; {values} stored values decoded"


@dataclass(frozen=True, kw_only=True)
class PruneResult(Result):
    """Which savepoints `prune` has removed and kept, and how many blobs, which no savepoint needs any more.

    While savepoints were `being_made` there, no blob was removed.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    blobs: int
    bytes: int
    being_made: int = 0

    def _described(self) -> Iterator[str]:
        removed = ", ".join(self.removed) or "none"
        if self.being_made:
            removed += "; a savepoint is being made there, so files are kept until the next prune"
        kept = f"{len(self.kept)} savepoints are kept"
        yield f"removed: {removed}; {self.blobs} files, {format_bytes(self.bytes)}; {kept}"


@dataclass(frozen=True, kw_only=True)
class SavepointList(Result):
    """The savepoints of a location: name -> manifest, or the error of one that cannot be read."""

    savepoints: Mapping[str, Manifest | SavepointError]

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields."""
        rows = [
            {"name": name, "problem": str(savepoint)} if isinstance(savepoint, SavepointError) else savepoint.summary()
            for name, savepoint in self.savepoints.items()
        ]
        return {"savepoints": rows}

    def _described(self) -> Iterator[str]:
        for name, savepoint in self.savepoints.items():
            if isinstance(savepoint, SavepointError):
                yield f"{name}: {savepoint}"
            else:
                yield (
                    f"{name}: {savepoint.made_at_text}, job {savepoint.job}, batch {savepoint.batch}, "
                    f"{format_bytes(savepoint.size)}"
                )


def savepoints(location: LocationOrArchive, *, s3: S3Options | None = None) -> Mapping[str, Manifest | SavepointError]:
    """List the savepoints of a location.

    Args:
        location: a folder, `s3://bucket/prefix`, or an archive.
        s3: how S3 is reached.

    Returns:
        Name -> manifest, or the error of one that cannot be read; oldest first.

    Raises:
        ArchiveError: the location cannot be used.
    """
    archive = open_archive(location, s3)
    manifests: dict[str, Manifest | SavepointError] = {}
    for name in _names(archive):
        try:
            manifests[name] = _read(archive, name)
        except FileNotFoundError:
            continue  # a prune has just removed it
        except SavepointError as error:
            manifests[name] = error
    ages = {
        name: manifest.made_at.timestamp() if isinstance(manifest, Manifest) else 0.0
        for name, manifest in manifests.items()
    }
    return dict(sorted(manifests.items(), key=lambda item: ages[item[0]]))


def show(location: LocationOrArchive, name: str, *, s3: S3Options | None = None) -> Manifest:
    """Return one savepoint, whoever has made it.

    Raises:
        NoSuchSavepoint: there is none of this name.
        SavepointError: its manifest is damaged, foreign, or of a newer Panekeeper.
    """
    archive = open_archive(location, s3)
    _require_savepoint(archive, name)
    return _read(archive, name)


def show_trusted(archive: Archive, name: str) -> Manifest:
    """Return a savepoint whose files are used: if PANEKEEPER_MANIFEST_KEY is set, it is signed with that key.

    Raises as `show`, and `UntrustedSavepoint`.
    """
    key = manifest_key()
    _require_savepoint(archive, name)
    return _read(archive, name, key)


def no_savepoints(location: str) -> NoSuchSavepoint:
    """Return the error of a location that holds no savepoints, most often a misspelled one."""
    return NoSuchSavepoint(f"{location} holds no savepoints; give the location at which they were made (--to)")


def _names(archive: Archive) -> list[str]:
    """Return the names of the savepoints in a location, without files that somebody else has put beside them."""
    return [name for name in map(savepoint_of_file, archive.sizes(_MANIFESTS)) if name is not None]


def _require_savepoint(archive: Archive, name: str) -> None:
    if not archive.exists(manifest_file(checked_name(name))):
        listed = f"it holds {', '.join(names)}" if (names := _names(archive)) else "it holds none"
        raise NoSuchSavepoint(f"there is no savepoint {name!r} in {archive.location}: {listed}")


def _read(archive: Archive, name: str, key: bytes | None = None) -> Manifest:
    return Manifest.decode(read_small(archive, manifest_file(name), MAX_MANIFEST_BYTES), name, key)


def verify(
    location: LocationOrArchive,
    name: str,
    *,
    deep: bool = False,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> VerifyResult:
    """Read every file of a savepoint back and compare its checksum.

    Args:
        location: where it is.
        name: of the savepoint.
        deep: also read the state of a copy with Spark and decode each stored value.
        s3: how S3 is reached.
        spark: the session for `deep`; a new one if not given.

    Raises:
        NoSuchSavepoint: there is none of this name.
        DamagedSavepoint: files are missing or altered; the message lists them.
        UntrustedSavepoint: PANEKEEPER_MANIFEST_KEY is set, and the savepoint is not signed with that key.
        CorruptState: `deep`: a stored value cannot be decoded.
    """
    archive = open_archive(location, s3)
    manifest = show_trusted(archive, name)
    damaged = [file.path for file in find_damaged(archive, manifest.files)]
    if damaged:
        raise DamagedSavepoint(
            f"{len(damaged)} files of savepoint {name!r} are missing or altered: {', '.join(damaged[:_MAX_LISTED])}"
            f"{', ...' if len(damaged) > _MAX_LISTED else ''}; use another savepoint"
        )
    values = None
    if deep:
        from panekeeper.recovery.savepoint.state_reader import decode_savepoint

        values = decode_savepoint(archive, manifest, advice="use another savepoint", s3=s3, spark=spark)
    return VerifyResult(name=name, files=len(manifest.files), bytes=manifest.size, values=values)


def prune(
    location: LocationOrArchive, *, keep: int, s3: S3Options | None = None, now: datetime | None = None
) -> PruneResult:
    """Remove all but the newest savepoints of each job, and the blobs that none of the others needs.

    A clone is another job, whatever its name. Newer is what has the later epoch and batch; of equal ones, what was
    made later. If PANEKEEPER_MANIFEST_KEY is set, savepoints that are not signed with that key are counted for
    themselves: whoever has made them, they do not take the place of those that are.

    While a savepoint is being made in this location, no blob is removed: the next prune does it.

    Args:
        location: where the savepoints are.
        keep: how many savepoints of each job are kept, at least 1.
        s3: how S3 is reached.
        now: the current time, for tests.

    Raises:
        SavepointRefused: `keep` is below 1; or a manifest cannot be read, so that the blobs it needs are not known; or
            the key is short.
        NoSuchSavepoint: nothing was ever saved there; the location may be misspelled.
    """
    if keep < 1:
        raise SavepointRefused(f"keep is {keep}; it must be 1 or more")
    archive, key = open_archive(location, s3), manifest_key()
    stored = [file for folder in (_MANIFESTS, _BLOBS) for file in archive.sizes(folder)]
    if not any(file.count("/") == 1 for file in stored):
        raise no_savepoints(archive.location)  # before the marker, which would create the folder
    at = now or now_utc()
    with activity_marker(archive, "prune", at):
        making = len(active_markers(archive, "savepoint", at))  # before a manifest is read: one may come meanwhile
        manifests = readable_savepoints(archive)
        signed = [manifest for manifest in manifests if _is_signed(archive, manifest.name, key)]
        others = [manifest for manifest in manifests if manifest not in signed]
        kept = [manifest for manifest in manifests if _rank(manifest, signed if manifest in signed else others) < keep]
        removed = [manifest.name for manifest in manifests if manifest not in kept]
        for name in removed:  # manifests first: a kill leaves unneeded blobs, never a savepoint without its blobs
            archive.remove(manifest_file(name))
        needed = {blob for manifest in kept for blob in manifest.blobs}
        unused = {file: size for file, size in archive.sizes(_BLOBS).items() if is_blob(file) and file not in needed}
        gone = {} if making else unused
        for blob in gone:
            archive.remove(blob)
    names = tuple(manifest.name for manifest in kept)
    return PruneResult(removed=tuple(removed), kept=names, blobs=len(gone), bytes=sum(gone.values()), being_made=making)


def readable_savepoints(archive: Archive) -> list[Manifest]:
    """Return the savepoints of a location; refuse if one of them cannot be read, as what it needs is not known."""
    manifests = []
    for name, manifest in savepoints(archive).items():
        if isinstance(manifest, SavepointError):
            raise SavepointRefused(
                f"nothing was removed: what savepoint {name!r} in {archive.location} needs is not known ({manifest}). "
                f"Remove {manifest_file(name)} from the location, or use the version that can read it"
            )
        manifests.append(manifest)
    return manifests


def _is_signed(archive: Archive, name: str, key: bytes | None) -> bool:
    """Return whether a savepoint is signed with a key; without a key each counts as signed."""
    try:
        return key is None or _read(archive, name, key).name == name
    except (UntrustedSavepoint, FileNotFoundError):  # another prune has just removed it
        return False


def _rank(manifest: Manifest, manifests: list[Manifest]) -> int:
    """Return how many savepoints of the same checkpoint are newer. A clock may have been wrong, batches are not."""
    own = [other for other in manifests if (other.job, other.job_id) == (manifest.job, manifest.job_id)]
    ages = [(other.epoch, other.batch, other.made_at, other.name) for other in own]
    return sum(age > (manifest.epoch, manifest.batch, manifest.made_at, manifest.name) for age in ages)


def require_no_overlap(archive: Archive, checkpoint: Files) -> None:
    """Refuse a location within a checkpoint or one of its tables, and the other way round.

    A prune, or Delta's VACUUM, would destroy what lies within. Links are followed; `file:` and `s3a:` are other
    spellings of the same folders.
    """
    if checkpoint.contains(archive.location):
        raise SavepointRefused(
            f"the location {archive.location} is in the folder of the checkpoint {checkpoint.root}, which belongs to "
            "its job alone; move the savepoints to a folder outside of it"
        )
    location = files_at(archive.location, checkpoint.s3)
    # Others in the folder of a location are never changed.
    own = [] if location is None else [location.child(name.strip("/")) for name in (_MANIFESTS, _BLOBS, MARKERS)]
    if any(folder.contains(checkpoint.location) for folder in own):
        raise SavepointRefused(
            f"the checkpoint {checkpoint.root} is in the folder of the location {archive.location}, where a prune "
            "removes files; use another location or another checkpoint folder"
        )
    try:
        folder = current_epoch(checkpoint)
        tables = [] if folder is None else [*read_tables(folder).values()]
    except (CheckpointError, StateError, OSError):
        tables = []  # a restore is the way out
    for path in tables:
        table = files_at(path, checkpoint.s3)
        if table is None:
            continue
        if table.contains(archive.location):
            raise SavepointRefused(
                f"the location {archive.location} is in the folder of the table {path}, where VACUUM removes all files "
                "that are not the table's; move the savepoints to a folder outside of it"
            )
        if any(folder.contains(table.location) for folder in own):
            raise SavepointRefused(
                f"the table {path} is in the folder of the location {archive.location}, where a prune removes files; "
                "use another location"
            )
