"""The errors of savepoints, of Kafka brokers and of job files; branches of the tree in `declarations/errors.py`."""

from __future__ import annotations

from panekeeper.framework.declarations.errors import PanekeeperError


class SavepointError(PanekeeperError):
    """A savepoint cannot be made, read or restored."""


class SavepointRefused(SavepointError):
    """Not possible now; the message says what prevents it and what to do."""


class NoSuchSavepoint(SavepointError):
    """The location holds no savepoint of this name; the message lists those it holds."""


class DamagedSavepoint(SavepointError):
    """A manifest or a file of the savepoint is missing, truncated or altered. Use another savepoint."""


class ForeignManifest(SavepointError):
    """The file of a manifest was not written by Panekeeper."""


class NewerSavepoint(SavepointError):
    """The savepoint was written in a newer format. Use the version of Panekeeper that wrote it."""


class UntrustedSavepoint(SavepointError):
    """The manifest of the savepoint is not signed with the key in PANEKEEPER_MANIFEST_KEY, or wrongly."""


class TableVersionLost(SavepointError):
    """A Delta table no longer holds the version of the savepoint: its log or its files were cleaned up."""


class ArchiveError(SavepointError):
    """A location of savepoints, or a checkpoint or a table on S3, cannot be used."""


class ArchiveNotFound(ArchiveError):
    """The bucket is not there."""


class ArchiveDenied(ArchiveError):
    """Credentials are missing or do not permit it. The message never contains them."""


class ArchiveUnreachable(ArchiveError):
    """The endpoint does not respond."""


class BrokerUnavailable(PanekeeperError):
    """A Kafka broker does not respond, or refuses the credentials. The message never contains them."""


class RowsGone(PanekeeperError):
    """The rows that a job has read cannot be read again: the source no longer has them, or is not reached."""


class JobFileError(PanekeeperError):
    """A Python file does not declare a job: it is not there, fails, or starts something else."""
