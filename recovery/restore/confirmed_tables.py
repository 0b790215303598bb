"""Step 1 of a restore: which tables may it take back? A manifest alone does not decide that: anyone can write one.

A table may go back if the checkpoint names it as its own, or if the caller names it. Several jobs may share a
quarantine or downtime table: where others have written to it since the savepoint, and the job itself, too, the caller
must name it, as their rows would be gone. Where others alone have, there is nothing to take back: it stays as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from contextlib import suppress

from panekeeper.framework.engine.sink.delta_tables import OWNED
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.restore.target import Target
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import has_version, jobs_since
from panekeeper.recovery.storage.locations import Location, files_at, place_of


def unconfirmed_tables(
    manifest: Manifest,
    target: Target,
    tables: Collection[Location],
) -> tuple[str, ...]:
    """Return the paths of the tables of a savepoint that nobody but its manifest names, or that others write to, too.

    Args:
        manifest: the savepoint.
        target: the checkpoint that it is restored to.
        tables: paths that the caller names.
    """
    named = {place_of(str(path)) for path in tables}
    places = {place_of(path) for path in target.tables.values()} | named
    shared = other_jobs(manifest, target)
    return tuple(
        table.path
        for table in manifest.tables.values()
        if (place := place_of(table.path)) not in places or (table.path in shared and place not in named)
    )


def other_jobs(manifest: Manifest, target: Target) -> dict[str, list[str]]:
    """Return path -> names of other jobs, of the tables of a savepoint whose rows of theirs a restore would change.

    Args:
        manifest: the savepoint.
        target: the checkpoint that it is restored to.
    """
    changes = {path: since for path, since in _changes(manifest, target).items() if not _by_others(since, manifest)}
    if not any(changes.values()):
        return {}  # the logs of the other tables have a commit for each batch
    record = target.record
    own = {"", manifest.job_id} | ({record.id} if record else set()) | _ids_of_restores(manifest, target)
    others = {path: {name for id_, name in since.items() if id_ not in own} for path, since in changes.items()}
    return {path: sorted(names) for path, names in others.items() if names}


def unchanged_tables(manifest: Manifest, target: Target) -> frozenset[str]:
    """Return the paths of the tables that other jobs alone have changed since a savepoint: they do not go back.

    Args:
        manifest: the savepoint.
        target: the checkpoint that it is restored to. Tables that only Spark reaches are not checked.
    """
    return frozenset(path for path, since in _changes(manifest, target).items() if _by_others(since, manifest))


def versions_to_take_back(manifest: Manifest, target: Target) -> dict[str, int]:
    """Return role -> version of the tables that go back; not of one that jobs may share and this job has not changed.

    What other jobs write there while the restore is interrupted stays.

    Args:
        manifest: the savepoint.
        target: the checkpoint that it is restored to. Tables that only Spark reaches are not checked.
    """
    kept = {path for path, since in _changes(manifest, target).items() if not {"", manifest.job} & {*since.values()}}
    return {role: table.version for role, table in manifest.tables.items() if table.path not in kept}


def _by_others(since: Mapping[str, str], manifest: Manifest) -> bool:
    """Return whether jobs of other names alone have made changes; one of this name may be a copy of the job itself."""
    return bool(since) and not {"", manifest.job} & {*since.values()}


def _changes(manifest: Manifest, target: Target) -> dict[str, dict[str, str]]:
    """Return path -> who has changed it since the savepoint, as `jobs_since`, of each table that jobs may share."""
    found = {}
    for role, table in manifest.tables.items():
        files = files_at(table.path, target.root.s3) if role not in OWNED else None
        if files is not None and has_version(files, table.version):
            with suppress(SavepointError):  # the preview says what is wrong with its log
                found[table.path] = jobs_since(files, table.version)
    return found


def _ids_of_restores(manifest: Manifest, target: Target) -> set[str]:
    """Return the ids under which the job of a savepoint has written since: one restored elsewhere has another.

    Nobody else writes to tables that a job has for itself.
    """
    own = [table for role, table in manifest.tables.items() if role in OWNED]
    found: set[str] = set()
    for table in own:
        files = files_at(table.path, target.root.s3)
        if files is not None and has_version(files, table.version):
            with suppress(SavepointError):  # as above
                found |= jobs_since(files, table.version).keys()
    return found


def require_confirmed(
    manifest: Manifest,
    location: str,
    target: Target,
    checkpoint: Location | None,
    missing: Collection[str],
) -> None:
    """Refuse a restore that changes what only the manifest names; the message has the command that permits it.

    Args:
        manifest: the savepoint.
        location: where it is.
        target: the checkpoint that it is restored to.
        checkpoint: the folder that the caller named, None if none.
        missing: paths of tables, as from `unconfirmed_tables`.

    Raises:
        SavepointRefused: tables are missing, or the folder is not there and was not named.
    """
    root = target.root.root
    is_there = target.current is not None
    unnamed = checkpoint is None and not is_there
    if not missing and not unnamed:
        return
    shared = {path: jobs for path, jobs in other_jobs(manifest, target).items() if path in missing}
    named = [table.path for table in manifest.tables.values() if table.path not in shared] if missing else []
    if shared and {*missing} <= {*shared}:
        raise SavepointRefused(_shared(manifest, location, root, named, shared))
    if is_there:
        others = [path for path in missing if path not in shared]
        why = f"the checkpoint {root} does not name {', '.join(others)} as its own"
    else:
        why = f"there is no checkpoint {root} that says which tables are its own"
    flags = ["--checkpoint", root, *(word for path in named for word in ("--table", path))]
    command = shlex.join(["panekeeper", "restore", location, manifest.name, *flags])
    raise SavepointRefused(
        f"{why}, and a manifest may be anyone's; nothing was changed. If these paths are those of job "
        f"{manifest.job!r}, confirm them: {command}"
    )


def _shared(manifest: Manifest, location: str, root: str, own: Collection[str], jobs: Mapping[str, list[str]]) -> str:
    flags = ["--checkpoint", root, *(word for path in (*own, *jobs) for word in ("--table", path))]
    command = shlex.join(["panekeeper", "restore", location, manifest.name, *flags])
    tables = "; ".join(f"{path} has rows of {', '.join(map(repr, names))}" for path, names in jobs.items())
    return (
        f"a restore would remove what other jobs have written to tables of job {manifest.job!r} since savepoint "
        f"{manifest.name!r}, or bring back what a restore of theirs has removed since: {tables}. Nothing was changed. "
        f"Take a newer savepoint; or stop these jobs, copy their rows to another table, and confirm it: {command}"
    )
