"""Step 2 of the upkeep: which versions of the tables must remain readable?

Those of every savepoint that is found: of this job and of any other one, because several jobs may share a quarantine
table. And those that a savepoint of this job would have if it were made now: after a crash amid the commits of a batch
these are not the newest ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.savepoint.catalog import active_markers, no_savepoints, readable_savepoints
from panekeeper.recovery.savepoint.checkpoint_files import read_checkpoint
from panekeeper.recovery.savepoint.create import table_versions
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import LocationOrArchive, files_at, open_archive
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, batch_numbers, place_of
from panekeeper.state.checkpoint.job_record import read_last_savepoint


@dataclass(frozen=True)
class NeededVersions:
    """Which versions of tables must remain readable.

    Attributes:
        of_tables: place of a table -> version -> who needs it, as text.
        savepoints: how many savepoints were found.
    """

    of_tables: Mapping[str, Mapping[int, list[str]]] = field(default_factory=dict)
    savepoints: int = 0

    def of(self, path: str) -> Mapping[int, list[str]]:
        """Return version -> who needs it, for the table at a path."""
        return self.of_tables.get(place_of(path), {})


def needed_versions(
    checkpoint: Files,
    tables: Mapping[str, str],
    locations: Iterable[LocationOrArchive],
    *,
    recorded: bool,
    now: datetime,
) -> NeededVersions:
    """Return which versions of the tables of a checkpoint must remain readable.

    Args:
        checkpoint: the checkpoint.
        tables: role -> path of its tables.
        locations: where savepoints are.
        recorded: look where the newest savepoint of the checkpoint was made, too, as the checkpoint has recorded it.
        now: the current time.

    Raises:
        NoSuchSavepoint: a location holds no savepoints; it may be misspelled.
        SavepointRefused: the recorded location holds no savepoints, a savepoint cannot be read, or one is being made.
        SavepointError: a table is gone.
    """
    places = {place_of(path) for path in tables.values()}
    found: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
    archives = [open_archive(one, checkpoint.s3) for one in locations]
    manifests = []
    for archive in archives:
        if not (found_there := readable_savepoints(archive)):
            raise no_savepoints(archive.location)
        manifests += found_there
    known = {archive.location for archive in archives}
    manifests += _recorded_savepoints(checkpoint, known, archives) if recorded else []
    for archive in archives:
        _require_none_being_made(archive, now)
    used = 0
    for manifest in manifests:
        named = {place_of(one.path): one.version for one in manifest.tables.values()}
        used += bool(places & set(named))
        for place in places & set(named):
            found[place].setdefault(named[place], []).append(f"savepoint {manifest.name}")
    for path, version in _versions_now(checkpoint, tables).items():
        found[place_of(path)].setdefault(version, []).append("a savepoint that is made now")
    return NeededVersions(found, used)


def _recorded_savepoints(checkpoint: Files, known: Collection[str], archives: list[Archive]) -> list[Manifest]:
    """Return the savepoints where the newest one of the checkpoint was made, and add their archive to `archives`."""
    last = read_last_savepoint(checkpoint)
    if last is None or last.location in known:
        return []
    archive = open_archive(last.location, checkpoint.s3)
    manifests = readable_savepoints(archive)
    if not manifests:
        raise SavepointRefused(
            f"savepoint {last.name} of {checkpoint.root} was made in {last.location}, which holds no savepoints now: "
            "the versions of tables that they need are not known. Mount or bring back that location; if they are gone "
            "for good, say so: --no-recorded"
        )
    archives.append(archive)
    return manifests


def _require_none_being_made(archive: Archive, now: datetime) -> None:
    for file, since in active_markers(archive, "savepoint", now).items():
        raise SavepointRefused(
            f"a savepoint is being made in {archive.location} since {since:%Y-%m-%dT%H:%M:%SZ}; try again when it is "
            f"complete (if it was killed, remove {file} there)"
        )


def _versions_now(checkpoint: Files, tables: Mapping[str, str]) -> dict[str, int]:
    """Return path -> the version that a savepoint would have if it were made now."""
    readable = {role: path for role, path in tables.items() if files_at(path, checkpoint.s3) is not None}
    if not batch_numbers(checkpoint, COMMITS_FOLDER) or not readable:
        return {}
    snapshot = replace(read_checkpoint(checkpoint), tables=readable)
    return {one.path: one.version for one in table_versions(snapshot, None).values()}
