"""The savepoints of a location: list, show, verify and prune them. Nothing here changes a job."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from panekeeper.recovery.errors import (
    DamagedSavepoint,
    NoSuchSavepoint,
    SavepointError,
    SavepointRefused,
    UntrustedSavepoint,
)
from panekeeper.recovery.savepoint.activity import active_markers, activity_marker
from panekeeper.recovery.savepoint.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    checked_name,
    manifest_file,
    manifest_key,
    savepoint_of_file,
)
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import LimitedSink, find_damaged, is_blob
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.locations import LocationOrArchive, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import now_utc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDERS = ("savepoints/", "blobs/")
_MAX_LISTED = 5
"""How many damaged files an error names."""


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What `verify` has read.

    Attributes:
        name: of the savepoint.
        files: how many files it has.
        bytes: their size.
        values: how many stored values were decoded; None without `deep`.
    """

    name: str
    files: int
    bytes: int
    values: int | None


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """What `prune` has removed.

    Attributes:
        removed: names of the savepoints that were removed.
        kept: names of those that were kept.
        blobs: how many blobs were removed, which no savepoint needs any more, and parts of such, of a killed one.
        bytes: their size.
        being_made: how many savepoints were being made there; if any, no blob was removed.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    blobs: int
    bytes: int
    being_made: int = 0


def savepoints(location: LocationOrArchive, *, s3: S3Options | None = None) -> Mapping[str, Manifest | SavepointError]:
    """List the savepoints of a location.

    Args:
        location: a folder, `s3://bucket/prefix`, a URL of a registered scheme, or an archive.
        s3: how S3 is reached.

    Returns:
        Name -> manifest, or the error of one that cannot be read; oldest first.

    Raises:
        ArchiveError: the location cannot be used.
    """
    archive = open_archive(location, s3)
    found: dict[str, Manifest | SavepointError] = {}
    for name in _names(archive):
        try:
            found[name] = _read(archive, name)
        except FileNotFoundError:
            continue  # a prune has just removed it
        except SavepointError as error:
            found[name] = error
    return dict(sorted(found.items(), key=lambda item: _sort_key(item[1])))


def show(location: LocationOrArchive, name: str, *, s3: S3Options | None = None) -> Manifest:
    """Return one savepoint.

    Args:
        location: where it is.
        name: of the savepoint.
        s3: how S3 is reached.

    Raises:
        NoSuchSavepoint: there is none of this name.
        DamagedSavepoint: its manifest is truncated or altered.
        ForeignManifest: its manifest was not written by Panekeeper.
        NewerSavepoint: its manifest was written by a newer Panekeeper.
    """
    archive = open_archive(location, s3)
    _require_savepoint(archive, name)
    return _read(archive, name)


def show_trusted(archive: Archive, name: str) -> Manifest:
    """Return a savepoint whose files are used: if PANEKEEPER_MANIFEST_KEY is set, it is signed with that key.

    Args:
        archive: where it is.
        name: of the savepoint.

    Raises:
        UntrustedSavepoint: a key is set, and the manifest is not signed with it.
        SavepointError: as `show`.
    """
    key = manifest_key()
    _require_savepoint(archive, name)
    return _read(archive, name, key)


def no_savepoints(location: str) -> NoSuchSavepoint:
    """Return the error of a location that holds no savepoints, most often a misspelled one."""
    return NoSuchSavepoint(f"{location} holds no savepoints; give the location at which they were made (--to)")


def _names(archive: Archive) -> list[str]:
    """Return the names of the savepoints in a location, without files that somebody else has put beside them."""
    return [name for name in map(savepoint_of_file, archive.sizes("savepoints/")) if name is not None]


def _require_savepoint(archive: Archive, name: str) -> None:
    if not archive.exists(manifest_file(checked_name(name))):
        listed = f"it holds {', '.join(names)}" if (names := _names(archive)) else "it holds none"
        raise NoSuchSavepoint(f"there is no savepoint {name!r} in {archive.location}: {listed}")


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
            the key is short; or a folder of the location is a link.
        NoSuchSavepoint: nothing was ever saved there; the location may be misspelled.
    """
    if keep < 1:
        raise SavepointRefused(f"keep is {keep}; it must be 1 or more")
    archive, key = open_archive(location, s3), manifest_key()
    _require_own_folders(archive)
    if not _unfinished(archive) and not any(file.count("/") == 1 for one in _FOLDERS for file in archive.sizes(one)):
        raise no_savepoints(archive.location)  # before the marker, which would create the folder
    at = now or now_utc()
    with activity_marker(archive, "prune", at):
        making = len(
            active_markers(archive, "savepoint", at)
        )  # before any manifest is read: one may be written meanwhile
        manifests = _read_all(archive)
        signed = [one for one in manifests if _is_signed(archive, one.name, key)]
        others = [one for one in manifests if one not in signed]
        kept = [one for one in manifests if _rank(one, signed if one in signed else others) < keep]
        removed = [one.name for one in manifests if one not in kept]
        for name in removed:  # manifests first: a kill leaves unneeded blobs, never a savepoint without its blobs
            archive.remove(manifest_file(name))
        needed = {blob for one in kept for blob in one.blobs}
        unused = {file: size for file, size in archive.sizes("blobs/").items() if is_blob(file) and file not in needed}
        gone = {} if making else unused | _unfinished(archive)
        for blob in gone:
            archive.remove(blob)
    names = tuple(one.name for one in kept)
    return PruneResult(removed=tuple(removed), kept=names, blobs=len(gone), bytes=sum(gone.values()), being_made=making)


