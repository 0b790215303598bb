"""The newest savepoint of a checkpoint's job: `panekeeper/savepoint.json`.

Reports have it, and the upkeep of tables keeps what the savepoints in its location need.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from panekeeper.state.checkpoint.clock import LAST_US
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.layout import SAVEPOINT_FILE


@dataclass(frozen=True, kw_only=True)
class LastSavepoint:
    """The newest savepoint that was made of a checkpoint. The fields are stored.

    Attributes:
        name: of the savepoint.
        location: where it is.
        at: when it was made, us since the epoch.
        batch: the last batch that is in it.
    """

    name: str
    location: str
    at: int
    batch: int


def write_last_savepoint(folder: CheckpointFolder, made: LastSavepoint) -> None:
    """Write which savepoint is the newest."""
    folder.write_json(SAVEPOINT_FILE, asdict(made), replace=True)


def read_last_savepoint(folder: CheckpointFolder) -> LastSavepoint | None:
    """Return the newest savepoint; None if none was made of the checkpoint in this folder, or the file is damaged."""
    try:
        value = folder.read_json(SAVEPOINT_FILE)
        if value is None or not (isinstance(value["location"], str) and isinstance(value["at"], int)):
            return None
        found = LastSavepoint(**{one.name: value[one.name] for one in fields(LastSavepoint)})
    except (ValueError, TypeError, KeyError):
        return None
    return found if 0 <= found.at <= LAST_US else None
