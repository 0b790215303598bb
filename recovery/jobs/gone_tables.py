"""Which tables of a job are gone, and what to do? Found without Spark, by whether a folder has a Delta log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from panekeeper.framework.declarations.errors import PanekeeperError, SinkError
from panekeeper.framework.engine.sink.gone_tables import is_gone, what_to_do
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3 import S3Files, S3Options
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.job_record import read_tables


def gone_among(folder: CheckpointFolder, tables: Mapping[str, str]) -> dict[str, str]:
    """Return role -> path of those of some tables of a job that are gone. Spark is not started.

    Not judged is a table that only Spark reaches or that cannot be asked for now, and a local one of a checkpoint
    elsewhere: it may be on another host.
    """
    s3 = folder.s3 if isinstance(folder, LocalFiles | S3Files) else S3Options()
    gone = dict[str, str]()
    for role, path in tables.items():
        with suppress(OSError, PanekeeperError):
            table = files_at(path, s3)
            if table is not None and ("://" in table.place or "://" not in folder.place) and is_gone(table):
                gone[role] = path
    return gone


def why_gone(folder: CheckpointFolder, tables: Mapping[str, str] | None = None) -> str | None:
    """Return which tables of a job are gone, and what to do; None if none is, as `gone_among` finds.

    `tables` are those that are looked at, role -> path; None: all that the checkpoint names.
    """
    gone = gone_among(folder, read_tables(folder) if tables is None else tables)
    return what_to_do(gone, folder) if gone else None


def require_table(folder: CheckpointFolder, role: str, path: str) -> None:
    """Raise `SinkError` if a table that is to be read is gone, as `why_gone`: Spark would say so later and worse."""
    if (why := why_gone(folder, {role: path})) is not None:
        raise SinkError(why)
