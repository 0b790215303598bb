"""What can go wrong with savepoints; branches of the tree in `framework.declarations.errors`.

SavepointError (PanekeeperError)
|-- SavepointRefused        it must not be done now: a running job, a name that is taken, ...
|-- NoSuchSavepoint         there is none of this name
|-- DamagedSavepoint        a manifest or a file of the savepoint is missing, truncated or altered
|-- ForeignManifest         a file stands where a manifest should, and Panekeeper did not write it
|-- NewerSavepoint          a newer Panekeeper wrote the savepoint
|-- TableVersionLost        a Delta table no longer holds the version that belongs to the savepoint
`-- ArchiveError            the place where savepoints live, or a checkpoint or table on S3, cannot be used
    |-- ArchiveNotFound     ... the folder or bucket is not there
    |-- ArchiveDenied       ... credentials or permissions are missing
    `-- ArchiveUnreachable  ... nobody answers at the endpoint
JobFileError (PanekeeperError)  a Python file declares no job that could be looked at
"""

from __future__ import annotations

from framework.declarations.errors import PanekeeperError


class SavepointError(PanekeeperError):
    """A savepoint cannot be made, read or restored."""


class SavepointRefused(SavepointError):
    """What was asked for must not be done as things stand; the message says what stands in the way."""


class NoSuchSavepoint(SavepointError):
    """The archive holds no savepoint of this name; the message lists those it holds."""


class DamagedSavepoint(SavepointError):
    """A manifest or a file of the savepoint is missing, truncated or altered. Use another savepoint."""


class ForeignManifest(SavepointError):
    """A file stands where a manifest should, and it is not one of ours."""


class NewerSavepoint(SavepointError):
    """The savepoint was written in a format that this version does not know. Use the version that wrote it."""


class TableVersionLost(SavepointError):
    """A Delta table no longer holds the version of the savepoint: its log or its files were cleaned up since."""


class ArchiveError(SavepointError):
    """The place where savepoints live, or where a checkpoint or a table lies on S3, cannot be used."""


class ArchiveNotFound(ArchiveError):
    """The folder or bucket is not there."""


class ArchiveDenied(ArchiveError):
    """Credentials are missing or do not permit it. The message never holds them."""


class ArchiveUnreachable(ArchiveError):
    """Nobody answers at the endpoint."""


class JobFileError(PanekeeperError):
    """A Python file does not declare a job: it is not there, fails, or does something else."""
