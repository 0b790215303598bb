"""What a path or URL names: the archive of savepoints, the checkpoint or the table that is there.

Archives of other storages are found by the scheme of their URL, in two ways:

- A program calls `register_archive("gs", open_bucket)`.
- A package declares an entry point, and the command `panekeeper` finds it wherever the package is installed:

      [project.entry-points."panekeeper.archives"]
      gs = "my_package.archives:open_bucket"

In both, `open_bucket("gs://bucket/prefix")` returns an object that implements `Archive`. Only archives can be added:
a checkpoint or a table is where Spark can write it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from panekeeper.recovery.errors import ArchiveError, SavepointRefused
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import Files, LocalFiles
from panekeeper.recovery.storage.s3 import S3Files, S3Options
from panekeeper.state.checkpoint.folder import local_path

ENTRY_POINTS = "panekeeper.archives"
"""The group of entry points under which packages declare archives; the name of each is a scheme."""

Location = str | os.PathLike[str]
LocationOrArchive = Location | Archive
"""Where savepoints are: a folder, a URL, or an archive that was opened already."""

OpenArchive = Callable[[str], Archive]

_S3 = ("s3://", "s3a://")
_BUILT_IN = ("file", "s3", "s3a")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_registered: dict[str, OpenArchive] = {}


def register_archive(scheme: str, factory: OpenArchive) -> None:
    """Let locations of a scheme, as `gs://bucket/prefix`, name archives of your own, in this process.

    A second call for the same scheme replaces the first one.

    Args:
        scheme: what stands before `://`, in lower case.
        factory: called with a whole location each time it is opened; returns its archive.

    Raises:
        ArchiveError: the scheme is built in, or is not a URL scheme.
    """
    if scheme in _BUILT_IN:
        raise ArchiveError(f"the scheme {scheme!r} is built in and cannot be registered; take another one")
    if _SCHEME.fullmatch(scheme) is None:
        raise ArchiveError(f"{scheme!r} is not a URL scheme; give the part before ://, in lower case, as 'gs'")
    _registered[scheme] = factory


def open_archive(location: LocationOrArchive, s3: S3Options | None = None) -> Archive:
    """Return the archive at a folder, `s3://bucket/prefix` or a URL of a registered scheme, or the archive given.

    Nothing is read yet. Raises `ArchiveError` if no archive is known for the scheme, or as `files_at`.
    """
    if not isinstance(location, str | os.PathLike):
        return location
    files = files_at(location, s3)
    if files is not None:
        return files
    name = os.fspath(location)
    scheme = name.partition(":")[0]
    factory = _registered.get(scheme) or _from_entry_point(scheme)
    if factory is None:
        raise ArchiveError(
            f"no archive is known for the location {scheme}://...; use a local folder, s3://bucket/prefix, or a scheme "
            f"that was registered (register_archive, or an entry point in the group {ENTRY_POINTS!r})"
        )
    return factory(name)


def files_at(place: Location, s3: S3Options | None = None) -> Files | None:
    """Return the files at a path, `file:`, `s3://` or `s3a://`; None for a file system that only Spark reaches.

    Nothing is read yet. Raises `ArchiveError` for an empty path, one with "~", a URL without a bucket, or no boto3.
    """
    name = os.fspath(place)
    if not name:
        raise ArchiveError("the path is empty; give a folder, as ./checkpoint, or a URL")
    if name.startswith("~"):
        raise ArchiveError(f"{name} begins with '~', which no shell has expanded: write {os.path.expanduser(name)}")  # noqa: PTH111 -- a path of the user's stays as it is
    if name.startswith(_S3):
        return S3Files.at(name, s3 or S3Options())
    local = local_path(name)
    # resolve() would follow links, and Spark does not
    return None if local is None else LocalFiles(Path(os.path.abspath(local)), s3=s3 or S3Options())  # noqa: PTH100


def place_of(path: str) -> str:
    """Return one spelling of a path or URL, as a user, Spark or a manifest spells it: two of a place are equal."""
    files = files_at(path)
    return path.rstrip("/") if files is None else files.location


def checkpoint_at(checkpoint: Location, s3: S3Options | None = None) -> Files:
    """Return the files of a checkpoint; raises `SavepointRefused` unless it is on a local disk or on S3."""
    files = files_at(checkpoint, s3)
    if files is None:
        raise SavepointRefused(
            f"the checkpoint {os.fspath(checkpoint)} is neither on a local disk nor on S3, so only the commands "
            "`status` and `drain` work on it. Move it to one of them to use the others"
        )
    return files


def _from_entry_point(scheme: str) -> OpenArchive | None:
    """Return what the first installed package declares for a scheme; None if none does."""
    for entry in entry_points(group=ENTRY_POINTS, name=scheme):
        try:
            found: OpenArchive = entry.load()
        except (ImportError, AttributeError) as error:
            raise ArchiveError(
                f"the archive for {scheme}://... cannot be loaded from {entry.value} ({error}); "
                "install what that package needs, or use another location"
            ) from error
        return found
    return None
