"""Step 1 of a restore: which tables may it take back? A manifest alone does not decide that: anyone can write one.

A table may go back if the checkpoint that is replaced names it as its own, if the restore that was interrupted there
was permitted to, or if the caller names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection

from recovery.errors import SavepointRefused
from recovery.restore.intent import RestoreIntent
from recovery.savepoint.manifest import Manifest
from recovery.savepoint.restore_paths import RestorePaths
from recovery.storage.files import Files
from recovery.storage.locations import Location, place_of
from recovery.storage.s3_options import S3Options
from state.checkpoint.job_record import read_tables
from state.errors import CorruptState


def unconfirmed_tables(
    manifest: Manifest,
    paths: RestorePaths,
    interrupted: RestoreIntent | None,
    tables: Collection[Location],
    s3: S3Options | None,
) -> tuple[str, ...]:
    """Return the paths of the tables of a savepoint that nobody but its manifest names.

    Args:
        manifest: the savepoint.
        paths: of the checkpoint that is replaced.
        interrupted: the intent of an interrupted restore of that checkpoint, None if there is none.
        tables: paths that the caller names.
        s3: how S3 is reached.
    """
    known = [*own_tables(paths.checkpoint), *(interrupted.tables if interrupted else ()), *map(str, tables)]
    places = {place_of(path, s3) for path in known}
    return tuple(table.path for table in manifest.tables.values() if place_of(table.path, s3) not in places)


def own_tables(checkpoint: Files) -> list[str]:
    """Return the paths of the tables that a checkpoint names as its own; none if that file is gone or damaged."""
    try:
        return [*read_tables(checkpoint).values()]
    except (CorruptState, OSError):
        return []


def require_confirmed(
    manifest: Manifest,
    location: str,
    paths: RestorePaths,
    interrupted: RestoreIntent | None,
    checkpoint: Location | None,
    missing: Collection[str],
) -> None:
    """Refuse a restore that changes what only the manifest names; the message has the command that permits it.

    Args:
        manifest: the savepoint.
        location: where it is.
        paths: of the checkpoint that is replaced.
        interrupted: the intent of an interrupted restore of that checkpoint, None if there is none.
        checkpoint: the folder that the caller named, None if none.
        missing: paths of tables, as from `unconfirmed_tables`.

    Raises:
        SavepointRefused: tables are missing, or the folder is not there and was not named.
    """
    root = paths.checkpoint.root
    is_there = interrupted is not None or bool(paths.checkpoint.sizes())
    unnamed = checkpoint is None and not is_there
    if not missing and not unnamed:
        return
    if is_there:
        why = f"the checkpoint {root} does not name {', '.join(missing)} as its own"
    else:
        why = f"there is no checkpoint {root} that says which tables are its own"
    named = [table.path for table in manifest.tables.values()] if missing else []
    flags = ["--checkpoint", root, *(word for path in named for word in ("--table", path))]
    command = shlex.join(["panekeeper", "restore", location, manifest.name, *flags])
    raise SavepointRefused(
        f"{why}, and a manifest may be anyone's; nothing was changed. If these paths are those of job "
        f"{manifest.job!r}, confirm them: {command}"
    )
