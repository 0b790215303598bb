"""The savepoints of a location: list them, look at one, verify it, and remove old ones. Nothing here changes a job."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from recovery.errors import DamagedSavepoint, NoSuchSavepoint, SavepointError, SavepointRefused
from recovery.savepoint.activity import active_markers, activity_marker
from recovery.savepoint.manifest import Manifest, checked_name, manifest_file
from recovery.storage.archive import Archive
from recovery.storage.blobs import find_damaged
from recovery.storage.locations import LocationOrArchive, open_archive
from recovery.storage.s3_options import S3Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What `verify` read: files and bytes of the savepoint, and stored values decoded (None: not asked for)."""

    name: str
    files: int
    bytes: int
    values: int | None


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """What `prune` removed: names of savepoints, then blobs that no savepoint needs any more, and their bytes.

    No blobs, if savepoints were `being_made` there at the same time.
    """

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    blobs: int
    bytes: int
    being_made: int = 0


def savepoints(location: LocationOrArchive, *, s3: S3Options | None = None) -> Mapping[str, Manifest | SavepointError]:
    """Return the savepoints of a location by name, oldest first; a manifest that cannot be read is its error."""
    archive = open_archive(location, s3)
    found: dict[str, Manifest | SavepointError] = {}
    for file in archive.sizes("savepoints/"):
        name = file.removeprefix("savepoints/").removesuffix(".json")
        try:
            found[name] = _read(archive, name)
        except SavepointError as error:
            found[name] = error
    return dict(sorted(found.items(), key=lambda one: _sort_key(one[1])))


def show(location: LocationOrArchive, name: str, *, s3: S3Options | None = None) -> Manifest:
    """Return one savepoint. Raises `NoSuchSavepoint`, or what `Manifest.decode` raises."""
    archive = open_archive(location, s3)
    if not archive.exists(manifest_file(checked_name(name))):
        there = [file.removeprefix("savepoints/").removesuffix(".json") for file in archive.sizes("savepoints/")]
        known = f"it holds {', '.join(there)}" if there else "it holds none"
        raise NoSuchSavepoint(f"there is no savepoint {name!r} in {archive.location}: {known}")
    return _read(archive, name)


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
        name: which one.
        deep: also put the copy into a scratch folder, read its state with Spark and decode each stored value.
        s3: how to reach S3.
        spark: the session for `deep`; a new one if not given.

    Raises:
        DamagedSavepoint: files are missing or altered; the message lists them.
        CorruptState: `deep`: a stored value cannot be decoded.
    """
    archive = open_archive(location, s3)
    manifest = show(archive, name)
    damaged = [file.path for file in find_damaged(archive, manifest.files)]
    if damaged:
        raise DamagedSavepoint(
            f"{len(damaged)} files of savepoint {name!r} are missing or altered: {', '.join(damaged[:5])}"
            f"{', ...' if len(damaged) > 5 else ''}; use another savepoint"  # noqa: PLR2004 -- enough to look into
        )
    values = None
    if deep:
        from recovery.savepoint.decode import decode_savepoint

        values = decode_savepoint(archive, manifest, advice="use another savepoint", s3=s3, spark=spark)
    return VerifyResult(name=name, files=len(manifest.files), bytes=manifest.size, values=values)


def prune(
    location: LocationOrArchive, *, keep: int, s3: S3Options | None = None, now: datetime | None = None
) -> PruneResult:
    """Remove all but the newest `keep` savepoints of each job, and the blobs that none of the others needs.

    While a savepoint is being made in this location, no blob is removed: the next prune does it.

    Raises:
        SavepointRefused: `keep` is below 1, or a manifest cannot be read, so that what it needs is not known.
    """
    if keep < 1:
        raise SavepointRefused(f"keep is {keep}; keep at least 1 savepoint of each job")
    archive = open_archive(location, s3)
    at = now or datetime.now(UTC)
    with activity_marker(archive, "prune", at):
        making = len(active_markers(archive, "savepoint", at))  # before any manifest is read: one may be written now
        manifests = _read_all(archive)
        kept = [one for one in manifests if _rank(one, manifests) < keep]
        removed = [one.name for one in manifests if one not in kept]
        for name in removed:  # manifests first: a kill leaves blobs too many, never a savepoint without its blobs
            archive.remove(manifest_file(name))
        needed = {blob for one in kept for blob in one.blobs}
        unused = {blob: size for blob, size in archive.sizes("blobs/").items() if blob not in needed}
        gone = {} if making else unused
        for blob in gone:
            archive.remove(blob)
    names = tuple(one.name for one in kept)
    return PruneResult(removed=tuple(removed), kept=names, blobs=len(gone), bytes=sum(gone.values()), being_made=making)


def _read_all(archive: Archive) -> list[Manifest]:
    manifests = []
    for name, found in savepoints(archive).items():
        if isinstance(found, SavepointError):
            raise SavepointRefused(f"nothing was removed: what savepoint {name!r} needs is not known ({found})")
        manifests.append(found)
    return manifests


def _rank(one: Manifest, manifests: list[Manifest]) -> int:
    """Return how many savepoints of the same job are newer."""
    own = [(other.made_at, other.name) for other in manifests if other.job == one.job]
    return sum(other > (one.made_at, one.name) for other in own)


def _read(archive: Archive, name: str) -> Manifest:
    data = io.BytesIO()
    archive.get(manifest_file(name), data)
    return Manifest.decode(data.getvalue(), name)


def _sort_key(found: Manifest | SavepointError) -> float:
    return found.made_at.timestamp() if isinstance(found, Manifest) else 0.0