def _require_own_folders(archive: Archive) -> None:
    """Refuse a folder that is a link: it may lead to the blobs of another location, whose savepoints need them."""
    links = [folder for folder in _FOLDERS if isinstance(archive, LocalFiles) and (archive.path / folder).is_symlink()]
    if links:
        raise SavepointRefused(
            f"nothing was removed: {links[0]} in {archive.location} is a link, so other locations may need what is "
            "there; replace it by a folder (or mount one there)"
        )


def _unfinished(archive: Archive) -> dict[str, int]:
    """Return name -> size of what a savepoint is storing, or has left that was killed; not in folders below ours.

    Only on a local disk has such a file a name.
    """
    found = [archive.unfinished(folder) for folder in _FOLDERS] if isinstance(archive, LocalFiles) else []
    return {file: size for one in found for file, size in one.items() if file.count("/") == 1}


def _read_all(archive: Archive) -> list[Manifest]:
    manifests = []
    for name, found in savepoints(archive).items():
        if isinstance(found, SavepointError):
            raise SavepointRefused(
                f"nothing was removed: which files savepoint {name!r} needs is not known ({found}); "
                f"remove {manifest_file(name)} from the location, or use the version that can read it"
            )
        manifests.append(found)
    return manifests


def _is_signed(archive: Archive, name: str, key: bytes | None) -> bool:
    """Return whether a savepoint is signed with a key; without a key each counts as signed."""
    try:
        return key is None or _read(archive, name, key).name == name
    except (UntrustedSavepoint, FileNotFoundError):  # another prune has just removed it
        return False


def _rank(one: Manifest, manifests: list[Manifest]) -> int:
    """Return how many savepoints of the same checkpoint are newer than this one."""
    own = [other for other in manifests if (other.job, other.job_id) == (one.job, one.job_id)]
    return sum(_age(other) > _age(one) for other in own)


def _age(one: Manifest) -> tuple[int, int, datetime, str]:
    """Return what is greater for a newer savepoint of a checkpoint. A clock may have been wrong, batches are not."""
    return one.epoch, one.batch, one.made_at, one.name


def _read(archive: Archive, name: str, key: bytes | None = None) -> Manifest:
    data = io.BytesIO()
    file = manifest_file(name)
    archive.get(file, LimitedSink(data, MAX_MANIFEST_BYTES, file))
    return Manifest.decode(data.getvalue(), name, key)


def _sort_key(found: Manifest | SavepointError) -> float:
    return found.made_at.timestamp() if isinstance(found, Manifest) else 0.0
